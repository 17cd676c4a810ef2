//! Elementary functions. Operands [out, x] but for `pow`; 16 bit floats are computed in `f32`.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run};
use crate::tensor::number::{Field, Real};

functions! {
    /// `aten::exp`: e^x.
    exp, Exp, FIELD, Field, [], |[x]| x.exp();
    /// `aten::expm1`: e^x - 1, accurate near 0.
    expm1, Expm1, FLOATING, Real, [], |[x]| x.expm1();
    /// `aten::log`: ln x.
    log, Log, FIELD, Field, [], |[x]| x.log();
    /// `aten::log1p`: ln(1 + x), accurate near 0.
    log1p, Log1p, FLOATING, Real, [], |[x]| x.log1p();
    /// `aten::sqrt`: the square root.
    sqrt, Sqrt, FIELD, Field, [], |[x]| x.sqrt();
    /// `aten::rsqrt`: 1 / sqrt(x).
    rsqrt, Rsqrt, FIELD, Field, [], |[x]| T::ONE.div(x.sqrt());
    /// `aten::reciprocal`: 1 / x.
    reciprocal, Reciprocal, FIELD, Field, [], |[x]| T::ONE.div(x);
    /// `aten::sin`.
    sin, Sin, FIELD, Field, [], |[x]| x.sin();
    /// `aten::cos`.
    cos, Cos, FIELD, Field, [], |[x]| x.cos();
    /// `aten::tanh`.
    tanh, Tanh, FIELD, Field, [], |[x]| x.tanh();
    /// `aten::sigmoid`: 1 / (1 + e^-x).
    sigmoid, Sigmoid, FIELD, Field, [], |[x]| x.sigmoid();
    /// `aten::erf`: the error function.
    erf, Erf, FLOATING, Real, [], |[x]| x.erf();
    /// `aten::logit`: ln(x / (1 - x)), with x between eps and 1 - eps where eps is not below 0. Scalars [eps].
    logit, Logit, FLOATING, Real, [eps], |[x]| {
        let x = if eps < T::ZERO { x } else if x < eps { eps } else if x > T::ONE.sub(eps) { T::ONE.sub(eps) } else { x };
        x.div(T::ONE.sub(x)).log()
    };
    /// `aten::pow` of tensors: base^exponent. Operands [out, base, exponent].
    pow, Pow, FLOATING, Real, [], |[base, exponent]| base.pow(exponent);
}

/// The exponent 2.
#[derive(Clone, Copy)]
struct Square;

impl<T: Real> Map<T, 1> for Square {
    type Output = T;

    #[inline(always)]
    fn apply(self, [base]: [T; 1]) -> T {
        base.mul(base)
    }
}

/// The exponent 3.
#[derive(Clone, Copy)]
struct Cube;

impl<T: Real> Map<T, 1> for Cube {
    type Output = T;

    #[inline(always)]
    fn apply(self, [base]: [T; 1]) -> T {
        base.mul(base).mul(base)
    }
}

/// Any exponent.
#[derive(Clone, Copy)]
struct Power<T>(T);

impl<T: Real> Map<T, 1> for Power<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [base]: [T; 1]) -> T {
        base.pow(self.0)
    }
}

/// `aten::pow` with one exponent: base^exponent; 2, 3, 1/2, -1/2 and -1 by multiplication, root and division, as PyTorch's CPU does.
/// Operands [out, base]; scalars [exponent].
///
/// # Errors
/// A dtype outside the table's, or no scalar.
pub fn pow_scalar(launch: &Launch<'_>) -> Result<(), String> {
    let (dtype, exponent) = (launch.compute(), launch.scalar(0)?.to::<f64>());
    match exponent {
        2.0 => dispatch!(dtype in FLOATING, T => run::<T, T, _, 1>(launch, Square)),
        3.0 => dispatch!(dtype in FLOATING, T => run::<T, T, _, 1>(launch, Cube)),
        0.5 => sqrt(launch),
        -0.5 => rsqrt(launch),
        -1.0 => reciprocal(launch),
        // As PyTorch's CPU does, the exponent is rounded to the dtype.
        _ => dispatch!(dtype in FLOATING, T => run::<T, T, _, 1>(launch, Power(T::store(launch.scalar(0)?.to()).load()))),
    }
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

    #[test]
    fn powers() {
        check::pointwise::<2>("pow", &[], same, |[base, exponent]| real(base.re.powf(exponent.re)));
        for exponent in [2.0, 3.0, 0.5, -0.5, -1.0, 2.5, 0.0, 4.0] {
            let scalars = [crate::tensor::launch::Scalar::Double(exponent)];
            check::pointwise::<1>("pow_scalar", &scalars, same, |[base]| {
                real(if exponent == 0.5 { base.re.sqrt() } else { base.re.powf(exponent) })
            });
        }
    }
}
