//! `put_`: writes through indices into the flattened tensor.

use super::addressing::{Addressing, Operation};
use super::call::{Arguments, Call, Input, Outcome, Refusal, Strides, ensure};
use super::tensors::Format;
use crate::tensor::dtype::{BOOL, COMPLEX, DType, FLOATING, INTEGRAL};

pub fn put(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, index, source, accumulate] = arguments.all()?;
    let (input, index, source) = (input.tensor()?, index.tensor()?, source.tensor()?);
    ensure!(index.dtype() == DType::Long, "put_(): Expected a long tensor for index, but got {:?}", index.dtype());
    let (own, others) = (input.dtype(), source.dtype());
    ensure!(
        own == others,
        "put_(): self and source expected to have the same dtype, but got self.dtype = {own:?} and source.dtype = {others:?}"
    );
    if source.numel() != index.numel() {
        let (sources, indices) = (source.numel(), index.numel());
        let text = "put_(): Expected source and index to have the same number of elements";
        return Err(Refusal::Index(format!("{text}, but got source.numel() = {sources}, index.numel() = {indices}")));
    }
    if input.numel() == 0 && index.numel() != 0 {
        return Err(Refusal::Index("put_(): Tried to put elements into an empty tensor".into()));
    }
    input.check_no_internal_overlap()?;
    input.check_no_overlap(index)?;
    input.check_no_overlap(source)?;
    let accumulate = accumulate.flag()?;
    if accumulate && !FLOATING.and(INTEGRAL).and(BOOL).and(COMPLEX).contains(own) {
        return Err(Refusal::Fallback);
    }
    let out = call.contiguous(0, input.sizes(), own, Strides::Any)?;
    if index.numel() == 0 {
        return Ok(());
    }
    let index = call.dense(index, Format::Contiguous)?.view(source.sizes());
    let dense = call.dense(out, Format::Contiguous)?;
    let operation = if accumulate { Operation::Add } else { Operation::Store };
    if let Some(addressing) = Addressing::flat(dense, index) {
        addressing.update(call, dense, Input::Tensor(source), operation.into())?;
    }
    if dense.address() == out.address() { Ok(()) } else { call.copy(out, dense) }
}
