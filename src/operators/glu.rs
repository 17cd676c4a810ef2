//! `glu` and its gradient: one half of a tensor times the sigmoid of the other.

use super::call::{Call, CallError, Input, Outcome, Strides, Value, ensure, wrap_dim};
use super::callees;
use super::pointwise_calls::{ensure_computed, launch_with};
use super::tensor_iterator::{Elementwise, Rule, Types};
use super::tensors::Tensor;

/// The dimension that is split into halves.
fn halved_dim(input: Tensor<'_>, dim: i64) -> Result<usize, CallError> {
    let dim = wrap_dim(dim, input.ndim())?;
    ensure!(input.sizes().get(dim).is_some_and(|size| size % 2 == 0));
    Ok(dim)
}

fn halves(tensor: Tensor<'_>, dim: usize) -> [Tensor<'_>; 2] {
    let half = tensor.sizes()[dim] / 2;
    [tensor.section(dim, 0, half), tensor.section(dim, half, half)]
}

pub fn forward(call: &Call<'_>, input: Tensor<'_>, dim: i64) -> Outcome {
    let halves = halves(input, halved_dim(input, dim)?).map(Input::Tensor);
    let operands = Elementwise::of(Rule::with_host_number(Types::Common), &halves, call.given(0), call)?;
    launch_with(&operands, &[], call)
}

/// `glu_backward`. The first half of the output holds the sigmoid until the second half has been computed from it.
pub fn backward(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, dim: i64) -> Outcome {
    let dim = halved_dim(input, dim)?;
    ensure_computed(input.dtype(), call)?;
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Shared)?;
    let ([first, second], [first_grad, second_grad]) = (halves(input, dim), halves(out, dim));
    call.operator(&callees::SIGMOID_OUT, &[Value::Tensor(second), Value::Tensor(first_grad)])?;
    Elementwise::new(&[first_grad, first, grad], Some(second_grad))?.launch(call, second_grad, &[])?;
    call.operator(&callees::MUL_IN_PLACE, &[Value::Tensor(first_grad), Value::Tensor(grad)]).map(drop)
}
