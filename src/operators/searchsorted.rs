//! Search in sorted elements: searchsorted, bucketize, isin.

use super::call::{Arguments, Call, CallError, Input, Outcome, Strides, Value, check_same_device, ensure, take_if};
use super::callees;
use super::dtypes::common_dtype;
use super::sort::sorted;
use super::tensors::{Format, Tensor};
use crate::kernels::sorting::searchsorted as kernels;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// The sizes of an input; a number counts as a 0-dim tensor.
fn sizes_of(input: Input<'_>) -> &[i64] {
    if let Input::Tensor(tensor) = input { tensor.sizes() } else { &[] }
}

/// The input as a contiguous tensor of a dtype. A number is converted in the way of a tensor that holds it.
fn elements<'a>(call: &Call<'a>, input: Input<'a>, dtype: DType) -> Result<Tensor<'a>, CallError> {
    let tensor = match input {
        Input::Tensor(tensor) | Input::Immediate(tensor) => call.dense(tensor, Format::Contiguous)?,
        Input::Absent => return Err(CallError::Invalid("internal error: no elements".into())),
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

/// True if the boundaries are one line, or have a line for each line of the values.
fn are_lines_for(sorted: &[i64], values: &[i64]) -> bool {
    let Some(lines) = sorted.len().checked_sub(1) else { return false };
    lines == 0 || (sorted.len() == values.len() && sorted[..lines] == values[..lines])
}

impl<'a> Search<'a> {
    /// An error unless the arguments fit. Waits for the minimum and the maximum of a sorter.
    fn check(&self, call: &Call<'_>) -> Outcome {
        let (sorted, values, size) = (self.sorted.sizes(), sizes_of(self.values), self.sorted.sizes().last().copied().unwrap_or(0));
        let tensors = [Some(self.sorted), self.values.tensor(), self.sorter];
        check_same_device(tensors.into_iter().flatten(), "a tensor", "searchsorted")?;
        ensure!(self.side.is_none_or(|side| side == "right" || (side == "left" && !self.right)));
        ensure!(self.sorter.is_none_or(|sorter| sorter.dtype() == DType::Long && sorter.sizes() == sorted));
        ensure!(are_lines_for(sorted, values) && call.has_dtype(0, self.dtype()));
        ensure!(!self.out_int32 || size < i64::from(i32::MAX));
        let Some(sorter) = self.sorter.filter(|sorter| sorter.numel() > 0) else { return Ok(()) };
        let limits = call.operators(&callees::AMINMAX, &[sorter.into(), Value::None, false.into()], 2)?;
        let reason = c"searchsorted with a sorter (its limits are checked on the host)";
        let [least, greatest] = [call.read(limits[0], reason)?, call.read(limits[1], reason)?];
        ensure!(least >= 0 && greatest < size);
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
            return call.operator(&callees::ZERO, &[Value::Tensor(out)]).map(drop);
        }
        let dtype = common_dtype(Input::Tensor(sorted), self.values, call)?;
        take_if(call.takes(dtype))?;
        let out = call.contiguous(0, sizes, self.dtype(), Strides::Copied)?;
        let sorter = call.dense_given(self.sorter)?;
        let operands = [elements(call, Input::Tensor(sorted), dtype)?, elements(call, self.values, dtype)?];
        let inputs: Vec<Tensor<'_>> = operands.into_iter().chain(sorter).collect();
        let right = self.side.map_or(self.right, |side| side == "right");
        call.launch_in(dtype, &[out], &inputs, &kernels::searchsorted::Scalars { right: right.into() }.list())
    }
}

pub fn searchsorted(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (sorted, values, out_int32, right, side, sorter) = arguments.typed()?;
    Search { sorted, values, out_int32, right, side, sorter }.run(call)
}

pub fn bucketize(call: &Call<'_>, values: Input<'_>, sorted: Tensor<'_>, out_int32: bool, right: bool) -> Outcome {
    ensure!(sorted.ndim() == 1);
    Search { sorted, values, out_int32, right, side: None, sorter: None }.run(call)
}

// ---- isin ----

/// `isin` with a tensor of elements to find.
pub fn isin(call: &Call<'_>, tested: Input<'_>, others: Tensor<'_>, _assume_unique: Value<'_>, invert: bool) -> Outcome {
    call.meta()?;
    let out = call.contiguous(0, sizes_of(tested), DType::Bool, Strides::Any)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if others.numel() == 0 {
        return call.fill(out, invert.into());
    }
    let dtype = common_dtype(tested, Input::Tensor(others), call)?;
    take_if(call.takes(dtype))?;
    let line = elements(call, tested, dtype)?.view(&[out.numel()]);
    let keys = elements(call, Input::Tensor(others), dtype)?.view(&[others.numel()]);
    let [sorted, _] = sorted(call, keys, 0, false)?;
    // The `out=` tensor may have gaps, and may share memory with the elements.
    let target = if call.given(0).is_some() { call.empty(out.sizes(), DType::Bool)? } else { out };
    let scalars = kernels::isin::Scalars { inverted: invert.into() };
    call.launch_in(dtype, &[target.view(line.sizes())], &[line, sorted], &scalars.list())?;
    if call.given(0).is_some() { call.copy(out, target) } else { Ok(()) }
}

/// `isin` with a number to find, computed by `eq` or `ne`.
pub fn is_number(call: &Call<'_>, tested: Value<'_>, number: Value<'_>, _assume_unique: bool, invert: bool) -> Outcome {
    let comparison = if invert { &callees::NE } else { &callees::EQ };
    call.give(0, call.operator(comparison, &[tested, number])?)
}
