//! Kernels of recurrent cells and of recurrent layers over whole sequences, forward and backward: LSTM, GRU and Elman.
//!
//! A layer's kernel computes the part that depends on the previous step. The caller computes the products of all inputs, and the
//! gradients of weights and inputs, as matrix products. [`steps`] has what differs between cells, [`sequence`] the loop over the
//! steps, and [`unit`] the loop over the units of the hidden state.

mod sequence;
mod steps;
mod unit;
mod weights;

pub use sequence::cost;
use sequence::layer;
use steps::{Elman, ElmanGradient, Gru, GruGradient, Lstm, LstmCell, LstmCellGradient, LstmGradient};
use unit::cell;

use crate::tensor::{Error, signature};

signature! {
    /// `aten::_thnn_fused_lstm_cell`. Operands [hy, cy, workspace, cx, input gates, hidden gates] or [.., input bias, hidden bias],
    /// contiguous and of one dtype: hy, cy and cx [batch, size], gates and workspace [batch, 4 size], biases [4 size]. The
    /// workspace receives the activated gates.
    lstm_cell(hy, cy, workspace; cx, input_gates, hidden_gates, input_bias?, hidden_bias?)[] in FIELD => |launch| {
        let lstm_cell::Operands { hy, cy, workspace, cx, input_gates, hidden_gates, input_bias, hidden_bias } =
            lstm_cell::Operands::of(launch)?;
        let (outputs, gates) = ([hy, cy, workspace], [cx, input_gates, hidden_gates]);
        match (input_bias, hidden_bias) {
            (None, None) => cell(launch, LstmCell::<9>, outputs, &gates),
            (Some(one), Some(other)) => cell(launch, LstmCell::<17>, outputs, &[gates[0], gates[1], gates[2], one, other]),
            _ => Err(Error::new("a cell has both biases or none")),
        }
    };
    /// `aten::_thnn_fused_lstm_cell_backward_impl` without the bias. Operands [grad of gates, grad of cx, grad of hy, grad of cy,
    /// cx, cy, workspace], contiguous, of one dtype, and with the sizes of [`lstm_cell`].
    lstm_cell_backward(grad_gates, grad_cx; grad_hy, grad_cy, cx, cy, workspace)[] in FIELD => |launch| {
        let lstm_cell_backward::Operands { grad_gates, grad_cx, grad_hy, grad_cy, cx, cy, workspace } =
            lstm_cell_backward::Operands::of(launch)?;
        cell(launch, LstmCellGradient, [grad_gates, grad_cx], &[grad_hy, grad_cy, cx, cy, workspace])
    };
    /// The recurrent part of a layer. Operands [out, cells, gates, weight, hx, cx], contiguous and of one dtype: out and cells
    /// [steps, batch, size]; gates [steps, batch, 4 size], on entry the sums of the inputs and both biases, on return the activated
    /// gates i, f, g, o; weight [4 size, size], of the hidden state; hx and cx [batch, size]. Scalars [reverse, _]: from the last
    /// step to the first.
    lstm_layer(out, cells, gates; weight, hx, cx)[reverse, _relu] in FLOATING => |launch| {
        let lstm_layer::Operands { out, cells, gates, weight, hx, cx } = lstm_layer::Operands::of(launch)?;
        layer(launch, Lstm, [out, cells, gates], weight, &[hx, cx])
    };
    /// The gradient of [`lstm_layer`]. Operands [grad of gates, grad of hx, grad of cx, weight, grad of out, cells, gates, cx,
    /// cells], contiguous, of one dtype and sized as there, the gates activated. On entry grad of hx and grad of cx hold the
    /// gradients of the last hidden and cell state. Scalars as there.
    lstm_layer_backward(grad_gates, grad_hx, grad_cx; weight, grad_out, cells, gates, cx, states)[reverse, _relu] in FLOATING =>
    |launch| {
        let lstm_layer_backward::Operands { grad_gates, grad_hx, grad_cx, weight, grad_out, cells, gates, cx, states } =
            lstm_layer_backward::Operands::of(launch)?;
        layer(launch, LstmGradient, [grad_gates, grad_hx, grad_cx], weight, &[grad_out, cells, gates, cx, states])
    };
    /// The recurrent part of a layer. Operands [out, resettable, gates, weight, hx, bias], contiguous and of one dtype: out [steps,
    /// batch, size]; resettable, of the same sizes, the hidden state's term of n before the reset; gates [steps, batch, 3 size], on
    /// entry the sums of the inputs and their biases, on return the activated gates r, z, n; weight [3 size, size] and bias [3
    /// size], of the hidden state; hx [batch, size]. Scalars [reverse, _]: from the last step to the first.
    gru_layer(out, resettable, gates; weight, hx, bias)[reverse, _relu] in FLOATING => |launch| {
        let gru_layer::Operands { out, resettable, gates, weight, hx, bias } = gru_layer::Operands::of(launch)?;
        layer(launch, Gru, [out, resettable, gates], weight, &[hx, bias])
    };
    /// The gradient of [`gru_layer`]. Operands [grad of sums, grad of products, grad of hx, weight, grad of out, resettable, gates,
    /// hx, out], contiguous, of one dtype and sized as there, the gates activated. The gradients of the inputs' sums and of the
    /// hidden state's products differ in n. On entry grad of hx holds the gradient of the last hidden state. Scalars as there.
    gru_layer_backward(grad_sums, grad_products, grad_hx; weight, grad_out, resettable, gates, hx, out)[reverse, _relu] in FLOATING =>
    |launch| {
        let gru_layer_backward::Operands { grad_sums, grad_products, grad_hx, weight, grad_out, resettable, gates, hx, out } =
            gru_layer_backward::Operands::of(launch)?;
        layer(launch, GruGradient, [grad_sums, grad_products, grad_hx], weight, &[grad_out, resettable, gates, hx, out])
    };
    /// The recurrent part of a layer. Operands [out, weight, hx], contiguous and of one dtype: out [steps, batch, size], on entry
    /// the sums of the inputs and both biases; weight [size, size], of the hidden state; hx [batch, size]. Scalars [reverse, relu]:
    /// reverse runs from the last step to the first; relu replaces tanh by max(0, x).
    elman_layer(out; weight, hx)[reverse, relu] in FLOATING => |launch| {
        let relu = elman_layer::Scalars::of(launch)?.relu.is_true();
        let elman_layer::Operands { out, weight, hx } = elman_layer::Operands::of(launch)?;
        layer(launch, Elman { relu }, [out], weight, &[hx])
    };
    /// The gradient of [`elman_layer`]. Operands [grad of sums, grad of hx, weight, grad of out, out], contiguous, of one dtype,
    /// and sized as there; on entry grad of hx holds the gradient of the last hidden state. Scalars as there.
    elman_layer_backward(grad_sums, grad_hx; weight, grad_out, out)[reverse, relu] in FLOATING => |launch| {
        let relu = elman_layer_backward::Scalars::of(launch)?.relu.is_true();
        let elman_layer_backward::Operands { grad_sums, grad_hx, weight, grad_out, out } =
            elman_layer_backward::Operands::of(launch)?;
        layer(launch, ElmanGradient { relu }, [grad_sums, grad_hx], weight, &[grad_out, out])
    };
}
