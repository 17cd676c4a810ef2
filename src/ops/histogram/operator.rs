//! `histogram` and `histc`, with PyTorch's choice of bin edges. The fallback serves multi-dimensional histograms.

use super::kernel::histogram as kernel;
use crate::call::prelude::*;
use crate::runtime::name::name;

operators! {
    c"histogram": any_dtype(plain(histc)) => c"histc", c"histc.out";
    c"histogram": any_dtype(plain(in_bins)) => c"histogram.bin_ct", c"histogram.bin_ct_out";
    c"histogram": any_dtype(plain(between_edges)) => c"histogram.bins_tensor", c"histogram.bins_tensor_out";
}

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

impl<'a> Counted<'a> {
    /// An error unless dtypes and sizes fit. The fallback gets dtypes that the kernel does not count.
    fn check(&self, call: &Call<'_>, bins: i64) -> Outcome {
        let (dtype, numel) = (self.input.dtype(), self.input.numel());
        ensure!(self.weight.is_none_or(|weight| weight.dtype() == dtype && weight.numel() == numel));
        ensure!(bins > 0 && call.has_dtype(0, dtype) && call.has_dtype(1, dtype));
        take_if(call.takes(dtype))
    }

    /// Waits for the least and the greatest value.
    fn limits(&self, call: &Call<'a>) -> Result<[f64; 2], CallError> {
        let line = call.dense(self.input, Format::Contiguous)?.view(&[self.input.numel()]);
        let found = call.operators(&callees::AMINMAX, &[line.into(), Value::None, false.into()], 2)?;
        Ok([value_of(call, found[0])?, value_of(call, found[1])?])
    }

    /// Counts the values in the bins between edges.
    fn count(&self, call: &Call<'a>, edges: Tensor<'a>, method: Method) -> Result<Tensor<'a>, CallError> {
        let counts = call.empty(&[edges.numel() - 1], self.input.dtype())?;
        let (dense, edges) = (call.dense(self.input, Format::Contiguous)?, call.dense(edges, Format::Contiguous)?);
        let weight = call.dense_given(self.weight)?;
        let scalars = kernel::Scalars { method: (method as i64).into() };
        call.with_kernel(kernel!(c"histogram")).launch(&[counts], &[Some(dense), Some(edges), weight], &scalars.list())?;
        if !self.density {
            return Ok(counts);
        }
        let sum = call.operator(&callees::SUM_OF_ALL, &[counts.into(), Value::None])?;
        let shares = call.operator(&callees::DIV, &[counts.into(), sum.into()])?;
        let widths = call.operator(&callees::DIFF, &[edges.into(), 1.into(), (-1).into(), Value::None, Value::None])?;
        call.operator(&callees::DIV_IN_PLACE, &[Value::Tensor(shares), Value::Tensor(widths)])
    }
}

/// Waits for a one-element tensor and reads it.
fn value_of(call: &Call<'_>, number: Tensor<'_>) -> Result<f64, CallError> {
    let double = call.cast(number, DType::Double)?;
    let bits = call.operator(&callees::VIEW_DTYPE, &[Value::Tensor(double), Value::Number(Scalar::Long(DType::Long as i64))])?;
    let bits = call.read(bits, c"a histogram without limits (they are read on the host)", 0)?;
    Ok(f64::from_bits(bits as u64))
}

/// Writes evenly spaced bin edges.
fn space(call: &Call<'_>, edges: Tensor<'_>, [least, greatest]: [f64; 2]) -> Outcome {
    let steps = edges.numel().into();
    call.operator(&callees::LINSPACE_OUT, &[least.into(), greatest.into(), steps, edges.into()]).map(drop)
}

/// Writes the counts to the first output.
fn store(call: &Call<'_>, counts: Tensor<'_>) -> Outcome {
    if let Some(given) = call.given(0).filter(|given| given.sizes() == counts.sizes() && given.check_no_internal_overlap().is_err())
    {
        // As on the CPU, where all bins are added to the same element.
        let sum = call.operator(&callees::SUM_OF_ALL, &[Value::Tensor(counts), Value::None])?;
        return call.copy(given.row(0), sum);
    }
    let out = call.contiguous(0, counts.sizes(), counts.dtype(), Strides::Any)?;
    call.copy(out, counts)
}

/// An error unless arguments and outputs are on one device.
fn check_devices(arguments: &Arguments<'_>, call: &Call<'_>, outputs: usize) -> Outcome {
    let given = (0..outputs).filter_map(|index| call.given(index));
    check_same_device(arguments.tensors().chain(given), "tensor", name())
}

/// `histogram` between given edges.
pub fn between_edges(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, bins, weight, density): (Tensor<'_>, Tensor<'_>, _, _) = arguments.typed()?;
    check_devices(arguments, call, 2)?;
    ensure!(bins.dtype() == input.dtype() && bins.ndim() == 1);
    let counted = Counted { input, weight, density };
    counted.check(call, bins.numel() - 1)?;
    let out = call.contiguous(1, bins.sizes(), input.dtype(), Strides::Any)?;
    call.copy(out, bins)?;
    let counts = counted.count(call, out, Method::Search)?;
    store(call, counts)
}

/// `histogram` with a number of bins.
pub fn in_bins(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, bins, range, weight, density): (Tensor<'_>, _, Option<&[f64]>, _, _) = arguments.typed()?;
    check_devices(arguments, call, 2)?;
    let counted = Counted { input, weight, density };
    counted.check(call, bins)?;
    let [least, greatest] = match range {
        Some(range) => range.try_into().map_err(|_| CallError::CpuError)?,
        None if input.numel() == 0 => [0.0, 1.0],
        None => counted.limits(call)?,
    };
    ensure!(least.is_finite() && greatest.is_finite() && least <= greatest);
    let limits = if least == greatest { [least - 0.5, greatest + 0.5] } else { [least, greatest] };
    let out = call.contiguous(1, &[bins + 1], input.dtype(), Strides::Any)?;
    space(call, out, limits)?;
    let counts = counted.count(call, out, Method::Corrected)?;
    store(call, counts)
}

/// A number truncated to an integer.
fn whole(number: Scalar) -> Result<f64, CallError> {
    match number {
        Scalar::Double(value) if (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value) => Ok(value.trunc()),
        Scalar::Bool(_) | Scalar::Long(_) => Ok(number.to()),
        _ => Err(CallError::Invalid("value cannot be converted to type int64_t without overflow".into())),
    }
}

/// `histc`. Integers are counted as on other accelerators: limits are truncated to integers, and the counts have the input's
/// dtype.
pub fn histc(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, bins, min, max): (Tensor<'_>, i64, Scalar, Scalar) = arguments.typed()?;
    check_devices(arguments, call, 1)?;
    let is_whole = INTEGRAL.and(UNSIGNED).contains(input.dtype());
    if is_whole {
        let (dtype, other) = (input.dtype(), call.given(0).map_or(input.dtype(), Tensor::dtype));
        ensure!(dtype == other, "torch.histc: expected an output of dtype {dtype:?}, but got {other:?}");
        ensure!(bins > 0);
    }
    // Differences of up to 2^53 are exact.
    let values = if is_whole { call.cast(input, DType::Double)? } else { input };
    let counted = Counted { input: values, weight: None, density: false };
    if !is_whole {
        counted.check(call, bins)?;
    }
    let [mut least, mut greatest] = if is_whole { [whole(min)?, whole(max)?] } else { [min, max].map(Scalar::to) };
    if least == greatest && input.numel() > 0 {
        [least, greatest] = counted.limits(call)?;
    }
    if least == greatest {
        (least, greatest) = (least - 1.0, greatest + 1.0);
    }
    ensure!(least.is_finite() && greatest.is_finite() && least < greatest);
    let edges = call.empty(&[bins + 1], values.dtype())?;
    space(call, edges, [least, greatest])?;
    let counts = counted.count(call, edges, Method::Linear)?;
    if !is_whole {
        return store(call, counts);
    }
    let out = call.contiguous(0, &[bins], input.dtype(), Strides::Any)?;
    call.copy(out, counts)
}
