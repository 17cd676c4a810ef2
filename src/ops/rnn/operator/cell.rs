//! LSTM cells, computed by a kernel, and GRU cells, composed of pointwise operators. PyTorch has these operators for CUDA only,
//! but its recurrent layers call them on every accelerator. Forward and backward share a workspace of activated gates.

use std::array;

use crate::call::callees::Callee;
use crate::call::prelude::*;

operators! {
    // cells of recurrent layers, which check dtypes themselves: the CPU has no such operator, so there is no fallback
    c"_thnn_fused_lstm_cell": any_dtype(plain(lstm_cell)) => c"_thnn_fused_lstm_cell";
    c"_thnn_fused_lstm_cell_backward_impl": any_dtype(plain(lstm_cell_backward)) =>
        c"_thnn_fused_lstm_cell_backward_impl";
    _: plain(gru_cell) => c"_thnn_fused_gru_cell";
    _: plain(typed!(gru_cell_backward)) => c"_thnn_fused_gru_cell_backward";
}

/// The number of gates of an LSTM.
pub const LSTM_GATES: i64 = 4;

/// The size of each of `count` parts of gates along dimension 1.
fn part_size(gates: Tensor<'_>, count: i64) -> Result<i64, CallError> {
    match *gates.sizes() {
        [_, width] if width > 0 && width % count == 0 => Ok(width / count),
        ref sizes => Err(CallError::Invalid(format!("expected gates of [batch, {count} * hidden size], but got: {sizes:?}"))),
    }
}

/// The parts of a tensor of gates along dimension 1.
fn parts_of<const N: usize>(gates: Tensor<'_>) -> Result<[Tensor<'_>; N], CallError> {
    let size = part_size(gates, N as i64)?;
    Ok(array::from_fn(|part| gates.section(1, part as i64 * size, size)))
}

/// True if the state is a quarter as wide as the gates.
fn is_quarter(state: Tensor<'_>, gates: &[i64]) -> bool {
    matches!(*state.sizes(), [batch, size] if gates == [batch, LSTM_GATES * size])
}

pub fn of_two<'a>(call: &Call<'a>, operator: &Callee, one: Tensor<'_>, other: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    call.operator(operator, &[Value::Tensor(one), Value::Tensor(other)])
}

/// Calls an operator with two tensors and `alpha` = 1.
pub fn of_sum<'a>(call: &Call<'a>, operator: &Callee, one: Tensor<'_>, other: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    call.operator(operator, &[one.into(), other.into(), 1.into()])
}

/// 1 - y.
fn complement<'a>(call: &Call<'a>, y: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    let negative = call.operator(&callees::NEG, &[y.into()])?;
    call.operator(&callees::ADD_NUMBER, &[negative.into(), 1.into(), 1.into()])
}

/// d/dx of sigmoid, from its result.
fn sigmoid_slope<'a>(call: &Call<'a>, y: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    of_two(call, &callees::MUL, y, complement(call, y)?)
}

/// The sum along dimension 0.
pub fn sum_of_rows<'a>(call: &Call<'a>, grad: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    call.operator(&callees::SUM, &[grad.into(), Value::Integers(&[0]), false.into(), Value::None])
}

/// The parts, concatenated along dimension 1.
fn joined<'a>(call: &Call<'a>, parts: &[Tensor<'_>]) -> Result<Tensor<'a>, CallError> {
    call.operator(&callees::CAT, &[Value::Tensors(parts), 1.into()])
}

/// The gates plus their bias, if there is one.
fn biased<'a>(call: &Call<'a>, gates: Tensor<'a>, bias: Option<Tensor<'_>>) -> Result<Tensor<'a>, CallError> {
    bias.map_or(Ok(gates), |bias| of_sum(call, &callees::ADD, gates, bias))
}

fn launch_cell(call: &Call<'_>, outputs: &[Tensor<'_>], inputs: &[Option<Tensor<'_>>]) -> Outcome {
    let dtype = outputs[0].dtype();
    for input in inputs.iter().flatten() {
        ensure!(input.dtype() == dtype, "expected operands of one dtype, but got {:?} and {dtype:?}", input.dtype());
    }
    call.launch(outputs, inputs, &[])
}

pub fn lstm_cell(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input_gates, hidden_gates, cx, input_bias, hidden_bias): (_, Tensor<'_>, Tensor<'_>, _, _) = arguments.typed()?;
    part_size(input_gates, LSTM_GATES)?;
    // A single bias is added beforehand.
    let (inputs, biases) = match (input_bias, hidden_bias) {
        (Some(one), Some(other)) => (input_gates, [Some(one), Some(other)]),
        (one, other) => (biased(call, input_gates, one.or(other))?, [None; 2]),
    };
    let (gates, hidden, state) = (input_gates.sizes(), hidden_gates.sizes(), cx.sizes());
    ensure!(
        hidden == gates && is_quarter(cx, gates),
        "expected gates of one size and a cell state of a quarter, but got: {gates:?}, {hidden:?} and {state:?}"
    );
    for bias in biases.iter().flatten() {
        ensure!(bias.sizes() == &gates[1..], "expected a bias for each gate, but got: {:?}", bias.sizes());
    }
    let operands = call.all_dense([Some(cx), Some(inputs), Some(hidden_gates), biases[0], biases[1]])?;
    let make = |index: usize, sizes: &[i64]| call.contiguous(index, sizes, cx.dtype(), Strides::Any);
    let outputs = [make(0, state)?, make(1, state)?, make(2, gates)?];
    launch_cell(call, &outputs, &operands)
}

/// `_thnn_fused_lstm_cell_backward_impl`. Without gradients of the outputs it returns nothing.
pub fn lstm_cell_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad_hy, grad_cy, cx, cy, workspace, has_bias): (_, _, Tensor<'_>, Tensor<'_>, Tensor<'_>, bool) = arguments.typed()?;
    let grads: [Option<Tensor<'_>>; 2] = [grad_hy, grad_cy];
    if grads.iter().all(Option::is_none) {
        return Ok(());
    }
    part_size(workspace, LSTM_GATES)?;
    let (gates, zeros) = (workspace.sizes(), || call.zeros(cy.sizes(), cy.dtype()));
    let [grad_hy, grad_cy] = grads.map(|grad| grad.map_or_else(zeros, Ok));
    let states = [grad_hy?, grad_cy?, cx, cy];
    for state in states {
        let sizes = state.sizes();
        let text = "expected states of a quarter of the workspace's size, but got:";
        ensure!(is_quarter(state, gates), "{text} {sizes:?} and {gates:?}");
    }
    let [grad_hy, grad_cy, ..] = states;
    let operands = call.all_dense([grad_hy, grad_cy, cx, cy, workspace].map(Some))?;
    let grad_gates = call.contiguous(0, gates, cx.dtype(), Strides::Any)?;
    let grad_cx = call.contiguous(1, cx.sizes(), cx.dtype(), Strides::Any)?;
    launch_cell(call, &[grad_gates, grad_cx], &operands)?;
    if has_bias { call.give(2, sum_of_rows(call, grad_gates)?) } else { Ok(()) }
}

pub fn gru_cell(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input_gates, hidden_gates, hx, input_bias, hidden_bias) = arguments.typed()?;
    let from_input: [_; 3] = parts_of(biased(call, input_gates, input_bias)?)?;
    let from_hidden: [_; 3] = parts_of(biased(call, hidden_gates, hidden_bias)?)?;
    let gate = |part: usize| {
        let sum = of_sum(call, &callees::ADD, from_input[part], from_hidden[part])?;
        call.operator(&callees::SIGMOID_IN_PLACE, &[Value::Tensor(sum)])
    };
    let (reset, update) = (gate(0)?, gate(1)?);
    let kept = of_two(call, &callees::MUL, reset, from_hidden[2])?;
    let sum = of_sum(call, &callees::ADD, from_input[2], kept)?;
    let fresh = call.operator(&callees::TANH_IN_PLACE, &[Value::Tensor(sum)])?;
    let change = of_two(call, &callees::MUL_IN_PLACE, of_sum(call, &callees::SUB, hx, fresh)?, update)?;
    call.give(0, of_sum(call, &callees::ADD_IN_PLACE, change, fresh)?)?;
    call.give(1, joined(call, &[reset, update, fresh, hx, from_hidden[2]])?)
}

pub fn gru_cell_backward(call: &Call<'_>, grad_hy: Tensor<'_>, workspace: Tensor<'_>, has_bias: bool) -> Outcome {
    let [reset, update, fresh, hx, hidden] = parts_of(workspace)?;
    let product = |one, other| of_two(call, &callees::MUL, one, other);
    let scaled = |one, other| of_two(call, &callees::MUL_IN_PLACE, one, other);
    let grad_fresh = scaled(product(grad_hy, complement(call, update)?)?, complement(call, product(fresh, fresh)?)?)?;
    let change = of_sum(call, &callees::SUB, hx, fresh)?;
    let grad_update = scaled(product(grad_hy, change)?, sigmoid_slope(call, update)?)?;
    let grad_reset = scaled(product(grad_fresh, hidden)?, sigmoid_slope(call, reset)?)?;
    let grad_input = joined(call, &[grad_reset, grad_update, grad_fresh])?;
    let grad_hidden = joined(call, &[grad_reset, grad_update, product(grad_fresh, reset)?])?;
    call.give(0, grad_input)?;
    call.give(1, grad_hidden)?;
    call.give(2, product(grad_hy, update)?)?;
    if !has_bias {
        return Ok(());
    }
    call.give(3, sum_of_rows(call, grad_input)?)?;
    call.give(4, sum_of_rows(call, grad_hidden)?)
}
