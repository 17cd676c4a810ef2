//! The normal distribution: its functions in double precision and without branches. Single precision is rounded from them, except
//! for the inverse error function, which has its own code.
//!
//! The inverse error function is x times a function of ln(1 - x^2) (M. Giles, *Approximating the erfinv function*, 2012).

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::f32::{log as log_f32, polynomial as polynomial_f32};
use super::f64::{erfc, erfcx_of_positive, exp, log, log1p, polynomial};

/// erfinv(x) / x for w = -ln(1 - x^2) below 6.25, as a polynomial of w - 3.125.
const CENTRE: [f64; 22] = [
    -1.757_851_822_741_006_7e-19,
    1.092_230_365_847_099_7e-18,
    1.153_171_122_703_549_1e-17,
    -1.288_808_331_776_299_2e-16,
    1.274_414_388_160_021_2e-17,
    6.580_282_043_451_331e-15,
    -4.044_428_333_595_828_5e-14,
    -8.105_973_917_549_821e-14,
    2.632_743_444_982_303_7e-12,
    -1.297_749_370_368_775_6e-11,
    -5.415_046_677_124_506e-11,
    1.051_220_036_725_904_8e-9,
    -4.112_644_907_577_394e-9,
    -2.907_038_581_874_436e-8,
    4.234_787_979_271_820_7e-7,
    -1.365_469_181_267_597e-6,
    -1.388_252_338_220_992_9e-5,
    1.867_342_080_226_801_7e-4,
    -7.407_025_341_574_597e-4,
    -6.033_670_871_427_489e-3,
    2.401_581_824_255_884_5e-1,
    1.653_654_562_683_102_7,
];
/// erfinv(x) / x for sqrt(w) from 2.5 to 4, as a polynomial of sqrt(w) - 3.25.
const MIDDLE: [f64; 18] = [
    9.284_332_225_420_571e-8,
    -2.697_313_682_066_162e-7,
    1.325_075_947_797_746_3e-8,
    1.497_191_022_600_222e-6,
    -4.008_956_966_932_278e-6,
    2.926_477_731_423_985_4e-6,
    1.247_274_014_474_272_4e-5,
    -4.731_918_736_935_821_4e-5,
    6.828_561_398_530_996e-5,
    2.403_128_637_707_369_4e-5,
    -3.550_376_489_578_225_3e-4,
    9.532_893_618_552_461e-4,
    -1.688_275_544_526_559_2e-3,
    2.491_442_096_997_990_8e-3,
    -3.751_208_508_030_541e-3,
    5.370_914_553_573_593e-3,
    1.005_258_967_694_164_6,
    3.083_885_610_492_220_8,
];
/// erfinv(x) / x divided by sqrt(w), for sqrt(w) from 4 to 9, as a polynomial of 1 / sqrt(w) - 0.1805...
const TAIL: [f64; 20] = [
    -5.044_716_951_161_872_6e11,
    -6.109_177_164_169_153_6e10,
    1.405_007_079_187_980_7e10,
    2.423_096_827_877_156_7e9,
    -9.267_102_709_371_851e7,
    -4.365_830_032_796_147e7,
    -2.381_613_225_974_37e6,
    2.209_912_250_806_456_4e5,
    5.914_617_077_176_201e4,
    3.995_692_268_206_504_7e3,
    6.639_946_061_102_136e2,
    -6.931_498_138_156_779e1,
    2.546_187_653_864_542_4e1,
    -7.414_686_827_018_965,
    2.624_265_087_050_452_5,
    -1.435_301_615_946_801_7,
    8.613_511_551_473_836e-1,
    -6.450_783_076_311_549e-2,
    -2.000_238_342_798_877_4e-1,
    9.738_888_880_275_122e-1,
];
const TAIL_CENTRE: f64 = 0.180_555_555_555_555_55;
/// As [`TAIL`], for sqrt(w) from 9 on.
const FAR_TAIL: [f64; 18] = [
    5.772_392_969_982_317e13,
    -5.069_632_422_498_267e12,
    8.754_692_913_927_267e10,
    -8.674_171_974_336_481e9,
    1.824_524_607_323_785_5e9,
    -1.733_893_732_564_715_4e8,
    1.555_273_246_006_617_9e7,
    -1.579_320_078_755_170_8e6,
    1.677_356_193_155_921_6e5,
    -1.855_836_126_118_648e4,
    2.190_015_357_596_245e3,
    -2.823_219_076_950_815_6e2,
    4.121_324_372_954_941e1,
    -7.651_036_180_889_736,
    2.232_890_930_454_464_4,
    -4.999_651_601_733_776_7e-1,
    -1.469_729_949_616_318_5e-1,
    9.932_284_042_535_782e-1,
];
const FAR_TAIL_CENTRE: f64 = 0.073_737_373_737_373_74;

/// erfinv(x) / x, given w = -ln(1 - x^2) and its square root, which must be below 9.
#[inline(always)]
fn inverse_near(w: f64, root: f64) -> f64 {
    let tail = root * polynomial(1.0 / root - TAIL_CENTRE, TAIL);
    let outer = if root < 4.0 { polynomial(root - 3.25, MIDDLE) } else { tail };
    if w < 6.25 { polynomial(w - 3.125, CENTRE) } else { outer }
}

/// The inverse of the error function; 4 ulp. Infinite at 1 and -1, NaN for |x| > 1.
#[inline(always)]
pub fn erfinv(x: f64) -> f64 {
    let w = -log((1.0 - x) * (1.0 + x));
    let result = x * inverse_near(w, w.sqrt());
    if x.abs() == 1.0 { f64::INFINITY.copysign(x) } else { result }
}

/// [`CENTRE`] in single precision.
const CENTRE_F32: [f32; 11] = [
    6.377_768_2e-10,
    -4.638_619_1e-9,
    -2.420_910_1e-8,
    4.263_096_2e-7,
    -1.391_949_9e-6,
    -1.389_145_35e-5,
    1.867_996_5e-4,
    -7.406_877e-4,
    -6.033_730_04e-3,
    0.240_158_174,
    1.653_654_57,
];
/// [`MIDDLE`] in single precision, where no number below 1 needs a further range.
const MIDDLE_F32: [f32; 8] =
    [-2.436_978_2e-4, 9.431_885e-4, -1.744_281_2e-3, 2.498_240_9e-3, -3.740_781_7e-3, 5.370_102_4e-3, 1.005_258_44, 3.083_885_62];

/// The inverse of the error function in single precision; 3 ulp. Infinite at 1 and -1, NaN for |x| > 1.
#[inline(always)]
pub fn erfinv_f32(x: f32) -> f32 {
    let w = -log_f32((1.0 - x) * (1.0 + x));
    let quotient = if w < 6.25 { polynomial_f32(w - 3.125, CENTRE_F32) } else { polynomial_f32(w.sqrt() - 3.25, MIDDLE_F32) };
    if x.abs() == 1.0 { f32::INFINITY.copysign(x) } else { x * quotient }
}

/// The inverse of the normal distribution function; 6 ulp. Infinite at 0 and 1, NaN outside 0..=1.
#[inline(always)]
pub fn ndtri(p: f64) -> f64 {
    let x = 2.0 * p - 1.0;
    let w = -log(4.0 * p * (1.0 - p));
    let root = w.sqrt();
    let far = root * polynomial(1.0 / root - FAR_TAIL_CENTRE, FAR_TAIL);
    let quotient = if root < 9.0 { inverse_near(w, root) } else { far };
    let result = std::f64::consts::SQRT_2 * x * quotient;
    if p == 0.0 || p == 1.0 { f64::INFINITY.copysign(x) } else { result }
}

/// e^(x^2) erfc x; 4 ulp.
#[inline(always)]
pub fn erfcx(x: f64) -> f64 {
    let magnitude = x.abs();
    let right = erfcx_of_positive(magnitude);
    let bounded = if magnitude > 30.0 { 30.0 } else { magnitude };
    let square = bounded * bounded;
    let lost = bounded.mul_add(bounded, -square);
    let power = exp(square);
    let left = 2.0 * power.mul_add(lost, power) - right;
    // e^(x^2) overflows from |x| = 26.7 on.
    if x < 0.0 && power == f64::INFINITY {
        power
    } else if x < 0.0 {
        left
    } else {
        right
    }
}

/// The logarithm of the normal distribution function; 4 ulp.
#[inline(always)]
pub fn log_ndtr(x: f64) -> f64 {
    let t = x * std::f64::consts::FRAC_1_SQRT_2;
    let low = log(0.5 * erfcx_of_positive(t.abs())) - t * t;
    let high = log1p(-0.5 * erfc(t));
    if x < -1.0 { low } else { high }
}
