//! Modified Bessel functions of the first kind, in double precision and without branches; single precision is rounded from them.
//!
//! Up to 8: the power series, whose terms are all positive. Above: e^x / sqrt(x) times a polynomial of 1 / x.

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::f64::{exp, polynomial};

/// Terms of the power series that matter up to 8.
const TERMS: usize = 25;
const SERIES_0: [f64; TERMS] = series(0);
const SERIES_1: [f64; TERMS] = series(1);

/// sqrt(x) e^-x I0(x) as a polynomial of 8 / x.
const FAR_0: [f64; 22] = [
    8.673_548_748_778_975e-5,
    -1.062_196_407_873_493_5e-3,
    5.907_294_782_708_311e-3,
    -1.983_453_993_113_738e-2,
    4.504_535_051_483_328_5e-2,
    -7.343_427_457_064_947e-2,
    8.900_123_146_240_684e-2,
    -8.196_007_600_628_516e-2,
    5.812_456_886_827_116_5e-2,
    -3.198_166_341_067_678_5e-2,
    1.368_735_387_171_203e-2,
    -4.546_955_535_933_792e-3,
    1.164_758_705_962_499_7e-3,
    -2.271_559_335_284_424_4e-4,
    3.351_703_343_445_427e-5,
    -2.659_515_550_006_589e-6,
    3.028_434_700_716_273_7e-6,
    1.091_035_510_433_462_5e-5,
    5.706_954_354_358_571_5e-5,
    4.382_910_733_193_845e-4,
    6.233_473_131_311_347e-3,
    3.989_422_804_014_326_5e-1,
];
/// sqrt(x) e^-x I1(x) as a polynomial of 8 / x.
const FAR_1: [f64; 22] = [
    -8.028_547_603_814_604e-5,
    1.001_737_072_633_832_5e-3,
    -5.651_412_947_587_33e-3,
    1.919_038_215_883_312_3e-2,
    -4.397_746_847_264_060_6e-2,
    7.221_971_288_998_175e-2,
    -8.805_404_686_479_056e-2,
    8.148_744_965_842_208e-2,
    -5.802_474_269_945_359_6e-2,
    3.203_470_313_143_419e-2,
    -1.374_871_212_025_257e-2,
    4.578_099_464_678_183_5e-3,
    -1.175_057_942_603_452_5e-3,
    2.295_224_953_270_464_6e-4,
    -3.396_177_994_527_619e-5,
    2.547_049_174_049_339e-6,
    -3.646_545_101_680_175_7e-6,
    -1.403_113_334_863_107e-5,
    -7.989_720_989_592_354e-5,
    -7.304_851_262_510_486e-4,
    -1.870_041_939_385_673e-2,
    3.989_422_804_014_327e-1,
];

/// 1 / (k! (k + order)!) for k from the last term down to 0.
const fn series(order: usize) -> [f64; TERMS] {
    let mut coefficients = [0.0; TERMS];
    let (mut term, mut k) = (1.0, 0);
    while k < TERMS {
        coefficients[TERMS - 1 - k] = term;
        k += 1;
        term /= (k * (k + order)) as f64;
    }
    coefficients
}

/// The power series `near` at x^2 / 4, the value of e^-|x| I(|x|) from `far`, and whether |x| <= 8, so that the first applies.
#[inline(always)]
fn scaled(x: f64, near: [f64; TERMS], far: [f64; 22]) -> (f64, f64, bool) {
    let magnitude = x.abs();
    let quarter = 0.25 * magnitude * magnitude;
    (polynomial(quarter, near), polynomial(8.0 / magnitude, far) / magnitude.sqrt(), magnitude <= 8.0)
}

/// I0(x); 3 ulp.
#[inline(always)]
pub fn i0(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_0, FAR_0);
    let magnitude = x.abs();
    let far = if magnitude == f64::INFINITY { magnitude } else { exp(magnitude) * far };
    if is_near { near } else { far }
}

/// e^-|x| I0(x); 3 ulp.
#[inline(always)]
pub fn i0e(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_0, FAR_0);
    if is_near { exp(-x.abs()) * near } else { far }
}

/// The result of an odd function from that for |x|; the result for -0 is 0, as in PyTorch.
#[inline(always)]
fn signed(magnitude: f64, x: f64) -> f64 {
    if x < 0.0 { -magnitude } else { magnitude }
}

/// I1(x); 3 ulp.
#[inline(always)]
pub fn i1(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_1, FAR_1);
    let magnitude = x.abs();
    let far = if magnitude == f64::INFINITY { magnitude } else { exp(magnitude) * far };
    signed(if is_near { 0.5 * magnitude * near } else { far }, x)
}

/// e^-|x| I1(x); 3 ulp.
#[inline(always)]
pub fn i1e(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_1, FAR_1);
    let magnitude = x.abs();
    signed(if is_near { exp(-magnitude) * 0.5 * magnitude * near } else { far }, x)
}
