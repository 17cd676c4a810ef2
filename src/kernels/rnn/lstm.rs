//! A layer of an LSTM over a whole sequence, forward and backward.

#![forbid(unsafe_code)]

use super::formulas::{LSTM_GATES as GATES, gates, gates_mut, lstm_step, lstm_step_backward};
use super::sequence::{Factor, Layer, cost, layers, load, load_back, row, store, target, transposed_weight, weight};
use crate::kernels::signature::signature;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::Memory;
use crate::tensor::number::{Number, Real};

signature! {
    lstm_layer(out, cells, gates, weight, hx, cx)[reverse] in FLOATING;
    lstm_layer_backward(grad_gates, grad_hx, grad_cx, grad_out, gates, cells, cx, weight)[reverse] in FLOATING;
}

/// Computes a row of one step. On entry the gates hold the sums of the inputs, on return the activated gates.
struct Forward<'a, E: Element, P> {
    gates: [&'a mut [E]; GATES],
    products: [&'a [P]; GATES],
    cell: &'a mut [E::Acc],
    hidden: &'a mut [P],
    cells: &'a mut [E],
    out: &'a mut [E],
}

impl<E: Element<Acc: Real>, P: Element<Acc = E::Acc>> Leaf for Forward<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // The compiler omits bounds checks of slices that it knows to have equal lengths.
        let size = self.cell.len();
        let [in_i, in_f, in_g, in_o] = self.gates.map(|gate| &mut gate[..size]);
        let [from_i, from_f, from_g, from_o] = self.products.map(|gate| &gate[..size]);
        let (hidden, cells, out) = (&mut self.hidden[..size], &mut self.cells[..size], &mut self.out[..size]);
        for at in 0..size {
            let sums = [
                in_i[at].load().add(from_i[at].load()),
                in_f[at].load().add(from_f[at].load()),
                in_g[at].load().add(from_g[at].load()),
                in_o[at].load().add(from_o[at].load()),
            ];
            let ([i, f, g, o], cell, new_hidden) = lstm_step(sums, self.cell[at]);
            self.cell[at] = cell;
            cells[at] = E::store(cell);
            out[at] = E::store(new_hidden);
            hidden[at] = P::store(out[at].load());
            in_i[at] = E::store(i);
            in_f[at] = E::store(f);
            in_g[at] = E::store(g);
            in_o[at] = E::store(o);
        }
    }
}

layers! {
    /// The recurrent part of a layer. Operands [out, cells, gates, weight, hx, cx], contiguous and of one dtype: out and cells
    /// [steps, batch, size]; gates [steps, batch, 4 size], on entry the sums of the inputs and both biases, then the activated
    /// gates; weight [4 size, size], of the hidden state; hx and cx [batch, size]. Scalars [reverse]: from the last step to the
    /// first.
    lstm_layer, 0, forward;
}

fn forward<E: Element<Acc: Real>, P: Factor<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), Error> {
    let Layer { steps, size, .. } = layer;
    let wide = GATES * size;
    let mut weight = transposed_weight::<E, P>(&launch.view(3), wide, size)?;
    let weight: &[P] = weight.numbers(P::prepared_len([size, wide]));
    let outputs = [(launch.output(0)?, 1), (launch.output(1)?, 1), (launch.output(2)?, 1)];
    layer.for_parts(outputs, cost(launch), &|begin, end, [mut out, mut cells, mut gates]| {
        let rows = end - begin;
        let mut memory = [wide, size].map(|cols| Memory::of(rows * cols * size_of::<P>()));
        let [products, hidden] = memory.each_mut();
        let (products, hidden) = (products.numbers::<P>(rows * wide), hidden.numbers::<P>(rows * size));
        let mut memory = Memory::of(rows * size * size_of::<E::Acc>());
        let cell = memory.numbers::<E::Acc>(rows * size);
        load::<E, P>(&launch.view(4), begin, hidden, size)?;
        load::<E, E::Acc>(&launch.view(5), begin, cell, size)?;
        for position in (0..steps).map(|number| layer.position(number)) {
            P::multiply([rows, wide, size], products, hidden, weight)?;
            for (number, (cell, hidden)) in cell.chunks_exact_mut(size).zip(hidden.chunks_exact_mut(size)).enumerate() {
                let index = [position, number];
                vectorize(Forward {
                    gates: gates_mut(target::<E>(gates.row_mut(&index))?, size),
                    products: self::gates(&products[number * wide..], size),
                    cell,
                    hidden,
                    cells: target(cells.row_mut(&index))?,
                    out: target(out.row_mut(&index))?,
                });
            }
        }
        Ok(())
    })
}

/// Computes a row of one step of the gradient.
struct Backward<'a, E: Element, P> {
    grad_gates: [&'a mut [E]; GATES],
    grad_sums: [&'a mut [P]; GATES],
    grad_cell: &'a mut [E::Acc],
    grad_hidden: &'a [P],
    grad_out: &'a [E],
    gates: [&'a [E]; GATES],
    cx: &'a [E],
    cy: &'a [E],
}

impl<E: Element<Acc: Real>, P: Element<Acc = E::Acc>> Leaf for Backward<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.grad_cell.len();
        let [out_i, out_f, out_g, out_o] = self.grad_gates.map(|gate| &mut gate[..size]);
        let [to_i, to_f, to_g, to_o] = self.grad_sums.map(|gate| &mut gate[..size]);
        let [in_i, in_f, in_g, in_o] = self.gates.map(|gate| &gate[..size]);
        let (grad_hidden, grad_out) = (&self.grad_hidden[..size], &self.grad_out[..size]);
        let (cx, cy) = (&self.cx[..size], &self.cy[..size]);
        for at in 0..size {
            let activated = [in_i[at].load(), in_f[at].load(), in_g[at].load(), in_o[at].load()];
            let grad_h = grad_hidden[at].load().add(grad_out[at].load());
            let ([i, f, g, o], cell) = lstm_step_backward(grad_h, self.grad_cell[at], activated, cx[at].load(), cy[at].load());
            self.grad_cell[at] = cell;
            out_i[at] = E::store(i);
            out_f[at] = E::store(f);
            out_g[at] = E::store(g);
            out_o[at] = E::store(o);
            to_i[at] = P::store(out_i[at].load());
            to_f[at] = P::store(out_f[at].load());
            to_g[at] = P::store(out_g[at].load());
            to_o[at] = P::store(out_o[at].load());
        }
    }
}

layers! {
    /// The gradient of [`lstm_layer`]. Operands [grad of gates, grad of hx, grad of cx, grad of out, gates, cells, cx, weight],
    /// contiguous, of one dtype and sized as there, the gates activated. On entry grad of hx and grad of cx hold the gradients of
    /// the last hidden and cell state. Scalars [reverse], as there.
    lstm_layer_backward, 3, backward;
}

fn backward<E: Element<Acc: Real>, P: Factor<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), Error> {
    let Layer { steps, size, .. } = layer;
    let wide = GATES * size;
    let mut weight = weight::<E, P>(&launch.view(7), wide, size)?;
    let weight: &[P] = weight.numbers(P::prepared_len([wide, size]));
    let outputs = [(launch.output(0)?, 1), (launch.output(1)?, 0), (launch.output(2)?, 0)];
    layer.for_parts(outputs, cost(launch), &|begin, end, [mut grad_gates, mut grad_hx, mut grad_cx]| {
        let [grad_out, gates, cells, cx] = [3, 4, 5, 6].map(|operand| launch.view(operand));
        let rows = end - begin;
        let mut memory = [wide, size].map(|cols| Memory::of(rows * cols * size_of::<P>()));
        let [grad_sums, grad_hidden] = memory.each_mut();
        let (grad_sums, grad_hidden) = (grad_sums.numbers::<P>(rows * wide), grad_hidden.numbers::<P>(rows * size));
        let mut memory = Memory::of(rows * size * size_of::<E::Acc>());
        let grad_cell = memory.numbers::<E::Acc>(rows * size);
        load_back::<E, P>(&grad_hx, grad_hidden, size)?;
        load_back::<E, E::Acc>(&grad_cx, grad_cell, size)?;
        for number in (0..steps).rev() {
            for (row_of_part, grad_cell) in grad_cell.chunks_exact_mut(size).enumerate() {
                let index = [layer.position(number), begin + row_of_part];
                let before = match number {
                    0 => row::<E>(&cx, &[index[1]])?,
                    _ => row::<E>(&cells, &[layer.position(number - 1), index[1]])?,
                };
                vectorize(Backward {
                    grad_gates: gates_mut(target::<E>(grad_gates.row_mut(&[index[0], row_of_part]))?, size),
                    grad_sums: gates_mut(&mut grad_sums[row_of_part * wide..][..wide], size),
                    grad_cell,
                    grad_hidden: &grad_hidden[row_of_part * size..][..size],
                    grad_out: row(&grad_out, &index)?,
                    gates: self::gates(row(&gates, &index)?, size),
                    cx: before,
                    cy: row(&cells, &index)?,
                });
            }
            P::multiply([rows, size, wide], grad_hidden, grad_sums, weight)?;
        }
        store::<E, P>(&mut grad_hx, grad_hidden, size)?;
        store::<E, E::Acc>(&mut grad_cx, grad_cell, size)
    })
}

#[cfg(test)]
mod tests {
    use super::super::rnn_tests::{SIZE, STEPS, assert_gradients, copy, empty, given, position, product, real, sigmoid};
    use crate::kernels::check::{self, Tensor};
    use crate::tensor::dtype::{DType, FLOATING};
    use crate::tensor::launch::Scalar;

    /// The [out, cells, gates] of a layer.
    fn forward(dtype: DType, batch: usize, reverse: bool, sums: &Tensor, weight: &Tensor, states: [&Tensor; 2]) -> [Tensor; 3] {
        let of_steps = || empty(dtype, &[STEPS, batch, SIZE]);
        let results = [of_steps(), of_steps(), copy(sums, dtype)];
        let operands = [weight, states[0], states[1]];
        check::run("lstm_layer", &results.each_ref(), &operands, &[Scalar::Bool(reverse)], dtype).unwrap();
        results
    }

    #[test]
    fn a_layer_is_its_cells_one_after_the_other() {
        for dtype in FLOATING.iter() {
            for (batch, reverse) in [(1, false), (9, true), (70, false)] {
                let sums = given(dtype, &[STEPS, batch, 4 * SIZE], 1);
                let weight = given(dtype, &[4 * SIZE, SIZE], 2);
                let (hx, cx) = (given(dtype, &[batch, SIZE], 3), given(dtype, &[batch, SIZE], 4));
                let results = forward(dtype, batch, reverse, &sums, &weight, [&hx, &cx]);
                let [out, cells, gates] = results.each_ref().map(real);
                let (sums, weight, mut hidden, mut cell) = (real(&sums), real(&weight), real(&hx), real(&cx));
                let tolerance = 8.0 * check::tolerance(dtype);
                for number in 0..STEPS {
                    let step = position(number, reverse);
                    let before = hidden.clone();
                    for (row, at) in (0..batch).flat_map(|row| (0..SIZE).map(move |at| (row, at))) {
                        let sum = |gate: usize| sums[[step, row, gate * SIZE + at]] + product(&weight, &before, row, gate, at);
                        let expected = [sigmoid(sum(0)), sigmoid(sum(1)), sum(2).tanh(), sigmoid(sum(3))];
                        for (gate, expected) in expected.into_iter().enumerate() {
                            let found = gates[[step, row, gate * SIZE + at]];
                            assert!((found - expected).abs() <= tolerance, "{dtype:?} {batch} {number}: {found} != {expected}");
                        }
                        cell[[row, at]] = expected[1] * cell[[row, at]] + expected[0] * expected[2];
                        hidden[[row, at]] = expected[3] * cell[[row, at]].tanh();
                        for (found, expected) in [(&cells, &cell), (&out, &hidden)] {
                            let (found, expected) = (found[[step, row, at]], expected[[row, at]]);
                            assert!((found - expected).abs() <= tolerance, "{dtype:?} {batch} {number}: {found} != {expected}");
                        }
                        // Errors do not accumulate from step to step.
                        cell[[row, at]] = cells[[step, row, at]];
                        hidden[[row, at]] = out[[step, row, at]];
                    }
                }
            }
        }
    }

    #[test]
    fn gradients_are_difference_quotients() {
        let (dtype, batch) = (DType::Double, 9);
        for reverse in [false, true] {
            let sums = given(dtype, &[STEPS, batch, 4 * SIZE], 1);
            let weight = given(dtype, &[4 * SIZE, SIZE], 2);
            let states = [given(dtype, &[batch, SIZE], 3), given(dtype, &[batch, SIZE], 4)];
            let grads = [given(dtype, &[STEPS, batch, SIZE], 5), given(dtype, &[batch, SIZE], 6), given(dtype, &[batch, SIZE], 7)];
            let [by_out, by_hy, by_cy] = grads.each_ref().map(real);
            let loss = |by: &[Tensor]| {
                let [out, cells, _] = forward(dtype, batch, reverse, &by[0], &weight, [&by[1], &by[2]]).each_ref().map(real);
                let of_ends = |((index, out), cell): ((ndarray::IxDyn, &f64), &f64)| {
                    let is_last = index[0] == position(STEPS - 1, reverse);
                    if is_last { by_hy[[index[1], index[2]]] * out + by_cy[[index[1], index[2]]] * cell } else { 0.0 }
                };
                (&out * &by_out).sum() + out.indexed_iter().zip(&cells).map(of_ends).sum::<f64>()
            };
            let [_, cells, gates] = forward(dtype, batch, reverse, &sums, &weight, states.each_ref());
            let results = [empty(dtype, &[STEPS, batch, 4 * SIZE]), copy(&grads[1], dtype), copy(&grads[2], dtype)];
            let operands = [&grads[0], &gates, &cells, &states[1], &weight];
            check::run("lstm_layer_backward", &results.each_ref(), &operands, &[Scalar::Bool(reverse)], dtype).unwrap();
            assert_gradients(&[&sums, &states[0], &states[1]], &results.each_ref(), loss);
        }
    }
}
