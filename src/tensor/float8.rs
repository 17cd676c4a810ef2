//! 8 bit floats: storage, and conversion from and to `f32`, to nearest with ties to even, as on PyTorch's CPU.
//!
//! Formats: OCP 8-bit floating point (E5M2, E4M3Fn), <https://arxiv.org/abs/2206.02915> (the FnUz formats have no infinity, and NaN
//! in place of negative zero) and OCP microscaling (E8M0FnU: an unsigned power of two). All but the last share one algorithm.

#![forbid(unsafe_code)]

/// The parameters of a signed format.
trait Format {
    const MANTISSA_BITS: u32;
    const BIAS: u32;
    /// Bits of the least `f32` that is certainly outside the finite range.
    const LIMIT: u32;
    /// True if NaN takes the place of negative zero.
    const UNSIGNED_ZERO: bool;
    /// The bits of infinity, if the format has it.
    const INFINITY: Option<u8>;
    /// The result for numbers outside the finite range: infinity, NaN or, for [`Float8E4M3Fn`], the greatest number.
    const OVERFLOW: u8;
    /// The bits of NaN, without the sign.
    const NAN: u8;
}

#[inline(always)]
fn widen<F: Format>(bits: u8) -> f32 {
    let magnitude = bits & 0x7f;
    let scale = f32::from_bits((127 + 127 - F::BIAS) << 23);
    let finite = f32::from_bits((magnitude as u32) << (23 - F::MANTISSA_BITS)) * scale;
    let is_nan = match (F::UNSIGNED_ZERO, F::INFINITY) {
        (true, _) => bits == F::NAN,
        (false, Some(infinity)) => magnitude > infinity,
        (false, None) => magnitude == F::NAN,
    };
    let value = if F::INFINITY == Some(magnitude) { f32::INFINITY } else { finite };
    if is_nan {
        f32::NAN
    } else if bits & 0x80 != 0 {
        -value
    } else {
        value
    }
}

#[inline(always)]
fn narrow<F: Format>(value: f32) -> u8 {
    let shift = 23 - F::MANTISSA_BITS;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    // Adding this power of two to a value with a subnormal result leaves the rounded result in the low bits.
    let align = (127 - F::BIAS + shift + 1) << 23;
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(align)).to_bits().wrapping_sub(align);
    let odd = (magnitude >> shift) & 1;
    let normal = magnitude.wrapping_sub((127 - F::BIAS) << 23).wrapping_add((1 << (shift - 1)) - 1 + odd) >> shift;
    let finite = if magnitude < (128 - F::BIAS) << 23 { subnormal } else { normal } as u8;
    let beyond = if magnitude > 0x7f80_0000 { F::NAN } else { F::OVERFLOW };
    let result = if magnitude >= F::LIMIT { beyond } else { finite.min(F::OVERFLOW) };
    if F::UNSIGNED_ZERO && result == 0 { 0 } else { result | (value.to_bits() >> 24) as u8 & 0x80 }
}

macro_rules! float8 {
    ($($(#[$doc:meta])* $name:ident { $mantissa:expr, $bias:expr, $limit:expr, $unsigned_zero:expr, $infinity:expr, $overflow:expr, $nan:expr })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub u8);

        impl Format for $name {
            const MANTISSA_BITS: u32 = $mantissa;
            const BIAS: u32 = $bias;
            const LIMIT: u32 = $limit;
            const UNSIGNED_ZERO: bool = $unsigned_zero;
            const INFINITY: Option<u8> = $infinity;
            const OVERFLOW: u8 = $overflow;
            const NAN: u8 = $nan;
        }

        impl $name {
            /// The exact value.
            #[inline(always)]
            pub fn to_f32(self) -> f32 {
                widen::<Self>(self.0)
            }

            /// The nearest value of this format.
            #[inline(always)]
            pub fn from_f32(value: f32) -> Self {
                Self(narrow::<Self>(value))
            }
        }
    )*};
}

float8! {
    /// 1 sign, 5 exponent, 2 mantissa bits, with infinity; up to 57344.
    Float8E5M2 { 2, 15, 143 << 23, false, Some(0x7c), 0x7c, 0x7f }
    /// 1 sign, 4 exponent, 3 mantissa bits, no infinity; up to 448.
    Float8E4M3Fn { 3, 7, 1087 << 20, false, None, 0x7e, 0x7f }
    /// [`Float8E5M2`] without infinity and negative zero; up to 57344.
    Float8E5M2FnUz { 2, 16, 143 << 23, true, None, 0x80, 0x80 }
    /// [`Float8E4M3Fn`] without negative zero; up to 240.
    Float8E4M3FnUz { 3, 8, 135 << 23, true, None, 0x80, 0x80 }
}

/// An unsigned power of two from 2^-127 to 2^127, or NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Float8E8M0FnU(pub u8);

impl Float8E8M0FnU {
    /// The exact value.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        match self.0 {
            0 => f32::from_bits(1 << 22),
            255 => f32::NAN,
            exponent => f32::from_bits((exponent as u32) << 23),
        }
    }

    /// The power of two nearest to the magnitude (ties go up); NaN for infinities and NaN.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let exponent = (bits >> 23) & 0xff;
        let mantissa = bits & 0x7f_ffff;
        let up = if exponent > 0 { mantissa >= 0x40_0000 } else { mantissa > 0x40_0000 };
        Self((if exponent == 255 { 255 } else { exponent + up as u32 }) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds by searching all 256 values for the nearest; ties go to the even pattern.
    fn nearest(value: f32, widened: &[f32]) -> u8 {
        let mut best = 0;
        for (bits, &candidate) in widened.iter().enumerate().filter(|(_, candidate)| candidate.is_finite()) {
            let (here, there) = ((candidate as f64 - value as f64).abs(), (widened[best] as f64 - value as f64).abs());
            if here < there || here == there && bits & 1 == 0 && best & 1 == 1 {
                best = bits;
            }
        }
        best as u8
    }

    fn check(to: impl Fn(u8) -> f32, from: impl Fn(f32) -> u8, max: f32) {
        let widened: Vec<f32> = (0..=255).map(to).collect();
        assert_eq!(widened.iter().copied().filter(|value| value.is_finite()).fold(0.0, f32::max), max);
        for (bits, &value) in widened.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            assert_eq!(from(value), bits as u8, "{value}");
        }
        let mut value = 1e-9_f32;
        while value < max {
            for signed in [value, -value] {
                assert_eq!(widened[from(signed) as usize], widened[nearest(signed, &widened) as usize], "{signed}");
            }
            value *= 1.003;
        }
        assert!(widened[from(f32::NAN) as usize].is_nan());
    }

    #[test]
    fn signed_formats_round_to_nearest() {
        check(|bits| Float8E5M2(bits).to_f32(), |value| Float8E5M2::from_f32(value).0, 57344.0);
        check(|bits| Float8E4M3Fn(bits).to_f32(), |value| Float8E4M3Fn::from_f32(value).0, 448.0);
        check(|bits| Float8E5M2FnUz(bits).to_f32(), |value| Float8E5M2FnUz::from_f32(value).0, 57344.0);
        check(|bits| Float8E4M3FnUz(bits).to_f32(), |value| Float8E4M3FnUz::from_f32(value).0, 240.0);
    }

    #[test]
    fn overflow_and_numbers_that_are_exponents_only() {
        assert_eq!((Float8E5M2::from_f32(-1e30).to_f32(), Float8E5M2FnUz::from_f32(-0.0).0), (f32::NEG_INFINITY, 0));
        for (value, expected) in [(1e30, 448.0), (-465.0, -448.0), (464.0, 448.0), (f32::NEG_INFINITY, -448.0)] {
            assert_eq!(Float8E4M3Fn::from_f32(value).to_f32(), expected, "{value}");
        }
        assert_eq!((Float8E4M3FnUz::from_f32(f32::INFINITY).0, Float8E8M0FnU(127).to_f32()), (0x80, 1.0));
        assert_eq!([3.0, 2.9].map(|value| Float8E8M0FnU::from_f32(value).to_f32()), [4.0, 2.0]);
        assert_eq!([0.0, f32::INFINITY].map(|value| Float8E8M0FnU::from_f32(value).0), [0, 255]);
        assert!(Float8E8M0FnU(255).to_f32().is_nan());
    }
}
