//! The custom operators of the namespace `rustdev`: several ATen operators in one pass over memory.

use super::functions;
use crate::tensor::Real;

functions! {
    /// `rustdev::residual_add`: residual + (x + bias), rounded once.
    residual_add, ResidualAdd, FLOATING, Real, [], |[residual, x, bias]| residual.add(x.add(bias));
    /// One half of `rustdev::rotary`: x * cos + sign * partner * sin, where partner is the other half of the vector.
    rotary, Rotary, FLOATING, Real, [sign], |[x, partner, cos, sin]| x.mul(cos).add(partner.mul(sin).mul(sign));
    /// `rustdev::swiglu`: silu(gate) * up.
    swiglu, Swiglu, FLOATING, Real, [], |[gate, up]| gate.scaled_sigmoid(gate).mul(up);
    /// The gradient of `rustdev::swiglu` with respect to gate: grad * up * silu'(gate).
    swiglu_backward, SwigluBackward, FLOATING, Real in Acc, [], |[grad, gate, up]| {
        let (sigmoid, rest) = gate.sigmoid_and_rest();
        grad.mul(up).mul(sigmoid).mul(T::ONE.add(gate.mul(rest)))
    };
}
