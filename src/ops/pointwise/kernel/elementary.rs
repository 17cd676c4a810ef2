//! Elementary functions: exponentials, logarithms, roots, powers. Operands [out, x], except for functions of two inputs; 16 bit
//! floats are computed in `f32`.

use super::{functions, maps};
use crate::tensor::loops::elementwise::run;
use crate::tensor::{Analytic, Complex64, Element, Elementary, Error, Field, INTEGRAL, Integer, Launch, Real, dispatch, signature};

signature! {
    /// `aten::pow` of tensors: base^exponent.
    pow(out; base, exponent)[] in INTEGRAL | FIELD =>
        |launch| if INTEGRAL.contains(launch.compute()) { integer_pow(launch) } else { field_pow(launch) };
    pow_scalar(out; base)[exponent] in INTEGRAL | FIELD;
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
    /// The exponent 0.
    one, One, FIELD, Field in Acc, [], |[_base]| T::ONE;
    /// The exponent 1.
    same, Same, FIELD, Field in Acc, [], |[base]| base;
    /// The exponent 2.
    square, Square, FIELD, Field in Acc, [], |[base]| base.mul(base);
    /// The exponent 3.
    cube, Cube, FIELD, Field in Acc, [], |[base]| base.mul(base).mul(base);
    /// Powers of real and complex numbers.
    field_pow, Pow, FIELD, Field, [], |[base, exponent]| base.pow(exponent);
    /// Powers of integers.
    integer_pow, IntegerPow, INTEGRAL, Integer, [], |[base, exponent]| base.power(exponent);
    /// Powers of integers with one exponent for all.
    integer_pow_scalar, IntegerPowScalar, INTEGRAL, Integer, [exponent], |[base]| base.power(exponent);
}

maps! {
    /// Any exponent.
    Power { exponent }, Field => T, |[base]| base.pow(exponent);
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
        0.0 => one(launch),
        1.0 => same(launch),
        2.0 => square(launch),
        3.0 => cube(launch),
        0.5 => sqrt(launch),
        -0.5 => rsqrt(launch),
        -1.0 => reciprocal(launch),
        // The exponent is rounded to the dtype, as on PyTorch's CPU.
        _ => dispatch!(dtype in FIELD, T => run::<T, T, _, 1>(launch, Power { exponent: T::store(given.to()).load() })),
    }
}
