//! Search in sorted elements: searchsorted, bucketize, isin.

use super::call::{Arguments, Call, DeviceName, Input, Outcome, Refusal, Strides, StructuredCall, Value, ensure};
use super::dtypes::common_dtype;
use super::names;
use super::tensors::{Format, Tensor};
use crate::kernels::sorting::searchsorted as kernels;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// The sizes of an input; a number counts as a 0-dim tensor.
fn sizes_of(input: Input<'_>) -> &[i64] {
    if let Input::Tensor(tensor) = input { tensor.sizes() } else { &[] }
}

/// The input as a contiguous tensor of a dtype. A number is converted in the way of a tensor that holds it.
fn elements<'a>(call: &Call<'a>, input: Input<'a>, dtype: DType) -> Result<Tensor<'a>, Refusal> {
    let tensor = match input {
        Input::Tensor(tensor) | Input::Immediate(tensor) => call.dense(tensor, Format::Contiguous)?,
        Input::Number(number) => {
            let own = match number {
                Scalar::Bool(_) => DType::Bool,
                Scalar::Double(_) => DType::Double,
                _ => DType::Long,
            };
            let made = call.empty(&[], own)?;
            call.fill(made, number)?;
            made
        }
    };
    call.cast(tensor, dtype)
}

// ---- searchsorted ----

/// A call of searchsorted or bucketize.
struct Search<'a> {
    sorted: Tensor<'a>,
    values: Input<'a>,
    out_int32: bool,
    right: bool,
    side: Option<&'a str>,
    sorter: Option<Tensor<'a>>,
}

fn check_side(side: Option<&str>, right: bool) -> Outcome {
    let Some(side) = side else { return Ok(()) };
    let is_known = side == "left" || side == "right";
    ensure!(is_known, "torch.searchsorted(): side can only be 'left' or 'right' but got {side}");
    let text = "side and right can't be set to opposites";
    ensure!(!right || side == "right", "torch.searchsorted(): {text}, got side of {side} while right was True");
    Ok(())
}

/// True if the boundaries are one line, or have a line for each line of the values.
fn are_lines_for(sorted: &[i64], values: &[i64]) -> bool {
    let lines = sorted.len().saturating_sub(1);
    sorted.len() == 1 || (sorted.len() == values.len() && sorted[..lines] == values[..lines])
}

impl<'a> Search<'a> {
    /// An error unless the sorter's values are valid indices of the boundaries. Waits for its minimum and maximum.
    fn check_sorter(&self, call: &Call<'_>) -> Outcome {
        let (Some(sorter), sorted) = (self.sorter, self.sorted) else { return Ok(()) };
        let [own, other] = [sorter, sorted].map(|tensor| DeviceName(tensor.device()));
        let text = "sorter and boundary tensors should have same device type, but got sorter tensor device type";
        let is_there = sorter.device() == sorted.device();
        ensure!(is_there, "torch.searchsorted(): {text} {own} and input value tensor device type {other}");
        let (own, other) = (sorter.sizes(), sorted.sizes());
        let text = "boundary and sorter must have the same size, but got boundary tensor";
        ensure!(own == other, "torch.searchsorted(): {text} {other:?}and got sorter tensor {own:?}");
        let dtype = sorter.dtype();
        let text = "sorter must be a tensor of long dtype but got dtype";
        ensure!(dtype == DType::Long, "torch.searchsorted(): {text} {dtype:?}");
        if sorter.numel() == 0 {
            return Ok(());
        }
        let no = Value::Number(Scalar::Bool(false));
        let limits = call.operators(&names::AMINMAX, &[Value::Tensor(sorter), Value::None, no], 2)?;
        let reason = c"searchsorted with a sorter (its limits are checked on the host)";
        let [least, greatest] = [call.read(limits[0], reason)?, call.read(limits[1], reason)?];
        let is_inside = least >= 0 && sorter.sizes().last().is_some_and(|&size| greatest < size);
        ensure!(is_inside, "torch.searchsorted(): sorter index out of range");
        Ok(())
    }

    fn check_sizes(&self) -> Outcome {
        let (sorted, values) = (self.sorted.sizes(), sizes_of(self.values));
        let (own, others) = (sorted.len(), values.len());
        let text = "input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor";
        ensure!(
            others > 0 || own == 1,
            "torch.searchsorted(): {text} dim({own}) and input value's dim({others}) numel({})",
            values.iter().product::<i64>()
        );
        ensure!(own > 0, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
        let text = "the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor";
        ensure!(
            are_lines_for(sorted, values),
            "torch.searchsorted(): boundaries tensor should be 1 dimension or {text} {sorted:?} and input value tensor {values:?}"
        );
        Ok(())
    }

    fn check(&self, call: &Call<'_>) -> Outcome {
        check_side(self.side, self.right)?;
        if let Input::Tensor(values) = self.values {
            let [own, other] = [self.sorted, values].map(|tensor| DeviceName(tensor.device()));
            let text = "boundaries and input value tensors should have same device type, but got boundaries tensor device type";
            ensure!(own == other, "torch.searchsorted(): {text} {own} and input value tensor device type {other}");
        }
        self.check_sorter(call)?;
        self.check_sizes()?;
        let dtype = call.given(0).map_or(self.dtype(), Tensor::dtype);
        let flag = if self.out_int32 { "True" } else { "False" };
        let text =
            "output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True";
        ensure!(
            dtype == self.dtype(),
            "torch.searchsorted(): {text}, but we got output tensor's dtype {dtype:?} and out_int32 flag is {flag}"
        );
        let (size, most) = (self.sorted.size_from_end(0), i64::from(i32::MAX));
        let text = "the size of boundaries' last dimension should be less than";
        ensure!(!self.out_int32 || size < most, "torch.searchsorted(): {text} {most}, but we got {size}");
        Ok(())
    }

    /// The dtype of the result.
    fn dtype(&self) -> DType {
        if self.out_int32 { DType::Int } else { DType::Long }
    }

    fn run(&self, call: &Call<'a>) -> Outcome {
        self.check(call)?;
        let (sorted, sizes) = (self.sorted, sizes_of(self.values));
        if sizes.contains(&0) {
            return call.contiguous(0, sizes, self.dtype(), Strides::Any).map(drop);
        }
        if sorted.numel() == 0 {
            let out = call.contiguous(0, sizes, self.dtype(), Strides::Any)?;
            return call.operator(&names::ZERO, &[Value::Tensor(out)]).map(drop);
        }
        let dtype = common_dtype(Input::Tensor(sorted), self.values, call)?;
        if !call.takes(dtype) {
            return Err(Refusal::Fallback);
        }
        let out = call.contiguous(0, sizes, self.dtype(), Strides::Copied)?;
        let sorter = call.dense_given(self.sorter)?;
        let operands = [elements(call, Input::Tensor(sorted), dtype)?, elements(call, self.values, dtype)?];
        let inputs: Vec<Tensor<'_>> = operands.into_iter().chain(sorter).collect();
        let right = self.side.map_or(self.right, |side| side == "right");
        call.launch_in(dtype, &[out], &inputs, &kernels::searchsorted::Scalars { right: right.into() }.list())
    }
}

/// `searchsorted`.
pub fn searchsorted(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [sorted, values, out_int32, right, side, sorter] = arguments.all()?;
    let search = Search {
        sorted: sorted.tensor()?,
        values: values.input()?,
        out_int32: out_int32.flag()?,
        right: right.flag()?,
        side: if let Value::Text(side) = side { Some(side) } else { None },
        sorter: sorter.optional_tensor()?,
    };
    search.run(call)
}

/// `bucketize`.
pub fn bucketize(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [values, boundaries, out_int32, right] = arguments.all()?;
    let (sorted, values) = (boundaries.tensor()?, values.input()?);
    ensure!(sorted.ndim() == 1, "boundaries tensor must be 1 dimension, but got dim({})", sorted.ndim());
    Search { sorted, values, out_int32: out_int32.flag()?, right: right.flag()?, side: None, sorter: None }.run(call)
}

// ---- isin ----

/// `isin` with a tensor of elements to find.
pub fn isin(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [tested, others, _assume_unique, invert] = arguments.all()?;
    let (tested, others, invert) = (tested.input()?, others.tensor()?, invert.flag()?);
    call.meta()?;
    let out = call.contiguous(0, sizes_of(tested), DType::Bool, Strides::Any)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if others.numel() == 0 {
        return call.fill(out, invert.into());
    }
    let dtype = common_dtype(tested, Input::Tensor(others), call)?;
    if !call.takes(dtype) {
        return Err(Refusal::Fallback);
    }
    let line = elements(call, tested, dtype)?.view(&[out.numel()]);
    let keys = elements(call, Input::Tensor(others), dtype)?.view(&[others.numel()]);
    let (yes, no, first) = (Scalar::Bool(true), Scalar::Bool(false), Scalar::Long(0));
    let sorted = call.operators(&names::SORT, &[Value::Tensor(keys), yes.into(), first.into(), no.into()], 2)?[0];
    // The `out=` tensor may have gaps, and may share memory with the elements.
    let target = if call.given(0).is_some() { call.empty(out.sizes(), DType::Bool)? } else { out };
    let scalars = kernels::isin::Scalars { inverted: invert.into() };
    call.launch_in(dtype, &[target.view(line.sizes())], &[line, sorted], &scalars.list())?;
    if call.given(0).is_some() { call.copy(out, target) } else { Ok(()) }
}

/// `isin` with a number to find, computed by `eq` or `ne`.
pub fn is_number(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [tested, number, _assume_unique, invert] = arguments.all()?;
    let comparison = if invert.flag()? { &names::NE } else { &names::EQ };
    let found = call.operator(comparison, &[*tested, *number])?;
    call.give(0, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_one_line_or_as_many_as_the_values() {
        assert!(are_lines_for(&[5], &[2, 3]) && are_lines_for(&[5], &[]));
        assert!(are_lines_for(&[2, 5], &[2, 3]) && !are_lines_for(&[2, 5], &[1, 3]));
        assert!(!are_lines_for(&[2, 5], &[2]) && !are_lines_for(&[1, 2, 5], &[2, 3]));
    }

    #[test]
    fn sides_are_left_or_right() {
        assert!(
            check_side(None, true).is_ok() && check_side(Some("left"), false).is_ok() && check_side(Some("right"), true).is_ok()
        );
        let text = "torch.searchsorted(): side can only be 'left' or 'right' but got top";
        assert_eq!(check_side(Some("top"), false), Err(Refusal::Invalid(text.into())));
        let text = "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True";
        assert_eq!(check_side(Some("left"), true), Err(Refusal::Invalid(text.into())));
    }
}
