//! The gamma function's logarithm and its derivative, in double precision and without branches; single precision is rounded from them.
//!
//! Asymptotic series of Stirling for large arguments, to which smaller ones come by the recurrence, and those below 1/2 by reflection.

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::f64::{log, polynomial, sin_cos_turns};

/// ln gamma(2 + d) / d for |d| <= 1/2.
const NEAR_2: [f64; 20] = [
    6.379047507619774e-8,
    -1.3412819758517287e-7,
    2.0304806751615227e-7,
    -4.303558760359961e-7,
    9.578663334114758e-7,
    -2.0449201467015115e-6,
    4.374374916915131e-6,
    -9.438458716242811e-6,
    2.050726741605779e-5,
    -4.4926351103833334e-5,
    9.945750909889392e-5,
    -2.2315475074524367e-4,
    5.096695248853096e-4,
    -1.1927539120010226e-3,
    2.890510330738737e-3,
    -7.3855510286681535e-3,
    2.058080842778457e-2,
    -6.735230105319814e-2,
    3.224670334241132e-1,
    4.2278433509846713e-1,
];
/// B(2k) / (2k (2k - 1)) for k from 9 to 1.
const STIRLING: [f64; 9] = [
    43867.0 / 244_188.0,
    -3617.0 / 122_400.0,
    1.0 / 156.0,
    -691.0 / 360_360.0,
    1.0 / 1188.0,
    -1.0 / 1680.0,
    1.0 / 1260.0,
    -1.0 / 360.0,
    1.0 / 12.0,
];
/// B(2k) / 2k for k from 8 to 1.
const DIGAMMA: [f64; 8] =
    [-3617.0 / 8160.0, 1.0 / 12.0, -691.0 / 32760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0];
/// From here on the series serve.
const LARGE: f64 = 8.5;
/// ln(2 pi) / 2 - 1 / 2.
const STIRLING_OFFSET: f64 = 0.418_938_533_204_672_74;

/// sin and cos of pi x for what x has beyond the nearest integer, of which they differ from those of x by the sign alone.
#[inline(always)]
fn sin_cos_of_fraction(x: f64) -> (f64, f64) {
    sin_cos_turns(0.5 * (x - x.round_ties_even()))
}

/// ln |gamma(x)|; 4 ulp of the result or of 1. Infinite at the integers up to 0.
#[inline(always)]
pub fn lgamma(x: f64) -> f64 {
    let reflect = x < 0.5;
    let y = if reflect { 1.0 - x } else { x };
    // gamma(y) = product gamma(z) with z from 3/2 to 5/2, or gamma(z) / y.
    let (mut z, mut product) = (y, 1.0);
    for _ in 0..6 {
        let above = z > 2.5 && y < LARGE;
        let below = z - 1.0;
        product = if above { product * below } else { product };
        z = if above { below } else { z };
    }
    let under = y < 1.5;
    let offset = if under { y - 1.0 } else { z - 2.0 };
    let logarithm = log(if y < LARGE && !under { product } else { y });
    let near = polynomial(offset, NEAR_2).mul_add(offset, if under { -logarithm } else { logarithm });
    let inverse = 1.0 / y;
    let series = polynomial(inverse * inverse, STIRLING).mul_add(inverse, STIRLING_OFFSET);
    let far = (y - 0.5).mul_add(logarithm - 1.0, series);
    let right = if y < LARGE { near } else { far };
    let (sine, _) = sin_cos_of_fraction(x);
    let left = log(std::f64::consts::PI / sine.abs()) - right;
    let result = if reflect { left } else { right };
    if x.abs() == f64::INFINITY { f64::INFINITY } else { result }
}

/// The derivative of ln gamma(x); 4 ulp of the result or of 1. Infinite at 0, NaN at the integers below.
#[inline(always)]
pub fn digamma(x: f64) -> f64 {
    let reflect = x < 0.5;
    let y = if reflect { 1.0 - x } else { x };
    // digamma(y) = digamma(z) - over / under with z from 10 on.
    let (mut z, mut over, mut under) = (y, 0.0, 1.0);
    for _ in 0..10 {
        let below = z < 10.0;
        over = if below { over * z + under } else { over };
        under = if below { under * z } else { under };
        z = if below { z + 1.0 } else { z };
    }
    let inverse = 1.0 / z;
    let square = inverse * inverse;
    let series = square.mul_add(polynomial(square, DIGAMMA), 0.5 * inverse);
    let right = log(z) - (series + over / under);
    let (sine, cosine) = sin_cos_of_fraction(x);
    let left = right - std::f64::consts::PI * cosine / sine;
    let left = if sine == 0.0 { f64::NAN } else { left };
    let result = if reflect { left } else { right };
    let result = if x == f64::INFINITY { x } else { result };
    if x == 0.0 { f64::INFINITY.copysign(-x) } else { result }
}
