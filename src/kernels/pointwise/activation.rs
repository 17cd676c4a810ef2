//! Activation functions.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::dtype::dispatch;
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run_brief};
use crate::tensor::number::{Field, Ordered, Real};

functions! {
    /// `aten::elu`: scale * x above 0, else scale * alpha * (e^(input_scale * x) - 1). Operands [out, x]; scalars [alpha, scale,
    /// input_scale].
    elu, Elu, FLOATING, Real, [alpha, scale, input_scale],
        |[x]| if x > T::ZERO { x.mul(scale) } else { x.mul(input_scale).expm1().mul(alpha.mul(scale)) };
    /// `aten::glu` of halves: x / (1 + e^-gate). Operands [out, x, gate].
    glu, Glu, FLOATING, Real, [], |[x, gate]| x.mul(gate.sigmoid());
    /// `aten::hardshrink`: 0 from -lambd to lambd, else x. Operands [out, x]; scalars [lambd].
    hardshrink, Hardshrink, FLOATING, Real, [lambd], |[x]| if x.abs() <= lambd { T::ZERO } else { x };
    /// `aten::hardsigmoid`: (x + 3) / 6 between 0 and 1. Operands [out, x].
    hardsigmoid, Hardsigmoid, FLOATING, Real, [],
        |[x]| x.add(T::from_f64(3.0)).maximum(T::ZERO).minimum(T::from_f64(6.0)).div(T::from_f64(6.0));
    /// `aten::hardswish`: x times its hardsigmoid. Operands [out, x].
    hardswish, Hardswish, FLOATING, Real, [],
        |[x]| x.mul(x.add(T::from_f64(3.0)).maximum(T::ZERO).minimum(T::from_f64(6.0))).div(T::from_f64(6.0));
    /// `aten::leaky_relu`: x above 0, else slope * x. Operands [out, x]; scalars [slope].
    leaky_relu, LeakyRelu, FLOATING, Real, [slope], |[x]| if x > T::ZERO { x } else { x.mul(slope) };
    /// `aten::log_sigmoid_forward`: -ln(1 + e^-x). Operands [out, x].
    log_sigmoid, LogSigmoid, FLOATING, Real, [], |[x]| x.minimum(T::ZERO).sub(x.abs().neg().exp().log1p_of_finite());
    /// `aten::mish`: x * tanh(ln(1 + e^x)). Operands [out, x].
    mish, Mish, FLOATING, Real, [], |[x]| {
        let (_, over) = mish_parts(x);
        x.mul(over.div(over.add(T::from_f64(2.0))))
    };
    /// `aten::_prelu_kernel`: x above 0, else weight * x. Operands [out, x, weight].
    prelu, Prelu, FLOATING, Real, [], |[x, weight]| if x > T::ZERO { x } else { x.mul(weight) };
    /// `aten::relu`: max(x, 0); NaN stays. Operands [out, x].
    relu, Relu, REAL | UNSIGNED, Ordered, [], |[x]| if x < T::ZERO { T::ZERO } else { x };
    /// `aten::silu`: x / (1 + e^-x). Operands [out, x].
    silu, Silu, FIELD, Field, [], |[x]| x.div(T::ONE.add(x.neg().exp()));
    /// `aten::softplus`: ln(1 + e^(beta x)) / beta; x where beta x is above the threshold. Operands [out, x]; scalars [beta, threshold].
    softplus, Softplus, FLOATING, Real, [beta, threshold], |[x]| {
        let scaled = x.mul(beta);
        if scaled > threshold { x } else { scaled.exp().log1p().div(beta) }
    };
    /// x moved towards 0 by lambd. Operands [out, x]; scalars [lambd].
    towards_zero, Softshrink, FLOATING, Real, [lambd],
        |[x]| if x > lambd { x.sub(lambd) } else if x < lambd.neg() { x.add(lambd) } else { x.mul(T::ZERO) };
    /// `aten::threshold`: x above the threshold (or NaN), else value. Operands [out, x, x]: PyTorch's meta names x twice; scalars
    /// [threshold, value].
    threshold, Threshold, REAL, Ordered, [threshold, value], |[x, other]| if x <= threshold { value } else { other };
}

/// e^x and n = e^x (e^x + 2), of which tanh(ln(1 + e^x)) = n / (n + 2). From 20 on those of 20: the quotient is 1.
#[inline(always)]
pub(super) fn mish_parts<T: Real>(x: T) -> (T, T) {
    let limit = T::from_f64(20.0);
    let power = (if x > limit { limit } else { x }).exp();
    (power, power.mul(power.add(T::from_f64(2.0))))
}

/// sqrt(2 / pi).
pub(super) const GELU_SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
/// The cubic coefficient of the approximation.
pub(super) const GELU_CUBE: f64 = 0.044_715;

#[derive(Clone, Copy)]
struct GeluErf;

impl<T: Real> Map<T, 1> for GeluErf {
    type Output = T;

    #[inline(always)]
    fn apply(self, [x]: [T; 1]) -> T {
        let erf = x.mul(T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf();
        T::from_f64(0.5).mul(x).mul(T::ONE.add(erf))
    }
}

#[derive(Clone, Copy)]
struct GeluTanh;

impl<T: Real> Map<T, 1> for GeluTanh {
    type Output = T;

    #[inline(always)]
    fn apply(self, [x]: [T; 1]) -> T {
        let cubic = x.add(T::from_f64(GELU_CUBE).mul(x).mul(x).mul(x));
        T::from_f64(0.5).mul(x).mul(T::ONE.add(T::from_f64(GELU_SCALE).mul(cubic).tanh()))
    }
}

/// `aten::gelu`: x times the normal distribution function of x. Operands [out, x]; scalars [approximate]: 0 by erf, 1 by tanh.
///
/// # Errors
/// A dtype outside the table's, or no scalar.
pub fn gelu(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    match launch.scalar(0)?.to::<i64>() {
        0 => dispatch!(dtype in FLOATING, T => run_brief::<T, _, 1>(launch, GeluErf)),
        _ => dispatch!(dtype in FLOATING, T => run_brief::<T, _, 1>(launch, GeluTanh)),
    }
}

/// `aten::softshrink`: x moved towards 0 by lambd. Operands [out, x]; scalars [lambd].
///
/// # Errors
/// A dtype outside the table's, or a negative lambd.
pub fn softshrink(launch: &Launch<'_>) -> Result<(), String> {
    let lambd: f64 = launch.scalar(0)?.to();
    if lambd < 0.0 {
        return Err(format!("lambda must be at least 0, but found {lambd}"));
    }
    towards_zero(launch)
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::launch::Scalar;

    fn check(name: &str, scalars: &[f64], oracle: impl Fn(f64) -> f64) {
        let scalars: Vec<Scalar> = scalars.iter().map(|&value| Scalar::Double(value)).collect();
        check::pointwise::<1>(name, &scalars, |dtype| dtype, |[x]| real(oracle(x.re)));
    }

    #[test]
    fn piecewise_linear_functions() {
        check("relu", &[], |x| x.max(0.0));
        check("leaky_relu", &[0.25], |x| if x > 0.0 { x } else { 0.25 * x });
        check("hardsigmoid", &[], |x| ((x + 3.0) / 6.0).clamp(0.0, 1.0));
        check("hardswish", &[], |x| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0));
        check("hardshrink", &[1.5], |x| if x.abs() <= 1.5 { 0.0 } else { x });
        check("softshrink", &[1.5], |x| {
            if x > 1.5 {
                x - 1.5
            } else if x < -1.5 {
                x + 1.5
            } else {
                0.0
            }
        });
        let scalars = [Scalar::Long(2), Scalar::Long(5)];
        check::pointwise::<2>(
            "threshold",
            &scalars,
            |dtype| dtype,
            |[x, other]| if x.re <= 2.0 { real(5.0) } else { real(other.re) },
        );
    }

    #[test]
    fn smooth_functions() {
        check::function("silu", |x| x / (1.0 + (-x).exp()), |z| z / (1.0 + (-z).exp()));
        check::pointwise::<2>("_prelu_kernel", &[], |dtype| dtype, |[x, w]| real(if x.re > 0.0 { x.re } else { x.re * w.re }));
        check("log_sigmoid_forward", &[], |x| -(-x).exp().ln_1p());
        check::pointwise::<2>("glu", &[], |dtype| dtype, |[x, gate]| real(x.re / (1.0 + (-gate.re).exp())));
        check("elu", &[1.5, 2.0, 0.5], |x| if x > 0.0 { 2.0 * x } else { 3.0 * (0.5 * x).exp_m1() });
        check("softplus", &[2.0, 5.0], |x| if 2.0 * x > 5.0 { x } else { (2.0 * x).exp().ln_1p() / 2.0 });
        check("mish", &[], |x| x * x.exp().ln_1p().tanh());
        let tanh = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh());
        check("gelu", &[1.0], tanh);
        let erf = |x: f64| {
            // The integral of the normal density by Simpson's rule.
            let (steps, density) = (2000, |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt());
            let width = x / f64::from(steps);
            let sum: f64 = (1..steps).map(|step| if step % 2 == 1 { 4.0 } else { 2.0 } * density(f64::from(step) * width)).sum();
            x * (0.5 + (density(0.0) + sum + density(x)) * width / 3.0)
        };
        let table: std::collections::HashMap<i64, f64> = (-64..=64).map(|eighths| (eighths, erf(eighths as f64 / 8.0))).collect();
        check("gelu", &[0.0], |x| table[&((x * 8.0) as i64)]);
    }
}
