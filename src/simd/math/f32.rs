//! Elementary functions of `f32`.

#![forbid(unsafe_code)]

/// Adding and subtracting this rounds a value of magnitude below 2^22 to the nearest integer.
const ROUND: f32 = 12_582_912.0;

/// `x * 2^n` for an integral `n` in -252..=254, also where 2^n alone is not a normal number.
#[inline(always)]
fn scale(x: f32, n: f32) -> f32 {
    let n = n as i32;
    let half = n >> 1;
    let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
    x * power(half) * power(n - half)
}

/// e^x; 1 ulp.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, then a polynomial for e^r.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let clamped = if x > 104.0 {
        104.0
    } else if x < -104.0 {
        -104.0
    } else {
        x
    };
    let n = clamped.mul_add(std::f32::consts::LOG2_E, ROUND) - ROUND;
    let r = n.mul_add(-1.428_606_8e-6, n.mul_add(-0.693_145_75, clamped));
    let mut p = 1.987_569_2e-4_f32;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        p = p.mul_add(r, coefficient);
    }
    scale(p.mul_add(r * r, r) + 1.0, n)
}
