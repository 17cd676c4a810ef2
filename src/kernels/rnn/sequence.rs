//! A layer of an LSTM over a whole sequence, forward and backward: what depends on the step before. The products of all inputs, and the gradients
//! of weights and inputs, are matrix products of the caller's.
//!
//! The batch is divided over the threads, and each part goes through the whole sequence by itself: threads do not wait for each other at
//! a step. The parts depend on the shapes alone, so that results do not depend on the number of threads.

#![forbid(unsafe_code)]

use super::formulas::{GATES, gates, gates_mut, step, step_backward};
use crate::kernels::matmul;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{DType, Element, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::rows::Row;
use crate::tensor::loops::{Memory, parallel, strided};
use crate::tensor::number::{Number, Real};
use crate::tensor::view::View;

/// Rows of a part of the batch, at least, and parts, at most: each part reads all weights at each step.
const ROWS: usize = 4;
const PARTS: usize = 8;
/// Rows of a part from which on 16 bit floats are multiplied as they are. Below, their products are faster in float32.
const ROWS_16_BIT: usize = 16;

/// The sizes of a layer: operand `of_steps` is [steps, batch, size].
#[derive(Clone, Copy)]
struct Layer {
    steps: usize,
    batch: usize,
    size: usize,
    reverse: bool,
}

impl Layer {
    fn new(launch: &Launch<'_>, of_steps: usize) -> Result<Self, String> {
        let view = launch.view(of_steps);
        let [steps, batch, size] =
            <[i64; 3]>::try_from(view.sizes()).map_err(|_| "a sequence has three dimensions")?.map(|size| size as usize);
        if (0..launch.num_operands()).any(|operand| !launch.view(operand).is_contiguous()) {
            return Err("an operand of a layer has gaps".into());
        }
        Ok(Self { steps, batch, size, reverse: launch.scalar(0)?.to::<i64>() != 0 })
    }

    /// Rows of a part of the batch.
    fn rows_of_part(&self) -> usize {
        let parts = 1 << (self.batch / ROWS).clamp(1, PARTS).ilog2();
        self.batch.div_ceil(parts).max(1)
    }

    /// Where the step of that number lies in the sequence.
    fn place(&self, number: usize) -> usize {
        if self.reverse { self.steps - 1 - number } else { number }
    }

    /// Whether the products are made in the dtype that `E` computes in.
    fn widens<E: Element>(&self) -> bool {
        matches!(E::DTYPE, DType::Half | DType::BFloat16) && self.rows_of_part() < ROWS_16_BIT
    }

    /// Runs `body(begin, end)` for the parts of the batch.
    fn for_parts(&self, cost: u64, body: &(dyn Fn(usize, usize) -> Result<(), String> + Sync)) -> Result<(), String> {
        let failure = std::sync::Mutex::new(Ok(()));
        parallel(self.batch, self.rows_of_part(), cost as f64 / self.batch.max(1) as f64, &|begin, end| {
            if let Err(message) = body(begin, end) {
                *failure.lock().expect("no holder panics") = Err(message);
            }
        });
        failure.into_inner().expect("no holder panics")
    }
}

/// Nanoseconds of one thread that a layer takes, forward or backward.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let gates = (0..launch.num_outputs()).map(|output| launch.view(output).numel()).max().unwrap_or(0);
    let size = launch.view(1).sizes().last().copied().unwrap_or(1);
    (gates as f64 * (size as f64 * 0.02 + 1.0)) as u64
}

/// The elements of a row, by its index.
fn row<'a, E: Element>(view: &View<'_>, index: &[usize]) -> Result<&'a [E], String> {
    Row::of(view, index).as_slice().ok_or_else(|| "a row of a layer has gaps".to_owned())
}

fn target<'a, E: Element>(view: &View<'_>, index: &[usize]) -> Result<&'a mut [E], String> {
    Row::of(view, index).as_slice_mut().ok_or_else(|| "a row of a layer has gaps".to_owned())
}

/// `to = from`, rounded to `P`.
struct Convert<'a, E, P> {
    from: &'a [E],
    to: &'a mut [P],
}

impl<E: Element, P: Element<Acc = E::Acc>> Leaf for Convert<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = P::store(from.load());
        }
    }
}

/// The rows `begin..end` of an operand [batch, size] as `P`.
fn load<E: Element, P: Element<Acc = E::Acc>>(view: &View<'_>, begin: usize, to: &mut [P], size: usize) -> Result<(), String> {
    for (number, to) in to.chunks_exact_mut(size).enumerate() {
        vectorize(Convert { from: row::<E>(view, &[begin + number])?, to });
    }
    Ok(())
}

/// As [`load`], the other way.
fn store<E: Element, P: Element<Acc = E::Acc>>(view: &View<'_>, begin: usize, from: &[P], size: usize) -> Result<(), String> {
    for (number, from) in from.chunks_exact(size).enumerate() {
        vectorize(Convert { from, to: target::<E>(view, &[begin + number])? });
    }
    Ok(())
}

/// A row of one step. The gates hold the inputs' sums before and the activated gates after it.
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
        // Slices of one length that the compiler knows to be one need no checks.
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
            let ([i, f, g, o], cell, new_hidden) = step(sums, self.cell[at]);
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

/// The recurrent part of a layer. Operands [out, cells, gates, weight, hx, cx], contiguous and of one dtype: out and cells [steps, batch, size];
/// gates [steps, batch, 4 size], on entry the sums of the inputs and both biases, then the activated gates; weight [4 size, size], of the hidden
/// state; hx and cx [batch, size]. Scalars [reverse]: from the last step to the first.
///
/// # Errors
/// Another dtype, operands with gaps or of other sizes.
pub fn lstm_layer(launch: &Launch<'_>) -> Result<(), String> {
    let layer = Layer::new(launch, 0)?;
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => {
        if layer.widens::<E>() { forward::<E, <E as Element>::Acc>(launch, layer) } else { forward::<E, E>(launch, layer) }
    })
}

fn forward<E: Element<Acc: Real>, P: Element<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), String> {
    let Layer { steps, size, .. } = layer;
    let wide = GATES * size;
    let mut memory = [Memory::of(wide * size * size_of::<P>()), Memory::of(wide * size * size_of::<P>())];
    let [plain, weight] = memory.each_mut().map(|memory| memory.numbers::<P>(wide * size));
    load::<E, P>(&launch.view(3), 0, plain, size)?;
    strided::transpose(plain, weight, size);
    let weight: &[P] = weight;
    layer.for_parts(cost(launch), &|begin, end| {
        let [out, cells, gates] = [0, 1, 2].map(|operand| launch.view(operand));
        let rows = end - begin;
        let mut memory = [wide, size].map(|cols| Memory::of(rows * cols * size_of::<P>()));
        let [products, hidden] = memory.each_mut();
        let (products, hidden) = (products.numbers::<P>(rows * wide), hidden.numbers::<P>(rows * size));
        let mut memory = Memory::of(rows * size * size_of::<E::Acc>());
        let cell = memory.numbers::<E::Acc>(rows * size);
        load::<E, P>(&launch.view(4), begin, hidden, size)?;
        load::<E, E::Acc>(&launch.view(5), begin, cell, size)?;
        for place in (0..steps).map(|number| layer.place(number)) {
            matmul::multiply([rows, wide, size], products, hidden, weight)?;
            for (number, (cell, hidden)) in cell.chunks_exact_mut(size).zip(hidden.chunks_exact_mut(size)).enumerate() {
                let index = [place, begin + number];
                vectorize(Forward {
                    gates: gates_mut(target::<E>(&gates, &index)?, size),
                    products: self::gates(&products[number * wide..], size),
                    cell,
                    hidden,
                    cells: target(&cells, &index)?,
                    out: target(&out, &index)?,
                });
            }
        }
        Ok(())
    })
}

/// A row of one step, backward.
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
            let ([i, f, g, o], cell) = step_backward(grad_h, self.grad_cell[at], activated, cx[at].load(), cy[at].load());
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

/// The gradient of [`lstm_layer`]. Operands [grad of gates, grad of hx, grad of cx, grad of out, gates, cells, cx, weight], contiguous, of one
/// dtype and sized as there, the gates activated; the second and third hold on entry the gradients of the last hidden and cell state. Scalars
/// [reverse], as there.
///
/// # Errors
/// As [`lstm_layer`].
pub fn lstm_layer_backward(launch: &Launch<'_>) -> Result<(), String> {
    let layer = Layer::new(launch, 3)?;
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => {
        if layer.widens::<E>() { backward::<E, <E as Element>::Acc>(launch, layer) } else { backward::<E, E>(launch, layer) }
    })
}

fn backward<E: Element<Acc: Real>, P: Element<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), String> {
    let Layer { steps, size, .. } = layer;
    let wide = GATES * size;
    let mut memory = Memory::of(wide * size * size_of::<P>());
    let weight = memory.numbers::<P>(wide * size);
    load::<E, P>(&launch.view(7), 0, weight, size)?;
    let weight: &[P] = weight;
    layer.for_parts(cost(launch), &|begin, end| {
        let [grad_gates, grad_hx, grad_cx, grad_out, gates, cells, cx] = [0, 1, 2, 3, 4, 5, 6].map(|operand| launch.view(operand));
        let rows = end - begin;
        let mut memory = [wide, size].map(|cols| Memory::of(rows * cols * size_of::<P>()));
        let [grad_sums, grad_hidden] = memory.each_mut();
        let (grad_sums, grad_hidden) = (grad_sums.numbers::<P>(rows * wide), grad_hidden.numbers::<P>(rows * size));
        let mut memory = Memory::of(rows * size * size_of::<E::Acc>());
        let grad_cell = memory.numbers::<E::Acc>(rows * size);
        load::<E, P>(&grad_hx, begin, grad_hidden, size)?;
        load::<E, E::Acc>(&grad_cx, begin, grad_cell, size)?;
        for number in (0..steps).rev() {
            for (row_of_part, grad_cell) in grad_cell.chunks_exact_mut(size).enumerate() {
                let index = [layer.place(number), begin + row_of_part];
                let before = match number {
                    0 => row::<E>(&cx, &[index[1]])?,
                    _ => row::<E>(&cells, &[layer.place(number - 1), index[1]])?,
                };
                vectorize(Backward {
                    grad_gates: gates_mut(target::<E>(&grad_gates, &index)?, size),
                    grad_sums: gates_mut(&mut grad_sums[row_of_part * wide..][..wide], size),
                    grad_cell,
                    grad_hidden: &grad_hidden[row_of_part * size..][..size],
                    grad_out: row(&grad_out, &index)?,
                    gates: self::gates(row(&gates, &index)?, size),
                    cx: before,
                    cy: row(&cells, &index)?,
                });
            }
            matmul::multiply([rows, size, wide], grad_hidden, grad_sums, weight)?;
        }
        store::<E, P>(&grad_hx, begin, grad_hidden, size)?;
        store::<E, E::Acc>(&grad_cx, begin, grad_cell, size)
    })
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor};
    use crate::tensor::dtype::{DType, FLOATING};
    use crate::tensor::launch::Scalar;

    const STEPS: usize = 5;
    const SIZE: usize = 19;

    fn given(dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
        let values = check::values(dtype, sizes, seed).mapv(|value| check::round_trip(dtype, value / 8.0));
        Tensor::of(dtype, &values, Strides::Contiguous)
    }

    fn empty(dtype: DType, sizes: &[usize]) -> Tensor {
        Tensor::new(dtype, sizes, Strides::Contiguous)
    }

    /// A layer's [out, cells, gates].
    fn forward(dtype: DType, batch: usize, reverse: bool, sums: &Tensor, weight: &Tensor, states: [&Tensor; 2]) -> [Tensor; 3] {
        let of_steps = |cols: usize| empty(dtype, &[STEPS, batch, cols]);
        let gates = Tensor::of(dtype, &sums.values(), Strides::Contiguous);
        let results = [of_steps(SIZE), of_steps(SIZE), gates];
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
                let [out, cells, gates] = results.each_ref().map(|result| result.values().mapv(|value| value.re));
                let (sums, weight, mut hidden) = (
                    sums.values().mapv(|value| value.re),
                    weight.values().mapv(|value| value.re),
                    hx.values().mapv(|value| value.re),
                );
                let mut cell = cx.values().mapv(|value| value.re);
                let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
                for number in 0..STEPS {
                    let place = if reverse { STEPS - 1 - number } else { number };
                    let before = hidden.clone();
                    for (row, at) in (0..batch).flat_map(|row| (0..SIZE).map(move |at| (row, at))) {
                        let sum = |gate: usize| {
                            let product: f64 = (0..SIZE).map(|k| before[[row, k]] * weight[[gate * SIZE + at, k]]).sum();
                            sums[[place, row, gate * SIZE + at]] + product
                        };
                        let expected = [sigmoid(sum(0)), sigmoid(sum(1)), sum(2).tanh(), sigmoid(sum(3))];
                        let tolerance = 8.0 * check::tolerance(dtype);
                        for (gate, expected) in expected.into_iter().enumerate() {
                            let found = gates[[place, row, gate * SIZE + at]];
                            assert!((found - expected).abs() <= tolerance, "{dtype:?} {batch} {number}: {found} != {expected}");
                        }
                        cell[[row, at]] = expected[1] * cell[[row, at]] + expected[0] * expected[2];
                        hidden[[row, at]] = expected[3] * cell[[row, at]].tanh();
                        for (found, expected) in [(&cells, &cell), (&out, &hidden)] {
                            let (found, expected) = (found[[place, row, at]], expected[[row, at]]);
                            assert!((found - expected).abs() <= tolerance, "{dtype:?} {batch} {number}: {found} != {expected}");
                        }
                        // Errors do not add up from step to step.
                        cell[[row, at]] = cells[[place, row, at]];
                        hidden[[row, at]] = out[[place, row, at]];
                    }
                }
            }
        }
    }

    #[test]
    fn gradients_are_difference_quotients() {
        let (dtype, batch, step) = (DType::Double, 9, 1e-6);
        for reverse in [false, true] {
            let sums = given(dtype, &[STEPS, batch, 4 * SIZE], 1);
            let weight = given(dtype, &[4 * SIZE, SIZE], 2);
            let states = [given(dtype, &[batch, SIZE], 3), given(dtype, &[batch, SIZE], 4)];
            let grads = [given(dtype, &[STEPS, batch, SIZE], 5), given(dtype, &[batch, SIZE], 6), given(dtype, &[batch, SIZE], 7)];
            let last = if reverse { 0 } else { STEPS - 1 };
            let loss = |sums: &Tensor, states: [&Tensor; 2]| {
                let results = forward(dtype, batch, reverse, sums, &weight, states);
                let [out, cells, _] = results.each_ref().map(Tensor::values);
                let [by_out, by_hy, by_cy] = grads.each_ref().map(Tensor::values);
                let of_ends = out.indexed_iter().zip(&cells).filter(|((index, _), _)| index[0] == last);
                let ends: f64 = of_ends
                    .map(|((index, out), cell)| (by_hy[[index[1], index[2]]] * out + by_cy[[index[1], index[2]]] * cell).re)
                    .sum();
                out.iter().zip(&by_out).map(|(out, grad)| (out * grad).re).sum::<f64>() + ends
            };
            let [_, cells, gates] = forward(dtype, batch, reverse, &sums, &weight, states.each_ref());
            let [by_hy, by_cy] = [1, 2].map(|which| Tensor::of(dtype, &grads[which].values(), Strides::Contiguous));
            let results = [empty(dtype, &[STEPS, batch, 4 * SIZE]), by_hy, by_cy];
            let operands = [&grads[0], &gates, &cells, &states[1], &weight];
            check::run("lstm_layer_backward", &results.each_ref(), &operands, &[Scalar::Bool(reverse)], dtype).unwrap();
            let quotient = |which: usize, place: usize| {
                let sides = [step, -step].map(|shift| {
                    let given = [&sums, &states[0], &states[1]].map(|tensor| {
                        let mut values = tensor.values();
                        if std::ptr::eq(tensor, [&sums, &states[0], &states[1]][which]) {
                            *values.iter_mut().nth(place).unwrap() += shift;
                        }
                        Tensor::of(dtype, &values, Strides::Contiguous)
                    });
                    loss(&given[0], [&given[1], &given[2]])
                });
                (sides[0] - sides[1]) / (2.0 * step)
            };
            for (which, result) in results.iter().enumerate() {
                for (place, found) in result.values().iter().enumerate().step_by(97) {
                    let expected = quotient(which, place);
                    assert!((found.re - expected).abs() < 1e-6, "{which} {place}: {found} != {expected}");
                }
            }
        }
    }
}
