//! `histogram` and `histc`, with PyTorch's checks and choice of bin edges. The fallback serves multi-dimensional histograms.

use super::call::{Arguments, Call, Outcome, Refusal, Strides, Value, check_same_device, ensure};
use super::message_text::{NumberText, type_name};
use super::names;
use super::tensors::{Format, Tensor};
use crate::kernels::histogram::histogram as kernel;
use crate::tensor::dtype::{DType, INTEGRAL, UNSIGNED};
use crate::tensor::launch::Scalar;

/// How the bin of a value is found; the numbers are the kernel's.
#[derive(Clone, Copy, Debug)]
enum Method {
    Search = 0,
    Linear = 1,
    Corrected = 2,
}

/// The values to count.
struct Counted<'a> {
    input: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    density: bool,
}

/// An error if the caller's `out=` tensors, counts and edges, do not fit the dtype and the number of bins.
fn check_outputs(call: &Call<'_>, dtype: DType, bins: i64, has_edges: bool) -> Outcome {
    let counts = call.given(0);
    let edges = if has_edges { call.given(1) } else { None };
    let names = |given: Option<Tensor<'_>>| {
        let found = given.map_or(dtype, Tensor::dtype);
        (found == dtype, type_name(found))
    };
    let (own, text) = (type_name(dtype), "should have the same dtype, but got input");
    let (is_same, other) = names(counts);
    ensure!(is_same, "torch.histogram: input tensor and hist tensor {text} {own} and hist {other}");
    let (is_same, other) = names(edges);
    ensure!(is_same, "torch.histogram: input tensor and bin_edges tensor {text} {own} and bin_edges {other} for dimension 0");
    ensure!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    Ok(())
}

impl<'a> Counted<'a> {
    /// An error if the weights do not fit the values.
    fn check_weight(&self) -> Outcome {
        let Some(weight) = self.weight else { return Ok(()) };
        let ((dtype, other), text) = ((self.input.dtype(), weight.dtype()), "torch.histogramdd: if weight tensor is provided");
        let (own, name) = (type_name(dtype), type_name(other));
        let wanted = "input tensor and weight tensor should have the same dtype";
        ensure!(dtype == other, "{text}, {wanted}, but got input({own}), and weight({name})");
        let (numel, count) = (self.input.numel(), weight.numel());
        let wanted = "the same shape as the input tensor excluding its innermost dimension";
        ensure!(
            numel == count,
            "{text} it should have {wanted}, but got input with shape [{numel}, 1] and weight with shape [{count}]"
        );
        Ok(())
    }

    /// Waits for the least and the greatest value.
    fn limits(&self, call: &Call<'a>) -> Result<[f64; 2], Refusal> {
        let line = call.dense(self.input, Format::Contiguous)?.view(&[self.input.numel()]);
        let no = Value::Number(Scalar::Bool(false));
        let found = call.operators(&names::AMINMAX, &[Value::Tensor(line), Value::None, no], 2)?;
        Ok([value_of(call, found[0])?, value_of(call, found[1])?])
    }

    /// Counts the values in the bins between edges.
    fn count(&self, call: &Call<'a>, edges: Tensor<'a>, method: Method) -> Result<Tensor<'a>, Refusal> {
        let counts = call.empty(&[edges.numel() - 1], self.input.dtype())?;
        let (dense, edges) = (call.dense(self.input, Format::Contiguous)?, call.dense(edges, Format::Contiguous)?);
        let weight = call.dense_given(self.weight)?;
        let scalars = kernel::Scalars { method: (method as i64).into(), has_weight: weight.is_some().into() };
        let inputs: Vec<Tensor<'_>> = [dense, edges].into_iter().chain(weight).collect();
        call.with_kernel(&names::HISTOGRAM).launch(&[counts], &inputs, &scalars.list())?;
        if !self.density {
            return Ok(counts);
        }
        let (all, one) = (Value::Tensor(counts), |value| Value::Number(Scalar::Long(value)));
        let sum = call.operator(&names::SUM_OF_ALL, &[all, Value::None])?;
        let shares = call.operator(&names::DIV, &[all, Value::Tensor(sum)])?;
        let widths = call.operator(&names::DIFF, &[Value::Tensor(edges), one(1), one(-1), Value::None, Value::None])?;
        call.operator(&names::DIV_IN_PLACE, &[Value::Tensor(shares), Value::Tensor(widths)])
    }

    /// An error for a dtype that the kernel does not count.
    fn check_dtype(&self) -> Outcome {
        let dtype = self.input.dtype();
        if names::HISTOGRAM.get().is_some_and(|row| row.dtypes().contains(dtype)) {
            return Ok(());
        }
        Err(Refusal::Unsupported(format!("histogram is not implemented for {dtype:?}")))
    }
}

/// Waits for a one-element tensor and reads it.
fn value_of(call: &Call<'_>, number: Tensor<'_>) -> Result<f64, Refusal> {
    let double = call.cast(number, DType::Double)?;
    let bits = call.operator(&names::VIEW_DTYPE, &[Value::Tensor(double), Value::Number(Scalar::Long(DType::Long as i64))])?;
    let bits = call.read(bits, c"a histogram without limits (they are read on the host)")?;
    Ok(f64::from_bits(bits as u64))
}

/// Writes evenly spaced bin edges.
fn space(call: &Call<'_>, edges: Tensor<'_>, [least, greatest]: [f64; 2]) -> Outcome {
    let number = |value| Value::Number(Scalar::Double(value));
    let steps = Value::Number(Scalar::Long(edges.numel()));
    call.operator(&names::LINSPACE_OUT, &[number(least), number(greatest), steps, Value::Tensor(edges)]).map(drop)
}

/// Writes the counts to the first output.
fn store(call: &Call<'_>, counts: Tensor<'_>) -> Outcome {
    if let Some(given) = call.given(0).filter(|given| given.sizes() == counts.sizes() && given.check_no_internal_overlap().is_err())
    {
        // As on the CPU, where all bins are added to the same element.
        let sum = call.operator(&names::SUM_OF_ALL, &[Value::Tensor(counts), Value::None])?;
        return call.copy(given.row(0), sum);
    }
    let out = call.contiguous(0, counts.sizes(), counts.dtype(), Strides::Any)?;
    call.copy(out, counts)
}

/// An error unless arguments and outputs are on one device.
fn check_devices(arguments: &Arguments<'_>, call: &Call<'_>, outputs: usize) -> Outcome {
    let given = (0..outputs).filter_map(|index| call.given(index));
    check_same_device(arguments.tensors().chain(given), "tensor", "rustdev")
}

/// `histogram` between given edges.
pub fn between_edges(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, bins, weight, density] = arguments.all()?;
    check_devices(arguments, call, 2)?;
    let (input, bins, weight, density) = (input.tensor()?, bins.tensor()?, weight.optional_tensor()?, density.flag()?);
    let (dtype, other, ndim) = (input.dtype(), bins.dtype(), bins.ndim());
    let (own, name) = (type_name(dtype), type_name(other));
    let text = "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype";
    ensure!(dtype == other, "{text} {own} and bins for dimension 0 with dtype {name}");
    let text = "in the bins tensor for dimension 0";
    ensure!(ndim == 1, "torch.histogramdd: bins tensor should have one dimension, but got {ndim} dimensions {text}");
    let edges = bins.numel();
    ensure!(edges > 0, "torch.histogramdd: bins tensor should have at least 1 element, but got {edges} elements {text}");
    let counted = Counted { input, weight, density };
    counted.check_weight()?;
    check_outputs(call, dtype, edges - 1, true)?;
    counted.check_dtype()?;
    let out = call.contiguous(1, &[edges], dtype, Strides::Any)?;
    call.copy(out, bins)?;
    let counts = counted.count(call, out, Method::Search)?;
    store(call, counts)
}

/// `histogram` with a number of bins.
pub fn in_bins(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, bins, range, weight, density] = arguments.all()?;
    check_devices(arguments, call, 2)?;
    let (input, bins, weight) = (input.tensor()?, bins.integer()?, weight.optional_tensor()?);
    let counted = Counted { input, weight, density: density.flag()? };
    check_outputs(call, input.dtype(), bins, true)?;
    let out = call.contiguous(1, &[bins + 1], input.dtype(), Strides::Any)?;
    let limits = match range {
        Value::Numbers(range) => <[f64; 2]>::try_from(*range).map_err(|_| {
            let text = "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got";
            Refusal::Invalid(format!("{text} {}", range.len()))
        })?,
        _ if input.numel() == 0 => [0.0, 1.0],
        _ => counted.limits(call)?,
    };
    let [least, greatest] = limits;
    let (low, high, text) = (NumberText(least), NumberText(greatest), "torch.histogramdd:");
    ensure!(least.is_finite() && greatest.is_finite(), "{text} dimension 0's range [{low}, {high}] is not finite");
    ensure!(least <= greatest, "{text} min should not exceed max, but got min {low} max {high} for dimension 0");
    let limits = if least == greatest { [least - 0.5, greatest + 0.5] } else { limits };
    space(call, out, limits)?;
    counted.check_weight()?;
    counted.check_dtype()?;
    let counts = counted.count(call, out, Method::Corrected)?;
    store(call, counts)
}

/// A number truncated to an integer.
fn whole(number: Scalar) -> Result<f64, Refusal> {
    match number {
        Scalar::Double(value) if (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value) => Ok(value.trunc()),
        Scalar::Bool(_) | Scalar::Long(_) => Ok(number.to()),
        _ => Err(Refusal::Invalid("value cannot be converted to type int64_t without overflow".into())),
    }
}

/// `histc`. Integers are counted as on other accelerators: limits are truncated to integers, and the counts have the input's
/// dtype.
pub fn histc(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, bins, min, max] = arguments.all()?;
    check_devices(arguments, call, 1)?;
    let (input, bins, limits) = (input.tensor()?, bins.integer()?, [min.number()?, max.number()?]);
    let is_whole = INTEGRAL.and(UNSIGNED).contains(input.dtype());
    if is_whole {
        let (dtype, other) = (input.dtype(), call.given(0).map_or(input.dtype(), Tensor::dtype));
        ensure!(dtype == other, "torch.histc: expected an output of dtype {dtype:?}, but got {other:?}");
        ensure!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    } else {
        check_outputs(call, input.dtype(), bins, false)?;
    }
    // Differences of up to 2^53 are exact.
    let values = if is_whole { call.cast(input, DType::Double)? } else { input };
    let counted = Counted { input: values, weight: None, density: false };
    let [mut least, mut greatest] = if is_whole { [whole(limits[0])?, whole(limits[1])?] } else { limits.map(Scalar::to) };
    if least == greatest && input.numel() > 0 {
        [least, greatest] = counted.limits(call)?;
    }
    if least == greatest {
        (least, greatest) = (least - 1.0, greatest + 1.0);
    }
    let (low, high) = (NumberText(least), NumberText(greatest));
    ensure!(least.is_finite() && greatest.is_finite(), "torch.histc: range of [{low}, {high}] is not finite");
    ensure!(least < greatest, "torch.histc: max must be larger than min");
    counted.check_dtype()?;
    let edges = call.empty(&[bins + 1], values.dtype())?;
    space(call, edges, [least, greatest])?;
    let counts = counted.count(call, edges, Method::Linear)?;
    if !is_whole {
        return store(call, counts);
    }
    let out = call.contiguous(0, &[bins], input.dtype(), Strides::Any)?;
    call.copy(out, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_rounded_towards_zero() {
        assert_eq!((whole(Scalar::Double(-3.7)), whole(Scalar::Long(5))), (Ok(-3.0), Ok(5.0)));
        assert!(whole(Scalar::Double(1e19)).is_err() && whole(Scalar::Double(f64::NAN)).is_err());
    }
}
