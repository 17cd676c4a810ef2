//! The functions beyond those of [`Field`] and [`Real`], for generic kernels: [`Analytic`] of real and complex numbers, [`Elementary`] of real
//! ones alone.

#![forbid(unsafe_code)]

use super::dtype::{Complex32, Complex64};
use super::number::{Field, Hub, Real};
use crate::simd::math;

macro_rules! analytic {
    (
        unary { $($unary:ident)* }
        binary { $($binary:ident)* }
    ) => {
        /// Real and complex numbers with the functions of `simd::math`, under their names there.
        #[allow(missing_docs, reason = "documented in simd::math")]
        pub trait Analytic: Field {
            $(fn $unary(self) -> Self;)*
            $(fn $binary(self, other: Self) -> Self;)*
        }

        analytic!(@impl f32, f32, |x| x, unary { $($unary)* } binary { $($binary)* });
        analytic!(@impl f64, f64, |x| x, unary { $($unary)* } binary { $($binary)* });
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
        /// Real numbers with the functions of `simd::math`, under their names there.
        #[allow(missing_docs, reason = "documented in simd::math")]
        pub trait Elementary: Real + Analytic {
            $(fn $unary(self) -> Self;)*
            $(fn $binary(self, other: Self) -> Self;)*
            $(fn $wide(self) -> Self;)*
            /// Whether the number is an angle that the three functions below take.
            fn is_near(self) -> bool;
            fn sin_near(self) -> Self;
            fn cos_near(self) -> Self;
            fn tan_near(self) -> Self;
        }

        elementary!(@impl f32, unary { $($unary)* } binary { $($binary)* } wide { $($wide in $module,)* });
        elementary!(@impl f64, unary { $($unary)* } binary { $($binary)* } wide { $($wide in $module,)* });
    };
    (@impl $type:ident, unary { $($unary:ident)* } binary { $($binary:ident)* } wide { $($wide:ident in $module:ident,)* }) => {
        impl Elementary for $type {
            $(
                #[inline(always)]
                fn $unary(self) -> Self {
                    math::$type::$unary(self)
                }
            )*
            $(
                #[inline(always)]
                fn $binary(self, other: Self) -> Self {
                    math::$type::$binary(self, other)
                }
            )*
            $(
                #[inline(always)]
                fn $wide(self) -> Self {
                    math::$module::$wide(self as f64) as Self
                }
            )*

            #[inline(always)]
            fn is_near(self) -> bool {
                math::$type::is_near(self)
            }

            #[inline(always)]
            fn sin_near(self) -> Self {
                math::$type::sin_cos_near(self).0
            }

            #[inline(always)]
            fn cos_near(self) -> Self {
                math::$type::sin_cos_near(self).1
            }

            #[inline(always)]
            fn tan_near(self) -> Self {
                math::$type::tan_near(self)
            }
        }
    };
}

elementary! {
    unary { erfc lgamma }
    binary { hypot logaddexp2 nextafter }
    wide {
        digamma in gamma,
        erfcx in normal,
        erfinv in normal,
        i0 in bessel,
        i0e in bessel,
        i1 in bessel,
        i1e in bessel,
        log_ndtr in normal,
        ndtri in normal,
    }
}
