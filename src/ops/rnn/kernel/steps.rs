//! One step of each cell and its gradient, for one unit of the hidden state: LSTM (Hochreiter and Schmidhuber, "Long Short-Term
//! Memory", 1997), GRU (Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014, in cuDNN's variant, where
//! the reset gate multiplies the product of the hidden state) and Elman ("Finding Structure in Time", 1990).

use crate::tensor::{Field, Real};

/// The numbers of one unit before a step.
pub struct Unit<T, const KEPT: usize, const READ: usize, const PRODUCTS: usize, const FACTORS: usize> {
    /// Numbers of the outputs.
    pub kept: [T; KEPT],
    /// Numbers of the inputs, in the order of the kernel's operands.
    pub read: [T; READ],
    /// The last product with the weight.
    pub products: [T; PRODUCTS],
    /// The factors of that product.
    pub factors: [T; FACTORS],
    /// The number that the previous step returned, or the initial state.
    pub carried: T,
}

/// A step, or the gradient of one. Forward, the factors are the hidden state and the products have one number for each gate; in a
/// gradient it is the other way round. A cell by itself has neither.
pub trait Step<T, const KEPT: usize, const READ: usize, const PRODUCTS: usize, const FACTORS: usize>: Copy + Send + Sync {
    /// True if steps are computed from the last one to the first, each before its product.
    const IS_GRADIENT: bool = false;
    /// True if a number passes from step to step without being rounded to the layer's dtype.
    const CARRIES: bool = false;
    /// Which of the kept numbers become factors.
    const FACTORS_KEPT: [usize; FACTORS];

    /// The numbers to keep, and the one to carry.
    fn apply(self, unit: Unit<T, KEPT, READ, PRODUCTS, FACTORS>) -> ([T; KEPT], T);
}

/// The new hidden state, the new cell state and the activated gates, from the sums at the gates and the cell state.
#[inline(always)]
fn lstm<T: Field>([i, f, g, o]: [T; 4], cx: T) -> [T; 6] {
    let [i, f, g, o] = [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()];
    let cy = f.mul(cx).add(i.mul(g));
    [o.mul(cy.tanh()), cy, i, f, g, o]
}

/// The gradients of the sums at the gates and of the old cell state, from the gradients of the new states, the activated gates, and
/// both cell states.
#[inline(always)]
fn lstm_gradient<T: Field>(grad_hy: T, grad_cy: T, [i, f, g, o]: [T; 4], cx: T, cy: T) -> [T; 5] {
    let sigmoid_slope = |y: T| y.mul(T::ONE.sub(y)).conj();
    let tanh_slope = |y: T| T::ONE.sub(y.mul(y)).conj();
    let tanh = cy.tanh();
    let grad = grad_hy.mul(o.conj()).mul(tanh_slope(tanh)).add(grad_cy);
    [
        grad.mul(g.conj()).mul(sigmoid_slope(i)),
        grad.mul(cx.conj()).mul(sigmoid_slope(f)),
        grad.mul(i.conj()).mul(tanh_slope(g)),
        grad_hy.mul(tanh.conj()).mul(sigmoid_slope(o)),
        grad.mul(f.conj()),
    ]
}

/// A step of an LSTM layer: keeps the hidden state, the cell state and the gates i, f, g, o. It carries the cell state.
#[derive(Clone, Copy)]
pub struct Lstm;

impl<T: Field> Step<T, 6, 0, 4, 1> for Lstm {
    const CARRIES: bool = true;
    const FACTORS_KEPT: [usize; 1] = [0];

    #[inline(always)]
    fn apply(self, unit: Unit<T, 6, 0, 4, 1>) -> ([T; 6], T) {
        let ([_, _, i, f, g, o], [from_i, from_f, from_g, from_o]) = (unit.kept, unit.products);
        let kept = lstm([i.add(from_i), f.add(from_f), g.add(from_g), o.add(from_o)], unit.carried);
        (kept, kept[1])
    }
}

/// The gradient of [`Lstm`]: keeps those of the sums at the gates, and carries that of the cell state.
#[derive(Clone, Copy)]
pub struct LstmGradient;

impl<T: Field> Step<T, 4, 7, 1, 4> for LstmGradient {
    const IS_GRADIENT: bool = true;
    const CARRIES: bool = true;
    const FACTORS_KEPT: [usize; 4] = [0, 1, 2, 3];

    #[inline(always)]
    fn apply(self, unit: Unit<T, 4, 7, 1, 4>) -> ([T; 4], T) {
        let ([grad_out, cy, gates @ .., cx], [grad_hidden]) = (unit.read, unit.products);
        let [kept @ .., carried] = lstm_gradient(grad_hidden.add(grad_out), unit.carried, gates, cx, cy);
        (kept, carried)
    }
}

/// An LSTM cell by itself, which keeps what [`Lstm`] keeps. It reads the cell state and two or four terms of the sums at the gates:
/// `READ` is 9 or 17.
#[derive(Clone, Copy)]
pub struct LstmCell<const READ: usize>;

impl<T: Field, const READ: usize> Step<T, 6, READ, 0, 0> for LstmCell<READ> {
    const FACTORS_KEPT: [usize; 0] = [];

    #[inline(always)]
    fn apply(self, Unit { read, carried, .. }: Unit<T, 6, READ, 0, 0>) -> ([T; 6], T) {
        let sum = |gate: usize| (1..READ / 4).fold(read[1 + gate], |sum, term| sum.add(read[1 + 4 * term + gate]));
        (lstm([sum(0), sum(1), sum(2), sum(3)], read[0]), carried)
    }
}

/// The gradient of [`LstmCell`]: keeps those of the sums at the gates and of the cell state.
#[derive(Clone, Copy)]
pub struct LstmCellGradient;

impl<T: Field> Step<T, 5, 8, 0, 0> for LstmCellGradient {
    const FACTORS_KEPT: [usize; 0] = [];

    #[inline(always)]
    fn apply(self, Unit { read, carried, .. }: Unit<T, 5, 8, 0, 0>) -> ([T; 5], T) {
        let [grad_hy, grad_cy, cx, cy, gates @ ..] = read;
        (lstm_gradient(grad_hy, grad_cy, gates, cx, cy), carried)
    }
}

/// A step of a GRU layer: keeps the hidden state, its term of n before the reset, and the gates r, z, n. It reads the bias of the
/// hidden state.
#[derive(Clone, Copy)]
pub struct Gru;

impl<T: Field> Step<T, 5, 3, 3, 1> for Gru {
    const FACTORS_KEPT: [usize; 1] = [0];

    #[inline(always)]
    fn apply(self, unit: Unit<T, 5, 3, 3, 1>) -> ([T; 5], T) {
        let ([_, _, r, z, n], [from_r, from_z, from_n], [bias_r, bias_z, bias_n]) = (unit.kept, unit.products, unit.read);
        let ([hx], hn) = (unit.factors, from_n.add(bias_n));
        let [r, z] = [r.add(from_r.add(bias_r)).sigmoid(), z.add(from_z.add(bias_z)).sigmoid()];
        let n = n.add(r.mul(hn)).tanh();
        ([n.add(z.mul(hx.sub(n))), hn, r, z, n], unit.carried)
    }
}

/// The gradient of [`Gru`]: keeps those of the inputs' sums at r, z, n and of the hidden state's products at r, z, n. It carries
/// that of the hidden state through z alone.
#[derive(Clone, Copy)]
pub struct GruGradient;

impl<T: Field> Step<T, 6, 6, 1, 3> for GruGradient {
    const IS_GRADIENT: bool = true;
    const CARRIES: bool = true;
    const FACTORS_KEPT: [usize; 3] = [3, 4, 5];

    #[inline(always)]
    fn apply(self, unit: Unit<T, 6, 6, 1, 3>) -> ([T; 6], T) {
        let ([grad_out, hn, r, z, n, hx], [grad_hidden]) = (unit.read, unit.products);
        let grad = grad_hidden.add(unit.carried).add(grad_out);
        let grad_n = grad.mul(T::ONE.sub(z)).mul(T::ONE.sub(n.mul(n)));
        let grad_r = grad_n.mul(hn).mul(r.mul(T::ONE.sub(r)));
        let grad_z = grad.mul(hx.sub(n)).mul(z.mul(T::ONE.sub(z)));
        ([grad_r, grad_z, grad_n, grad_r, grad_z, grad_n.mul(r)], grad.mul(z))
    }
}

/// A step of an Elman layer, with tanh or max(0, x): keeps the hidden state.
#[derive(Clone, Copy)]
pub struct Elman {
    pub relu: bool,
}

impl<T: Real> Step<T, 1, 0, 1, 1> for Elman {
    const FACTORS_KEPT: [usize; 1] = [0];

    #[inline(always)]
    fn apply(self, unit: Unit<T, 1, 0, 1, 1>) -> ([T; 1], T) {
        let sum = unit.kept[0].add(unit.products[0]);
        ([if self.relu { sum.maximum(T::ZERO) } else { sum.tanh() }], unit.carried)
    }
}

/// The gradient of [`Elman`]: keeps that of the sum.
#[derive(Clone, Copy)]
pub struct ElmanGradient {
    pub relu: bool,
}

impl<T: Real> Step<T, 1, 2, 1, 1> for ElmanGradient {
    const IS_GRADIENT: bool = true;
    const FACTORS_KEPT: [usize; 1] = [0];

    #[inline(always)]
    fn apply(self, unit: Unit<T, 1, 2, 1, 1>) -> ([T; 1], T) {
        let ([grad_out, out], [grad_hidden]) = (unit.read, unit.products);
        let grad = grad_hidden.add(grad_out);
        let of_relu = if out <= T::ZERO { T::ZERO } else { grad };
        ([if self.relu { of_relu } else { grad.mul(T::ONE.sub(out.mul(out))) }], unit.carried)
    }
}
