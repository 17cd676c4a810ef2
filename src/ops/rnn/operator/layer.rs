//! LSTM, GRU and Elman layers over whole sequences, in one direction, and `torch.lstm`, `gru`, `rnn_tanh` and `rnn_relu`, networks
//! of them. One product handles the inputs of all steps, and one kernel loops over the steps. The layers are operators of rustdev's
//! own library, with autograd in `shim/ops/rnn_layers.cpp`.

use std::ffi::CStr;
use std::{iter, slice};

use smallvec::{SmallVec, smallvec};

use super::cell::{LSTM_GATES, of_sum, of_two, sum_of_rows};
use crate::call::callees::Callee;
use crate::call::prelude::*;
use crate::call::tensor_lists::List;

operators! {
    c"lstm_layer": plain(forward::<LSTM>) => c"rustdev::lstm_layer";
    c"lstm_layer_backward": plain(backward::<LSTM>) => c"rustdev::lstm_layer_backward";
    c"gru_layer": plain(forward::<GRU>) => c"rustdev::gru_layer";
    c"gru_layer_backward": plain(backward::<GRU>) => c"rustdev::gru_layer_backward";
    c"elman_layer": plain(forward::<RNN_TANH>) => c"rustdev::rnn_tanh_layer";
    c"elman_layer_backward": plain(backward::<RNN_TANH>) => c"rustdev::rnn_tanh_layer_backward";
    c"elman_layer": plain(forward::<RNN_RELU>) => c"rustdev::rnn_relu_layer";
    c"elman_layer_backward": plain(backward::<RNN_RELU>) => c"rustdev::rnn_relu_layer_backward";
    _: any_device(plain(network::<LSTM>)) => c"lstm.input";
    _: any_device(plain(network::<GRU>)) => c"gru.input";
    _: any_device(plain(network::<RNN_TANH>)) => c"rnn_tanh.input";
    _: any_device(plain(network::<RNN_RELU>)) => c"rnn_relu.input";
}

/// `weights`: weights of the inputs and of the hidden state, then both biases, if any. `states`: the hidden state and, for an
/// LSTM, the cell state. Results: the output, the final states (views of other results), and intermediate values for the
/// gradients.
const LSTM_SCHEMA: &CStr =
    c"(Tensor input, Tensor[] weights, Tensor[] states, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)";
const GRU_SCHEMA: &CStr = c"(Tensor input, Tensor[] weights, Tensor[] states, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)";
const ELMAN_SCHEMA: &CStr = c"(Tensor input, Tensor[] weights, Tensor[] states, bool reverse) -> (Tensor, Tensor)";
/// `grads`: gradients of the output and of the final states. `results`: those of the layer without the final states. Returns
/// the gradients of the input and the weights, as far as they are requested, and of the states.
const BACKWARD_SCHEMA: &CStr = c"(Tensor[] grads, Tensor input, Tensor[] weights, Tensor[] states, Tensor[] results, \
    bool reverse, bool[] output_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)";

pub static DEFINITIONS: [(&CStr, &CStr); 8] = [
    (c"rustdev::lstm_layer", LSTM_SCHEMA),
    (c"rustdev::lstm_layer_backward", BACKWARD_SCHEMA),
    (c"rustdev::gru_layer", GRU_SCHEMA),
    (c"rustdev::gru_layer_backward", BACKWARD_SCHEMA),
    (c"rustdev::rnn_tanh_layer", ELMAN_SCHEMA),
    (c"rustdev::rnn_tanh_layer_backward", BACKWARD_SCHEMA),
    (c"rustdev::rnn_relu_layer", ELMAN_SCHEMA),
    (c"rustdev::rnn_relu_layer_backward", BACKWARD_SCHEMA),
];

/// What differs between layers.
pub struct Kind {
    pub operator: &'static Callee,
    pub gates: i64,
    pub states: usize,
}

/// The indices of [`KINDS`].
pub const LSTM: usize = 0;
pub const GRU: usize = 1;
pub const RNN_TANH: usize = 2;
pub const RNN_RELU: usize = 3;

pub static KINDS: [Kind; 4] = [
    Kind { operator: &callees::LSTM_LAYER, gates: LSTM_GATES, states: 2 },
    Kind { operator: &callees::GRU_LAYER, gates: 3, states: 1 },
    Kind { operator: &callees::RNN_TANH_LAYER, gates: 1, states: 1 },
    Kind { operator: &callees::RNN_RELU_LAYER, gates: 1, states: 1 },
];

impl Kind {
    /// True if these are weights [gates * size, inputs] and [gates * size, size], and biases [gates * size].
    pub fn fits(&self, weights: &[Tensor<'_>], inputs: i64, size: i64) -> bool {
        let wide = self.gates * size;
        let [input_weight, weight, biases @ ..] = weights else { return false };
        input_weight.sizes() == [wide, inputs] && weight.sizes() == [wide, size] && biases.iter().all(|bias| bias.sizes() == [wide])
    }
}

/// A contiguous tensor [steps, batch, size] as [steps * batch, size].
fn rows_of(sequence: Tensor<'_>) -> Tensor<'_> {
    let size = sequence.size_from_end(0);
    sequence.view(&[sequence.numel() / size, size])
}

/// The tensors, copied if they are not contiguous.
fn all_dense<'a>(call: &Call<'a>, tensors: &[Tensor<'a>]) -> Result<Tensors<'a>, CallError> {
    tensors.iter().map(|&tensor| call.dense(tensor, Format::Contiguous)).collect()
}

/// The input, the weights, the states, and whether the steps are reversed.
type Operands<'a> = (Tensor<'a>, List<'a>, List<'a>, bool);

/// A layer: input [steps, batch, inputs], weights and biases as [`Kind::fits`] requires, states [batch, size]. The weight of the
/// inputs need not be contiguous.
struct Layer<'a> {
    input: Tensor<'a>,
    input_weight: Tensor<'a>,
    weight: Tensor<'a>,
    biases: Option<[Tensor<'a>; 2]>,
    states: Tensors<'a>,
    reverse: bool,
}

impl<'a> Layer<'a> {
    fn new(call: &Call<'a>, kind: &Kind, (input, weights, states, reverse): Operands<'a>) -> Result<Self, CallError> {
        let is_layer = match (input.sizes(), weights) {
            (&[_, batch, inputs], [_, weight] | [_, weight, _, _]) => {
                let size = weight.sizes().last().copied().unwrap_or(0);
                let mut sizes = states.iter().map(|state| state.sizes());
                input.numel() * size > 0
                    && kind.fits(weights, inputs, size)
                    && states.len() == kind.states
                    && sizes.all(|sizes| sizes == [batch, size])
            }
            _ => false,
        };
        ensure!(is_layer, "expected a layer of {} gates, but got sizes that do not go together", kind.gates);
        Ok(Self {
            input: call.dense(input, Format::Contiguous)?,
            input_weight: weights[0],
            weight: call.dense(weights[1], Format::Contiguous)?,
            biases: weights[2..].try_into().ok(),
            states: all_dense(call, states)?,
            reverse,
        })
    }

    fn dtype(&self) -> DType {
        self.input.dtype()
    }

    /// The sizes of a tensor [steps, batch, `size`].
    fn sizes(&self, size: i64) -> [i64; 3] {
        [self.input.sizes()[0], self.input.sizes()[1], size]
    }

    /// Output number `index`, [steps, batch, size].
    fn result(&self, call: &Call<'a>, index: usize) -> Result<Tensor<'a>, CallError> {
        call.contiguous(index, &self.sizes(self.weight.sizes()[1]), self.dtype(), Strides::Any)
    }

    /// Rows [steps * batch, size] as [steps, batch, size].
    fn of_steps(&self, rows: Tensor<'a>) -> Tensor<'a> {
        rows.view(&self.sizes(rows.size_from_end(0)))
    }

    /// The scalars of the kernels.
    fn scalars<const KIND: usize>(&self) -> [Scalar; 2] {
        [self.reverse.into(), (KIND == RNN_RELU).into()]
    }

    /// Makes the remaining gradients from those of the input products and of the hidden state's products.
    fn give_others(&self, call: &Call<'a>, grads: [Tensor<'a>; 2], out: Tensor<'a>, mask: &[bool]) -> Outcome {
        let ([of_sums, of_products], needs) = (grads, |index: usize| mask.get(index).copied().unwrap_or(false));
        let rows = rows_of(of_sums);
        if needs(0) {
            call.give(0, of_two(call, &callees::MM, rows, self.input_weight)?.view(self.input.sizes()))?;
        }
        if needs(1) {
            call.give(1, of_two(call, &callees::MM, rows.with_last(0), rows_of(self.input))?)?;
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
    fn grad_of_weight(&self, call: &Call<'a>, of_products: Tensor<'a>, out: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
        let others = out.sizes()[0] - 1;
        let first = of_products.row(if self.reverse { others } else { 0 });
        let grad = of_two(call, &callees::MM, first.with_last(0), self.states[0])?;
        if others == 0 {
            return Ok(grad);
        }
        let of_later = rows_of(of_products.section(0, i64::from(!self.reverse), others));
        let earlier = rows_of(out.section(0, i64::from(self.reverse), others));
        let operands = [grad.into(), of_later.with_last(0).into(), earlier.into(), 1.into(), 1.into()];
        call.operator(&callees::ADDMM_IN_PLACE, &operands)
    }
}

/// A layer's output, its final states, and intermediate values: none for an Elman layer; the cell states, or the products that the
/// reset gate scales, and the activated gates.
pub fn forward<const KIND: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (kind, layer) = (&KINDS[KIND], Layer::new(call, &KINDS[KIND], arguments.typed()?)?);
    // The reset gate scales the product of the hidden state and its bias.
    let (bias, own_bias) = match layer.biases {
        Some([input_bias, bias]) if KIND == GRU => (Some(input_bias), Some(call.dense(bias, Format::Contiguous)?)),
        None if KIND == GRU => (None, Some(call.zeros(&layer.weight.sizes()[..1], layer.dtype())?)),
        biases => (biases.map(|[input_bias, bias]| of_sum(call, &callees::ADD, input_bias, bias)).transpose()?, None),
    };
    // The products of the inputs and their weights.
    let bias = bias.map_or(Value::None, Value::Tensor);
    let sums = call.operator(&callees::LINEAR, &[rows_of(layer.input).into(), layer.input_weight.into(), bias])?;
    let gates = layer.of_steps(sums);
    let outputs: Tensors<'_> = if kind.gates == 1 {
        smallvec![gates]
    } else {
        smallvec![layer.result(call, 0)?, layer.result(call, 1 + kind.states)?, gates]
    };
    let inputs: SmallVec<[_; 3]> = [layer.weight].into_iter().chain(layer.states.iter().copied()).chain(own_bias).collect();
    call.launch(&outputs, &inputs, &layer.scalars::<KIND>())?;
    for (index, sequence) in outputs.iter().take(kind.states).enumerate() {
        let last = if layer.reverse { 0 } else { sequence.sizes()[0] - 1 };
        call.give(1 + index, sequence.row(last))?;
    }
    if kind.gates == 1 { call.give(0, gates) } else { call.give(2 + kind.states, sums) }
}

pub fn backward<const KIND: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grads, input, weights, states, results, reverse, mask): (List<'_>, _, _, _, List<'_>, _, _) = arguments.typed()?;
    let (kind, layer) = (&KINDS[KIND], Layer::new(call, &KINDS[KIND], (input, weights, states, reverse))?);
    let results = all_dense(call, results)?;
    ensure!(grads.len() == 1 + kind.states, "expected {} gradients of a layer, but got {}", 1 + kind.states, grads.len());
    let mut inputs: SmallVec<[_; 6]> = smallvec![layer.weight, call.dense(grads[0], Format::Contiguous)?];
    match results[..] {
        [out] if kind.gates == 1 => inputs.push(out),
        // Last come the states that the gradient reads from before each step: those of the cell or the hidden ones.
        [_, saved, gates] if kind.gates > 1 => {
            let last = kind.states - 1;
            inputs.extend([saved, layer.of_steps(gates), layer.states[last], results[last]]);
        }
        _ => return Err(CallError::Invalid(format!("expected the results of a layer, but got {}", results.len()))),
    }
    // In a GRU, the gradients of the inputs' products and of the hidden state's products differ.
    let count = if KIND == GRU { 2 } else { 1 };
    let [steps, batch, wide] = layer.sizes(layer.weight.sizes()[0]);
    let of_products = call.empty(&[count, steps, batch, wide], layer.dtype())?;
    let mut outputs: SmallVec<[_; 3]> = (0..count).map(|index| of_products.row(index)).collect();
    for (index, grad_of_last) in grads[1..].iter().enumerate() {
        let place = if layer.biases.is_some() { 5 } else { 3 } + index;
        let grad = call.contiguous(place, layer.states[index].sizes(), layer.dtype(), Strides::Any)?;
        // Until the kernel runs, the gradient of a state holds that of the final state.
        call.copy(grad, *grad_of_last)?;
        outputs.push(grad);
    }
    call.launch(&outputs, &inputs, &layer.scalars::<KIND>())?;
    layer.give_others(call, [outputs[0], of_products.row(count - 1)], results[0], mask)
}

// ---- networks: PyTorch's composite implementation serves other cases and raises the errors. Everything is done by operators,
// including views, so that autograd records it. ----

/// A network: input [steps, batch, inputs], states [cells, batch, size], parameters of each cell.
struct Network<'a> {
    input: Tensor<'a>,
    states: &'a [Tensor<'a>],
    params: &'a [Tensor<'a>],
    params_of_cell: usize,
    layers: usize,
    /// 0 if there is none.
    dropout: f64,
    directions: usize,
    batch_first: bool,
}

impl<'a> Network<'a> {
    fn new(arguments: &Arguments<'a>) -> Result<Self, CallError> {
        let [input, states, params, has_biases, layers, dropout, train, bidirectional, batch_first] = arguments.all()?;
        Ok(Self {
            input: input.get()?,
            states: if let Value::Tensor(state) = states { slice::from_ref(state) } else { states.get()? },
            params: params.get()?,
            params_of_cell: if has_biases.get()? { 4 } else { 2 },
            layers: layers.get::<i64>()?.max(0) as usize,
            dropout: if train.get()? { dropout.get()? } else { 0.0 },
            directions: if bidirectional.get()? { 2 } else { 1 },
            batch_first: batch_first.get()?,
        })
    }

    /// True if rustdev's layers of this kind can compute every layer.
    fn fits(&self, kind: &Kind) -> bool {
        let cells = self.layers * self.directions;
        let (device, dtype) = (self.input.device(), self.input.dtype());
        let is_alike = |tensor: &Tensor<'_>| tensor.device() == device && tensor.dtype() == dtype && tensor.numel() > 0;
        let mut all = iter::once(&self.input).chain(self.states).chain(self.params);
        if device < 0 || !FLOATING.contains(dtype) || self.states.len() != kind.states || !all.all(is_alike) {
            return false;
        }
        let (&[outer, inner, inputs], &[_, _, size]) = (self.input.sizes(), self.states[0].sizes()) else { return false };
        let (batch, inputs_of_later) = (if self.batch_first { outer } else { inner }, self.directions as i64 * size);
        let inputs_of = |cell: usize| if cell < self.directions { inputs } else { inputs_of_later };
        let mut params = self.params.chunks_exact(self.params_of_cell).enumerate();
        self.states.iter().all(|state| state.sizes() == [cells as i64, batch, size])
            && self.params.len() == cells * self.params_of_cell
            && params.all(|(cell, params)| kind.fits(params, inputs_of(cell), size))
    }

    /// Makes the output and the final states.
    fn run(&self, kind: &Kind, call: &Call<'a>) -> Outcome {
        let mut sequence = self.transposed(call, self.input)?;
        let mut last: SmallVec<[Tensors<'a>; 2]> = self.states.iter().map(|_| Tensors::new()).collect();
        for number in 0..self.layers {
            sequence = call.dense(sequence, Format::Contiguous)?;
            let mut outputs = Tensors::new();
            for direction in 0..self.directions {
                let results = self.cell(kind, call, sequence, number * self.directions + direction)?;
                outputs.push(results[0]);
                last.iter_mut().zip(&results[1..]).for_each(|(last, state)| last.push(*state));
            }
            sequence = self.between(call, &outputs, number + 1 == self.layers)?;
        }
        call.give(0, self.transposed(call, sequence)?)?;
        for (index, last) in last.iter().enumerate() {
            call.give(1 + index, call.operator(&callees::STACK, &[Value::Tensors(last), 0.into()])?)?;
        }
        Ok(())
    }

    /// Exchanges steps and batch if the batch comes first.
    fn transposed(&self, call: &Call<'a>, sequence: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
        if !self.batch_first {
            return Ok(sequence);
        }
        call.operator(&callees::TRANSPOSE, &[Value::Tensor(sequence), 0.into(), 1.into()])
    }

    /// The output and the final states of a layer in one direction.
    fn cell(&self, kind: &Kind, call: &Call<'a>, sequence: Tensor<'a>, cell: usize) -> Result<Tensors<'a>, CallError> {
        let dense = |tensor| call.dense(tensor, Format::Contiguous);
        let mut weights: SmallVec<[Tensor<'a>; 4]> = self.params[cell * self.params_of_cell..][..self.params_of_cell].into();
        weights[1] = dense(weights[1])?;
        let of_cell = |state: &Tensor<'a>| {
            let state = call.operator(&callees::SELECT, &[Value::Tensor(*state), 0.into(), (cell as i64).into()])?;
            dense(state)
        };
        let states = self.states.iter().map(of_cell).collect::<Result<Tensors<'a>, CallError>>()?;
        let reverse = (cell % self.directions == 1).into();
        let operands = [Value::Tensor(sequence), Value::Tensors(&weights), Value::Tensors(&states), reverse];
        call.operators(kind.operator, &operands, 1 + states.len())
    }

    /// The input of the next layer, from the outputs of each direction.
    fn between(&self, call: &Call<'a>, outputs: &[Tensor<'a>], is_last: bool) -> Result<Tensor<'a>, CallError> {
        let sequence = match outputs {
            [only] => *only,
            _ => call.operator(&callees::CAT, &[Value::Tensors(outputs), 2.into()])?,
        };
        if self.dropout == 0.0 || is_last {
            return Ok(sequence);
        }
        call.operator(&callees::DROPOUT, &[sequence.into(), self.dropout.into(), true.into()])
    }
}

pub fn network<const KIND: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (network, kind) = (Network::new(arguments)?, &KINDS[KIND]);
    if network.fits(kind) { network.run(kind, call) } else { Err(CallError::Composite) }
}
