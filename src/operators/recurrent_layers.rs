//! LSTM, GRU and Elman layers over whole sequences, in one direction. One product handles the inputs of all steps, and one
//! kernel loops over the steps. They are operators of rustdev's own library, with gradients in `shim/ops/rnn_layers.cpp`.

use std::ffi::CStr;

use super::call::{Arguments, Call, Outcome, Refusal, Strides, Value, ensure};
use super::names;
use super::recurrent_cells::{of_sum, of_two, sum_of_rows};
use super::tensors::{Format, Tensor};
use crate::kernels::rnn::elman::{elman_layer as elman_kernel, elman_layer_backward as elman_backward_kernel};
use crate::kernels::rnn::gru::{gru_layer as gru_kernel, gru_layer_backward as gru_backward_kernel};
use crate::kernels::rnn::lstm::{lstm_layer as lstm_kernel, lstm_layer_backward as lstm_backward_kernel};
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// `weights`: weights of the inputs and of the hidden state, then both biases, if any. `states`: the hidden state and, for an
/// LSTM, the cell state. Results: the output, the final states (views of other results), and intermediate values for the
/// gradients.
const LSTM: &CStr = c"(Tensor input, Tensor[] weights, Tensor[] states, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)";
const GRU: &CStr = c"(Tensor input, Tensor[] weights, Tensor[] states, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)";
const ELMAN: &CStr = c"(Tensor input, Tensor[] weights, Tensor[] states, bool reverse) -> (Tensor, Tensor)";
/// `grads`: gradients of the output and of the final states. `results`: those of the layer without the final states. Returns
/// the gradients of the input and the weights, as far as they are requested, and of the states.
const BACKWARD: &CStr = c"(Tensor[] grads, Tensor input, Tensor[] weights, Tensor[] states, Tensor[] results, bool reverse, \
    bool[] output_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)";

pub static DEFINITIONS: [(&CStr, &CStr); 8] = [
    (c"rustdev::lstm_layer", LSTM),
    (c"rustdev::lstm_layer_backward", BACKWARD),
    (c"rustdev::gru_layer", GRU),
    (c"rustdev::gru_layer_backward", BACKWARD),
    (c"rustdev::rnn_tanh_layer", ELMAN),
    (c"rustdev::rnn_tanh_layer_backward", BACKWARD),
    (c"rustdev::rnn_relu_layer", ELMAN),
    (c"rustdev::rnn_relu_layer_backward", BACKWARD),
];

/// Number of gates of each kind of layer.
pub const LSTM_GATES: i64 = 4;
pub const GRU_GATES: i64 = 3;
pub const ELMAN_GATES: i64 = 1;

/// The tensors of a list, which must have exactly `N`.
fn tensors_of<'a, const N: usize>(list: &Value<'a>) -> Result<[Tensor<'a>; N], Refusal> {
    let tensors = list.tensors()?;
    tensors.try_into().map_err(|_| Refusal::Invalid(format!("expected {N} tensors, but got {}", tensors.len())))
}

/// The contiguous tensors of a list, which must have exactly `N`.
fn dense_of<'a, const N: usize>(call: &Call<'a>, list: &Value<'a>) -> Result<[Tensor<'a>; N], Refusal> {
    let mut tensors = tensors_of(list)?;
    for tensor in &mut tensors {
        *tensor = call.dense(*tensor, Format::Contiguous)?;
    }
    Ok(tensors)
}

/// A contiguous tensor [steps, batch, size] as [steps * batch, size].
fn rows_of(sequence: Tensor<'_>) -> Tensor<'_> {
    let size = sequence.size_from_end(0);
    sequence.view(&[sequence.numel() / size, size])
}

/// A layer: input [steps, batch, inputs], weights [gates * size, inputs] and [gates * size, size], optional biases [gates *
/// size], states [batch, size]. The weight of the inputs need not be contiguous.
struct Layer<'a, const STATES: usize> {
    input: Tensor<'a>,
    input_weight: Tensor<'a>,
    weight: Tensor<'a>,
    biases: Option<[Tensor<'a>; 2]>,
    states: [Tensor<'a>; STATES],
    reverse: bool,
}

impl<'a, const STATES: usize> Layer<'a, STATES> {
    fn new(call: &Call<'a>, gates: i64, arguments: [Value<'a>; 4]) -> Result<Self, Refusal> {
        let [input, weights, states, reverse] = arguments;
        let [input_weight, weight, biases @ ..] = weights.tensors()? else {
            return Err(Refusal::Invalid("expected two weights of a layer".into()));
        };
        let layer = Self {
            input: call.dense(input.tensor()?, Format::Contiguous)?,
            input_weight: *input_weight,
            weight: call.dense(*weight, Format::Contiguous)?,
            biases: if biases.is_empty() { None } else { Some(tensors_of(&Value::Tensors(biases))?) },
            states: dense_of(call, &states)?,
            reverse: reverse.flag()?,
        };
        ensure!(layer.fits(gates), "expected a layer of {gates} gates, but got sizes that do not go together");
        Ok(layer)
    }

    /// True if the sizes of all tensors match.
    fn fits(&self, gates: i64) -> bool {
        let (&[_, batch, inputs], &[wide, size]) = (self.input.sizes(), self.weight.sizes()) else { return false };
        let mut biases = self.biases.iter().flatten();
        self.input.numel() > 0
            && size > 0
            && wide == gates * size
            && self.input_weight.sizes() == [wide, inputs]
            && self.states.iter().all(|state| state.sizes() == [batch, size])
            && biases.all(|bias| bias.sizes() == [wide])
    }

    fn dtype(&self) -> DType {
        self.input.dtype()
    }

    /// The sizes of a tensor [steps, batch, `size`].
    fn sizes(&self, size: i64) -> [i64; 3] {
        [self.input.sizes()[0], self.input.sizes()[1], size]
    }

    /// Output number `index`, [steps, batch, size].
    fn result(&self, call: &Call<'a>, index: usize) -> Result<Tensor<'a>, Refusal> {
        call.contiguous(index, &self.sizes(self.weight.sizes()[1]), self.dtype(), Strides::Any)
    }

    /// Returns the last step of a sequence as output number `index`.
    fn give_last(&self, call: &Call<'a>, index: usize, sequence: Tensor<'a>) -> Outcome {
        call.give(index, sequence.row(if self.reverse { 0 } else { sequence.sizes()[0] - 1 }))
    }

    /// Rows [steps * batch, size] as [steps, batch, size].
    fn of_steps(&self, rows: Tensor<'a>) -> Tensor<'a> {
        rows.view(&self.sizes(rows.size_from_end(0)))
    }

    /// The products of the inputs and their weights, [steps * batch, gates * size], plus a bias if there is one.
    fn sums(&self, call: &Call<'a>, bias: Option<Tensor<'a>>) -> Result<Tensor<'a>, Refusal> {
        let bias = bias.map_or(Value::None, Value::Tensor);
        let operands = [Value::Tensor(rows_of(self.input)), Value::Tensor(self.input_weight), bias];
        call.operator(&names::LINEAR, &operands)
    }

    /// The products of the inputs and their weights, plus both biases.
    fn biased_sums(&self, call: &Call<'a>) -> Result<Tensor<'a>, Refusal> {
        let bias = self.biases.map(|[input_bias, bias]| of_sum(call, &names::ADD, input_bias, bias)).transpose()?;
        self.sums(call, bias)
    }

    /// The gradient of a state, an output. Until the kernel runs, it holds the gradient of the final state.
    fn grad_of_state(&self, call: &Call<'a>, index: usize, grad_of_last: Tensor<'a>) -> Result<Tensor<'a>, Refusal> {
        let place = if self.biases.is_some() { 5 } else { 3 } + index;
        let grad = call.contiguous(place, self.states[index].sizes(), self.dtype(), Strides::Any)?;
        call.copy(grad, grad_of_last)?;
        Ok(grad)
    }

    /// Makes the remaining gradients from those of the input products and of the hidden state's products.
    fn give_others(&self, call: &Call<'a>, grads: [Tensor<'a>; 2], out: Tensor<'a>, mask: &Value<'_>) -> Outcome {
        let mask = mask.flags()?;
        let ([of_sums, of_products], needs) = (grads, |index: usize| mask.get(index).copied().unwrap_or(false));
        let rows = rows_of(of_sums);
        if needs(0) {
            call.give(0, of_two(call, &names::MM, rows, self.input_weight)?.view(self.input.sizes()))?;
        }
        if needs(1) {
            call.give(1, of_two(call, &names::MM, rows.with_last(0), rows_of(self.input))?)?;
        }
        if needs(2) {
            call.give(2, self.grad_of_weight(call, of_products, out)?)?;
        }
        for (index, grad) in (3..).zip(grads).filter(|&(index, _)| self.biases.is_some() && needs(index)) {
            call.give(index, sum_of_rows(call, rows_of(grad))?)?;
        }
        Ok(())
    }

    /// The gradient of the hidden state's weight. Each step's hidden state is the previous step's output, or the initial state.
    fn grad_of_weight(&self, call: &Call<'a>, of_products: Tensor<'a>, out: Tensor<'a>) -> Result<Tensor<'a>, Refusal> {
        let others = out.sizes()[0] - 1;
        let first = of_products.row(if self.reverse { others } else { 0 });
        let grad = of_two(call, &names::MM, first.with_last(0), self.states[0])?;
        if others == 0 {
            return Ok(grad);
        }
        let of_later = rows_of(of_products.section(0, i64::from(!self.reverse), others));
        let earlier = rows_of(out.section(0, i64::from(self.reverse), others));
        let one = Value::Number(Scalar::Long(1));
        let operands = [Value::Tensor(grad), Value::Tensor(of_later.with_last(0)), Value::Tensor(earlier), one, one];
        call.operator(&names::ADDMM_IN_PLACE, &operands)
    }
}

/// `lstm_layer`: the output, the final states, the cell states and the activated gates.
pub fn lstm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let layer = Layer::new(call, LSTM_GATES, *arguments.all()?)?;
    let ([hx, cx], reverse) = (layer.states, layer.reverse.into());
    let (sums, out, cells) = (layer.biased_sums(call)?, layer.result(call, 0)?, layer.result(call, 3)?);
    call.launch(&[out, cells, layer.of_steps(sums)], &[layer.weight, hx, cx], &lstm_kernel::Scalars { reverse }.list())?;
    layer.give_last(call, 1, out)?;
    layer.give_last(call, 2, cells)?;
    call.give(4, sums)
}

pub fn lstm_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let &[grads, input, weights, states, results, reverse, mask] = arguments.all()?;
    let layer = Layer::<2>::new(call, LSTM_GATES, [input, weights, states, reverse])?;
    let [grad_out, grad_hy, grad_cy] = tensors_of(&grads)?;
    let ([out, cells, activated], wide) = (dense_of(call, &results)?, layer.weight.sizes()[0]);
    let (grad_hx, grad_cx) = (layer.grad_of_state(call, 0, grad_hy)?, layer.grad_of_state(call, 1, grad_cy)?);
    let (grad_out, grad_gates) = (call.dense(grad_out, Format::Contiguous)?, call.empty(&layer.sizes(wide), layer.dtype())?);
    let inputs = [grad_out, layer.of_steps(activated), cells, layer.states[1], layer.weight];
    let scalars = lstm_backward_kernel::Scalars { reverse: layer.reverse.into() };
    call.launch(&[grad_gates, grad_hx, grad_cx], &inputs, &scalars.list())?;
    layer.give_others(call, [grad_gates; 2], out, &mask)
}

/// `gru_layer`: the output, the final state, the products that the reset gate scales, and the activated gates.
pub fn gru(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let layer = Layer::<1>::new(call, GRU_GATES, *arguments.all()?)?;
    let own = match layer.biases {
        Some([_, bias]) => call.dense(bias, Format::Contiguous)?,
        None => call.zeros(&layer.weight.sizes()[..1], layer.dtype())?,
    };
    let sums = layer.sums(call, layer.biases.map(|[input_bias, _]| input_bias))?;
    let (out, resettable) = (layer.result(call, 0)?, layer.result(call, 2)?);
    let scalars = gru_kernel::Scalars { reverse: layer.reverse.into() };
    call.launch(&[out, resettable, layer.of_steps(sums)], &[layer.weight, own, layer.states[0]], &scalars.list())?;
    layer.give_last(call, 1, out)?;
    call.give(3, sums)
}

pub fn gru_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let &[grads, input, weights, states, results, reverse, mask] = arguments.all()?;
    let layer = Layer::<1>::new(call, GRU_GATES, [input, weights, states, reverse])?;
    let [grad_out, grad_hy] = tensors_of(&grads)?;
    let [out, resettable, activated] = dense_of(call, &results)?;
    let (grad_out, grad_hx) = (call.dense(grad_out, Format::Contiguous)?, layer.grad_of_state(call, 0, grad_hy)?);
    // The gradients of the input products and of the hidden state's products.
    let [steps, batch, wide] = layer.sizes(layer.weight.sizes()[0]);
    let of_both = call.empty(&[2, steps, batch, wide], layer.dtype())?;
    let inputs = [grad_out, layer.of_steps(activated), resettable, out, layer.states[0], layer.weight];
    let scalars = gru_backward_kernel::Scalars { reverse: layer.reverse.into() };
    call.launch(&[of_both, grad_hx], &inputs, &scalars.list())?;
    layer.give_others(call, [of_both.row(0), of_both.row(1)], out, &mask)
}

/// `rnn_tanh_layer`, `rnn_relu_layer`: the output and the final state.
pub fn elman<const RELU: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let layer = Layer::<1>::new(call, ELMAN_GATES, *arguments.all()?)?;
    let out = layer.of_steps(layer.biased_sums(call)?);
    let scalars = elman_kernel::Scalars { reverse: layer.reverse.into(), relu: RELU.into() };
    call.launch(&[out], &[layer.weight, layer.states[0]], &scalars.list())?;
    call.give(0, out)?;
    layer.give_last(call, 1, out)
}

pub fn elman_backward<const RELU: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let &[grads, input, weights, states, results, reverse, mask] = arguments.all()?;
    let layer = Layer::<1>::new(call, ELMAN_GATES, [input, weights, states, reverse])?;
    let [grad_out, grad_hy] = tensors_of(&grads)?;
    let [out] = dense_of(call, &results)?;
    let (grad_out, grad_hx) = (call.dense(grad_out, Format::Contiguous)?, layer.grad_of_state(call, 0, grad_hy)?);
    let grad_sums = call.empty(out.sizes(), layer.dtype())?;
    let scalars = elman_backward_kernel::Scalars { reverse: layer.reverse.into(), relu: RELU.into() };
    call.launch(&[grad_sums, grad_hx], &[grad_out, out, layer.weight], &scalars.list())?;
    layer.give_others(call, [grad_sums; 2], out, &mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(sizes: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, DType::Float, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    #[test]
    fn sizes_of_a_layer_go_together() {
        let of = |input: &[i64], state: &[i64], bias: i64| Layer {
            input: tensor(input),
            input_weight: tensor(&[9, 4]),
            weight: tensor(&[9, 3]),
            biases: Some([tensor(&[9]), tensor(&[bias])]),
            states: [tensor(state)],
            reverse: false,
        };
        let layer = of(&[5, 2, 4], &[2, 3], 9);
        assert!(layer.fits(GRU_GATES) && !layer.fits(LSTM_GATES));
        assert!(!of(&[5, 2, 3], &[2, 3], 9).fits(GRU_GATES) && !of(&[5, 4], &[2, 3], 9).fits(GRU_GATES));
        assert!(!of(&[5, 2, 4], &[1, 3], 9).fits(GRU_GATES) && !of(&[5, 2, 4], &[2, 3], 3).fits(GRU_GATES));
        assert!(!of(&[0, 2, 4], &[2, 3], 9).fits(GRU_GATES));
    }

    #[test]
    fn lists_have_their_length() {
        let list = [tensor(&[2]), tensor(&[3])];
        let [first, second] = tensors_of(&Value::Tensors(&list)).expect("two tensors");
        assert_eq!((first.sizes(), second.sizes()), (&[2][..], &[3][..]));
        let refusal = Refusal::Invalid("expected 3 tensors, but got 2".into());
        assert_eq!(tensors_of::<3>(&Value::Tensors(&list)).unwrap_err(), refusal);
    }
}
