//! Elementary functions. Operands [out, input] throughout; 16 bit floats are computed in `f32`.

#![forbid(unsafe_code)]

use crate::tensor::dtype::dispatch;
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run};
use crate::tensor::number::{Field, Real};

/// A function of one value as a [`Map`], and the kernel that runs it over a set of dtypes.
macro_rules! functions {
    ($($(#[$doc:meta])* $kernel:ident, $map:ident, $set:ident, $bound:ident, |$x:ident| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $map;

        impl<T: $bound> Map<T, 1> for $map {
            type Output = T;

            #[inline(always)]
            fn apply(self, [$x]: [T; 1]) -> T {
                $body
            }
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// A dtype outside the table's.
        pub fn $kernel(launch: &Launch<'_>) -> Result<(), String> {
            let dtype = launch.compute();
            dispatch!(dtype in $set, T => run::<T, T, _, 1>(launch, $map))
        }
    )*};
}

functions! {
    /// `aten::exp`: e^x.
    exp, Exp, FIELD, Field, |x| x.exp();
    /// `aten::expm1`: e^x - 1, accurate near 0.
    expm1, Expm1, FLOATING, Real, |x| x.expm1();
    /// `aten::log`: ln x.
    log, Log, FIELD, Field, |x| x.log();
    /// `aten::log1p`: ln(1 + x), accurate near 0.
    log1p, Log1p, FLOATING, Real, |x| x.log1p();
    /// `aten::sqrt`: the square root.
    sqrt, Sqrt, FIELD, Field, |x| x.sqrt();
    /// `aten::rsqrt`: 1 / sqrt(x).
    rsqrt, Rsqrt, FIELD, Field, |x| T::ONE.div(x.sqrt());
    /// `aten::reciprocal`: 1 / x.
    reciprocal, Reciprocal, FIELD, Field, |x| T::ONE.div(x);
    /// `aten::sin`.
    sin, Sin, FIELD, Field, |x| x.sin();
    /// `aten::cos`.
    cos, Cos, FIELD, Field, |x| x.cos();
    /// `aten::tanh`.
    tanh, Tanh, FIELD, Field, |x| x.tanh();
    /// `aten::sigmoid`: 1 / (1 + e^-x).
    sigmoid, Sigmoid, FIELD, Field, |x| x.sigmoid();
    /// `aten::erf`: the error function.
    erf, Erf, FLOATING, Real, |x| x.erf();
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::dtype::{Complex64, DType};

    fn same(dtype: DType) -> DType {
        dtype
    }

    #[test]
    fn functions_of_the_whole_line() {
        check::pointwise::<1>("exp", &[], same, |[x]| x.exp());
        check::pointwise::<1>("tanh", &[], same, |[x]| x.tanh());
        check::pointwise::<1>("sigmoid", &[], same, |[x]| 1.0 / (1.0 + (-x).exp()));
        check::pointwise::<1>("sin", &[], same, |[x]| x.sin());
        check::pointwise::<1>("cos", &[], same, |[x]| x.cos());
        check::pointwise::<1>("expm1", &[], same, |[x]| real(x.re.exp_m1()));
    }

    /// The real function where a real input has a result, the complex one elsewhere.
    fn root(x: Complex64) -> Complex64 {
        if x.im == 0.0 { real(x.re.sqrt()) } else { x.sqrt() }
    }

    #[test]
    fn functions_of_the_half_line() {
        check::pointwise::<1>("log", &[], same, |[x]| if x.im == 0.0 { real(x.re.ln()) } else { x.ln() });
        check::pointwise::<1>("log1p", &[], same, |[x]| real(x.re.ln_1p()));
        check::pointwise::<1>("sqrt", &[], same, |[x]| root(x));
        check::pointwise::<1>("rsqrt", &[], same, |[x]| if x.im == 0.0 { real(1.0 / root(x).re) } else { 1.0 / root(x) });
        check::pointwise::<1>("reciprocal", &[], same, |[x]| if x.im == 0.0 { real(1.0 / x.re) } else { 1.0 / x });
    }
}
