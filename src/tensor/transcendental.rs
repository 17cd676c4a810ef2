//! Transcendental functions beyond those of [`Field`] and [`Real`], for generic kernels: [`Analytic`] for real and complex numbers,
//! [`Elementary`] for real ones alone.

#![forbid(unsafe_code)]

use super::{Approximate, Complex32, Complex64, Field, Hub, Number, Real};
use crate::simd::math;

macro_rules! analytic {
    (
        unary { $($unary:ident)* }
        binary { $($binary:ident)* }
    ) => {
        /// Real and complex numbers with the functions of `simd::math`, under the same names.
        #[allow(missing_docs, reason = "documented in simd::math")]
        pub trait Analytic: Field {
            $(fn $unary(self) -> Self;)*
            $(fn $binary(self, other: Self) -> Self;)*
        }

        analytic!(@impl f32, f32, |x| x, unary { $($unary)* } binary { $($binary)* });
        analytic!(@impl f64, f64, |x| x, unary { $($unary)* } binary { $($binary)* });
        analytic!(@impl Approximate, approximations, |x| x.into(), unary { $($unary)* } binary { $($binary)* });
        analytic!(@impl Complex32, complex, |z| z.to(), unary { $($unary)* } binary { $($binary)* });
        analytic!(@impl Complex64, complex, |z| z, unary { $($unary)* } binary { $($binary)* });
    };
    (@impl $type:ident, $module:ident, |$value:ident| $cast:expr, unary { $($unary:ident)* } binary { $($binary:ident)* }) => {
        impl Analytic for $type {
            $(
                #[inline(always)]
                fn $unary(self) -> Self {
                    let $value = self;
                    let $value = math::$module::$unary($cast);
                    $cast
                }
            )*
            $(
                #[inline(always)]
                fn $binary(self, other: Self) -> Self {
                    let cast = |$value: Self| $cast;
                    let $value = math::$module::$binary(cast(self), cast(other));
                    $cast
                }
            )*
        }
    };
}

analytic! {
    unary { acos acosh asin asinh atan atanh cosh exp2 log10 log2 sinh tan }
    binary { logaddexp }
}

macro_rules! elementary {
    (
        unary { $($unary:ident)* }
        binary { $($binary:ident)* }
        wide { $($wide:ident in $module:ident,)* }
    ) => {
        /// Real numbers with the functions of `simd::math`, under the same names.
        #[allow(missing_docs, reason = "documented in simd::math")]
        pub trait Elementary: Real + Analytic {
            $(fn $unary(self) -> Self;)*
            $(fn $binary(self, other: Self) -> Self;)*
            $(fn $wide(self) -> Self;)*
            /// True if the three functions below are accurate for this angle.
            fn takes_fast_path(self) -> bool;
            fn sin_fast(self) -> Self;
            fn cos_fast(self) -> Self;
            fn tan_fast(self) -> Self;
        }

        elementary!(@impl f32, f32, unary { $($unary)* } binary { $($binary)* } wide { $($wide in $module,)* });
        elementary!(@impl f64, f64, unary { $($unary)* } binary { $($binary)* } wide { $($wide in $module,)* });
        elementary!(@impl Approximate, approximations, unary { $($unary)* } binary { $($binary)* } wide { $($wide in $module,)* });
    };
    (@impl $type:ident, $math:ident, unary { $($unary:ident)* } binary { $($binary:ident)* } wide { $($wide:ident in $module:ident,)* }) => {
        impl Elementary for $type {
            $(
                #[inline(always)]
                fn $unary(self) -> Self {
                    math::$math::$unary(self.into()).into()
                }
            )*
            $(
                #[inline(always)]
                fn $binary(self, other: Self) -> Self {
                    math::$math::$binary(self.into(), other.into()).into()
                }
            )*
            $(
                #[inline(always)]
                fn $wide(self) -> Self {
                    Self::from_f64(math::$module::$wide(self.hub() as f64))
                }
            )*

            #[inline(always)]
            fn takes_fast_path(self) -> bool {
                math::$math::takes_fast_path(self.into())
            }

            #[inline(always)]
            fn sin_fast(self) -> Self {
                math::$math::sin_cos_fast(self.into()).0.into()
            }

            #[inline(always)]
            fn cos_fast(self) -> Self {
                math::$math::sin_cos_fast(self.into()).1.into()
            }

            #[inline(always)]
            fn tan_fast(self) -> Self {
                math::$math::tan_fast(self.into()).into()
            }
        }
    };
}

elementary! {
    unary { erfc erfinv lgamma sinc }
    binary { hypot ldexp logaddexp2 nextafter }
    wide {
        digamma in gamma,
        erfcx in normal,
        i0 in bessel,
        i0e in bessel,
        i1 in bessel,
        i1e in bessel,
        log_ndtr in normal,
        ndtri in normal,
    }
}
