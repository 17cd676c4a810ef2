//! Gradients of activation functions: `*_backward`.
//!
//! Operands are in the order of the arguments, except those of `glu_backward` and `log_sigmoid_backward`. PyTorch's meta
//! functions of `threshold_backward` and `leaky_relu_backward` have them in another order: `swapped` in
//! `src/ops/pointwise/operator/table.rs`.

use super::activation::{GELU_CUBE, GELU_SCALE, gelu_tanh_argument, mish_parts, normal};
use super::functions;
use crate::tensor::{Field, Number, Ordered, Real, signature};

signature! {
    /// `aten::gelu_backward`; `approximate` is 0 for erf, 1 for tanh.
    gelu_backward(out; grad, x)[approximate] in FLOATING => |launch| {
        let is_tanh = gelu_backward::Scalars::of(launch)?.approximate.is_true();
        if is_tanh { gelu_tanh_backward(launch) } else { gelu_erf_backward(launch) }
    };
}

functions! {
    elu_backward, EluBackward, FLOATING, Real, [alpha, scale, input_scale, is_result], |[grad, x]| {
        let slope = if is_result == T::ZERO {
            alpha.mul(scale).mul(x.mul(input_scale).exp())
        } else {
            x.add(alpha.mul(scale))
        };
        // NaN fails the comparison, and propagates through the slope.
        grad.mul(if x > T::ZERO { scale } else { input_scale.mul(slope) })
    };
    /// `aten::gelu_backward` by the error function.
    gelu_erf_backward, GeluErfBackward, FLOATING, Real in Acc, [], |[grad, x]| {
        let (distribution, power) = normal(x);
        grad.mul(distribution.add(x.mul(T::from_f64(0.5 * GELU_SCALE).mul(power))))
    };
    /// `aten::gelu_backward` by tanh.
    gelu_tanh_backward, GeluTanhBackward, FLOATING, Real in Acc, [], |[grad, x]| {
        let (sigmoid, rest) = gelu_tanh_argument(x).sigmoid_and_rest();
        let inner = T::from_f64(2.0 * GELU_SCALE).mul(T::ONE.add(T::from_f64(3.0 * GELU_CUBE).mul(x).mul(x)));
        let product = x.mul(sigmoid.mul(rest)).mul(inner);
        // Beyond 30 the sigmoid is 0 or 1 and the product is x - x: NaN for an infinite x, as on PyTorch's CPU.
        let product = if x.abs() > T::from_f64(30.0) { x.sub(x) } else { product };
        grad.mul(sigmoid.add(product))
    };
    /// `aten::glu_backward` with respect to the gate.
    glu_backward, GluBackward, FLOATING, Real, [], |[sigmoid, x, grad]| T::ONE.sub(sigmoid).mul(sigmoid).mul(x).mul(grad);
    hardswish_backward, HardswishBackward, FLOATING, Real, [], |[grad, x]| {
        let three = T::from_f64(3.0);
        let slope = x.div(three).add(T::from_f64(0.5));
        // NaN fails both comparisons, and propagates through the slope.
        if x <= three.neg() { T::ZERO } else if x >= three { grad } else { grad.mul(slope) }
    };
    /// `aten::hardtanh_backward`: grad between the limits and for NaN, else 0.
    hardtanh_backward, HardtanhBackward, FLOATING, Real, [min_val, max_val], |[grad, x]| {
        if x <= min_val || x >= max_val { T::ZERO } else { grad }
    };
    /// `aten::hardshrink_backward`: grad, 0 from -lambd to lambd.
    hardshrink_backward, HardshrinkBackward, FLOATING, Real, [lambd], |[grad, x]| if x.abs() <= lambd { T::ZERO } else { grad };
    /// `aten::hardsigmoid_backward`: grad / 6 between -3 and 3, else 0.
    hardsigmoid_backward, HardsigmoidBackward, FLOATING, Real, [],
        |[grad, x]| if x.abs() < T::from_f64(3.0) { grad.div(T::from_f64(6.0)) } else { T::ZERO };
    /// `aten::leaky_relu_backward`: grad where x (or the result) is above 0, else slope * grad.
    leaky_relu_backward, LeakyReluBackward, FLOATING, Real, [negative_slope, _self_is_result],
        |[grad, x]| if x > T::ZERO { grad } else { grad.mul(negative_slope) };
    /// `aten::log_sigmoid_backward`: grad / (1 + e^x).
    log_sigmoid_backward, LogSigmoidBackward, FLOATING, Real, [], |[x, grad]| grad.mul(x.neg().sigmoid());
    /// `aten::logit_backward`: grad / (x (1 - x)). Outside the domain it is 0 if `logit` clamps its input, else NaN.
    logit_backward, LogitBackward, FLOATING, Real, [has_eps, eps], |[grad, x]| {
        let limited = has_eps != T::ZERO && eps >= T::ZERO;
        let eps = if limited { eps } else { T::ZERO };
        let outside = x < eps || x > T::ONE.sub(eps);
        let inside = grad.div(x.mul(T::ONE.sub(x)));
        let beyond = if limited { T::ZERO } else { T::from_f64(f64::NAN) };
        if outside { beyond } else { inside }
    };
    /// `aten::mish_backward`: grad times 4 e^x / (n + 2)^2 times x + 1 + e^x (x + 3/2 + e^x (1 + e^x / 4)). This sum cancels only
    /// where the slope is 0.
    mish_backward, MishBackward, FLOATING, Real in Acc, [], |[grad, x]| {
        let (power, over) = mish_parts(x);
        let limit = T::from_f64(20.0);
        let bounded = if x > limit { limit } else { x };
        let share = T::ONE.div(over.add(T::from_f64(2.0)));
        let inner = bounded.add(T::from_f64(1.5)).add(power.mul(T::ONE.add(power.mul(T::from_f64(0.25)))));
        let sum = bounded.add(T::ONE).add(power.mul(inner));
        let slope = sum.mul(share).mul(share).mul(T::from_f64(4.0)).mul(power);
        // Above the limit the slope is 1; adding x - x makes it NaN for an infinite x, as on PyTorch's CPU.
        grad.mul(slope.add(if x > limit { x.sub(x) } else { T::ZERO }))
    };
    /// `aten::sigmoid_backward`: grad * conj(y (1 - y)), where y is the result. Operands [out, grad, y].
    sigmoid_backward, SigmoidBackward, FIELD, Number, [], |[grad, y]| grad.mul(T::ONE.sub(y).mul(y).conj());
    /// `aten::silu_backward`: grad * s (1 + x (1 - s)), where s is the sigmoid of x; not conjugated, as on PyTorch's CPU.
    silu_backward, SiluBackward, FIELD, Field in Acc, [], |[grad, x]| {
        let (sigmoid, rest) = x.sigmoid_and_rest();
        grad.mul(sigmoid.mul(T::ONE.add(x.mul(rest))))
    };
    /// `aten::softplus_backward`: grad / (1 + e^(-beta x)); grad where beta x is above the threshold.
    softplus_backward, SoftplusBackward, FLOATING, Real, [beta, threshold], |[grad, x]| {
        let scaled = x.mul(beta);
        if scaled > threshold { grad } else { grad.mul(scaled.sigmoid()) }
    };
    /// `aten::softshrink_backward`: grad, 0 from -lambd to lambd.
    softshrink_backward, SoftshrinkBackward, FLOATING, Real, [lambd], |[grad, x]| if x.abs() <= lambd { T::ZERO } else { grad };
    /// `aten::tanh_backward`: grad * conj(1 - y^2), where y is the result. Operands [out, grad, y].
    tanh_backward, TanhBackward, FIELD, Number, [], |[grad, y]| grad.mul(T::ONE.sub(y.mul(y)).conj());
    /// `aten::threshold_backward`: grad where x is above the threshold (or NaN), else 0.
    threshold_backward, ThresholdBackward, REAL, Ordered, [threshold], |[grad, x]| if x <= threshold { T::ZERO } else { grad };
}
