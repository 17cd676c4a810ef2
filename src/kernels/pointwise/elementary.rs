//! Elementary functions: exponentials, logarithms, roots, powers. Operands [out, x], except for functions of two inputs; 16 bit
//! floats are computed in `f32`.

#![forbid(unsafe_code)]

use super::functions;
use crate::kernels::signature::signature;
use crate::tensor::dtype::{Complex64, Element, INTEGRAL, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::{Field, Integer, Real};
use crate::tensor::transcendental::{Analytic, Elementary};

signature! {
    pow(out, base, exponent)[] in INTEGRAL | FIELD;
    pow_scalar(out, base)[exponent] in INTEGRAL | FIELD;
}

functions! {
    /// `aten::exp`: e^x.
    exp, Exp, FIELD, Field, [], |[x]| x.exp();
    /// `aten::exp2`: 2^x.
    exp2, Exp2, FIELD, Analytic, [], |[x]| x.exp2();
    /// `aten::expm1`: e^x - 1, accurate near 0.
    expm1, Expm1, FIELD, Field, [], |[x]| x.expm1();
    /// `aten::log`: ln x.
    log, Log, FIELD, Field, [], |[x]| x.log();
    /// `aten::log10`: the logarithm to base 10.
    log10, Log10, FIELD, Analytic, [], |[x]| x.log10();
    /// `aten::log1p`: ln(1 + x), accurate near 0.
    log1p, Log1p, FIELD, Field, [], |[x]| x.log1p();
    /// `aten::log2`: the logarithm to base 2.
    log2, Log2, FIELD, Analytic, [], |[x]| x.log2();
    /// `aten::logaddexp`: ln(e^lhs + e^rhs).
    logaddexp, LogAddExp, FIELD, Analytic, [], |[lhs, rhs]| lhs.logaddexp(rhs);
    /// `aten::logaddexp2`: log2(2^lhs + 2^rhs).
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
    /// `aten::hypot`: sqrt(x^2 + y^2).
    hypot, Hypot, FLOATING, Elementary, [], |[x, y]| x.hypot(y);
    /// `aten::logit`: ln(x / (1 - x)), with x clamped to eps..1 - eps unless eps is negative. Scalars [eps].
    logit, Logit, FLOATING, Real, [eps], |[x]| {
        let x = if eps < T::ZERO { x } else if x < eps { eps } else if x > T::ONE.sub(eps) { T::ONE.sub(eps) } else { x };
        x.div(T::ONE.sub(x)).log()
    };
    /// Powers of real and complex numbers.
    field_pow, Pow, FIELD, Field, [], |[base, exponent]| base.pow(exponent);
    /// Powers of integers.
    integer_pow, IntegerPow, INTEGRAL, Integer, [], |[base, exponent]| base.power(exponent);
    /// Powers of integers with one exponent for all.
    integer_pow_scalar, IntegerPowScalar, INTEGRAL, Integer, [exponent], |[base]| base.power(exponent);
}

/// `aten::pow` of tensors: base^exponent.
pub fn pow(launch: &Launch<'_>) -> Result<(), Error> {
    if INTEGRAL.contains(launch.compute()) { integer_pow(launch) } else { field_pow(launch) }
}

/// The exponent 2.
#[derive(Clone, Copy)]
struct Square;

impl<T: Field> Map<T, 1> for Square {
    type Output = T;

    #[inline(always)]
    fn apply(self, [base]: [T; 1]) -> T {
        base.mul(base)
    }
}

/// The exponent 3.
#[derive(Clone, Copy)]
struct Cube;

impl<T: Field> Map<T, 1> for Cube {
    type Output = T;

    #[inline(always)]
    fn apply(self, [base]: [T; 1]) -> T {
        base.mul(base).mul(base)
    }
}

/// The exponent 1.
#[derive(Clone, Copy)]
struct Same;

impl<T: Field> Map<T, 1> for Same {
    type Output = T;

    #[inline(always)]
    fn apply(self, [base]: [T; 1]) -> T {
        base
    }
}

/// Any exponent.
#[derive(Clone, Copy)]
struct Power<T>(T);

impl<T: Field> Map<T, 1> for Power<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [base]: [T; 1]) -> T {
        base.pow(self.0)
    }
}

/// The exponent 0.
#[derive(Clone, Copy)]
struct One;

impl<T: Field> Map<T, 1> for One {
    type Output = T;

    #[inline(always)]
    fn apply(self, _: [T; 1]) -> T {
        T::ONE
    }
}

/// `aten::pow` with a scalar exponent: base^exponent. As on PyTorch's CPU, exponents 1, 2, 3, 1/2, -1/2 and -1 use multiplication,
/// root and division.
pub fn pow_scalar(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, pow_scalar::Scalars { exponent: given }) = (launch.compute(), pow_scalar::Scalars::of(launch)?);
    let exponent = given.to::<Complex64>();
    if INTEGRAL.contains(dtype) {
        return integer_pow_scalar(launch);
    }
    match if exponent.im == 0.0 { exponent.re } else { f64::NAN } {
        0.0 => dispatch!(dtype in FIELD, T => run::<T, T, _, 1>(launch, One)),
        1.0 => dispatch!(dtype in FIELD, T => run::<T, T, _, 1>(launch, Same)),
        2.0 => dispatch!(dtype in FIELD, T => run::<T, T, _, 1>(launch, Square)),
        3.0 => dispatch!(dtype in FIELD, T => run::<T, T, _, 1>(launch, Cube)),
        0.5 => sqrt(launch),
        -0.5 => rsqrt(launch),
        -1.0 => reciprocal(launch),
        // The exponent is rounded to the dtype, as on PyTorch's CPU.
        _ => dispatch!(dtype in FIELD, T => run::<T, T, _, 1>(launch, Power(T::store(given.to()).load()))),
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::simd::math;
    use crate::tensor::dtype::{Complex64, DType, INTEGRAL};

    fn same(dtype: DType) -> DType {
        dtype
    }

    #[test]
    fn functions_of_the_whole_line() {
        check::pointwise::<1>("exp", &[], same, |[x]| x.exp());
        check::pointwise::<1>("tanh", &[], same, |[x]| x.tanh());
        check::pointwise::<1>("sigmoid", &[], same, |[x]| 1.0 / (1.0 + (-x).exp()));
        check::pointwise::<1>("exp2", &[], same, |[x]| x.exp2());
        check::pointwise::<2>("hypot", &[], same, |[x, y]| real(x.re.hypot(y.re)));
        check::sums_by_dtype::<2>("logaddexp", &[], same, |dtype, [x, y]| {
            if dtype.is_complex() { math::complex::logaddexp(x, y) } else { real((x.re.exp() + y.re.exp()).ln()) }
        });
        check::sums_by_dtype::<2>("logaddexp2", &[], same, |_, [x, y]| real((x.re.exp2() + y.re.exp2()).log2()));
        check::function("expm1", f64::exp_m1, |x| x.exp() - 1.0);
    }

    #[test]
    fn functions_of_any_number() {
        let functions: [(&str, check::Oracle); 13] = [
            ("exp", f64::exp),
            ("exp2", f64::exp2),
            ("expm1", f64::exp_m1),
            ("erf", math::f64::erf),
            ("erfc", math::f64::erfc),
            ("log", f64::ln),
            ("log2", f64::log2),
            ("log10", f64::log10),
            ("log1p", f64::ln_1p),
            ("reciprocal", f64::recip),
            ("sigmoid", math::f64::sigmoid),
            ("sqrt", f64::sqrt),
            ("tanh", f64::tanh),
        ];
        for (name, function) in functions {
            check::any_number(name, &[], function);
        }
    }

    #[test]
    fn functions_of_the_half_line() {
        check::function("log", f64::ln, Complex64::ln);
        check::function("sqrt", f64::sqrt, Complex64::sqrt);
        check::function("rsqrt", |x| 1.0 / x.sqrt(), |x| x.sqrt().inv());
        check::function("reciprocal", |x| 1.0 / x, |x| x.inv());
        check::function("log2", f64::log2, Complex64::log2);
        check::function("log10", f64::log10, Complex64::log10);
        check::function("log1p", f64::ln_1p, |x| (1.0 + x).ln());
    }

    #[test]
    fn powers() {
        // Wrapping at 64 bits and truncating is the same as wrapping in the narrower integer.
        let whole = |base: f64, exponent: f64| {
            let power = (base as i64).wrapping_pow(exponent.abs() as u32);
            if exponent < 0.0 { 1i64.checked_div(power).unwrap_or(0) as f64 } else { power as f64 }
        };
        let power = |dtype: DType, base: Complex64, exponent: Complex64| match dtype {
            _ if dtype.is_complex() => math::complex::pow(base, exponent),
            _ if INTEGRAL.contains(dtype) => real(whole(base.re, exponent.re)),
            _ => real(base.re.powf(exponent.re)),
        };
        check::pointwise_by_dtype::<2>("pow", &[], same, |dtype, [base, exponent]| power(dtype, base, exponent));
        for exponent in [2.0, 3.0, 0.5, -0.5, -1.0, 2.5, 0.0, 4.0] {
            let scalars = [crate::tensor::launch::Scalar::Double(exponent)];
            check::pointwise_by_dtype::<1>("pow_scalar", &scalars, same, |dtype, [base]| {
                let exponent = if INTEGRAL.contains(dtype) { exponent.trunc() } else { exponent };
                if dtype.is_complex() {
                    match exponent {
                        2.0 | 3.0 => base.powu(exponent as u32),
                        0.5 => base.sqrt(),
                        // Each part of 1 is divided by 0.
                        -0.5 | -1.0 if base == real(0.0) => Complex64::new(f64::INFINITY, f64::NAN),
                        -0.5 => base.sqrt().inv(),
                        -1.0 => base.inv(),
                        _ => power(dtype, base, real(exponent)),
                    }
                } else if dtype == DType::Byte && exponent < 0.0 {
                    real(f64::from((base.re as u8).wrapping_pow(exponent as i64 as u8 as u32)))
                } else if exponent == 0.5 {
                    real(base.re.sqrt())
                } else {
                    power(dtype, base, real(exponent))
                }
            });
        }
    }
}
