//! The custom operators of the namespace `rustdev`: several ATen operators in one pass over memory.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::number::Real;

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

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::launch::Scalar;

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    #[test]
    fn swiglu_is_silu_of_gate_times_up() {
        check::pointwise::<2>("swiglu", &[], |dtype| dtype, |[gate, up]| real(gate.re * sigmoid(gate.re) * up.re));
    }

    #[test]
    fn swiglu_backward_is_the_slope_by_gate() {
        check::pointwise::<3>(
            "swiglu_backward",
            &[],
            |dtype| dtype,
            |[grad, gate, up]| {
                let s = sigmoid(gate.re);
                real(grad.re * up.re * (s + gate.re * s * (1.0 - s)))
            },
        );
    }

    #[test]
    fn rotary_turns_one_half() {
        for sign in [-1.0, 1.0] {
            check::pointwise::<4>(
                "rotary",
                &[Scalar::Double(sign)],
                |dtype| dtype,
                |[x, partner, cos, sin]| real(x.re * cos.re + sign * partner.re * sin.re),
            );
        }
    }

    #[test]
    fn residual_add_adds_three() {
        check::pointwise::<3>("residual_add", &[], |dtype| dtype, |[residual, x, bias]| real(residual.re + x.re + bias.re));
    }
}
