//! Powers with a scalar base or exponent, and `ldexp`.

use super::call::{Arguments, Call, CallError, Outcome, ensure};
use super::callees;
use super::dtypes::{can_cast, is_integer, is_whole};
use super::pointwise_calls::{Scalars, alone, as_promoted, launch, launch_with, promoted, with_number};
use super::tensor_iterator::{Elementwise, Rule, Types};
use super::tensors::Tensor;
use crate::tensor::dtype::{FLOAT8, HALVES};
use crate::tensor::launch::Scalar;

/// `pow` of a tensor and a number.
pub fn pow_number(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [base, power] = arguments.all()?;
    let (base, exponent) = (base.tensor()?, power.get::<Scalar>()?);
    let is_negative = matches!(exponent, Scalar::Long(..0));
    ensure!(!(is_whole(base.dtype()) && is_negative));
    let operands = alone(base, Types::Cast(promoted(base, as_promoted(power).into_iter(), call)?), call)?;
    // In float32 and float64 the exponent may be any number, even one that the dtype cannot represent.
    if HALVES.and(FLOAT8).contains(operands.compute()) || is_integer(operands.compute()) {
        call.check_number(exponent, operands.compute())?;
    }
    launch(&operands, Scalars::Any, arguments, call)
}

/// `pow` of a number and a tensor.
pub fn pow_of_number(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [base, exponent] = arguments.all()?;
    if let Some(zero) = exponent_of_one(base.get()?) {
        return pow_number(&Arguments::new(&[*exponent, zero.into()]), &call.with_kernel(&callees::POW_NUMBER));
    }
    with_number(arguments, call)
}

/// If the base is 1, the 0 of the base's type: `1 ** x` is computed as `x ** 0`, which is 1 for NaN, too.
fn exponent_of_one(base: Scalar) -> Option<Scalar> {
    match base {
        Scalar::Long(1) => Some(Scalar::Long(0)),
        Scalar::Double(1.0) => Some(Scalar::Double(0.0)),
        Scalar::Complex(1.0, 0.0) => Some(Scalar::Complex(0.0, 0.0)),
        _ => None,
    }
}

/// `ldexp`: a tensor times powers of 2 with integer exponents. PyTorch's composite implementation serves other dtypes.
pub fn ldexp(call: &Call<'_>, input: Tensor<'_>, exponent: Tensor<'_>) -> Outcome {
    let (dtype, given) = (input.dtype(), call.given(0));
    if !is_integer(exponent.dtype()) || !call.takes(dtype) {
        return Err(CallError::Composite);
    }
    if let Some(out) = given {
        ensure!(can_cast(dtype, out.dtype()), "ldexp can't be cast to the desired output type {:?}", out.dtype());
    }
    let rule = Rule::with_host_number(Types::Cast(dtype));
    let operands = Elementwise::of(rule, &[input.into(), exponent.into()], given, call)?;
    launch_with(&operands, &[], call)
}
