//! The logarithm of the gamma function and its derivative, without branches. The derivative in single precision is rounded from the
//! double.
//!
//! Large arguments use Stirling's asymptotic series. Smaller ones are moved there by the recurrence, and those below 1/2 by
//! reflection. Single precision uses shorter minimax polynomials instead, found by reweighted least squares at Chebyshev nodes.

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::f64::{log, polynomial, sin_cos_turns};

/// ln gamma(2 + d) / d for |d| <= 1/2.
const NEAR_2: [f64; 20] = [
    6.379_047_507_619_774e-8,
    -1.341_281_975_851_728_7e-7,
    2.030_480_675_161_522_7e-7,
    -4.303_558_760_359_961e-7,
    9.578_663_334_114_758e-7,
    -2.044_920_146_701_511_5e-6,
    4.374_374_916_915_131e-6,
    -9.438_458_716_242_811e-6,
    2.050_726_741_605_779e-5,
    -4.492_635_110_383_333_4e-5,
    9.945_750_909_889_392e-5,
    -2.231_547_507_452_436_7e-4,
    5.096_695_248_853_096e-4,
    -1.192_753_912_001_022_6e-3,
    2.890_510_330_738_737e-3,
    -7.385_551_028_668_153_5e-3,
    2.058_080_842_778_457e-2,
    -6.735_230_105_319_814e-2,
    3.224_670_334_241_132e-1,
    4.227_843_350_984_671_3e-1,
];
/// B(2k) / (2k (2k - 1)) for k from 9 down to 1, with the Bernoulli numbers B.
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
/// B(2k) / 2k for k from 8 down to 1, with the Bernoulli numbers B.
const DIGAMMA: [f64; 8] =
    [-3617.0 / 8160.0, 1.0 / 12.0, -691.0 / 32760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0];
/// The argument from which on the series are accurate.
const LARGE: f64 = 8.5;
/// The magnitude below which only the functions' pole at 0 matters.
const LEAST: f64 = 1e-300;
/// ln(2 pi) / 2 - 1 / 2.
const STIRLING_OFFSET: f64 = 0.418_938_533_204_672_74;

/// sin and cos of pi r, where r is the difference of x and the nearest integer. They differ from those of pi x in the sign alone.
#[inline(always)]
fn sin_cos_of_fraction(x: f64) -> (f64, f64) {
    sin_cos_turns(0.5 * (x - x.round_ties_even()))
}

/// ln |gamma(x)|; 4 ulp of the result or of 1, whichever is greater. Infinite at the integers up to 0.
#[inline(always)]
pub fn lgamma(x: f64) -> f64 {
    let reflect = x < 0.5;
    let y = if reflect { 1.0 - x } else { x };
    // gamma(y) = product gamma(z) with z from 3/2 to 5/2; for y < 3/2 gamma(y) = gamma(y + 1) / y.
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
    // Next to 0 the result is -ln |x|: there pi divided by the sine overflows, and 1 / x may.
    let is_least = x.abs() < LEAST;
    let left = log(if is_least { x.abs() } else { std::f64::consts::PI / sine.abs() });
    let left = if is_least { -left } else { left - right };
    // At the integers far below 0 both terms are infinite.
    let left = if sine == 0.0 && !is_least { f64::INFINITY } else { left };
    let result = if reflect { left } else { right };
    if x.abs() == f64::INFINITY { f64::INFINITY } else { result }
}

/// ln gamma(2 + d) / d for |d| <= 1/2; error 4e-12.
const NEAR_2_OF_F32: [f64; 11] = [
    -5.412_228_849_945_112e-5,
    1.162_155_916_381_556_1e-4,
    -2.199_662_834_036_723_2e-4,
    5.049_182_313_445_503e-4,
    -1.193_275_500_565_219_4e-3,
    2.891_111_659_052_471e-3,
    -7.385_509_969_051_178e-3,
    2.058_077_543_540_441e-2,
    -6.735_230_240_823_968e-2,
    3.224_670_340_100_095_3e-1,
    4.227_843_351_100_767e-1,
];
/// y (ln gamma(y) - (y - 1/2) (ln y - 1) - [`STIRLING_OFFSET`]) as a polynomial of 1 / y^2, for y >= 7/2; error 3e-12.
const STIRLING_OF_F32: [f64; 5] = [
    5.493_351_700_726_627e-4,
    -5.744_699_101_790_654e-4,
    7.929_607_424_339_326e-4,
    -2.777_768_185_027_229e-3,
    8.333_333_329_564_958e-2,
];
/// (sin(pi r) / (pi r) - 1) / r^2 as a polynomial of r^2, for |r| <= 1/2; error 2e-13.
const SINE_OF_F32: [f64; 6] = [
    1.425_177_627_813_033e-4,
    -2.344_097_540_710_669e-3,
    2.614_751_936_986_909e-2,
    -1.907_517_965_911_256_5e-1,
    8.117_424_242_217_762e-1,
    -1.644_934_066_834_592_9,
];

/// ln |gamma(x)| in single precision; 1 ulp, or an absolute 1e-11 near the zeros below 1/2. Infinite at the integers up to 0.
///
/// Computed in double precision, since below 1/2 logarithms cancel, with polynomials of the degree that this requires.
#[inline(always)]
pub fn lgamma_f32(x: f32) -> f32 {
    let x = x as f64;
    let reflect = x < 0.5;
    let y = if reflect { 1.0 - x } else { x };
    // gamma(y) = gamma(y + 1) / y up to 3/2, and (y - 1) gamma(y - 1) from 5/2 to 7/2.
    let (under, over, far, below) = (y < 1.5, y > 2.5, y > 3.5, y - 1.0);
    let factor = if over { below } else { 1.0 };
    let logarithm = log(if under || far { y } else { factor });
    let offset = if under { below } else { (if over { below } else { y }) - 2.0 };
    let near = polynomial(offset, NEAR_2_OF_F32).mul_add(offset, if under { -logarithm } else { logarithm });
    let inverse = 1.0 / y;
    let series = polynomial(inverse * inverse, STIRLING_OF_F32).mul_add(inverse, STIRLING_OFFSET);
    let right = if far { (y - 0.5).mul_add(logarithm - 1.0, series) } else { near };
    let fraction = x - x.round_ties_even();
    let square = fraction * fraction;
    // sin(pi x) / pi.
    let sine = (polynomial(square, SINE_OF_F32) * square).mul_add(fraction, fraction).abs();
    let left = -log(sine) - right;
    // At the integers far below 0 both terms are infinite.
    let left = if sine == 0.0 { f64::INFINITY } else { left };
    let result = if reflect { left } else { right };
    (if x.abs() == f64::INFINITY { f64::INFINITY } else { result }) as f32
}

/// The derivative of ln gamma(x); 4 ulp of the result or of 1, whichever is greater. Infinite at 0, NaN at the negative integers.
#[inline(always)]
pub fn digamma(x: f64) -> f64 {
    let reflect = x < 0.5;
    let y = if reflect { 1.0 - x } else { x };
    // digamma(y) = digamma(z) - over / under with z >= 10.
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
    // Next to 0 the result is -1 / x: there the sine may be 0.
    let is_least = x.abs() < LEAST;
    let (over, under) = if is_least { (1.0, x) } else { (std::f64::consts::PI * cosine, sine) };
    let left = right - over / under;
    let left = if under == 0.0 { f64::NAN } else { left };
    let result = if reflect { left } else { right };
    let result = if x == f64::INFINITY { x } else { result };
    if x == 0.0 { f64::INFINITY.copysign(-x) } else { result }
}
