//! Elementary functions of `f64`; see the `f32` ones for the methods.

#![forbid(unsafe_code)]
// Constants that are split in two have more digits than their first part holds, and some coefficients are close to known constants.
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use std::f64::consts;

/// The type for which [`shared!`](super::shared) is instantiated.
type Float = f64;
type Bits = u64;
type Integer = i64;

super::float_functions::shared!();

pub use super::gamma::lgamma;
pub use super::normal::erfinv;

/// Adding and subtracting this rounds a value of magnitude below 2^51 to the nearest integer.
const ROUND: f64 = 6_755_399_441_055_744.0;
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// From this magnitude on, e^x is 0 or infinite.
const EXP_LIMIT: f64 = 746.0;
/// Beyond these, e^x - 1 is -1 or infinite.
const EXPM1_LIMITS: [f64; 2] = [-40.0, 710.0];
/// From this magnitude on, tanh x is 1 or -1.
const TANH_LIMIT: f64 = 20.0;
/// Below this magnitude, sin x and tan x are x.
const LINEAR: f64 = 1e-9;
/// A power of 2 that scales 1 and the least powers of e to normal numbers.
const RAISED: f64 = f64::from_bits((1023 + 128) << 52);
/// From this magnitude on, e^(-x^2 / 2) is 0.
const NORMAL_LIMIT: f64 = 39.0;

/// log2(e) - `consts::LOG2_E`.
const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
/// log10(e) - `consts::LOG10_E`.
const LOG10_E_LOW: f64 = 1.098_319_650_216_765e-17;
/// log10(2) in two parts; multiples of the first by exponents are exact.
const LOG10_2_HIGH: f64 = 3.010_299_956_636_117_7e-1;
const LOG10_2_LOW: f64 = 3.694_239_077_158_931e-13;
/// pi / 2 - `consts::FRAC_PI_2`.
const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;
/// The squares of numbers from the reciprocal of this one up to this one are in range; above, 1 + x^2 rounds to x^2.
const SQUARABLE: f64 = 1e150;
/// Scales large numbers into that range; its reciprocal scales small ones.
const HYPOT_SHRINK: f64 = f64::from_bits((1023 - 600) << 52);

/// (asin(x) / x - 1) / x^2 as a polynomial of x^2, up to 1/4.
const ASIN: [f64; 13] = [
    2.875_785_136_742_156_6e-2,
    -1.485_188_707_124_720_4e-2,
    1.740_087_944_269_402e-2,
    5.457_506_718_640_358e-3,
    1.032_281_435_018_578e-2,
    1.147_917_741_518_490_6e-2,
    1.397_121_297_355_293_3e-2,
    1.735_239_272_086_997_3e-2,
    2.237_217_294_214_989e-2,
    3.038_194_413_853_124_7e-2,
    4.464_285_714_635_543e-2,
    7.499_999_999_998_433e-2,
    1.666_666_666_666_666_9e-1,
];
/// (atan(x) / x - 1) / x^2 as a polynomial of x^2, up to tan(pi / 8)^2.
const ATAN: [f64; 12] = [
    1.628_437_505_004_339_3e-2,
    -3.456_931_506_332_609e-2,
    4.551_544_734_022_161_5e-2,
    -5.230_443_640_686_948e-2,
    5.878_927_554_473_807e-2,
    -6.666_424_760_200_52e-2,
    7.692_296_368_042_296e-2,
    -9.090_908_753_259_112e-2,
    1.111_111_110_515_058_8e-1,
    -1.428_571_428_565_977_9e-1,
    1.999_999_999_999_980_4e-1,
    -3.333_333_333_333_333e-1,
];
/// (1 + 2x) e^(x^2) erfc x as a polynomial of (x - c) / (x + c), for x >= 0, where c is the centre.
const ERFCX: [f64; 24] = [
    9.655_408_225_482_863e-10,
    1.571_215_363_831_906_4e-9,
    -1.254_482_540_385_551_8e-8,
    -1.635_738_398_212_476_8e-8,
    1.068_344_292_674_458_6e-7,
    7.111_912_428_010_423e-8,
    -8.218_020_654_813_044e-7,
    2.980_596_055_322_769e-7,
    5.707_239_573_693_257e-6,
    -1.122_514_035_444_965_8e-5,
    -2.439_811_794_207_995e-5,
    1.506_231_178_516_207e-4,
    -1.992_570_041_218_481_5e-4,
    -7.577_737_141_838_885e-4,
    5.031_970_032_548_695e-3,
    -1.619_773_397_992_426e-2,
    3.716_751_553_184_32e-2,
    -6.633_036_582_050_367e-2,
    9.373_283_499_865_172e-2,
    -1.010_390_660_358_529_4e-1,
    6.809_705_425_468_62e-2,
    1.537_965_210_261_016_2e-2,
    -1.396_211_168_405_625e-1,
    1.232_995_118_625_552_6,
];
const ERFCX_CENTRE: f64 = 4.0;

/// The coefficients of [`sin_cos_turns`].
const SINE: [f64; 8] = super::quarter_turn_series(1);
const COSINE: [f64; 9] = super::quarter_turn_series(0);

/// e^r - 1 for |r| <= ln 2 / 2.
#[inline(always)]
fn expm1_near_0(r: f64) -> f64 {
    let p = polynomial(
        r,
        [
            2.510_047_250_569_499_6e-8,
            2.762_020_159_103_154_7e-7,
            2.755_726_827_690_569_6e-6,
            2.480_152_105_786_820_4e-5,
            1.984_126_986_317_155_7e-4,
            1.388_888_891_736_708_1e-3,
            8.333_333_333_330_039e-3,
            4.166_666_666_662_382_4e-2,
            0.166_666_666_666_666_69,
            0.5,
        ],
    );
    p.mul_add(r * r, r)
}

/// The bits of sqrt(1/2).
const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;

/// For a positive x = 2^e m with m from sqrt(1/2) to sqrt(2): e and m - 1.
#[inline(always)]
fn log_parts(x: f64) -> (f64, f64) {
    const SHIFT: i64 = 54;
    // By masks, as in `f32::normal_parts`.
    let subnormal = (x.to_bits() as i64).wrapping_sub(1 << 52) >> 63;
    let scale = f64::from_bits(1f64.to_bits() + (((subnormal & SHIFT) as u64) << 52));
    let offset = ((x * scale).to_bits() as i64).wrapping_sub(SQRT_HALF);
    let f = f64::from_bits(((offset & 0xf_ffff_ffff_ffff) + SQRT_HALF) as u64) - 1.0;
    (small_float((offset >> 52) - (subnormal & SHIFT)), f)
}

/// A small integer as a float; conversions of 64 bit integers are slow before AVX-512.
#[inline(always)]
fn small_float(n: i64) -> f64 {
    f64::from_bits(n.wrapping_add(ROUND.to_bits() as i64) as u64) - ROUND
}

/// f^2 / 2, and ln(1 + f) - (f - f^2 / 2), for 1 + f from sqrt(1/2) to sqrt(2).
#[inline(always)]
fn log_rest(f: f64) -> (f64, f64) {
    // ln(1 + f) = 2 atanh(s) with s = f / (2 + f).
    let s = f / (2.0 + f);
    let z = s * s;
    let p = polynomial(
        z,
        [
            0.146_193_434_535_126_15,
            0.153_314_872_358_657_34,
            0.181_828_961_834_830_85,
            0.222_222_110_378_165_9,
            0.285_714_286_265_702_06,
            0.399_999_999_998_981_9,
            0.666_666_666_666_667,
        ],
    );
    let half_square = 0.5 * f * f;
    (half_square, s * p.mul_add(z, half_square))
}

/// ln(2^e (1 + f)), for 1 + f from sqrt(1/2) to sqrt(2).
#[inline(always)]
fn log_of_parts(e: f64, f: f64) -> f64 {
    let (half_square, low) = log_rest(f);
    e.mul_add(LN_2_HIGH, f - (half_square - e.mul_add(LN_2_LOW, low)))
}

/// The exponent e of a positive number x = 2^e m with m from sqrt(1/2) to sqrt(2), and ln m as the sum of a large and a small part.
#[inline(always)]
fn split_log(x: f64) -> (f64, f64, f64) {
    let (e, f) = log_parts(x);
    let (half_square, low) = log_rest(f);
    (e, f, low - half_square)
}

/// ln x; 1.5 ulp. NaN below 0, -infinity at 0.
#[inline(always)]
pub fn log(x: f64) -> f64 {
    let (e, f) = log_parts(x);
    log_or_special(x, log_of_parts(e, f))
}

/// erf(x) / x - 1 for |x| < 1.
#[inline(always)]
fn erf_near_0(x: f64) -> f64 {
    polynomial(
        x * x,
        [
            -7.795_898_827_002_142e-10,
            1.372_006_454_677_768_6e-8,
            -1.620_848_380_187_170_5e-7,
            1.644_742_470_331_736_2e-6,
            -1.492_473_690_741_966e-5,
            1.205_529_490_483_970_7e-4,
            -8.548_325_975_389_692e-4,
            5.223_977_607_116_422_5e-3,
            -2.686_617_064_323_777e-2,
            0.112_837_916_709_450_06,
            -0.376_126_389_031_835_43,
            0.128_379_167_095_512_56,
        ],
    )
}

/// The error function; 8 ulp.
#[inline(always)]
pub fn erf(x: f64) -> f64 {
    let t = clamp(x.abs(), 0.0, 6.0);
    let log = polynomial(
        t - 3.5,
        [
            -5.038_175_090_820_216e-18,
            3.169_997_093_543_526e-17,
            1.864_770_948_012_056_4e-17,
            -4.137_506_353_844_001e-16,
            5.507_869_202_468_303e-16,
            -5.252_994_671_634_073e-15,
            6.703_248_087_615_219e-14,
            -4.156_803_197_187_856_5e-13,
            2.055_407_599_303_862_3e-12,
            -9.094_568_153_527_39e-12,
            3.065_185_473_437_961e-11,
            -2.502_756_747_071_757_8e-11,
            -7.748_949_382_631_5e-10,
            9.532_060_947_155_006e-9,
            -8.069_303_240_006_965e-8,
            5.856_139_032_767_791e-7,
            -3.889_557_155_325_179e-6,
            2.438_637_382_331_310_4e-5,
            -1.472_977_748_995_487_3e-4,
            8.736_873_235_452_11e-4,
            -5.225_658_221_939_981e-3,
            -0.966_753_054_742_217_6,
            -7.266_099_588_365_191,
            -14.112_437_402_148_174,
        ],
    );
    let large = (1.0 - exp(log)).copysign(x);
    // NaN takes the second arm.
    if t > 1.0 { large } else { erf_near_0(x).mul_add(x, x) }
}

/// e^(-x^2 / 2), and the probability of the normal distribution's tail beyond |x|; 4 ulp.
#[inline(always)]
pub fn normal_tail(x: f64) -> (f64, f64) {
    let magnitude = clamp(x.abs(), 0.0, NORMAL_LIMIT);
    let square = magnitude * magnitude;
    // The rounding error of the square.
    let lost = magnitude.mul_add(magnitude, -square);
    let power = exp_nonpositive(-0.5 * square);
    let power = power.mul_add(-0.5 * lost, power);
    (power, 0.5 * power * erfcx_of_positive(magnitude * consts::FRAC_1_SQRT_2))
}

/// x 2^n, rounded once, for an integral n.
#[inline(always)]
pub fn ldexp(x: f64, n: f64) -> f64 {
    // Outside these bounds every result is 0 or infinite.
    let (mut product, mut left) = (x, clamp(n, -3000.0, 3000.0));
    for _ in 0..2 {
        // The step is such that if the first product is already rounded as a subnormal number, the second factor makes it 0.
        let step = if left < -1022.0 { -969.0 } else { 0.0 };
        let step = if left > 1023.0 { 1023.0 } else { step };
        product *= power_of_two(integer(step + ROUND));
        left -= step;
    }
    product * power_of_two(integer(clamp(left, -1022.0, 1023.0) + ROUND))
}

/// The magnitude up to which [`sin_cos_fast`] is accurate.
const NEAR: f64 = 1_073_741_824.0;
/// 2 / pi - its `f64` value, in two parts.
const FRAC_2_PI_LOW: f64 = -3.935_735_335_036_497e-17;
const FRAC_2_PI_LOWER: f64 = -2.144_287_256_578_600_8e-33;

/// The sum of two numbers, and its rounding error (D. Knuth's TwoSum).
#[inline(always)]
fn two_sum(x: f64, y: f64) -> (f64, f64) {
    let sum = x + y;
    let other = sum - x;
    (sum, (x - (sum - other)) + (y - other))
}

/// Splits a small x into n + r quarter turns with |r| <= 1/2: the low bits of n, and r.
#[inline(always)]
fn quarter_turns(x: f64) -> (i64, f64) {
    let rounded = x.mul_add(consts::FRAC_2_PI, ROUND);
    let product = x * consts::FRAC_2_PI;
    let lost = x.mul_add(consts::FRAC_2_PI, -product);
    let low = x * FRAC_2_PI_LOW;
    let lower = x.mul_add(FRAC_2_PI_LOW, -low) + x * FRAC_2_PI_LOWER;
    // The difference of product and n is exact.
    let (rest, lost_rest) = two_sum(lost, low);
    let (r, lost_r) = two_sum(product - (rounded - ROUND), rest);
    (integer(rounded), r + (lost_r + (lost_rest + lower)))
}

/// base^exponent, by the C library.
#[inline(always)]
pub fn pow(base: f64, exponent: f64) -> f64 {
    base.powf(exponent)
}
