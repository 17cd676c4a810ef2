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

    /// Checks a function that is real or complex by the dtype: outside its real domain the real one is NaN.
    fn by_dtype(name: &str, real_oracle: impl Fn(f64) -> f64, complex_oracle: impl Fn(Complex64) -> Complex64) {
        check::pointwise_by_dtype::<1>(name, &[], same, |dtype, [x]| {
            if dtype.is_complex() { complex_oracle(x) } else { real(real_oracle(x.re)) }
        });
    }

    #[test]
    fn functions_of_the_half_line() {
        by_dtype("log", f64::ln, Complex64::ln);
        by_dtype("sqrt", f64::sqrt, Complex64::sqrt);
        by_dtype("rsqrt", |x| 1.0 / x.sqrt(), |x| x.sqrt().inv());
        by_dtype("reciprocal", |x| 1.0 / x, |x| x.inv());
        check::pointwise::<1>("log1p", &[], same, |[x]| real(x.re.ln_1p()));
    }
}
