//! Elementary functions of `f32`.
//!
//! Polynomials interpolate at Chebyshev nodes. Range reductions are the usual ones (J.-M. Muller, *Elementary Functions*); `erf`
//! has the two ranges of N. Juffa's implementation (<https://stackoverflow.com/a/35148199>).

#![forbid(unsafe_code)]
// Constants that are split in two have more digits than their first part holds, and some coefficients are close to known constants.
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use std::f32::consts;

/// The type for which [`shared!`](super::shared) is instantiated.
type Float = f32;
type Bits = u32;
type Integer = i32;

super::float_functions::shared!();

pub use super::gamma::lgamma_f32 as lgamma;
pub use super::normal::erfinv_f32 as erfinv;
pub use super::power::pow;

/// Adding and subtracting this rounds a value of magnitude below 2^22 to the nearest integer.
pub(super) const ROUND: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;
/// From this magnitude on, e^x is 0 or infinite.
const EXP_LIMIT: f32 = 104.0;
/// Beyond these, e^x - 1 is -1 or infinite.
const EXPM1_LIMITS: [f32; 2] = [-20.0, 89.0];
/// From this magnitude on, tanh x is 1 or -1.
const TANH_LIMIT: f32 = 10.0;
/// Below this magnitude, sin x and tan x are x.
const LINEAR: f32 = 1e-4;
/// A power of 2 that scales 1 and the least powers of e to normal numbers.
pub(super) const RAISED: f32 = f32::from_bits((127 + 64) << 23);
/// From this magnitude on, e^(-x^2 / 2) is 0.
pub(super) const NORMAL_LIMIT: f32 = 14.5;

/// log2(e) - `consts::LOG2_E`.
const LOG2_E_LOW: f32 = 1.925_963e-8;
/// log10(e) - `consts::LOG10_E`.
const LOG10_E_LOW: f32 = -1.010_305e-8;
/// log10(2) in two parts; multiples of the first by exponents are exact.
const LOG10_2_HIGH: f32 = 3.010_254e-1;
const LOG10_2_LOW: f32 = 4.605_039e-6;
/// pi / 2 - `consts::FRAC_PI_2`.
const FRAC_PI_2_LOW: f32 = -4.371_139e-8;
/// The squares of numbers from the reciprocal of this one up to this one are in range; above, 1 + x^2 rounds to x^2.
const SQUARABLE: f32 = 9.0e18;
/// Scales large numbers into that range; its reciprocal scales small ones.
const HYPOT_SHRINK: f32 = f32::from_bits((127 - 100) << 23);

/// (asin(x) / x - 1) / x^2 as a polynomial of x^2, up to 1/4.
const ASIN: [f32; 5] = [3.808_502_5e-2, 2.655_454_2e-2, 4.500_138e-2, 7.498_855e-2, 1.666_667_3e-1];
/// (atan(x) / x - 1) / x^2 as a polynomial of x^2, up to tan(pi / 8)^2.
const ATAN: [f32; 5] = [-6.451_718_5e-2, 1.074_366_9e-1, -1.426_395e-1, 1.999_954e-1, -3.333_333e-1];
/// (1 + 2x) e^(x^2) erfc x as a polynomial of (x - c) / (x + c), for x >= 0, where c is the centre.
const ERFCX: [f32; 12] = [
    6.807_515e-5,
    1.608_403_4e-4,
    -3.709_284e-4,
    -1.395_805e-3,
    1.230_503_2e-3,
    8.689_253e-3,
    -8.024_739e-3,
    -5.421_199_6e-2,
    1.640_505e-1,
    -1.660_310_9e-1,
    -9.276_382e-2,
    1.276_978_4,
];
const ERFCX_CENTRE: f32 = 2.0;

/// The coefficients of [`sin_cos_turns`].
const SINE: [f32; 5] = narrowed(super::quarter_turn_series(1));
const COSINE: [f32; 5] = narrowed(super::quarter_turn_series(0));

const fn narrowed<const N: usize>(wide: [f64; N]) -> [f32; N] {
    let mut narrow = [0.0; N];
    let mut position = 0;
    while position < N {
        narrow[position] = wide[position] as f32;
        position += 1;
    }
    narrow
}

/// e^r - 1 for |r| <= ln 2 / 2.
#[inline(always)]
fn expm1_near_0(r: f32) -> f32 {
    let p = polynomial(r, [1.989_108e-4, 1.393_373_1e-3, 8.333_310_5e-3, 4.166_646_3e-2, 0.166_666_67, 0.5]);
    p.mul_add(r * r, r)
}

/// ln x for a positive normal x; 1 ulp.
#[inline(always)]
pub fn log_of_normal(x: f32) -> f32 {
    let (e, f) = log_parts(x.to_bits(), 0);
    log_of_parts(e, f)
}

#[inline(always)]
fn small_float(n: i32) -> f32 {
    n as f32
}

/// The bits of sqrt(1/2).
const SQRT_HALF: i32 = 0x3f35_04f3;

/// For the positive normal number x with these bits: the exponent e and m - 1, where 2^-shift x = 2^e m with m from sqrt(1/2) to
/// sqrt(2).
#[inline(always)]
fn log_parts(bits: u32, shift: i32) -> (f32, f32) {
    let offset = (bits as i32).wrapping_sub(SQRT_HALF);
    (((offset >> 23) - shift) as f32, f32::from_bits(((offset & 0x7f_ffff) + SQRT_HALF) as u32) - 1.0)
}

/// ln(1 + f) - (f - f^2 / 2), for 1 + f from sqrt(1/2) to sqrt(2).
#[inline(always)]
fn log_rest(f: f32) -> f32 {
    let p = polynomial(
        f,
        [
            0.069_716_12,
            -0.114_797_34,
            0.116_854_2,
            -0.124_256_87,
            0.142_490_58,
            -0.166_678_03,
            0.200_007_16,
            -0.249_999_97,
            0.333_333_3,
        ],
    );
    p * (f * f) * f
}

/// ln(2^e (1 + f)), for 1 + f from sqrt(1/2) to sqrt(2).
#[inline(always)]
fn log_of_parts(e: f32, f: f32) -> f32 {
    let low = e.mul_add(LN_2_LOW, log_rest(f));
    e.mul_add(LN_2_HIGH, f + (f * f).mul_add(-0.5, low))
}

/// The bits of 2^shift x and the shift, which makes a positive subnormal x normal. By masks, because for a conditional the compiler
/// would duplicate the code that follows.
#[inline(always)]
pub(super) fn normal_parts(x: f32) -> (u32, i32) {
    const SHIFT: i32 = 23;
    let subnormal = (x.to_bits() as i32).wrapping_sub(0x80_0000) >> 31;
    let scale = f32::from_bits(1f32.to_bits() + (((subnormal & SHIFT) as u32) << 23));
    ((x * scale).to_bits(), subnormal & SHIFT)
}

/// The exponent e of a positive number x = 2^e m with m from sqrt(1/2) to sqrt(2), and ln m as the sum of a large and a small part.
#[inline(always)]
fn split_log(x: f32) -> (f32, f32, f32) {
    let (bits, shift) = normal_parts(x);
    let (e, f) = log_parts(bits, shift);
    (e, f, (f * f).mul_add(-0.5, log_rest(f)))
}

/// ln x; 1 ulp. NaN below 0, -infinity at 0.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    let (bits, shift) = normal_parts(x);
    let (e, f) = log_parts(bits, shift);
    log_or_special(x, log_of_parts(e, f))
}

/// erf(x) / x - 1 for |x| < 1/2.
#[inline(always)]
fn erf_near_0(x: f32) -> f32 {
    polynomial(x * x, [-5.979_258e-4, 4.991_231e-3, -2.676_556e-2, 0.112_817_965, -0.376_124_92, 0.128_379_15])
}

/// erf(x) / x as a function of x^2, for x up to 3.95: the quotient of two polynomials.
const ERF_OVER: [f32; 6] = [2.025_912_9e-6, 2.846_864e-4, 3.808_113_5e-3, 5.287_529_5e-2, 0.191_549_23, 1.128_379_1];
const ERF_UNDER: [f32; 6] = [3.783_178_3e-5, 1.170_713_7e-3, 1.505_499_3e-2, 0.114_559_17, 0.503_088_76, 1.0];

/// The error function; 2.5 ulp.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = magnitude * magnitude;
    let quotient = magnitude * polynomial(square, ERF_OVER) / polynomial(square, ERF_UNDER);
    // Above 3.92 erf(x) rounds to 1, and so does a quotient above 1.
    let is_one = quotient > 1.0 || magnitude > 3.92;
    (if is_one { 1.0 } else { quotient }).copysign(x)
}

/// e^(x^2 / 2) times the probability of the normal distribution's tail beyond x, for x from 0 to [`NORMAL_LIMIT`]: the quotient of
/// two polynomials.
const TAIL_OVER: [f32; 5] = [4.116_230_4e-3, 4.063_276_6e-2, 0.183_233_88, 0.438_293_4, 0.5];
const TAIL_UNDER: [f32; 6] = [1.031_774e-2, 0.101_857_69, 0.469_467_28, 1.202_498_2, 1.674_471_8, 1.0];

/// e^(-x^2 / 2), and the probability of the normal distribution's tail beyond |x|; 3 ulp.
#[inline(always)]
pub fn normal_tail(x: f32) -> (f32, f32) {
    let magnitude = clamp(x.abs(), 0.0, NORMAL_LIMIT);
    let square = magnitude * magnitude;
    // The rounding error of the square.
    let lost = magnitude.mul_add(magnitude, -square);
    let power = exp_nonpositive(-0.5 * square);
    let power = power.mul_add(-0.5 * lost, power);
    (power, power * polynomial(magnitude, TAIL_OVER) / polynomial(magnitude, TAIL_UNDER))
}

/// x 2^n, rounded once, for an integral n.
#[inline(always)]
pub fn ldexp(x: f32, n: f32) -> f32 {
    // Outside these bounds every result is 0 or infinite; inside them it is finite in `f64`.
    let rounded = clamp(n, -300.0, 300.0) as f64 + ROUND_WIDE;
    let power = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    (x as f64 * power) as f32
}

/// The magnitude up to which [`sin_cos_fast`] is accurate.
const NEAR: f32 = 134_217_728.0;
/// 2 / pi - its `f64` value.
const FRAC_2_PI_LOW: f64 = -3.935_735_335_036_497e-17;
/// Adding this to an `f64` below 2^51 leaves the nearest integer in the low bits.
const ROUND_WIDE: f64 = 6_755_399_441_055_744.0;

/// Splits a small x into n + r quarter turns with |r| <= 1/2: the low bits of n, and r.
///
/// The fused product is exact until n is subtracted (Cody and Waite, *Software Manual for the Elementary Functions*, 1980).
#[inline(always)]
fn quarter_turns(x: f32) -> (i32, f32) {
    let wide = x as f64;
    let rounded = wide.mul_add(std::f64::consts::FRAC_2_PI, ROUND_WIDE);
    let r = wide.mul_add(std::f64::consts::FRAC_2_PI, ROUND_WIDE - rounded) + wide * FRAC_2_PI_LOW;
    (rounded.to_bits() as i32, r as f32)
}
