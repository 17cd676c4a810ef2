//! Multi-layer recurrent networks over whole sequences: `torch.lstm`, `gru`, `rnn_tanh` and `rnn_relu`. PyTorch's composite
//! implementation serves other cases and raises the errors. Everything is done by operators, including views, so that autograd
//! records it.

use std::iter;
use std::slice;

use smallvec::SmallVec;

use super::call::{Arguments, Call, Outcome, Refusal, Tensors, Value};
use super::names::{self, Callee};
use super::recurrent_layers::{ELMAN_GATES, GRU_GATES, LSTM_GATES};
use super::tensors::{Format, Tensor};
use crate::tensor::dtype::FLOATING;
use crate::tensor::launch::Scalar;

fn integer(value: usize) -> Value<'static> {
    Value::Number(Scalar::Long(value as i64))
}

fn flag(value: bool) -> Value<'static> {
    Value::Number(Scalar::Bool(value))
}

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
    fn new(arguments: &Arguments<'a>) -> Result<Self, Refusal> {
        let [input, states, params, has_biases, layers, dropout, train, bidirectional, batch_first] = arguments.all()?;
        Ok(Self {
            input: input.tensor()?,
            states: if let Value::Tensor(state) = states { slice::from_ref(state) } else { states.tensors()? },
            params: params.tensors()?,
            params_of_cell: if has_biases.flag()? { 4 } else { 2 },
            layers: layers.integer()?.max(0) as usize,
            dropout: if train.flag()? { dropout.double()? } else { 0.0 },
            directions: if bidirectional.flag()? { 2 } else { 1 },
            batch_first: batch_first.flag()?,
        })
    }

    fn cells(&self) -> usize {
        self.layers * self.directions
    }

    /// True if rustdev's layers, with this number of gates and states, can compute every layer.
    fn fits(&self, gates: i64, states: usize) -> bool {
        let (device, dtype) = (self.input.device(), self.input.dtype());
        let is_alike = |tensor: &Tensor<'_>| tensor.device() == device && tensor.dtype() == dtype && tensor.numel() > 0;
        let mut all = iter::once(&self.input).chain(self.states).chain(self.params);
        device >= 0 && FLOATING.contains(dtype) && self.states.len() == states && all.all(is_alike) && self.sizes_fit(gates)
    }

    fn sizes_fit(&self, gates: i64) -> bool {
        let (&[outer, inner, inputs], &[_, _, size]) = (self.input.sizes(), self.states[0].sizes()) else { return false };
        let (batch, wide) = (if self.batch_first { outer } else { inner }, gates * size);
        let fits = |(cell, params): (usize, &[Tensor<'_>])| {
            let inputs = if cell < self.directions { inputs } else { self.directions as i64 * size };
            let mut biases = params[2..].iter();
            params[0].sizes() == [wide, inputs] && params[1].sizes() == [wide, size] && biases.all(|bias| bias.sizes() == [wide])
        };
        self.states.iter().all(|state| state.sizes() == [self.cells() as i64, batch, size])
            && self.params.len() == self.cells() * self.params_of_cell
            && self.params.chunks_exact(self.params_of_cell).enumerate().all(fits)
    }

    /// Makes the output and the final states.
    fn run(&self, layer: &Callee, call: &Call<'a>) -> Outcome {
        let mut sequence = self.transposed(call, self.input)?;
        let mut last: SmallVec<[Tensors<'a>; 2]> = self.states.iter().map(|_| Tensors::new()).collect();
        for number in 0..self.layers {
            sequence = call.dense(sequence, Format::Contiguous)?;
            let mut outputs = Tensors::new();
            for direction in 0..self.directions {
                let results = self.cell(layer, call, sequence, number * self.directions + direction)?;
                outputs.push(results[0]);
                last.iter_mut().zip(&results[1..]).for_each(|(last, state)| last.push(*state));
            }
            sequence = self.between(call, &outputs, number + 1 == self.layers)?;
        }
        call.give(0, self.transposed(call, sequence)?)?;
        for (index, last) in last.iter().enumerate() {
            call.give(1 + index, call.operator(&names::STACK, &[Value::Tensors(last), integer(0)])?)?;
        }
        Ok(())
    }

    /// Exchanges steps and batch if the batch comes first.
    fn transposed(&self, call: &Call<'a>, sequence: Tensor<'a>) -> Result<Tensor<'a>, Refusal> {
        if !self.batch_first {
            return Ok(sequence);
        }
        call.operator(&names::TRANSPOSE, &[Value::Tensor(sequence), integer(0), integer(1)])
    }

    /// The output and the final states of a layer in one direction.
    fn cell(&self, layer: &Callee, call: &Call<'a>, sequence: Tensor<'a>, cell: usize) -> Result<Tensors<'a>, Refusal> {
        let dense = |tensor| call.dense(tensor, Format::Contiguous);
        let mut weights: SmallVec<[Tensor<'a>; 4]> = self.params[cell * self.params_of_cell..][..self.params_of_cell].into();
        weights[1] = dense(weights[1])?;
        let of_cell = |state: &Tensor<'a>| {
            let state = call.operator(&names::SELECT, &[Value::Tensor(*state), integer(0), integer(cell)])?;
            dense(state)
        };
        let states = self.states.iter().map(of_cell).collect::<Result<Tensors<'a>, Refusal>>()?;
        let reverse = flag(cell % self.directions == 1);
        let operands = [Value::Tensor(sequence), Value::Tensors(&weights), Value::Tensors(&states), reverse];
        call.operators(layer, &operands, 1 + states.len())
    }

    /// The input of the next layer, from the outputs of each direction.
    fn between(&self, call: &Call<'a>, outputs: &[Tensor<'a>], is_last: bool) -> Result<Tensor<'a>, Refusal> {
        let sequence = match outputs {
            [only] => *only,
            _ => call.operator(&names::CAT, &[Value::Tensors(outputs), integer(2)])?,
        };
        if self.dropout == 0.0 || is_last {
            return Ok(sequence);
        }
        let share = Value::Number(Scalar::Double(self.dropout));
        call.operator(&names::DROPOUT, &[Value::Tensor(sequence), share, flag(true)])
    }
}

/// Runs a network of layers with this number of gates and states.
fn run(arguments: &Arguments<'_>, call: &Call<'_>, layer: &Callee, gates: i64, states: usize) -> Outcome {
    let network = Network::new(arguments)?;
    if network.fits(gates, states) { network.run(layer, call) } else { Err(Refusal::Composite) }
}

pub fn lstm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    run(arguments, call, &names::LSTM_LAYER, LSTM_GATES, 2)
}

pub fn gru(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    run(arguments, call, &names::GRU_LAYER, GRU_GATES, 1)
}

pub fn rnn_tanh(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    run(arguments, call, &names::RNN_TANH_LAYER, ELMAN_GATES, 1)
}

pub fn rnn_relu(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    run(arguments, call, &names::RNN_RELU_LAYER, ELMAN_GATES, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dtype::DType;

    fn tensor(sizes: &[i64], dtype: DType) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    /// True if two bidirectional GRU layers of size 3 fit, with `inputs` inputs and a last bias of size `bias`.
    fn fits(inputs: i64, bias: i64, dtype: DType) -> bool {
        let of_layer = |inputs| [vec![9, inputs], vec![9, 3], vec![9], vec![9]];
        let mut sizes = [of_layer(inputs), of_layer(inputs), of_layer(6), of_layer(6)].concat();
        sizes[15] = vec![bias];
        let params: Vec<_> = sizes.iter().map(|sizes| tensor(sizes, DType::Float)).collect();
        let yes = Value::Number(Scalar::Bool(true));
        let (input, state) = (Value::Tensor(tensor(&[2, 5, 4], dtype)), Value::Tensor(tensor(&[4, 2, 3], DType::Float)));
        let dropout = Value::Number(Scalar::Double(0.0));
        let values = [input, state, Value::Tensors(&params), yes, integer(2), dropout, yes, yes, yes];
        Network::new(&Arguments::new(&values)).expect("a network").fits(GRU_GATES, 1)
    }

    #[test]
    fn layers_of_other_sizes_or_dtypes_do_not_fit() {
        assert!(fits(4, 9, DType::Float));
        assert!(!fits(5, 9, DType::Float) && !fits(4, 8, DType::Float) && !fits(4, 9, DType::Double));
    }
}
