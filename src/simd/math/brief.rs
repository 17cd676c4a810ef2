//! Functions of `f32` for results that are rounded to 16 bits, with shorter polynomials than those of [`super::f32`]; what is not here is as
//! it is there. Errors are relative and below 2^-15, an eighth of half a unit in the last place of binary16, a 64th of one of bfloat16.
//!
//! NaN stays NaN if its last 9 bits are 0, as they are in 16 bit floats and in what the processor makes. Polynomials are minimax ones, found
//! by linear programming.

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, reason = "coefficients as they were found")]

use std::f32::consts::LOG2_E;

use super::f32::{ROUND, clamp, integer, polynomial, power_of_two};
pub use super::f32::{
    acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, erf, erfc, hypot, is_near, lgamma, log, log1p, log1p_of_finite, log2,
    log10, logaddexp, logaddexp2, nextafter, pow, sin, sin_cos_near, sinh, tan, tan_near,
};

/// From this number on, and up to the next one, e^x is a normal number.
const LEAST: f32 = -87.336_54;
const GREATEST: f32 = 88.722_83;
/// From this magnitude on, 16 bits hold 1 for tanh x.
const TANH_LIMIT: f32 = 5.7;

/// tanh(x) / x by x^2, up to the limit: the quotient of two polynomials.
const TANH_OVER: [f32; 3] = [0.001_551_408_8, 0.115_387_36, 0.999_994_8];
const TANH_UNDER: [f32; 4] = [5.865_748_2e-5, 0.017_824_108, 0.448_683_74, 1.0];

/// scale x = n + f with a whole n and |f| <= 1/2: gives n + [`ROUND`] and 2^f - 1.
#[inline(always)]
fn parts(x: f32, scale: f32) -> (f32, f32) {
    let rounded = x.mul_add(scale, ROUND);
    // Not ROUND - rounded: a sum of zeros of both signs loses the sign of x.
    let f = x.mul_add(scale, -(rounded - ROUND));
    (rounded, f * polynomial(f, [0.009_618_111, 0.055_837_29, 0.240_232_53, 0.693_136_9]))
}

/// 2^(scale x), 0 where that is below the normal numbers.
#[inline(always)]
fn power(x: f32, scale: f32, least: f32, greatest: f32) -> f32 {
    let (rounded, p) = parts(x, scale);
    // n is in the last bits of `rounded`, and goes to the exponent.
    let power = f32::from_bits((p + 1.0).to_bits().wrapping_add(rounded.to_bits() << 23));
    let power = if x < least { 0.0 } else { power };
    if x > greatest { f32::INFINITY } else { power }
}

/// e^x for an x that is not above 0; 0 where that is below the normal numbers.
#[inline(always)]
pub fn exp_nonpositive(x: f32) -> f32 {
    power(x, LOG2_E, LEAST, f32::INFINITY)
}

/// e^x; 0 where that is below the normal numbers.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    power(x, LOG2_E, LEAST, GREATEST)
}

/// 2^x; 0 where that is below the normal numbers.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    power(x, 1.0, -126.0, 128.0)
}

/// e^x - 1.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let (rounded, p) = parts(clamp(x, -20.0, 89.0), LOG2_E);
    // Half of the power: 2^n for the greatest n is out of range.
    let half = power_of_two(integer(rounded).wrapping_sub(1));
    let result = 2.0 * p.mul_add(half, half - 0.5);
    // Zero keeps its sign.
    if rounded == ROUND { p } else { result }
}

/// tanh x.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let x = clamp(x, -TANH_LIMIT, TANH_LIMIT);
    let square = x * x;
    x * polynomial(square, TANH_OVER) / polynomial(square, TANH_UNDER)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}
