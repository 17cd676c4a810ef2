//! `addr`: the outer product of two vectors added to a matrix.

use super::call::{Call, Outcome, ensure, take_if};
use super::pointwise_calls::{check_factor, ensure_computed};
use super::tensor_iterator::{Elementwise, Rule, Types};
use super::tensors::Tensor;
use crate::tensor::launch::Scalar;

pub fn add(call: &Call<'_>, input: Tensor<'_>, first: Tensor<'_>, second: Tensor<'_>, beta: Scalar, alpha: Scalar) -> Outcome {
    ensure!(first.ndim() == 1 && second.ndim() == 1);
    let (sizes, given) = ([first.numel(), second.numel()], call.given(0));
    let is_in_place = given.is_some_and(|out| out.handle() == input.handle());
    take_if(input.ndim() <= 2 || is_in_place)?;
    let matrix = if is_in_place { input } else { input.expanded(&sizes)? };
    ensure!(matrix.has_sizes(&sizes));
    let inputs = [matrix, first.unsqueeze(1), second].map(Into::into);
    let operands = Elementwise::of(Rule::with_host_number(Types::Common), &inputs, given, call)?;
    ensure_computed(operands.compute(), call)?;
    let out = operands.output(call)?;
    check_factor(out.dtype(), beta, "beta")?;
    check_factor(out.dtype(), alpha, "alpha")?;
    operands.launch(call, out, &[beta, alpha])
}
