//! Activation functions.

use super::functions;
use crate::tensor::{Error, Field, Ordered, Real, signature};

signature! {
    /// `aten::gelu`: x times the normal distribution function of x; `approximate` is 0 for erf, 1 for tanh.
    gelu(out; x)[approximate] in FLOATING =>
        |launch| if gelu::Scalars::of(launch)?.approximate.is_true() { gelu_tanh(launch) } else { gelu_erf(launch) };
    /// `aten::softshrink`: x moved towards 0 by lambd.
    softshrink(out; x)[lambd] in FLOATING => |launch| {
        let lambd: f64 = softshrink::Scalars::of(launch)?.lambd.to();
        if lambd < 0.0 {
            return Err(Error::new(format!("lambda must be at least 0, but found {lambd}")));
        }
        towards_zero(launch)
    };
}

functions! {
    /// `aten::elu`: scale * x above 0, else scale * alpha * (e^(input_scale * x) - 1).
    elu, Elu, FLOATING, Real, [alpha, scale, input_scale],
        |[x]| if x > T::ZERO { x.mul(scale) } else { x.mul(input_scale).expm1().mul(alpha.mul(scale)) };
    /// `aten::gelu` by the error function.
    gelu_erf, GeluErf, FLOATING, Real, [], |[x]| x.mul(normal(x).0);
    /// `aten::gelu` by tanh.
    gelu_tanh, GeluTanh, FLOATING, Real, [], |[x]| gelu_tanh_argument(x).scaled_sigmoid(x);
    /// `aten::glu` of the two halves: x / (1 + e^-gate).
    glu, Glu, FLOATING, Real, [], |[x, gate]| gate.scaled_sigmoid(x);
    /// `aten::hardshrink`: 0 from -lambd to lambd, else x.
    hardshrink, Hardshrink, FLOATING, Real, [lambd], |[x]| if x.abs() <= lambd { T::ZERO } else { x };
    /// `aten::hardsigmoid`: (x + 3) / 6 between 0 and 1.
    hardsigmoid, Hardsigmoid, FLOATING, Real, [],
        |[x]| x.add(T::from_f64(3.0)).maximum(T::ZERO).minimum(T::from_f64(6.0)).div(T::from_f64(6.0));
    /// `aten::hardswish`: x times its hardsigmoid.
    hardswish, Hardswish, FLOATING, Real, [],
        |[x]| x.mul(x.add(T::from_f64(3.0)).maximum(T::ZERO).minimum(T::from_f64(6.0)).div(T::from_f64(6.0)));
    /// `aten::leaky_relu`: x above 0, else slope * x.
    leaky_relu, LeakyRelu, FLOATING, Real, [negative_slope], |[x]| if x > T::ZERO { x } else { x.mul(negative_slope) };
    /// `aten::log_sigmoid_forward`: -ln(1 + e^-x).
    log_sigmoid, LogSigmoid, FLOATING, Real, [], |[x]| x.minimum(T::ZERO).sub(softplus_of_minus(x.abs()));
    /// `aten::mish`: x * tanh(ln(1 + e^x)).
    mish, Mish, FLOATING, Real, [], |[x]| {
        let (_, over) = mish_parts(x);
        x.mul(over.div(over.add(T::from_f64(2.0))))
    };
    /// `aten::_prelu_kernel`: x above 0, else weight * x.
    prelu, Prelu, FLOATING, Real, [], |[x, weight]| if x > T::ZERO { x } else { x.mul(weight) };
    /// `aten::relu`: max(x, 0); NaN propagates.
    relu, Relu, REAL | UNSIGNED, Ordered, [], |[x]| if x < T::ZERO { T::ZERO } else { x };
    /// `aten::silu`: x / (1 + e^-x).
    silu, Silu, FIELD, Field, [], |[x]| x.scaled_sigmoid(x);
    /// `aten::softplus`: ln(1 + e^(beta x)) / beta; x where beta x is above the threshold.
    softplus, Softplus, FLOATING, Real, [beta, threshold], |[x]| {
        let scaled = x.mul(beta);
        if scaled > threshold { x } else { scaled.maximum(T::ZERO).add(softplus_of_minus(scaled.abs())).div(beta) }
    };
    /// x moved towards 0 by lambd.
    towards_zero, Softshrink, FLOATING, Real, [lambd],
        |[x]| if x > lambd { x.sub(lambd) } else if x < lambd.neg() { x.add(lambd) } else { x.mul(T::ZERO) };
    /// `aten::threshold`: x above the threshold (or NaN), else value. Operands [out, x, x]: PyTorch's meta names x twice; scalars
    /// [threshold, value].
    threshold, Threshold, REAL, Ordered, [threshold, value], |[x, other]| if x <= threshold { value } else { other };
}

/// ln(1 + e^-x) for x >= 0.
#[inline(always)]
fn softplus_of_minus<T: Real>(x: T) -> T {
    x.neg().exp_nonpositive().log1p_of_finite()
}

/// e^x and n = e^x (e^x + 2), with which tanh(ln(1 + e^x)) = n / (n + 2). Above 20, where the quotient is 1, the values of x = 20.
#[inline(always)]
pub(super) fn mish_parts<T: Real>(x: T) -> (T, T) {
    let limit = T::from_f64(20.0);
    let power = (if x > limit { limit } else { x }).exp();
    (power, power.mul(power.add(T::from_f64(2.0))))
}

/// sqrt(2 / pi).
pub(super) const GELU_SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
/// The cubic coefficient of the tanh approximation of GELU.
pub(super) const GELU_CUBE: f64 = 0.044_715;

/// The normal distribution function at x, without cancellation in the lower tail, and e^(-x^2 / 2).
#[inline(always)]
pub(super) fn normal<T: Real>(x: T) -> (T, T) {
    let (power, tail) = x.normal_tail();
    (if x < T::ZERO { tail } else { T::ONE.sub(tail) }, power)
}

/// Twice the argument u of GELU's tanh: (1 + tanh u) / 2 = 1 / (1 + e^-2u), which does not cancel where it is small.
#[inline(always)]
pub(super) fn gelu_tanh_argument<T: Real>(x: T) -> T {
    let cube = T::from_f64(GELU_CUBE).mul(x).mul(x);
    T::from_f64(2.0 * GELU_SCALE).mul(x.add(cube.mul(x)))
}
