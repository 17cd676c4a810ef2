//! Gathers along a dimension: gather, index_select, take; `put_`, the inverse of take. Calls of gather that are clearly valid skip
//! PyTorch's meta function.

use super::addressing::{Addressing, Operation};
use super::call::{Call, Input, Outcome, Strides, ensure, take_if, wrap_dim};
use super::tensors::{Dims, Format, Tensor};
use crate::tensor::dtype::{BOOL, COMPLEX, DType, FLOATING, INTEGRAL};

/// True for the dtypes of indices.
pub fn is_index(tensor: Tensor<'_>) -> bool {
    [DType::Long, DType::Int].contains(&tensor.dtype())
}

/// True if the meta function of gather would accept the index.
fn has_usual_index(input: Tensor<'_>, dim: i64, index: Tensor<'_>) -> bool {
    let (sizes, wanted) = (input.sizes(), index.sizes());
    let Ok(dim) = wrap_dim(dim, sizes.len()) else { return false };
    let is_usual = |other: usize| wanted[other] > 0 && (other == dim || wanted[other] <= sizes[other]);
    is_index(index) && !sizes.is_empty() && sizes.len() == wanted.len() && (0..sizes.len()).all(is_usual)
}

pub fn gather(call: &Call<'_>, input: Tensor<'_>, dim: i64, index: Tensor<'_>, _sparse: bool) -> Outcome {
    if call.given(0).is_some() || !has_usual_index(input, dim, index) {
        call.meta()?;
    }
    let out = call.contiguous(0, index.sizes(), input.dtype(), Strides::Any)?;
    Addressing::each_element(input, dim, index)?.load(call, out, input)
}

pub fn select(call: &Call<'_>, input: Tensor<'_>, dim: i64, index: Tensor<'_>) -> Outcome {
    let (at, count) = (wrap_dim(dim, input.ndim())?, index.numel());
    let has_slots = input.sizes().get(at).map_or(count == 1, |&size| count == 0 || size > 0);
    ensure!(is_index(index) && index.ndim() <= 1 && has_slots && call.has_dtype(0, input.dtype()));
    call.check_given_apart([input, index])?;
    let mut sizes = Dims::from(input.sizes());
    if let Some(size) = sizes.get_mut(at) {
        *size = count;
    }
    let out = call.contiguous(0, &sizes, input.dtype(), Strides::Any)?;
    Addressing::each_slice(input, dim, index)?.load(call, out, input)
}

/// `take`: indices into the flattened tensor.
pub fn take(call: &Call<'_>, input: Tensor<'_>, index: Tensor<'_>) -> Outcome {
    let has_slots = input.numel() != 0 || index.numel() == 0;
    ensure!(index.dtype() == DType::Long && has_slots && call.has_dtype(0, input.dtype()));
    call.check_given_apart([input, index])?;
    let out = call.contiguous(0, index.sizes(), input.dtype(), Strides::Any)?;
    let dense = call.dense(input, Format::Contiguous)?;
    Addressing::flat(dense, index).load(call, out, dense)
}

pub fn put(call: &Call<'_>, input: Tensor<'_>, index: Tensor<'_>, source: Tensor<'_>, accumulate: bool) -> Outcome {
    let own = input.dtype();
    let has_slots = input.numel() != 0 || index.numel() == 0;
    ensure!(index.dtype() == DType::Long && own == source.dtype() && source.numel() == index.numel() && has_slots);
    call.check_given_apart([index, source])?;
    take_if(!accumulate || FLOATING.and(INTEGRAL).and(BOOL).and(COMPLEX).contains(own))?;
    let out = call.contiguous(0, input.sizes(), own, Strides::Any)?;
    let index = call.dense(index, Format::Contiguous)?.view(source.sizes());
    let dense = call.dense(out, Format::Contiguous)?;
    let operation = if accumulate { Operation::Add } else { Operation::Store };
    Addressing::flat(dense, index).update(call, dense, Input::Tensor(source), operation.into())?;
    if dense.address() == out.address() { Ok(()) } else { call.copy(out, dense) }
}
