//! Approximations of elementary functions of `f32`, for results that are rounded to 16 bits. Their polynomials are shorter than
//! those of [`super::f32`], whose functions are used where an approximation is missing here. Errors are relative and below 2^-15:
//! an eighth of half a unit in the last place of binary16, a 64th of one of bfloat16.
//!
//! NaN propagates if its last 9 bits are 0, as in widened 16 bit floats and in the processor's own NaN. Polynomials are minimax
//! polynomials, found by linear programming.

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, reason = "coefficients as they were found")]

use std::f32::consts::LOG2_E;

use super::f32::{NORMAL_LIMIT, RAISED, ROUND, clamp, integer, polynomial, power_of_two};
pub use super::f32::{
    acos, acosh, asin, asinh, atan, atanh, cosh, erfc, erfinv, hypot, ldexp, lgamma, log2, log10, logaddexp, logaddexp2, nextafter,
    sigmoid_and_rest, sin_cos_fast, sinc, sinh, takes_fast_path, tan, tan_fast,
};

/// From this magnitude on, tanh x rounds to 1 in 16 bits.
const TANH_LIMIT: f32 = 5.7;

/// tanh(x) / x as a function of x^2, up to the limit: the quotient of two polynomials.
const TANH_OVER: [f32; 3] = [0.001_551_408_8, 0.115_387_36, 0.999_994_8];
const TANH_UNDER: [f32; 4] = [5.865_748_2e-5, 0.017_824_108, 0.448_683_74, 1.0];

/// Splits scale x = n + f with an integer n and |f| <= 1/2 into n + [`ROUND`] and 2^f - 1.
#[inline(always)]
fn parts(x: f32, scale: f32) -> (f32, f32) {
    let rounded = x.mul_add(scale, ROUND);
    // Not `+ (ROUND - rounded)`: for x = -0 that sum would lose the sign.
    let f = x.mul_add(scale, -(rounded - ROUND));
    (rounded, f * polynomial(f, [0.009_618_111, 0.055_837_29, 0.240_232_53, 0.693_136_9]))
}

/// 2^(scale x), 0 below `least`; x is clamped to `greatest`.
#[inline(always)]
fn power(x: f32, scale: f32, least: f32, greatest: f32) -> f32 {
    // The square of 2^(scale x / 2), which is in range even if the result overflows.
    let (rounded, p) = parts(if x > greatest { greatest } else { x }, 0.5 * scale);
    // The low bits of `rounded` hold n, which is added to the exponent.
    let root = f32::from_bits((p + 1.0).to_bits().wrapping_add(rounded.to_bits() << 23));
    // Avoids a product that underflows: some processors take long for it.
    let root = if x < least { 0.0 } else { root };
    root * root
}

/// e^x for x <= 0.
#[inline(always)]
pub fn exp_nonpositive(x: f32) -> f32 {
    let (rounded, p) = parts(x, LOG2_E);
    // As in `shared`: scaled by a factor with which all powers are normal numbers.
    let raised = f32::from_bits(p.mul_add(RAISED, RAISED).to_bits().wrapping_add(rounded.to_bits() << 23));
    (if x < -104.0 { 0.0 } else { raised }) * (1.0 / RAISED)
}

#[inline(always)]
pub fn exp(x: f32) -> f32 {
    power(x, LOG2_E, -104.0, 89.0)
}

#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    power(x, 1.0, -150.0, 128.0)
}

/// e^x - 1.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let (rounded, p) = parts(clamp(x, -20.0, 89.0), LOG2_E);
    // Half of the power, because 2^n overflows for the greatest n.
    let half = power_of_two(integer(rounded).wrapping_sub(1));
    let result = 2.0 * p.mul_add(half, half - 0.5);
    // Keeps the sign of zero.
    if rounded == ROUND { p } else { result }
}

#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let x = clamp(x, -TANH_LIMIT, TANH_LIMIT);
    let square = x * x;
    x * polynomial(square, TANH_OVER) / polynomial(square, TANH_UNDER)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let power = exp_nonpositive(-x.abs());
    (if x < 0.0 { power } else { 1.0 }) / (1.0 + power)
}

/// factor / (1 + e^-x).
#[inline(always)]
pub fn scaled_sigmoid(x: f32, factor: f32) -> f32 {
    let power = exp_nonpositive(-x.abs());
    factor * (if x < 0.0 { power } else { 1.0 }) / (1.0 + power)
}

/// The numerator and denominator of a factor of [`normal_tail`].
const TAIL_OVER: [f32; 4] = [0.017_171_062, 0.120_051_33, 0.362_874_63, 0.499_999_8];
const TAIL_UNDER: [f32; 5] = [0.043_046_19, 0.300_729_33, 0.955_926_18, 1.523_614_1, 1.0];

/// e^(-x^2 / 2) for an x with at most 12 significant bits, and the probability of the normal distribution's tail beyond |x|.
#[inline(always)]
pub fn normal_tail(x: f32) -> (f32, f32) {
    let magnitude = clamp(x.abs(), 0.0, NORMAL_LIMIT);
    let power = exp_nonpositive(-0.5 * magnitude * magnitude);
    (power, power * polynomial(magnitude, TAIL_OVER) / polynomial(magnitude, TAIL_UNDER))
}
