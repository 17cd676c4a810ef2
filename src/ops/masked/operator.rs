//! where, masked_fill_, masked_select, masked_scatter_ and nonzero. The host waits if a result's size depends on values.

use smallvec::smallvec;

use super::kernel::nonzero as nonzero_kernel;
use crate::call::check_devices;
use crate::call::pointwise::launch_with;
use crate::call::prelude::*;
use crate::call::tensor_iterator::{self, Elementwise, Rule, Types};

operators! {
    c"masked_select": plain(typed!(select)) => c"masked_select", c"masked_select.out";
    c"where": plain(typed!(fill)) => c"masked_fill_.Scalar";
    c"where": plain(typed!(fill_with_tensor)) => c"masked_fill_.Tensor";
    c"masked_scatter": plain(typed!(scatter)) => c"masked_scatter_";
    c"nonzero": plain(typed!(nonzero)) => c"nonzero", c"nonzero.out";
    c"nonzero": plain(typed!(nonzero_static)) => c"nonzero_static", c"nonzero_static.out";
}

/// The number of elements that are not 0.
fn count_of_nonzero(call: &Call<'_>, dense: Tensor<'_>) -> Result<i64, CallError> {
    if dense.numel() == 0 {
        return Ok(0);
    }
    let count = call.empty(&[], DType::Long)?;
    // The kernel computes in the dtype of its input.
    call.with_kernel(kernel!(c"nonzero_count")).launch_in(dense.dtype(), &[count], &[dense], &[])?;
    let reason = c"nonzero, masked_select or an index that is a mask (the result's size is read on the host)";
    call.read(count, reason, dense.numel())
}

/// `where` with a Bool condition.
pub fn choose(call: &Call<'_>, condition: Tensor<'_>, one: Tensor<'_>, other: Tensor<'_>) -> Outcome {
    let dtype = call.result_type(&[one.into(), other.into()])?;
    let given = call.given(0);
    take_if(condition.dtype() == DType::Bool && given.is_none_or(|out| out.dtype() == dtype))?;
    let is_number = |tensor: Tensor<'_>| tensor.is_host() && tensor.ndim() == 0;
    let as_read = |tensor| if is_number(tensor) { Input::Immediate(tensor) } else { Input::Tensor(tensor) };
    let inputs = [condition, one, other].map(as_read);
    let operands = Elementwise::of(Rule::new(Types::Cast(dtype)), &inputs, given, call)?;
    launch_with(&operands, &[], call)
}

pub fn select(call: &Call<'_>, input: Tensor<'_>, mask: Tensor<'_>) -> Outcome {
    check_same_device([input, mask].into_iter(), "mask", "masked_select")?;
    ensure!(mask.dtype() == DType::Bool);
    let sizes = broadcast(mask.sizes(), input.sizes())?;
    let dense_mask = call.dense(mask.expanded(&sizes)?, Format::Contiguous)?;
    let count = count_of_nonzero(call, dense_mask)?;
    let out = call.contiguous(0, &[count], input.dtype(), Strides::Any)?;
    out.check_no_overlap(input)?;
    out.check_no_overlap(mask)?;
    if count == 0 {
        return Ok(());
    }
    let dense = call.dense(input.expanded(&sizes)?, Format::Contiguous)?;
    call.launch(&[out], &[dense, dense_mask], &[])
}

/// An error if the mask is not Bool. The fallback warns of a tensor with overlapping elements.
fn check_fill(input: Tensor<'_>, mask: Tensor<'_>) -> Outcome {
    ensure!(mask.dtype() == DType::Bool);
    input.check_no_internal_overlap().map_err(|_| CallError::Fallback)?;
    input.check_no_partial_overlap(mask)
}

/// Writes a value to the elements of a tensor at which the mask is true.
fn fill_masked(call: &Call<'_>, input: Tensor<'_>, mask: Tensor<'_>, value: Input<'_>) -> Outcome {
    ensure!(input.has_sizes(mask.sizes()) || mask.expand(input.sizes()).is_some());
    check_devices([input, mask].into_iter().chain(value.tensor()))?;
    tensor_iterator::launch(call, input, &[mask.into(), value, input.into()], &[])
}

/// `masked_fill_.Scalar`.
pub fn fill(call: &Call<'_>, input: Tensor<'_>, mask: Tensor<'_>, number: Scalar) -> Outcome {
    check_fill(input, mask)?;
    call.check_number(number, input.dtype())?;
    fill_masked(call, input, mask, Input::Number(number))
}

/// `masked_fill_.Tensor`, whose value is a 0-dim tensor.
pub fn fill_with_tensor(call: &Call<'_>, input: Tensor<'_>, mask: Tensor<'_>, value: Tensor<'_>) -> Outcome {
    ensure!(value.ndim() == 0);
    if value.device() < 0 || (value.dtype().is_complex() && !input.dtype().is_complex()) {
        return fill(call, input, mask, call.item(value)?);
    }
    check_fill(input, mask)?;
    fill_masked(call, input, mask, Input::Tensor(value))
}

pub fn scatter(call: &Call<'_>, input: Tensor<'_>, mask: Tensor<'_>, source: Tensor<'_>) -> Outcome {
    input.check_no_internal_overlap()?;
    check_same_device([input, mask, source].into_iter(), "a tensor", "masked_scatter_")?;
    ensure!(input.dtype() == source.dtype() && mask.dtype() == DType::Bool);
    let mask = mask.expanded(input.sizes())?;
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
    let mask = call.dense(mask, Format::Contiguous)?;
    let source = call.dense(source, Format::Contiguous)?.view(&[source.numel()]);
    let dense = call.dense(out, Format::Contiguous)?;
    call.launch(&[dense], &[source, mask], &[])?;
    if dense.address() == out.address() { Ok(()) } else { call.copy(out, dense) }
}

/// Launches the kernel that writes indices; `fill` is for rows after the last one.
fn launch(call: &Call<'_>, out: Tensor<'_>, dense: Tensor<'_>, fill: i64) -> Outcome {
    call.launch_in(dense.dtype(), &[out], &[dense], &nonzero_kernel::Scalars { fill: fill.into() }.list())
}

pub fn nonzero(call: &Call<'_>, input: Tensor<'_>) -> Outcome {
    let dense = call.dense(input, Format::Contiguous)?;
    let (count, ndim) = (count_of_nonzero(call, dense)?, input.ndim() as i64);
    // Column-major, like PyTorch's.
    let shape = Shape { sizes: smallvec![count, ndim], strides: smallvec![1, count], dtype: DType::Long };
    let out = call.output(0, &shape, Strides::Any)?;
    out.check_no_overlap(input)?;
    launch(call, out, dense, 0)
}

/// `nonzero_static`: with a given number of rows.
pub fn nonzero_static(call: &Call<'_>, input: Tensor<'_>, size: i64, fill: i64) -> Outcome {
    ensure!(size >= 0);
    let out = call.contiguous(0, &[size, input.ndim() as i64], DType::Long, Strides::Any)?;
    out.check_no_overlap(input)?;
    if input.numel() == 0 {
        return call.fill(out, fill.into());
    }
    let dense = call.dense(input, Format::Contiguous)?;
    launch(call, out, dense, fill)
}
