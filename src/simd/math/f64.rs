//! Elementary functions of `f64`.

#![forbid(unsafe_code)]

/// Adding and subtracting this rounds a value of magnitude below 2^51 to the nearest integer.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `x * 2^n` for an integral `n` in -2044..=2046, also where 2^n alone is not a normal number. `rounded` is `n + ROUND`.
#[inline(always)]
fn scale(x: f64, rounded: f64) -> f64 {
    let n = (rounded.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
    let half = n >> 1;
    let power = |exponent: i64| f64::from_bits(((exponent + 1023) as u64) << 52);
    x * power(half) * power(n - half)
}

/// e^x; 1 ulp.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, then a polynomial for e^r (its Taylor series: the last term is below 2^-58).
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let clamped = if x > 710.0 {
        710.0
    } else if x < -746.0 {
        -746.0
    } else {
        x
    };
    let rounded = clamped.mul_add(std::f64::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-1.908_214_929_270_587_7e-10, n.mul_add(-0.693_147_180_369_123_8, clamped));
    let mut p: f64 = 1.0 / 6_227_020_800.0;
    for factorial in [479_001_600.0, 39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0f64] {
        p = p.mul_add(r, 1.0 / factorial);
    }
    scale(p.mul_add(r * r, r) + 1.0, rounded)
}
