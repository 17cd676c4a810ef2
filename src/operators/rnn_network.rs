//! Multi-layer recurrent networks over whole sequences: `torch.lstm`, `gru`, `rnn_tanh` and `rnn_relu`. PyTorch's composite
//! implementation serves other cases and raises the errors. Everything is done by operators, including views, so that autograd
//! records it.

use std::iter;
use std::slice;

use smallvec::SmallVec;

use super::call::{Arguments, Call, CallError, Outcome, Tensors, Value};
use super::callees;
use super::rnn_layer::{KINDS, Kind};
use super::tensors::{Format, Tensor};
use crate::tensor::dtype::FLOATING;

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

    fn cells(&self) -> usize {
        self.layers * self.directions
    }

    /// True if rustdev's layers of this kind can compute every layer.
    fn fits(&self, kind: &Kind) -> bool {
        let (device, dtype) = (self.input.device(), self.input.dtype());
        let is_alike = |tensor: &Tensor<'_>| tensor.device() == device && tensor.dtype() == dtype && tensor.numel() > 0;
        let mut all = iter::once(&self.input).chain(self.states).chain(self.params);
        device >= 0 && FLOATING.contains(dtype) && self.states.len() == kind.states && all.all(is_alike) && self.sizes_fit(kind)
    }

    fn sizes_fit(&self, kind: &Kind) -> bool {
        let (&[outer, inner, inputs], &[_, _, size]) = (self.input.sizes(), self.states[0].sizes()) else { return false };
        let (batch, inputs_of_later) = (if self.batch_first { outer } else { inner }, self.directions as i64 * size);
        let inputs_of = |cell: usize| if cell < self.directions { inputs } else { inputs_of_later };
        let mut cells = self.params.chunks_exact(self.params_of_cell).enumerate();
        self.states.iter().all(|state| state.sizes() == [self.cells() as i64, batch, size])
            && self.params.len() == self.cells() * self.params_of_cell
            && cells.all(|(cell, params)| kind.fits(params, inputs_of(cell), size))
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

/// Runs a network of layers of this kind.
pub fn network<const KIND: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (network, kind) = (Network::new(arguments)?, &KINDS[KIND]);
    if network.fits(kind) { network.run(kind, call) } else { Err(CallError::Composite) }
}
