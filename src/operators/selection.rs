//! Selection along a dimension: kthvalue, median, nanmedian, mode. The kernels take the dimension as the last one, without gaps.

use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, Value, ensure, wrap_dim};
use super::descriptor::{Format, Tensor};
use super::names;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// The two outputs of a selection, as the caller sees them and with the dimension kept.
struct Outputs {
    values: Tensor,
    indices: Tensor,
}

/// A dimension to select along, which has elements where anything is selected.
struct Line<'a> {
    input: &'a Tensor,
    dim: usize,
    keepdim: bool,
}

impl<'a> Line<'a> {
    fn new(input: &'a Value<'_>, dim: &Value<'_>, keepdim: &Value<'_>, name: &str) -> Result<Self, Refusal> {
        let (input, keepdim) = (input.tensor()?, keepdim.flag()?);
        let dim = wrap_dim(dim.integer()?, input.ndim())?;
        if input.ndim() > 0 && input.numel() == 0 && input.sizes()[dim] == 0 {
            let text = "Expected reduction dim";
            return Err(Refusal::Index(format!("{name}: {text} {dim} to have non-zero size.")));
        }
        Ok(Self { input, dim, keepdim })
    }

    fn len(&self) -> i64 {
        self.input.sizes().get(self.dim).copied().unwrap_or(1)
    }

    /// Makes the outputs: one element for each line.
    fn outputs(&self, call: &mut Call<'_>) -> Result<Outputs, Refusal> {
        let mut sizes = self.input.sizes().to_vec();
        let drops = !self.keepdim && !sizes.is_empty();
        if drops {
            sizes.remove(self.dim);
        } else if let Some(size) = sizes.get_mut(self.dim) {
            *size = 1;
        }
        let mut make = |index: usize, dtype: DType| {
            let made = call.output(index, &Shape::new(&sizes, dtype, Format::Contiguous), Strides::Any)?;
            Ok(if drops { made.unsqueeze(self.dim) } else { made })
        };
        Ok(Outputs { values: make(0, self.input.dtype())?, indices: make(1, DType::Long)? })
    }

    /// Launches a kernel that selects into the outputs.
    fn select(&self, call: &mut Call<'_>, outputs: &Outputs, scalars: &[Scalar]) -> Outcome {
        if outputs.values.numel() == 0 {
            return Ok(());
        }
        let mut source = lines_of(call, self.input, self.dim)?;
        if source.may_share_memory(&outputs.values) {
            source = call.operator(&names::CLONE, &[Value::Tensor(source), Value::Number(Scalar::Long(0))])?;
        }
        let (values, indices) = (outputs.values.with_last(self.dim), outputs.indices.with_last(self.dim));
        call.launch(&[&values, &indices], &[&source], scalars)
    }
}

/// The lines along a dimension, each without gaps.
fn lines_of(call: &mut Call<'_>, tensor: &Tensor, dim: usize) -> Result<Tensor, Refusal> {
    let moved = tensor.with_last(dim);
    let has_gaps = moved.size_from_end(0) > 1 && moved.strides()[moved.ndim() - 1] != 1;
    if has_gaps { call.dense(&moved, Format::Contiguous) } else { Ok(moved) }
}

/// `kthvalue`.
pub fn kthvalue(arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
    let [input, k, dim, keepdim] = arguments.all()?;
    let line = Line::new(input, dim, keepdim, "kthvalue()")?;
    let k = k.integer()?;
    ensure!((1..=line.len()).contains(&k), "kthvalue(): selected number k out of range for dimension {}", line.dim);
    let outputs = line.outputs(call)?;
    outputs.values.check_no_overlap(line.input)?;
    line.select(call, &outputs, &[k.into()])
}

/// `median` and `nanmedian` along a dimension.
pub fn median_along(arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
    let [input, dim, keepdim] = arguments.all()?;
    let line = Line::new(input, dim, keepdim, "median()")?;
    let outputs = line.outputs(call)?;
    line.select(call, &outputs, &[])
}

/// `median` and `nanmedian` of all elements.
pub fn median(arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
    let [input] = arguments.all()?;
    let input = input.tensor()?;
    if input.numel() == 0 {
        return Err(Refusal::Fallback);
    }
    let line = call.dense(input, Format::Contiguous)?.view(&[input.numel()]);
    let out = call.output(0, &Shape::new(&[], input.dtype(), Format::Contiguous), Strides::Any)?;
    let index = call.empty(&Shape::new(&[1], DType::Long, Format::Contiguous))?;
    call.launch(&[&out.view(&[1]), &index], &[&line], &[])
}

/// `mode`: of sorted lines.
pub fn mode(arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
    let [input, dim, keepdim] = arguments.all()?;
    let line = Line::new(input, dim, keepdim, "mode()")?;
    let (input, number) = (line.input, |value: i64| Value::Number(Scalar::Long(value)));
    let sorted = if input.numel() == 0 {
        None
    } else {
        let lines = lines_of(call, input, line.dim)?;
        let (yes, no) = (Value::Number(Scalar::Bool(true)), Value::Number(Scalar::Bool(false)));
        Some(call.operators(&names::SORT, &[Value::Tensor(lines), yes, number(-1), no], 2)?)
    };
    let outputs = line.outputs(call)?;
    for output in [&outputs.values, &outputs.indices] {
        output.check_no_overlap(input)?;
    }
    let Some(sorted) = sorted else { return Ok(()) };
    let values = lines_of(call, &sorted[0], sorted[0].ndim() - 1)?;
    let targets = (outputs.values.with_last(line.dim), outputs.indices.with_last(line.dim));
    call.launch(&[&targets.0, &targets.1], &[&values, &sorted[1]], &[])
}
