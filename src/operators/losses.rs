//! `log_sigmoid` and `binary_cross_entropy`, forward and backward, of which PyTorch has no meta; losses of each element with a reduction.

use super::broadcasting::Elementwise;
use super::call::{Arguments, Call, Outcome, Refusal, Strides, Value};
use super::descriptor::Tensor;
use super::names;
use super::pointwise_calls::{self as pointwise, BINARY, Pointwise, Scalars};
use crate::tensor::launch::Scalar;

/// Numbers of `at::Reduction`.
pub const NONE: i64 = 0;
const MEAN: i64 = 1;
pub const SUM: i64 = 2;

/// Makes output number 0 in the order of a tensor, or takes the caller's.
fn output_like<'a>(call: &Call<'a>, operands: &Elementwise<'_>, like: Tensor<'_>) -> Result<Tensor<'a>, Refusal> {
    let shape = if call.given(0).is_some() { operands.shape() } else { operands.shape_like(like) };
    call.output(0, &shape, Strides::Any)
}

/// `log_sigmoid_forward`. The buffer is for the CPU's own backward: as on other accelerators it stays empty.
pub fn log_sigmoid(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input] = arguments.all()?;
    let input = input.tensor()?;
    let operands = Elementwise::new(&[input], call.given(0))?;
    let out = call.output(0, &operands.shape(), Strides::Any)?;
    if call.given(1).is_none() {
        call.contiguous(1, &[0], input.dtype(), Strides::Any)?;
    }
    operands.launch(call, out, &[])
}

/// `log_sigmoid_backward`.
pub fn log_sigmoid_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [grad, input, _buffer] = arguments.all()?;
    let (grad, input) = (grad.tensor()?, input.tensor()?);
    let operands = Elementwise::new(&[input, grad], call.given(0))?;
    operands.launch(call, output_like(call, &operands, grad)?, &[])
}

/// Multiplies losses or gradients by weights that may be left out.
fn weigh(call: &Call<'_>, tensor: Tensor<'_>, weight: &Value<'_>) -> Outcome {
    match weight {
        Value::None => Ok(()),
        _ => call.operator(&names::MUL_IN_PLACE, &[Value::Tensor(tensor), *weight]).map(drop),
    }
}

/// Makes the mean or the sum of losses output number 0.
fn reduce(call: &Call<'_>, losses: Tensor<'_>, reduction: i64) -> Outcome {
    let losses = Value::Tensor(losses);
    let is_mean = reduction == MEAN;
    let Some(out) = call.given(0) else {
        let operator = if is_mean { &names::MEAN } else { &names::SUM_OF_ALL };
        return call.give(0, call.operator(operator, &[losses, Value::None])?);
    };
    let operator = if is_mean { &names::MEAN_OUT } else { &names::SUM_OUT };
    let keeps_dims = Scalar::Bool(false).into();
    call.operator(operator, &[losses, Value::None, keeps_dims, Value::None, Value::Tensor(out)]).map(drop)
}

/// `binary_cross_entropy`.
pub fn entropy(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, target, weight, reduction] = arguments.all()?;
    let (input, target, reduction) = (input.tensor()?, target.tensor()?, reduction.integer()?);
    let is_reduced = reduction != NONE;
    let operands = Elementwise::new(&[input, target], call.given(0).filter(|_| !is_reduced))?;
    let losses = if is_reduced { call.empty_as(&operands.shape_like(input))? } else { output_like(call, &operands, input)? };
    operands.launch(call, losses, &[])?;
    weigh(call, losses, weight)?;
    if is_reduced { reduce(call, losses, reduction) } else { Ok(()) }
}

/// `binary_cross_entropy_backward`.
pub fn entropy_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [grad, input, target, weight, reduction] = arguments.all()?;
    let (grad, input, target) = (grad.tensor()?, input.tensor()?, target.tensor()?);
    let operands = Elementwise::new(&[grad, input, target], call.given(0))?;
    let out = output_like(call, &operands, input)?;
    operands.launch(call, out, &[])?;
    weigh(call, out, weight)?;
    if reduction.integer()? != MEAN {
        return Ok(());
    }
    let count = Scalar::Long(input.numel()).into();
    call.operator(&names::DIV_NUMBER_IN_PLACE, &[Value::Tensor(out), count]).map(drop)
}

/// A loss of each element by itself, or their mean or sum. The third argument is the reduction.
fn of_each_element(operator: Pointwise, arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let operator = operator.scalars(Scalars::Any);
    let reduction = arguments.get(2).unwrap_or(&Value::None).integer()?;
    if reduction == NONE {
        return operator.run(arguments, call);
    }
    let operands = operator.operands(arguments, call, None)?;
    if !call.takes(operands.compute()) {
        return Err(Refusal::Fallback);
    }
    let losses = call.empty_as(&operands.shape())?;
    pointwise::launch_into(&operands, losses, Scalars::Any, arguments, call)?;
    reduce(call, losses, reduction)
}

/// `mse_loss`.
pub fn mse(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    of_each_element(BINARY, arguments, call)
}

/// `smooth_l1_loss`.
pub fn smooth_l1(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    of_each_element(BINARY.checked(pointwise::smooth_l1_loss), arguments, call)
}
