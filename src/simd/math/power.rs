//! Powers of `f32`. The logarithm to base 2 is computed in `f64`, so that its product with the exponent keeps the precision of
//! `f32`.
//!
//! Polynomials are minimax polynomials, found by reweighted least squares at Chebyshev nodes.

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::f32::normal_parts;
use super::f64::polynomial;

/// log2(1 + f) / f for 1 + f from sqrt(1/2) to sqrt(2); relative error 1e-10.
const LOG2: [f64; 12] = [
    -0.086_345_924_315_382_57,
    0.154_857_478_976_600_74,
    -0.156_982_267_648_999_16,
    0.159_001_508_580_566_3,
    -0.179_046_952_742_531_05,
    0.206_096_255_307_793_83,
    -0.240_504_174_060_385_82,
    0.288_540_643_595_372_35,
    -0.360_672_800_548_477_9,
    0.480_898_320_728_909_87,
    -0.721_347_525_213_204_4,
    1.442_695_040_939_347_3,
];
/// (2^r - 1) / r for |r| <= 1/2; error of the power 2e-9.
const EXP2: [f64; 6] = [
    1.535_336_182_967_754_8e-4,
    1.339_887_444_578_058_3e-3,
    9.618_437_358_255_582e-3,
    5.550_332_471_026_299e-2,
    0.240_226_479_136_198_52,
    0.693_147_202_855_129_2,
];
/// Adding and subtracting this rounds a small value to the nearest integer, which the low bits of the sum hold.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Powers with a logarithm beyond this are 0 or infinite in `f32`, but finite in `f64`.
const LIMIT: f64 = 200.0;

/// log2 |x|; -infinity at 0.
#[inline(always)]
fn log2_of_magnitude(x: f32) -> f64 {
    let x = x.abs();
    let (bits, shift) = normal_parts(x);
    let offset = (bits as i32).wrapping_sub(0x3f35_04f3);
    let f = f32::from_bits(((offset & 0x7f_ffff) + 0x3f35_04f3) as u32) as f64 - 1.0;
    let finite = polynomial(f, LOG2).mul_add(f, ((offset >> 23) - shift) as f64);
    let log = if x < f32::INFINITY { finite } else { x as f64 };
    if x == 0.0 { f64::NEG_INFINITY } else { log }
}

/// base^exponent; 1 ulp. Special cases as in IEEE 754: 1 for exponent 0 or base 1, whatever the other is; NaN for a negative base
/// with an exponent that is not an integer.
#[inline(always)]
pub fn pow(base: f32, exponent: f32) -> f32 {
    // An infinite exponent is clamped to the greatest number: the results are the same, and the product with log2 1 = 0 is no NaN.
    let bounded = if exponent > f32::MAX { f32::MAX } else { exponent };
    let bounded = if bounded < -f32::MAX { -f32::MAX } else { bounded };
    let log = bounded as f64 * log2_of_magnitude(base);
    let log = if log > LIMIT { LIMIT } else { log };
    let log = if log < -LIMIT { -LIMIT } else { log };
    let rounded = log + ROUND;
    let rest = log - (rounded - ROUND);
    let scale = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    let magnitude = (polynomial(rest, EXP2).mul_add(rest, 1.0) * scale) as f32;
    let half = exponent * 0.5;
    let is_whole = exponent == exponent.floor();
    let is_odd = is_whole && half != half.floor();
    let signed = magnitude.copysign(if is_odd { base } else { 1.0 });
    let is_defined = is_whole || base >= 0.0 || base == f32::NEG_INFINITY;
    let result = if is_defined { signed } else { f32::NAN };
    if base == 1.0 || exponent == 0.0 { 1.0 } else { result }
}
