//! One unit of an LSTM and its gradient (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997), and the rows of its gates: i, f, g and o one
//! behind the other, each as long as the hidden state.

#![forbid(unsafe_code)]

use crate::tensor::number::Field;

/// Gates of a unit.
pub const GATES: usize = 4;

/// The gates of a row.
#[inline(always)]
pub fn gates<E>(row: &[E], size: usize) -> [&[E]; GATES] {
    std::array::from_fn(|gate| &row[gate * size..][..size])
}

/// The gates of a row, to be written.
#[inline(always)]
pub fn gates_mut<E>(row: &mut [E], size: usize) -> [&mut [E]; GATES] {
    let (first, second) = row.split_at_mut(2 * size);
    let ((i, f), (g, o)) = (first.split_at_mut(size), second.split_at_mut(size));
    [i, f, g, &mut o[..size]]
}

/// The activated gates, the new cell state and the new hidden state, from the sums at the gates and the cell state.
#[inline(always)]
pub fn step<T: Field>([i, f, g, o]: [T; GATES], cx: T) -> ([T; GATES], T, T) {
    let [i, f, g, o] = [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()];
    let cy = f.mul(cx).add(i.mul(g));
    ([i, f, g, o], cy, o.mul(cy.tanh()))
}

/// The gradients of the sums at the gates and of the old cell state, from those of the new states, the activated gates, and both cell
/// states.
#[inline(always)]
pub fn step_backward<T: Field>(grad_hy: T, grad_cy: T, [i, f, g, o]: [T; GATES], cx: T, cy: T) -> ([T; GATES], T) {
    let sigmoid_slope = |y: T| y.mul(T::ONE.sub(y)).conj();
    let tanh_slope = |y: T| T::ONE.sub(y.mul(y)).conj();
    let tanh = cy.tanh();
    let grad = grad_hy.mul(o.conj()).mul(tanh_slope(tanh)).add(grad_cy);
    let grad_gates = [
        grad.mul(g.conj()).mul(sigmoid_slope(i)),
        grad.mul(cx.conj()).mul(sigmoid_slope(f)),
        grad.mul(i.conj()).mul(tanh_slope(g)),
        grad_hy.mul(tanh.conj()).mul(sigmoid_slope(o)),
    ];
    (grad_gates, grad.mul(f.conj()))
}
