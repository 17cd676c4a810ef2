//! Elementary functions. Operands [out, x] but for `pow`; 16 bit floats are computed in `f32`.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::dtype::{Element, INTEGRAL, dispatch};
use crate::tensor::elementary::Elementary;
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run};
use crate::tensor::number::{Field, Integer, Real};

functions! {
    /// `aten::exp`: e^x.
    exp, Exp, FIELD, Field, [], |[x]| x.exp();
    /// `aten::exp2`: 2^x.
    exp2, Exp2, FLOATING, Elementary, [], |[x]| x.exp2();
    /// `aten::expm1`: e^x - 1, accurate near 0.
    expm1, Expm1, FLOATING, Real, [], |[x]| x.expm1();
    /// `aten::log`: ln x.
    log, Log, FIELD, Field, [], |[x]| x.log();
    /// `aten::log10`: the logarithm to base 10.
    log10, Log10, FLOATING, Elementary, [], |[x]| x.log10();
    /// `aten::log1p`: ln(1 + x), accurate near 0.
    log1p, Log1p, FLOATING, Real, [], |[x]| x.log1p();
    /// `aten::log2`: the logarithm to base 2.
    log2, Log2, FLOATING, Elementary, [], |[x]| x.log2();
    /// `aten::logaddexp`: ln(e^lhs + e^rhs). Operands [out, lhs, rhs].
    logaddexp, LogAddExp, FLOATING, Elementary, [], |[lhs, rhs]| lhs.logaddexp(rhs);
    /// `aten::logaddexp2`: log2(2^lhs + 2^rhs). Operands [out, lhs, rhs].
    logaddexp2, LogAddExp2, FLOATING, Elementary, [], |[lhs, rhs]| lhs.logaddexp2(rhs);
    /// `aten::sqrt`: the square root.
    sqrt, Sqrt, FIELD, Field, [], |[x]| x.sqrt();
    /// `aten::rsqrt`: 1 / sqrt(x).
    rsqrt, Rsqrt, FIELD, Field, [], |[x]| T::ONE.div(x.sqrt());
    /// `aten::reciprocal`: 1 / x.
    reciprocal, Reciprocal, FIELD, Field, [], |[x]| T::ONE.div(x);
    /// `aten::tanh`.
    tanh, Tanh, FIELD, Field, [], |[x]| x.tanh();
    /// `aten::sigmoid`: 1 / (1 + e^-x).
    sigmoid, Sigmoid, FIELD, Field, [], |[x]| x.sigmoid();
    /// `aten::erf`: the error function.
    erf, Erf, FLOATING, Real, [], |[x]| x.erf();
    /// `aten::erfc`: 1 - erf(x).
    erfc, Erfc, FLOATING, Elementary, [], |[x]| x.erfc();
    /// `aten::hypot`: the distance of a point from the origin. Operands [out, x, y].
    hypot, Hypot, FLOATING, Elementary, [], |[x, y]| x.hypot(y);
    /// `aten::logit`: ln(x / (1 - x)), with x between eps and 1 - eps where eps is not below 0. Scalars [eps].
    logit, Logit, FLOATING, Real, [eps], |[x]| {
        let x = if eps < T::ZERO { x } else if x < eps { eps } else if x > T::ONE.sub(eps) { T::ONE.sub(eps) } else { x };
        x.div(T::ONE.sub(x)).log()
    };
    /// Powers of floating point numbers. Operands [out, base, exponent].
    real_pow, Pow, FLOATING, Real, [], |[base, exponent]| base.pow(exponent);
    /// The same for integers.
    integer_pow, IntegerPow, INTEGRAL, Integer, [], |[base, exponent]| base.power(exponent);
    /// The same with one exponent. Operands [out, base]; scalars [exponent].
    integer_pow_scalar, IntegerPowScalar, INTEGRAL, Integer, [exponent], |[base]| base.power(exponent);
}

/// `aten::pow` of tensors: base^exponent. Operands [out, base, exponent].
///
/// # Errors
/// A dtype outside the table's.
pub fn pow(launch: &Launch<'_>) -> Result<(), String> {
    if INTEGRAL.contains(launch.compute()) { integer_pow(launch) } else { real_pow(launch) }
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
    if INTEGRAL.contains(dtype) {
        return integer_pow_scalar(launch);
    }
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
    use crate::tensor::dtype::{Complex64, DType, INTEGRAL};

    fn same(dtype: DType) -> DType {
        dtype
    }

    #[test]
    fn functions_of_the_whole_line() {
        check::pointwise::<1>("exp", &[], same, |[x]| x.exp());
        check::pointwise::<1>("tanh", &[], same, |[x]| x.tanh());
        check::pointwise::<1>("sigmoid", &[], same, |[x]| 1.0 / (1.0 + (-x).exp()));
        check::pointwise::<1>("exp2", &[], same, |[x]| real(x.re.exp2()));
        check::pointwise::<2>("hypot", &[], same, |[x, y]| real(x.re.hypot(y.re)));
        check::pointwise::<2>("logaddexp", &[], same, |[x, y]| real((x.re.exp() + y.re.exp()).ln()));
        check::pointwise::<2>("logaddexp2", &[], same, |[x, y]| real((x.re.exp2() + y.re.exp2()).log2()));
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
        check::pointwise::<1>("log2", &[], same, |[x]| real(x.re.log2()));
        check::pointwise::<1>("log10", &[], same, |[x]| real(x.re.log10()));
        check::pointwise::<1>("log1p", &[], same, |[x]| real(x.re.ln_1p()));
    }

    #[test]
    fn powers() {
        // Wrapping beyond 64 bits is what narrower integers do as well.
        let whole = |base: f64, exponent: f64| {
            let power = (base as i64).wrapping_pow(exponent.abs() as u32);
            if exponent < 0.0 { 1i64.checked_div(power).unwrap_or(0) as f64 } else { power as f64 }
        };
        let power = |dtype: DType, base: f64, exponent: f64| {
            real(if INTEGRAL.contains(dtype) { whole(base, exponent) } else { base.powf(exponent) })
        };
        check::pointwise_by_dtype::<2>("pow", &[], same, |dtype, [base, exponent]| power(dtype, base.re, exponent.re));
        for exponent in [2.0, 3.0, 0.5, -0.5, -1.0, 2.5, 0.0, 4.0] {
            let scalars = [crate::tensor::launch::Scalar::Double(exponent)];
            check::pointwise_by_dtype::<1>("pow_scalar", &scalars, same, |dtype, [base]| {
                let exponent = if INTEGRAL.contains(dtype) { exponent.trunc() } else { exponent };
                if dtype == DType::Byte && exponent < 0.0 {
                    real(f64::from((base.re as u8).wrapping_pow(exponent as i64 as u8 as u32)))
                } else if exponent == 0.5 {
                    real(base.re.sqrt())
                } else {
                    power(dtype, base.re, exponent)
                }
            });
        }
    }
}
