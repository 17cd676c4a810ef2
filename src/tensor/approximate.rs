//! [`Approximate`]: the computing type of approximations, for functions of 16 bit floats.

#![forbid(unsafe_code)]

use super::inlined::inlined;
use super::{Complex32, Complex64, Field, Number, Ordered, Real};
use crate::simd::math::approximations;

/// An `f32` whose functions are the approximations of [`approximations`], accurate enough for results that are rounded to 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Approximate(pub f32);

impl From<f32> for Approximate {
    #[inline(always)]
    fn from(value: f32) -> Self {
        Self(value)
    }
}

impl From<Approximate> for f32 {
    #[inline(always)]
    fn from(value: Approximate) -> Self {
        value.0
    }
}

/// Methods of a trait that delegate to those of `f32`.
macro_rules! as_f32 {
    ($trait:ident: $($unary:ident)*; $($binary:ident)*) => {
        $(
            #[inline(always)]
            fn $unary(self) -> Self {
                Self($trait::$unary(self.0))
            }
        )*
        $(
            #[inline(always)]
            fn $binary(self, other: Self) -> Self {
                Self($trait::$binary(self.0, other.0))
            }
        )*
    };
}

/// Methods of a trait that delegate to functions of [`approximations`].
macro_rules! approximately {
    ($($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            Self(approximations::$name(self.0))
        }
    )*};
}

/// Methods that delegate to functions of [`approximations`] with two results.
macro_rules! approximately_two {
    ($($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> (Self, Self) {
            let (first, second) = approximations::$name(self.0);
            (Self(first), Self(second))
        }
    )*};
}

/// Conversions that delegate to those of `f32`.
macro_rules! converted {
    ($($name:ident: $from:ty,)*) => {$(
        #[inline(always)]
        fn $name(value: $from) -> Self {
            Self(Number::$name(value))
        }
    )*};
}

impl Number for Approximate {
    type Hub = f32;
    const ZERO: Self = Self(0.0);
    const ONE: Self = Self(1.0);

    as_f32!(Number: neg; add sub mul);
    converted! {
        from_i64: i64,
        from_u64: u64,
        from_f32: f32,
        from_f64: f64,
        from_complex32: Complex32,
        from_complex64: Complex64,
    }

    #[inline(always)]
    fn hub(self) -> f32 {
        self.0
    }
}

impl Ordered for Approximate {
    const LOWEST: Self = Self(f32::LOWEST);
    const HIGHEST: Self = Self(f32::HIGHEST);

    as_f32!(Ordered: ; lesser);

    #[inline(always)]
    fn is_nan(self) -> bool {
        Ordered::is_nan(self.0)
    }
}

impl Field for Approximate {
    as_f32!(Field: log sqrt sin cos log1p; div pow);
    approximately!(exp expm1 sigmoid tanh);
    approximately_two!(sigmoid_and_rest);

    inlined! {
        fn scaled_sigmoid(self, factor: Self) -> Self = Self(approximations::scaled_sigmoid(self.0, factor.0));
        fn is_below_half(self) -> bool = self.0.is_below_half();
    }
}

impl Real for Approximate {
    as_f32!(Real: abs floor ceil trunc round erf log1p_of_finite; atan2 fmod fmod_fast copysign);

    approximately!(exp_nonpositive);
    approximately_two!(normal_tail);

    inlined! {
        fn mul_add(self, factor: Self, term: Self) -> Self = Self(self.0.mul_add(factor.0, term.0));
        fn has_fast_fmod(self, divisor: Self) -> bool = self.0.has_fast_fmod(divisor.0);
    }
}
