//! Kernels of recurrent cells and of recurrent layers over whole sequences, forward and backward: LSTM, GRU and Elman.
//!
//! A layer's kernel computes the part that depends on the previous step. The caller computes the products of all inputs, and the
//! gradients of weights and inputs, as matrix products. [`steps`] has what differs between cells, [`sequence`] the loop over the
//! steps, and [`unit`] the loop over the units of the hidden state.

#![forbid(unsafe_code)]

#[cfg(test)]
mod rnn_tests;
mod sequence;
mod steps;
mod unit;
mod weights;

pub use sequence::cost;
use sequence::layer;
use steps::{Elman, ElmanGradient, Gru, GruGradient, Lstm, LstmCell, LstmCellGradient, LstmGradient};
use unit::cell;

use super::signature::signature;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;

signature! {
    lstm_cell(hy, cy, workspace, cx, input_gates, hidden_gates, input_bias?, hidden_bias?)[] in FIELD;
    lstm_cell_backward(grad_gates, grad_cx, grad_hy, grad_cy, cx, cy, workspace)[] in FIELD;
    lstm_layer(out, cells, gates, weight, hx, cx)[reverse, _relu] in FLOATING;
    lstm_layer_backward(grad_gates, grad_hx, grad_cx, weight, grad_out, cells, gates, cx, _cells)[reverse, _relu] in FLOATING;
    gru_layer(out, resettable, gates, weight, hx, bias)[reverse, _relu] in FLOATING;
    gru_layer_backward(grad_sums, grad_products, grad_hx, weight, grad_out, resettable, gates, hx, out)[reverse, _relu] in FLOATING;
    elman_layer(out, weight, hx)[reverse, relu] in FLOATING;
    elman_layer_backward(grad_sums, grad_hx, weight, grad_out, out)[reverse, relu] in FLOATING;
}

/// `aten::_thnn_fused_lstm_cell`. Operands [hy, cy, workspace, cx, input gates, hidden gates] or [.., input bias, hidden bias],
/// contiguous and of one dtype: hy, cy and cx [batch, size], gates and workspace [batch, 4 size], biases [4 size]. The workspace
/// receives the activated gates.
pub fn lstm_cell(launch: &Launch<'_>) -> Result<(), Error> {
    let outputs = [launch.output(0)?, launch.output(1)?, launch.output(2)?];
    match launch.num_operands() {
        6 => cell(launch, LstmCell::<9>, outputs),
        8 => cell(launch, LstmCell::<17>, outputs),
        other => Err(Error::operands(format!("{other} operands of a cell"))),
    }
}

/// `aten::_thnn_fused_lstm_cell_backward_impl` without the bias. Operands [grad of gates, grad of cx, grad of hy, grad of cy, cx,
/// cy, workspace], contiguous, of one dtype, and with the sizes of [`lstm_cell`].
pub fn lstm_cell_backward(launch: &Launch<'_>) -> Result<(), Error> {
    cell(launch, LstmCellGradient, [launch.output(0)?, launch.output(1)?])
}

/// The recurrent part of a layer. Operands [out, cells, gates, weight, hx, cx], contiguous and of one dtype: out and cells [steps,
/// batch, size]; gates [steps, batch, 4 size], on entry the sums of the inputs and both biases, on return the activated gates i, f,
/// g, o; weight [4 size, size], of the hidden state; hx and cx [batch, size]. Scalars [reverse, _]: from the last step to the first.
pub fn lstm_layer(launch: &Launch<'_>) -> Result<(), Error> {
    layer(launch, Lstm, [launch.output(0)?, launch.output(1)?, launch.output(2)?])
}

/// The gradient of [`lstm_layer`]. Operands [grad of gates, grad of hx, grad of cx, weight, grad of out, cells, gates, cx, cells],
/// contiguous, of one dtype and sized as there, the gates activated. On entry grad of hx and grad of cx hold the gradients of the
/// last hidden and cell state. Scalars as there.
pub fn lstm_layer_backward(launch: &Launch<'_>) -> Result<(), Error> {
    layer(launch, LstmGradient, [launch.output(0)?, launch.output(1)?, launch.output(2)?])
}

/// The recurrent part of a layer. Operands [out, resettable, gates, weight, hx, bias], contiguous and of one dtype: out [steps,
/// batch, size]; resettable, of the same sizes, the hidden state's term of n before the reset; gates [steps, batch, 3 size], on
/// entry the sums of the inputs and their biases, on return the activated gates r, z, n; weight [3 size, size] and bias [3 size],
/// of the hidden state; hx [batch, size]. Scalars [reverse, _]: from the last step to the first.
pub fn gru_layer(launch: &Launch<'_>) -> Result<(), Error> {
    layer(launch, Gru, [launch.output(0)?, launch.output(1)?, launch.output(2)?])
}

/// The gradient of [`gru_layer`]. Operands [grad of sums, grad of products, grad of hx, weight, grad of out, resettable, gates, hx,
/// out], contiguous, of one dtype and sized as there, the gates activated. The gradients of the inputs' sums and of the hidden
/// state's products differ in n. On entry grad of hx holds the gradient of the last hidden state. Scalars as there.
pub fn gru_layer_backward(launch: &Launch<'_>) -> Result<(), Error> {
    layer(launch, GruGradient, [launch.output(0)?, launch.output(1)?, launch.output(2)?])
}

/// The recurrent part of a layer. Operands [out, weight, hx], contiguous and of one dtype: out [steps, batch, size], on entry the
/// sums of the inputs and both biases; weight [size, size], of the hidden state; hx [batch, size]. Scalars [reverse, relu]: reverse
/// runs from the last step to the first; relu replaces tanh by max(0, x).
pub fn elman_layer(launch: &Launch<'_>) -> Result<(), Error> {
    let relu = elman_layer::Scalars::of(launch)?.relu.to::<i64>() != 0;
    layer(launch, Elman { relu }, [launch.output(0)?])
}

/// The gradient of [`elman_layer`]. Operands [grad of sums, grad of hx, weight, grad of out, out], contiguous, of one dtype, and
/// sized as there; on entry grad of hx holds the gradient of the last hidden state. Scalars as there.
pub fn elman_layer_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let relu = elman_layer_backward::Scalars::of(launch)?.relu.to::<i64>() != 0;
    layer(launch, ElmanGradient { relu }, [launch.output(0)?, launch.output(1)?])
}
