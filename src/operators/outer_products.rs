//! `addr`: the outer product of two vectors added to a matrix.

use super::call::{Arguments, Call, Outcome, Refusal, ensure};
use super::pointwise_calls::{check_factor, ensure_computed};
use super::tensor_iterator::{Elementwise, Rule, Types};

pub fn add(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, first, second, beta, alpha] = arguments.all()?;
    let (input, first, second) = (input.tensor()?, first.tensor()?, second.tensor()?);
    let (beta, alpha) = (beta.number()?, alpha.number()?);
    for (vector, name) in [(first, "vec1"), (second, "vec2")] {
        ensure!(vector.ndim() == 1, "addr: Expected 1-D argument {name}, but got {}-D", vector.ndim());
    }
    let (sizes, given) = ([first.numel(), second.numel()], call.given(0));
    let is_in_place = given.is_some_and(|out| out.handle() == input.handle());
    if input.ndim() > 2 && !is_in_place {
        return Err(Refusal::Fallback);
    }
    let matrix = if is_in_place { input } else { input.expanded(&sizes)? };
    let found = matrix.sizes();
    ensure!(found.len() == 2, "2D tensor expected, got {}D tensor for input", found.len());
    ensure!(found == sizes, "size mismatch, input: {found:?}, v1: {:?}, v2: {:?}", first.sizes(), second.sizes());
    let inputs = [matrix, first.unsqueeze(1), second].map(Into::into);
    let operands = Elementwise::of(Rule::with_host_number(Types::Common), &inputs, given, call)?;
    ensure_computed(operands.compute(), call)?;
    let out = operands.output(call)?;
    check_factor(out.dtype(), beta, "beta")?;
    check_factor(out.dtype(), alpha, "alpha")?;
    operands.launch(call, out, &[beta, alpha])
}
