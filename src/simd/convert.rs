//! Conversions between `f32` and the 16 bit floats, branch-free so that loops over them vectorise.
//!
//! Rounding is to nearest, ties to even; NaN stays NaN. Source of the binary16 algorithms: F. Giesen, "float->half variants"
//! (<https://gist.github.com/rygorous/2156668>).

#![forbid(unsafe_code)]

/// The value of an IEEE binary16.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let exponent_and_mantissa = ((bits & 0x7fff) as u32) << 13;
    // 112 moves binary16's exponent bias to binary32's.
    let normal = exponent_and_mantissa + (112 << 23);
    // A subnormal value gets the exponent of a leading 1, which is subtracted again. No operand is subnormal in binary32: these
    // take processors a hundred cycles.
    let subnormal = (f32::from_bits(normal + (1 << 23)) - f32::from_bits(113 << 23)).to_bits();
    let magnitude = if exponent_and_mantissa < 1 << 23 { subnormal } else { normal };
    let special = if exponent_and_mantissa >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(magnitude | special | ((bits & 0x8000) as u32) << 16)
}

/// The binary16 nearest to `value`; infinity from 65520 on.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    // Adding 0.5 to a magnitude below 2^-14 leaves the subnormal result, rounded, in the low bits.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    (if magnitude >= 143 << 23 { special } else { finite } | sign) as u16
}

/// The value of a bfloat16.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The bfloat16 nearest to `value`.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    (if value.is_nan() { 0x7fc0 } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::simd::scalar_convert;

    #[test]
    fn widening_is_exact() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16_to_f32(bits), bf16_to_f32(bits));
            assert!(half == f16::from_bits(bits).to_f32() || half.is_nan() && f16::from_bits(bits).is_nan(), "{bits:x}");
            assert!(brain == bf16::from_bits(bits).to_f32() || brain.is_nan() && bf16::from_bits(bits).is_nan(), "{bits:x}");
            assert_eq!(scalar_convert::bf16_to_f32(bits).to_bits(), brain.to_bits(), "{bits:x}");
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        // Every prefix of 16 bits, with the lower halves at which rounding changes.
        for high in 0..=u16::MAX {
            for low in [0, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits((high as u32) << 16 | low);
                assert_eq!(scalar_convert::f32_to_bf16(value), f32_to_bf16(value), "{value:e}");
                if value.is_nan() {
                    assert!(f16::from_bits(f32_to_f16(value)).is_nan() && bf16::from_bits(f32_to_bf16(value)).is_nan());
                } else {
                    assert_eq!(f32_to_f16(value), f16::from_f32_const(value).to_bits(), "{value:e}");
                    assert_eq!(f32_to_bf16(value), bf16::from_f32(value).to_bits(), "{value:e}");
                }
            }
        }
    }
}
