//! The computing types of kernels: [`Number`] and, for types with more operations, [`Ordered`], [`Integer`], [`Field`] and
//! [`Real`].
//!
//! Integers wrap. Bool is the two-element lattice (`+` is or, `*` is and). Conversions give what a C++ `static_cast` gives in
//! PyTorch on x86-64, even if the value does not fit: a float out of range becomes the result of the processor's conversion to 32
//! bits (for Char, Short, Int, UInt16) or to 64 bits (for Byte, Long), truncated to size; see below for UInt32 and UInt64.

#![forbid(unsafe_code)]

use super::inlined::inlined;
use super::{Bool, Complex32, Complex64, Element};
use crate::simd::float_to_int::{f32_to_i32, f32_to_i64, f64_to_i32, f64_to_i64};
use crate::simd::math::{self, complex};

/// An intermediate type of conversions between dtypes: exact for a whole class of dtypes.
pub trait Hub: Element {
    /// The value as a `T`.
    fn to<T: Number>(self) -> T;
}

/// A value that kernels compute with.
pub trait Number: Copy + PartialEq + Default + Send + Sync + std::fmt::Debug + 'static {
    /// The intermediate type of conversions of this type.
    type Hub: Hub;
    const ZERO: Self;
    const ONE: Self;

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn neg(self) -> Self;
    /// The complex conjugate; the value itself for real types.
    #[inline(always)]
    fn conj(self) -> Self {
        self
    }
    /// `self + factor * term`. A complex factor without imaginary part scales both parts separately, so that infinities give no
    /// NaN.
    #[inline(always)]
    fn add_scaled(self, factor: Self, term: Self) -> Self {
        self.add(factor.mul(term))
    }

    fn hub(self) -> Self::Hub;
    fn from_i64(value: i64) -> Self;
    fn from_u64(value: u64) -> Self;
    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
    fn from_complex32(value: Complex32) -> Self;
    fn from_complex64(value: Complex64) -> Self;
}

/// A number with an order. NaN is neither less nor greater than anything.
pub trait Ordered: Number + PartialOrd {
    /// The least value, -infinity for floats.
    const LOWEST: Self;
    /// The greatest value, infinity for floats.
    const HIGHEST: Self;

    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }

    /// The maximum; NaN if either is NaN.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        // This conditional compiles to one instruction.
        let greater = if self > other { self } else { other };
        if self.is_nan() { self } else { greater }
    }

    /// The minimum; NaN if either is NaN.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        let lesser = if self < other { self } else { other };
        if self.is_nan() { self } else { lesser }
    }

    /// The minimum; either value if one is NaN. Floats override the conditional: the compiler would turn it into a masked store
    /// where the old value is kept, for which later loads wait long.
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        if self < other { self } else { other }
    }
}

/// An integer with wrapping arithmetic.
pub trait Integer: Ordered + Eq {
    /// The remainder with the sign of `self`; `None` for a divisor of 0.
    fn rem_trunc(self, divisor: Self) -> Option<Self>;
    /// The remainder with the sign of the divisor; `None` for a divisor of 0.
    fn rem_floor(self, divisor: Self) -> Option<Self>;
    /// The quotient rounded towards zero; `None` for a divisor of 0. `MIN / -1` wraps.
    fn trunc_div(self, divisor: Self) -> Option<Self>;
    /// The quotient rounded towards minus infinity; `None` for a divisor of 0. `MIN / -1` wraps.
    fn floor_div(self, divisor: Self) -> Option<Self>;
    /// Left shift by `bits`; 0 if `bits` is negative or not less than the width.
    fn shift_left(self, bits: Self) -> Self;
    /// Arithmetic right shift by `bits`; 0 or -1, by the sign, if `bits` is negative or not less than the width.
    fn shift_right(self, bits: Self) -> Self;
    /// The greatest common divisor, which is negative only if it is the least integer.
    fn gcd(self, other: Self) -> Self;
    /// self^exponent, wrapping. For negative exponents: 1 / self^-exponent truncated, and 0 for a base of 0.
    fn power(self, exponent: Self) -> Self;
}

/// A value made of bits: an integer, or Bool with a single bit.
pub trait Bits: Number {
    fn bit_and(self, other: Self) -> Self;
    fn bit_or(self, other: Self) -> Self;
    fn bit_xor(self, other: Self) -> Self;
    fn bit_not(self) -> Self;
}

/// A number with division and the elementary functions: real or complex floating point.
pub trait Field: Number {
    fn div(self, divisor: Self) -> Self;
    fn exp(self) -> Self;
    fn log(self) -> Self;
    fn sqrt(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tanh(self) -> Self;
    /// 1 / (1 + e^-x).
    fn sigmoid(self) -> Self;
    /// factor / (1 + e^-x).
    fn scaled_sigmoid(self, factor: Self) -> Self;
    /// 1 / (1 + e^-x) and 1 minus it; for a real number, both with small relative errors.
    fn sigmoid_and_rest(self) -> (Self, Self);
    /// self^exponent.
    fn pow(self, exponent: Self) -> Self;
    /// e^x - 1.
    fn expm1(self) -> Self;
    /// ln(1 + x).
    fn log1p(self) -> Self;
    /// True if a real number, or the absolute value of a complex one, is below 1/2.
    fn is_below_half(self) -> bool;
}

/// Real floating point.
pub trait Real: Field + Ordered {
    /// e^x for x <= 0.
    fn exp_nonpositive(self) -> Self;
    /// e^(-x^2 / 2), and the probability of the normal distribution's tail beyond |x|; both with small relative errors.
    fn normal_tail(self) -> (Self, Self);
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    /// Rounds to the nearest integer, ties to even.
    fn round(self) -> Self;
    fn atan2(self, other: Self) -> Self;
    /// The remainder with the sign of `self`, exact.
    fn fmod(self, divisor: Self) -> Self;
    /// True if [`Real::fmod_fast`] is exact for the two.
    fn has_fast_fmod(self, divisor: Self) -> bool;
    /// [`Real::fmod`] for quotients whose integral part fits the mantissa.
    fn fmod_fast(self, divisor: Self) -> Self;
    /// self * factor + term, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    fn erf(self) -> Self;
    /// ln(1 + x) for a finite x above -1.
    fn log1p_of_finite(self) -> Self;
}

macro_rules! hub {
    ($($type:ty, $from:ident;)*) => {$(
        impl Hub for $type {
            #[inline(always)]
            fn to<T: Number>(self) -> T {
                T::$from(self)
            }
        }
    )*};
}

hub! {
    i64, from_i64;
    u64, from_u64;
    f32, from_f32;
    f64, from_f64;
    Complex32, from_complex32;
    Complex64, from_complex64;
}

/// PyTorch's conversions to unsigned types: the signed limit is subtracted from values at or above it, and added again after the
/// conversion.
macro_rules! unsigned_conversion {
    ($name:ident, $signed:ident, $float:ty, $uint:ty) => {
        #[inline(always)]
        fn $name(value: $float) -> $uint {
            const LIMIT: $uint = 1 << (<$uint>::BITS - 1);
            let upper = value >= LIMIT as $float;
            let low = $signed(if upper { value - LIMIT as $float } else { value }) as $uint;
            if upper { low ^ LIMIT } else { low }
        }
    };
}

unsigned_conversion!(f32_to_u32, f32_to_i32, f32, u32);
unsigned_conversion!(f64_to_u32, f64_to_i32, f64, u32);
unsigned_conversion!(f32_to_u64, f32_to_i64, f32, u64);
unsigned_conversion!(f64_to_u64, f64_to_i64, f64, u64);

macro_rules! integer {
    ($($type:ty: $hub:ty, $from_f32:ident, $from_f64:ident;)*) => {$(
        impl Number for $type {
            type Hub = $hub;
            const ZERO: Self = 0;
            const ONE: Self = 1;

            inlined! {
                fn add(self, other: Self) -> Self = self.wrapping_add(other);
                fn sub(self, other: Self) -> Self = self.wrapping_sub(other);
                fn mul(self, other: Self) -> Self = self.wrapping_mul(other);
                fn neg(self) -> Self = self.wrapping_neg();
                fn hub(self) -> $hub = self as $hub;
                fn from_i64(value: i64) -> Self = value as Self;
                fn from_u64(value: u64) -> Self = value as Self;
                fn from_f32(value: f32) -> Self = $from_f32(value) as Self;
                fn from_f64(value: f64) -> Self = $from_f64(value) as Self;
                fn from_complex32(value: Complex32) -> Self = Self::from_f32(value.re);
                fn from_complex64(value: Complex64) -> Self = Self::from_f64(value.re);
            }
        }

        impl Ordered for $type {
            const LOWEST: Self = <$type>::MIN;
            const HIGHEST: Self = <$type>::MAX;
        }

        impl Bits for $type {
            inlined! {
                fn bit_and(self, other: Self) -> Self = self & other;
                fn bit_or(self, other: Self) -> Self = self | other;
                fn bit_xor(self, other: Self) -> Self = self ^ other;
                fn bit_not(self) -> Self = !self;
            }
        }

        impl Integer for $type {
            inlined! {
                fn rem_trunc(self, divisor: Self) -> Option<Self> = (divisor != 0).then(|| self.wrapping_rem(divisor));
                fn trunc_div(self, divisor: Self) -> Option<Self> = (divisor != 0).then(|| self.wrapping_div(divisor));
            }

            #[inline(always)]
            #[allow(unused_comparisons, reason = "the signs of unsigned types")]
            fn rem_floor(self, divisor: Self) -> Option<Self> {
                let remainder = self.rem_trunc(divisor)?;
                Some(if remainder != 0 && (remainder < 0) != (divisor < 0) { remainder.wrapping_add(divisor) } else { remainder })
            }

            #[inline(always)]
            #[allow(unused_comparisons, reason = "the signs of unsigned types")]
            fn floor_div(self, divisor: Self) -> Option<Self> {
                let quotient = self.trunc_div(divisor)?;
                let inexact = quotient.wrapping_mul(divisor) != self;
                Some(if inexact && (self < 0) != (divisor < 0) { quotient.wrapping_sub(1) } else { quotient })
            }

            #[inline(always)]
            #[allow(unused_comparisons, reason = "the signs of unsigned types")]
            fn shift_left(self, bits: Self) -> Self {
                let outside = bits < 0 || bits as u64 >= Self::BITS as u64;
                if outside { 0 } else { self.wrapping_shl(bits as u32) }
            }

            #[inline(always)]
            #[allow(unused_comparisons, reason = "the signs of unsigned types")]
            fn shift_right(self, bits: Self) -> Self {
                let outside = bits < 0 || bits as u64 >= Self::BITS as u64;
                let sign = if self < 0 { (0 as Self).wrapping_sub(1) } else { 0 };
                if outside { sign } else { self.wrapping_shr(bits as u32) }
            }

            #[inline(always)]
            #[allow(unused_comparisons, reason = "the signs of unsigned types")]
            fn gcd(self, other: Self) -> Self {
                let (mut greater, mut lesser) = (self, other);
                while lesser != 0 {
                    (greater, lesser) = (lesser, greater.wrapping_rem(lesser));
                }
                if greater < 0 { greater.wrapping_neg() } else { greater }
            }

            #[inline(always)]
            #[allow(unused_comparisons, reason = "the signs of unsigned types")]
            fn power(self, exponent: Self) -> Self {
                let minus_one = (0 as Self).wrapping_sub(1);
                if exponent < 0 {
                    let odd = exponent & 1 != 0;
                    return if self == 1 || self == minus_one && !odd { 1 } else if self == minus_one { minus_one } else { 0 };
                }
                let (mut result, mut square, mut left) = (1 as Self, self, exponent);
                while left != 0 {
                    result = if left & 1 != 0 { result.wrapping_mul(square) } else { result };
                    square = square.wrapping_mul(square);
                    left >>= 1;
                }
                result
            }
        }
    )*};
}

integer! {
    // `u8` converts `f32` to 32 bits: the low 8 bits of an `f32` out of that range are 0, and so are those of the processor's
    // result.
    u8: i64, f32_to_i32, f64_to_i64;
    i8: i64, f32_to_i32, f64_to_i32;
    i16: i64, f32_to_i32, f64_to_i32;
    i32: i64, f32_to_i32, f64_to_i32;
    i64: i64, f32_to_i64, f64_to_i64;
    u16: i64, f32_to_i32, f64_to_i32;
    u32: i64, f32_to_u32, f64_to_u32;
    u64: u64, f32_to_u64, f64_to_u64;
}

impl Number for Bool {
    type Hub = i64;
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    inlined! {
        fn add(self, other: Self) -> Self = Self::from(self.get() | other.get());
        fn sub(self, other: Self) -> Self = Self::from(self.get() != other.get());
        fn mul(self, other: Self) -> Self = Self::from(self.get() & other.get());
        fn neg(self) -> Self = self;
        fn hub(self) -> i64 = self.get() as i64;
        fn from_i64(value: i64) -> Self = Self::from(value != 0);
        fn from_u64(value: u64) -> Self = Self::from(value != 0);
        fn from_f32(value: f32) -> Self = Self::from(value != 0.0);
        fn from_f64(value: f64) -> Self = Self::from(value != 0.0);
        fn from_complex32(value: Complex32) -> Self = Self::from(value.re != 0.0 || value.im != 0.0);
        fn from_complex64(value: Complex64) -> Self = Self::from(value.re != 0.0 || value.im != 0.0);
    }
}

impl Bits for Bool {
    inlined! {
        fn bit_and(self, other: Self) -> Self = self.mul(other);
        fn bit_or(self, other: Self) -> Self = self.add(other);
        fn bit_xor(self, other: Self) -> Self = self.sub(other);
        fn bit_not(self) -> Self = Self::from(!self.get());
    }
}

impl PartialOrd for Bool {
    inlined! {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> = self.get().partial_cmp(&other.get());
    }
}

impl Ordered for Bool {
    const LOWEST: Self = Self(0);
    const HIGHEST: Self = Self(1);
}

macro_rules! real {
    ($($type:ident)*) => {$(
        impl Number for $type {
            type Hub = $type;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            inlined! {
                fn add(self, other: Self) -> Self = self + other;
                fn sub(self, other: Self) -> Self = self - other;
                fn mul(self, other: Self) -> Self = self * other;
                fn neg(self) -> Self = -self;
                fn hub(self) -> Self = self;
                fn from_i64(value: i64) -> Self = value as Self;
                fn from_u64(value: u64) -> Self = value as Self;
                fn from_f32(value: f32) -> Self = value as Self;
                fn from_f64(value: f64) -> Self = value as Self;
                fn from_complex32(value: Complex32) -> Self = value.re as Self;
                fn from_complex64(value: Complex64) -> Self = value.re as Self;
            }
        }

        impl Ordered for $type {
            const LOWEST: Self = <$type>::NEG_INFINITY;
            const HIGHEST: Self = <$type>::INFINITY;

            inlined! {
                fn is_nan(self) -> bool = self != self;
                fn lesser(self, other: Self) -> Self = self.min(other);
            }
        }

        impl Field for $type {
            inlined! {
                fn div(self, divisor: Self) -> Self = self / divisor;
                fn exp(self) -> Self = math::$type::exp(self);
                fn log(self) -> Self = math::$type::log(self);
                fn sqrt(self) -> Self = self.sqrt();
                fn sin(self) -> Self = math::$type::sin(self);
                fn cos(self) -> Self = math::$type::cos(self);
                fn tanh(self) -> Self = math::$type::tanh(self);
                fn sigmoid(self) -> Self = math::$type::sigmoid(self);
                fn scaled_sigmoid(self, factor: Self) -> Self = math::$type::scaled_sigmoid(self, factor);
                fn sigmoid_and_rest(self) -> (Self, Self) = math::$type::sigmoid_and_rest(self);
                fn pow(self, exponent: Self) -> Self = math::$type::pow(self, exponent);
                fn expm1(self) -> Self = math::$type::expm1(self);
                fn log1p(self) -> Self = math::$type::log1p(self);
                fn is_below_half(self) -> bool = self < 0.5;
            }
        }

        impl Real for $type {
            inlined! {
                fn exp_nonpositive(self) -> Self = math::$type::exp_nonpositive(self);
                fn normal_tail(self) -> (Self, Self) = math::$type::normal_tail(self);
                fn abs(self) -> Self = self.abs();
                fn floor(self) -> Self = self.floor();
                fn ceil(self) -> Self = self.ceil();
                fn trunc(self) -> Self = self.trunc();
                fn round(self) -> Self = self.round_ties_even();
                fn atan2(self, other: Self) -> Self = math::$type::atan2(self, other);
                fn fmod(self, divisor: Self) -> Self = self % divisor;
            }

            #[inline(always)]
            fn has_fast_fmod(self, divisor: Self) -> bool {
                const LIMIT: $type = (1u64 << ($type::MANTISSA_DIGITS - 2)) as $type;
                let divisor = divisor.abs();
                // Divisors of 0, infinity and NaN and dividends of infinity and NaN take the slow path.
                self.abs() < divisor * LIMIT && divisor <= $type::MAX
            }

            #[inline(always)]
            fn fmod_fast(self, divisor: Self) -> Self {
                let (magnitude, divisor) = (self.abs(), divisor.abs());
                // The quotient may round up to the next integer. The fused product is exact.
                let rest = (-(magnitude / divisor).trunc()).mul_add(divisor, magnitude);
                (if rest < 0.0 { rest + divisor } else { rest }).copysign(self)
            }

            inlined! {
                fn copysign(self, sign: Self) -> Self = self.copysign(sign);
                fn erf(self) -> Self = math::$type::erf(self);
                fn mul_add(self, factor: Self, term: Self) -> Self = <$type>::mul_add(self, factor, term);
                fn log1p_of_finite(self) -> Self = math::$type::log1p_of_finite(self);
            }
        }

        impl Number for num_complex::Complex<$type> {
            type Hub = Self;
            const ZERO: Self = Self::new(0.0, 0.0);
            const ONE: Self = Self::new(1.0, 0.0);

            inlined! {
                fn add(self, other: Self) -> Self = self + other;
                fn sub(self, other: Self) -> Self = self - other;
                fn mul(self, other: Self) -> Self = self * other;
                fn neg(self) -> Self = -self;
                fn conj(self) -> Self = Self::new(self.re, -self.im);
            }

            #[inline(always)]
            fn add_scaled(self, factor: Self, term: Self) -> Self {
                if factor.im == 0.0 {
                    Self::new(self.re + factor.re * term.re, self.im + factor.re * term.im)
                } else {
                    self + factor * term
                }
            }

            inlined! {
                fn hub(self) -> Self = self;
                fn from_i64(value: i64) -> Self = Self::new(value as $type, 0.0);
                fn from_u64(value: u64) -> Self = Self::new(value as $type, 0.0);
                fn from_f32(value: f32) -> Self = Self::new(value as $type, 0.0);
                fn from_f64(value: f64) -> Self = Self::new(value as $type, 0.0);
                fn from_complex32(value: Complex32) -> Self = Self::new(value.re as $type, value.im as $type);
                fn from_complex64(value: Complex64) -> Self = Self::new(value.re as $type, value.im as $type);
            }
        }

        impl Field for num_complex::Complex<$type> {
            /// Smith's method: no overflow unless the quotient overflows. Division by 0 divides each part by 0.
            #[inline(always)]
            fn div(self, divisor: Self) -> Self {
                if divisor == Self::ZERO {
                    return Self::new(self.re / divisor.re.abs(), self.im / divisor.im.abs());
                }
                let wide = divisor.re.abs() >= divisor.im.abs();
                let (major, minor) = if wide { (divisor.re, divisor.im) } else { (divisor.im, divisor.re) };
                let ratio = minor / major;
                let scale = 1.0 / (minor * ratio + major);
                if wide {
                    Self::new((self.re + self.im * ratio) * scale, (self.im - self.re * ratio) * scale)
                } else {
                    Self::new((self.re * ratio + self.im) * scale, (self.im * ratio - self.re) * scale)
                }
            }

            inlined! {
                fn exp(self) -> Self = complex::exp(self.to()).to();
                fn log(self) -> Self = complex::log(self.to()).to();
                fn sqrt(self) -> Self = complex::sqrt(self.to()).to();
                fn sin(self) -> Self = complex::sin(self.to()).to();
                fn cos(self) -> Self = complex::cos(self.to()).to();
                fn tanh(self) -> Self = complex::tanh(self.to()).to();
                fn sigmoid(self) -> Self = complex::sigmoid(self.to()).to();
                fn scaled_sigmoid(self, factor: Self) -> Self = complex::scaled_sigmoid(self.to(), factor.to()).to();
            }

            #[inline(always)]
            fn sigmoid_and_rest(self) -> (Self, Self) {
                let sigmoid = self.sigmoid();
                (sigmoid, Self::ONE.sub(sigmoid))
            }

            inlined! {
                fn pow(self, exponent: Self) -> Self = complex::pow(self.to(), exponent.to()).to();
                fn expm1(self) -> Self = complex::expm1(self.to()).to();
                fn log1p(self) -> Self = complex::log1p(self.to()).to();
                fn is_below_half(self) -> bool = self.norm_sqr() < 0.25;
            }
        }
    )*};
}

real!(f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn integers<T: Number>(values: [f64; 9]) -> [T; 9] {
        let narrow = values.map(|value| T::from_f32(value as f32));
        let wide = values.map(T::from_f64);
        assert_eq!(narrow, wide);
        wide
    }

    /// The results of PyTorch 2.15 on x86-64.
    #[test]
    fn floats_become_the_integers_that_pytorch_gives() {
        let inf = f64::INFINITY;
        let values = [f64::NAN, inf, -inf, 3e9, -3e9, 1e20, 300.7, -1.5, 70000.0];
        assert_eq!(integers::<u8>(values), [0, 0, 0, 0, 0, 0, 44, 255, 112]);
        assert_eq!(integers::<i8>(values), [0, 0, 0, 0, 0, 0, 44, -1, 112]);
        assert_eq!(integers::<i16>(values), [0, 0, 0, 0, 0, 0, 300, -1, 4464]);
        assert_eq!(integers::<u16>(values), [0, 0, 0, 0, 0, 0, 300, 65535, 4464]);
        let least = i32::MIN;
        assert_eq!(integers::<i32>(values), [least, least, least, least, least, least, 300, -1, 70000]);
        let half = 1u32 << 31;
        assert_eq!(integers::<u32>(values), [half, 0, half, 3_000_000_000, half, 0, 300, u32::MAX, 70000]);
        let least = i64::MIN;
        assert_eq!(integers::<i64>(values), [least, least, least, 3_000_000_000, -3_000_000_000, least, 300, -1, 70000]);
        let half = 1u64 << 63;
        assert_eq!(
            integers::<u64>(values),
            [half, 0, half, 3_000_000_000, 3_000_000_000u64.wrapping_neg(), 0, 300, u64::MAX, 70000]
        );
        assert_eq!(u64::from_f64(1.8e19), 18_000_000_000_000_000_000);
    }

    #[test]
    fn bool_is_whether_it_is_not_zero() {
        assert!(Bool::from_f64(f64::NAN).get() && Bool::from_f64(5e-324).get() && !Bool::from_f64(-0.0).get());
        assert!(Bool::from_complex64(Complex64::new(0.0, 1.0)).get());
        assert_eq!(f32::from_complex64(Complex64::new(2.0, 1.0)), 2.0);
        assert_eq!(Bool(7).hub().to::<f32>(), 1.0);
    }

    #[test]
    fn integers_divide_like_python_and_like_c() {
        assert_eq!([(-7i32).floor_div(2), 7i32.floor_div(-2), (-7i32).trunc_div(2)], [Some(-4), Some(-4), Some(-3)]);
        assert_eq!([i8::MIN.floor_div(-1), 1i8.floor_div(0)], [Some(i8::MIN), None]);
        assert_eq!(200u8.floor_div(7), Some(28));
    }
}
