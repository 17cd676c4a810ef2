//! One step of an LSTM and its gradient, each in one pass over memory.

#![forbid(unsafe_code)]

use super::formulas::{LSTM_GATES as GATES, gates, gates_mut, lstm_step, lstm_step_backward};
use crate::kernels::failure::Failure;
use crate::kernels::signature::signature;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::row::{Row, RowMut};
use crate::tensor::number::{Field, Number};
use crate::tensor::output::Output;
use crate::tensor::view::View;
use crate::tuning::sharing::CELL_PIECE;

signature! {
    lstm_cell(hy, cy, workspace, cx, input_gates, hidden_gates, input_bias?, hidden_bias?)[] in FIELD;
    lstm_cell_backward(grad_gates, grad_cx, grad_hy, grad_cy, cx, cy, workspace)[] in FIELD;
}

/// A row of a contiguous operand of two dimensions, or all of an operand of one dimension.
fn row<'a, E: Element>(view: &View<'a>, number: usize) -> Result<&'a [E], Error> {
    let row = if view.ndim() == 2 { Row::of(view, &[number]) } else { Row::of(view, &[]) };
    row.as_slice().ok_or_else(|| Error::operands("an operand of a cell has gaps"))
}

fn target<E: Element>(row: RowMut<'_>) -> Result<&mut [E], Error> {
    row.into_slice().ok_or_else(|| Error::operands("a result of a cell has gaps"))
}

/// Called with the number of a row, and that row of each output.
type RowBody<'a, const N: usize> = &'a (dyn Fn(usize, [RowMut<'_>; N]) -> Result<(), Error> + Sync);

/// Runs `body` for every row of a batch.
fn rows<const N: usize>(outputs: [Output<'_>; N], size: usize, cost: f64, body: RowBody<'_, N>) -> Result<(), Error> {
    let failure = Failure::default();
    let outputs = outputs.map(|output| (output, 0));
    Output::in_parts(outputs, CELL_PIECE.div_ceil(size.max(1)), cost * size as f64, &|begin, end, mut parts| {
        for row in begin..end {
            failure.note(body(row, parts.each_mut().map(|part| part.row_mut(&[row - begin]))));
        }
    });
    failure.result()
}

/// Computes a row of a step, where each gate is the sum of `N` terms.
struct Forward<'a, E, const N: usize> {
    hy: &'a mut [E],
    cy: &'a mut [E],
    workspace: [&'a mut [E]; GATES],
    terms: [[&'a [E]; GATES]; N],
    cx: &'a [E],
}

impl<E: Element<Acc: Field>, const N: usize> Leaf for Forward<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // The compiler omits bounds checks of slices that it knows to have equal lengths.
        let size = self.cx.len();
        let (hy, cy) = (&mut self.hy[..size], &mut self.cy[..size]);
        let [in_i, in_f, in_g, in_o] = self.workspace.map(|gate| &mut gate[..size]);
        let terms = self.terms.map(|term| term.map(|gate| &gate[..size]));
        for at in 0..size {
            let sum = |gate: usize| terms[1..].iter().fold(terms[0][gate][at].load(), |sum, term| sum.add(term[gate][at].load()));
            let ([i, f, g, o], new_cell, new_hidden) = lstm_step([sum(0), sum(1), sum(2), sum(3)], self.cx[at].load());
            cy[at] = E::store(new_cell);
            hy[at] = E::store(new_hidden);
            in_i[at] = E::store(i);
            in_f[at] = E::store(f);
            in_g[at] = E::store(g);
            in_o[at] = E::store(o);
        }
    }
}

/// `aten::_thnn_fused_lstm_cell`. Operands [hy, cy, workspace, cx, input gates, hidden gates] or [.., input bias, hidden bias],
/// contiguous and of one dtype: hy, cy and cx [batch, size], gates and workspace [batch, 4 size], biases [4 size]. The workspace
/// receives the activated gates.
pub fn lstm_cell(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING | WIDE_COMPLEX, E => match launch.num_operands() {
        6 => forward::<E, 2>(launch),
        8 => forward::<E, 4>(launch),
        other => Err(Error::operands(format!("{other} operands of a cell"))),
    })
}

fn forward<E: Element<Acc: Field>, const N: usize>(launch: &Launch<'_>) -> Result<(), Error> {
    let size = launch.view(0).size(1);
    let outputs = [launch.output(0)?, launch.output(1)?, launch.output(2)?];
    rows(outputs, size, launch.cost(), &|number, [hy, cy, workspace]| {
        let mut terms = [[&[] as &[E]; GATES]; N];
        for (operand, term) in (4..).zip(&mut terms) {
            *term = gates(row(&launch.view(operand), number)?, size);
        }
        vectorize(Forward {
            hy: target::<E>(hy)?,
            cy: target(cy)?,
            workspace: gates_mut(target(workspace)?, size),
            terms,
            cx: row(&launch.view(3), number)?,
        });
        Ok(())
    })
}

struct Backward<'a, E> {
    grad_gates: [&'a mut [E]; GATES],
    grad_cx: &'a mut [E],
    grad_hy: &'a [E],
    grad_cy: &'a [E],
    cx: &'a [E],
    cy: &'a [E],
    workspace: [&'a [E]; GATES],
}

impl<E: Element<Acc: Field>> Leaf for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.cx.len();
        let [grad_i, grad_f, grad_g, grad_o] = self.grad_gates.map(|gate| &mut gate[..size]);
        let [in_i, in_f, in_g, in_o] = self.workspace.map(|gate| &gate[..size]);
        let (grad_hy, grad_cy, cy, grad_cx) =
            (&self.grad_hy[..size], &self.grad_cy[..size], &self.cy[..size], &mut self.grad_cx[..size]);
        for at in 0..size {
            let activated = [in_i[at].load(), in_f[at].load(), in_g[at].load(), in_o[at].load()];
            let ([i, f, g, o], cell) =
                lstm_step_backward(grad_hy[at].load(), grad_cy[at].load(), activated, self.cx[at].load(), cy[at].load());
            grad_i[at] = E::store(i);
            grad_f[at] = E::store(f);
            grad_g[at] = E::store(g);
            grad_o[at] = E::store(o);
            grad_cx[at] = E::store(cell);
        }
    }
}

/// `aten::_thnn_fused_lstm_cell_backward_impl` without the bias. Operands [grad of gates, grad of cx, grad of hy, grad of cy, cx,
/// cy, workspace], contiguous, of one dtype, and with the sizes of [`lstm_cell`].
pub fn lstm_cell_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let (size, dtype) = (launch.view(1).size(1), launch.compute());
    let outputs = [launch.output(0)?, launch.output(1)?];
    dispatch!(dtype in FLOATING | WIDE_COMPLEX, E => rows(outputs, size, launch.cost(), &|number, [grad_gates, grad_cx]| {
        vectorize(Backward {
            grad_gates: gates_mut(target::<E>(grad_gates)?, size),
            grad_cx: target(grad_cx)?,
            grad_hy: row(&launch.view(2), number)?,
            grad_cy: row(&launch.view(3), number)?,
            cx: row(&launch.view(4), number)?,
            cy: row(&launch.view(5), number)?,
            workspace: gates(row(&launch.view(6), number)?, size),
        });
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use ndarray::ArrayD;

    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::tensor::dtype::{Complex64, DType, FLOATING};

    const BATCH: usize = 5;
    const SIZE: usize = 37;

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    fn given(dtype: DType, cols: usize, seed: usize) -> (Tensor, ArrayD<Complex64>) {
        let values = check::values(dtype, &[BATCH, cols], seed).mapv(|value| check::round_trip(dtype, value / 4.0));
        (Tensor::of(dtype, &values, Strides::Contiguous), values)
    }

    fn empty(dtype: DType, cols: usize) -> Tensor {
        Tensor::new(dtype, &[BATCH, cols], Strides::Contiguous)
    }

    fn assert_near(found: &Tensor, expected: impl Fn(usize, usize) -> f64, dtype: DType, what: &str) {
        for (index, value) in found.values().indexed_iter() {
            let expected = real(expected(index[0], index[1]));
            assert!(
                check::close(*value, expected, 2.0 * check::tolerance(dtype)),
                "{what} {dtype:?} {index:?}: {value} != {expected}"
            );
        }
    }

    #[test]
    fn cells_are_what_their_formulas_say() {
        for dtype in FLOATING.iter() {
            let (inputs, x) = given(dtype, 4 * SIZE, 1);
            let (hidden, h) = given(dtype, 4 * SIZE, 2);
            let (cx, c) = given(dtype, SIZE, 3);
            let results = [empty(dtype, SIZE), empty(dtype, SIZE), empty(dtype, 4 * SIZE)];
            let bias = check::values(dtype, &[4 * SIZE], 4).mapv(|value| check::round_trip(dtype, value / 4.0));
            let biases = Tensor::of(dtype, &bias, Strides::Contiguous);
            let operands = [&cx, &inputs, &hidden, &biases, &biases];
            check::run("_thnn_fused_lstm_cell", &results.each_ref(), &operands, &[], dtype).unwrap();
            let gate = |gate: usize, row: usize, at: usize| {
                let position = gate * SIZE + at;
                (x[[row, position]] + h[[row, position]] + 2.0 * bias[[position]]).re
            };
            let new = |row: usize, at: usize| {
                sigmoid(gate(1, row, at)) * c[[row, at]].re + sigmoid(gate(0, row, at)) * gate(2, row, at).tanh()
            };
            assert_near(&results[1], new, dtype, "cy");
            assert_near(&results[0], |row, at| sigmoid(gate(3, row, at)) * new(row, at).tanh(), dtype, "hy");
            let activated = |row: usize, at: usize| match at / SIZE {
                2 => gate(2, row, at % SIZE).tanh(),
                part => sigmoid(gate(part, row, at % SIZE)),
            };
            assert_near(&results[2], activated, dtype, "workspace");
        }
    }

    #[test]
    fn gradients_are_difference_quotients() {
        let dtype = DType::Double;
        let ((inputs, x), (hidden, _), (cx, _)) = (given(dtype, 4 * SIZE, 1), given(dtype, 4 * SIZE, 2), given(dtype, SIZE, 3));
        let ((grad_hy, by_h), (grad_cy, by_c)) = (given(dtype, SIZE, 4), given(dtype, SIZE, 5));
        let forward = |gates: &Tensor| {
            let results = [empty(dtype, SIZE), empty(dtype, SIZE), empty(dtype, 4 * SIZE)];
            check::run("_thnn_fused_lstm_cell", &results.each_ref(), &[&cx, gates, &hidden], &[], dtype).unwrap();
            results
        };
        let [_, cy, workspace] = forward(&inputs);
        let grads = [empty(dtype, 4 * SIZE), empty(dtype, SIZE)];
        let operands = [&grad_hy, &grad_cy, &cx, &cy, &workspace];
        check::run("_thnn_fused_lstm_cell_backward_impl", &grads.each_ref(), &operands, &[], dtype).unwrap();
        let step = 1e-6;
        for position in 0..4 * SIZE {
            let sides = [step, -step].map(|shift| {
                let mut moved = x.clone();
                moved.indexed_iter_mut().filter(|(index, _)| index[1] == position).for_each(|(_, value)| *value += shift);
                let [hy, cy, _] = forward(&Tensor::of(dtype, &moved, Strides::Contiguous));
                let at = position % SIZE;
                let (hy, cy) = (hy.values(), cy.values());
                (0..BATCH).map(|row| (hy[[row, at]] * by_h[[row, at]] + cy[[row, at]] * by_c[[row, at]]).re).collect::<Vec<_>>()
            });
            for (row, (above, below)) in sides[0].iter().zip(&sides[1]).enumerate() {
                let (found, expected) = (grads[0].values()[[row, position]].re, (above - below) / (2.0 * step));
                assert!((found - expected).abs() < 1e-6, "{row} {position}: {found} != {expected}");
            }
        }
    }
}
