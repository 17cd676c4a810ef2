//! Trigonometric and hyperbolic functions and their inverses. Operands [out, x].

use super::functions;
use crate::simd::math::complex;
use crate::tensor::loops::fast_path::{self, FastPath};
use crate::tensor::op::Run;
use crate::tensor::{Analytic, Elementary, Error, Field, Hub, Launch, Number, Real, dispatch, signature};

signature! {
    sin(out; x)[] in FIELD => |launch| of_angle(launch, Sin, complex_sin);
    cos(out; x)[] in FIELD => |launch| of_angle(launch, Cos, complex_cos);
    tan(out; x)[] in FIELD => |launch| of_angle(launch, Tan, complex_tan);
    /// `aten::sinc`: sin(pi x) / (pi x), 1 at 0.
    sinc(out; x)[] in FIELD => |launch| if launch.compute().is_complex() { complex_sinc(launch) } else { real_sinc(launch) };
}

functions! {
    /// `aten::acos`: the inverse cosine.
    acos, Acos, FIELD, Analytic, [], |[x]| x.acos();
    /// `aten::acosh`: the inverse hyperbolic cosine.
    acosh, Acosh, FIELD, Analytic, [], |[x]| x.acosh();
    /// `aten::asin`: the inverse sine.
    asin, Asin, FIELD, Analytic, [], |[x]| x.asin();
    /// `aten::asinh`: the inverse hyperbolic sine.
    asinh, Asinh, FIELD, Analytic, [], |[x]| x.asinh();
    /// `aten::atan`: the inverse tangent.
    atan, Atan, FIELD, Analytic, [], |[x]| x.atan();
    /// `aten::atan2`: the angle of the point (x, y).
    atan2, Atan2, FLOATING, Real, [], |[y, x]| y.atan2(x);
    /// `aten::atanh`: the inverse hyperbolic tangent.
    atanh, Atanh, FIELD, Analytic, [], |[x]| x.atanh();
    /// `aten::cosh`: the hyperbolic cosine.
    cosh, Cosh, FIELD, Analytic, [], |[x]| x.cosh();
    /// `aten::sinh`: the hyperbolic sine.
    sinh, Sinh, FIELD, Analytic, [], |[x]| x.sinh();
    /// The cosine of complex numbers.
    complex_cos, ComplexCos, WIDE_COMPLEX, Field, [], |[z]| z.cos();
    complex_sin, ComplexSin, WIDE_COMPLEX, Field, [], |[z]| z.sin();
    /// sin(pi x) / (pi x) of real numbers, 1 at 0.
    real_sinc, Sinc, FLOATING, Elementary, [], |[x]| x.sinc();
    /// sin(pi z) / (pi z) of complex numbers, 1 at 0.
    complex_sinc, ComplexSinc, WIDE_COMPLEX, Number, [], |[z]| complex::sinc(z.hub().to()).hub().to();
    /// The tangent of complex numbers.
    complex_tan, ComplexTan, WIDE_COMPLEX, Analytic, [], |[z]| z.tan();
}

/// Functions of an angle: the fast path computes small angles, the slow path all angles.
macro_rules! of_angles {
    ($($map:ident, |$x:ident| $angle:expr, $fast:expr, $slow:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $map;

        impl<T: Elementary> FastPath<T, 1> for $map {
            #[inline(always)]
            fn takes_fast_path(self, [$x]: [T; 1]) -> bool {
                $angle.takes_fast_path()
            }

            #[inline(always)]
            fn fast(self, [$x]: [T; 1]) -> T {
                $fast
            }

            #[inline(always)]
            fn slow(self, [$x]: [T; 1]) -> T {
                $slow
            }
        }
    )*};
}

of_angles! {
    Sin, |x| x, x.sin_fast(), x.sin();
    Cos, |x| x, x.cos_fast(), x.cos();
    Tan, |x| x, x.tan_fast(), x.tan();
}

/// Runs a function over real numbers, or `complex` over complex ones.
fn of_angle<F: FastPath<f32, 1> + FastPath<f64, 1>>(launch: &Launch<'_>, function: F, complex: Run) -> Result<(), Error> {
    match launch.compute() {
        dtype if dtype.is_complex() => complex(launch),
        dtype => dispatch!(dtype in FLOATING, T => fast_path::run::<T, _, 1>(launch, function)),
    }
}
