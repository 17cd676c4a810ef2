//! One unit of a recurrent layer and its gradient: LSTM (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997) and GRU (Cho
//! et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014, in cuDNN's variant, where the reset gate multiplies
//! the product of the hidden state). The gates of a row follow one another, each as long as the hidden state.

#![forbid(unsafe_code)]

use crate::tensor::number::Field;

/// Gates of a unit of an LSTM: i, f, g, o.
pub const LSTM_GATES: usize = 4;
/// Gates of a unit of a GRU: r, z, n.
pub const GRU_GATES: usize = 3;

/// The gates of a row.
#[inline(always)]
pub fn gates<const GATES: usize, E>(row: &[E], size: usize) -> [&[E]; GATES] {
    std::array::from_fn(|gate| &row[gate * size..][..size])
}

/// The gates of a row, mutable.
///
/// # Panics
/// If the row is shorter.
#[inline(always)]
pub fn gates_mut<const GATES: usize, E>(row: &mut [E], size: usize) -> [&mut [E]; GATES] {
    let mut rest = row;
    std::array::from_fn(|_| {
        let (gate, others) = std::mem::take(&mut rest).split_at_mut(size);
        rest = others;
        gate
    })
}

/// The activated gates, the new cell state and the new hidden state, from the sums at the gates and the cell state.
#[inline(always)]
pub fn lstm_step<T: Field>([i, f, g, o]: [T; LSTM_GATES], cx: T) -> ([T; LSTM_GATES], T, T) {
    let [i, f, g, o] = [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()];
    let cy = f.mul(cx).add(i.mul(g));
    ([i, f, g, o], cy, o.mul(cy.tanh()))
}

/// The gradients of the sums at the gates and of the old cell state, from the gradients of the new states, the activated gates, and
/// both cell states.
#[inline(always)]
pub fn lstm_step_backward<T: Field>(grad_hy: T, grad_cy: T, [i, f, g, o]: [T; LSTM_GATES], cx: T, cy: T) -> ([T; LSTM_GATES], T) {
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

/// The activated gates and the new hidden state, from the sums at r and z, the two terms of n (that of the inputs, and `hn`, that
/// of the hidden state with its bias), and the old hidden state.
#[inline(always)]
pub fn gru_step<T: Field>([r, z, n]: [T; GRU_GATES], hn: T, hx: T) -> ([T; GRU_GATES], T) {
    let [r, z] = [r.sigmoid(), z.sigmoid()];
    let n = n.add(r.mul(hn)).tanh();
    ([r, z, n], n.add(z.mul(hx.sub(n))))
}

/// The gradients of the inputs' sums at the gates, of `hn`, and of the old hidden state through z alone.
#[inline(always)]
pub fn gru_step_backward<T: Field>(grad: T, [r, z, n]: [T; GRU_GATES], hn: T, hx: T) -> ([T; GRU_GATES], T, T) {
    let grad_n = grad.mul(T::ONE.sub(z)).mul(T::ONE.sub(n.mul(n)));
    let grad_r = grad_n.mul(hn).mul(r.mul(T::ONE.sub(r)));
    let grad_z = grad.mul(hx.sub(n)).mul(z.mul(T::ONE.sub(z)));
    ([grad_r, grad_z, grad_n], grad_n.mul(r), grad.mul(z))
}
