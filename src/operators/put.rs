//! `put_`: writes through indices into the flattened tensor.

use super::addressing::{Addressing, Operation};
use super::call::{Call, Input, Outcome, Strides, ensure, take_if};
use super::tensors::{Format, Tensor};
use crate::tensor::dtype::{BOOL, COMPLEX, DType, FLOATING, INTEGRAL};

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
