//! Pointwise operators that are more than a rule of promotion: `clamp`, powers, conversions between complex numbers and their
//! parts, `glu` and its gradient, `addr`.

pub mod table;

use smallvec::SmallVec;

use crate::call::dtypes::{can_cast, complex_of, is_integer, is_whole, limits};
use crate::call::pointwise::{
    Scalars, UNARY_FLOATING, alone, as_promoted, check_factor, ensure_computed, launch, launch_with, promoted, with_number,
};
use crate::call::prelude::*;
use crate::call::tensor_iterator::{Elementwise, Rule, SAME, Types, check_cast};
use crate::tensor::COMPONENTS;

/// An error if the dtype cannot represent the limit. For integers only a limit that excludes every value is refused.
fn check_limit(call: &Call<'_>, dtype: DType, limit: Scalar, is_min: bool) -> Outcome {
    if !is_integer(dtype) {
        return call.check_number(limit, dtype);
    }
    let value = match limit {
        Scalar::Long(value) => value,
        Scalar::Bool(value) => value.into(),
        // An integer beyond `i64`.
        _ if is_min => return Err(CallError::CpuError),
        _ => i64::MAX,
    };
    let [least, greatest] = limits(dtype).unwrap_or([i64::MIN, i64::MAX]);
    ensure!(if is_min { value <= greatest } else { value >= least });
    Ok(())
}

/// Clamps a tensor's values by numbers; each limit has a flag that is true for a minimum.
fn limit(limits: &[(Scalar, bool)], scalars: Scalars, arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    let own = input.dtype();
    ensure!(!own.is_complex());
    let wanted = if is_floating(own) { own } else { promoted(input, arguments[1..].iter().filter_map(as_promoted), call)? };
    let is_in_place = call.given(0).is_some_and(|out| out.handle() == input.handle());
    ensure!(!wanted.is_complex() && (wanted == own || !is_in_place));
    let operands = alone(input, Types::As(wanted), call)?;
    limits.iter().try_for_each(|&(limit, is_min)| check_limit(call, operands.compute(), limit, is_min))?;
    launch(&operands, scalars, arguments, call)
}

pub fn clamp(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [_input, min, max] = arguments.all()?;
    let limits = [(min, true), (max, false)].into_iter();
    let limits: SmallVec<[(Scalar, bool); 2]> = limits.filter_map(|(value, is_min)| Some((value.as_number()?, is_min))).collect();
    ensure!(!limits.is_empty());
    limit(&limits, Scalars::Optional, arguments, call)
}

/// `clamp_min`, `clamp_max`.
pub fn clamp_one_side<const IS_MIN: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [_input, number] = arguments.all()?;
    let number: Scalar = number.get()?;
    ensure!(!matches!(number, Scalar::Complex(..)));
    limit(&[(number, IS_MIN)], Scalars::Any, arguments, call)
}

pub fn clamp_tensor(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    ensure!(arguments.tensors().count() > 1 && !arguments.tensor(0)?.dtype().is_complex());
    Ok(())
}

/// `hardtanh`: a `clamp` whose limits do not take part in type promotion.
pub fn hardtanh(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, min, max] = arguments.all()?;
    let dtype = input.tensor()?.dtype();
    ensure!(dtype != DType::Bool);
    if !is_integer(dtype) {
        return clamp(arguments, call);
    }
    let limits: [Scalar; 2] = [min.get()?, max.get()?];
    limits.iter().try_for_each(|&limit| call.check_number(limit, DType::Long))?;
    let [min, max] = limits.map(|limit| Value::Number(Scalar::Long(limit.to())));
    clamp(&Arguments::new(&[*input, min, max]), call)
}

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

/// `pow` of a number and a tensor. `1 ** x` is computed as `x ** 0`, which is 1 for NaN, too; the 0 has the type of the 1.
pub fn pow_of_number(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [base, exponent] = arguments.all()?;
    let zero = match base.get()? {
        Scalar::Long(1) => Scalar::Long(0),
        Scalar::Double(1.0) => Scalar::Double(0.0),
        Scalar::Complex(1.0, 0.0) => Scalar::Complex(0.0, 0.0),
        _ => return with_number(arguments, call),
    };
    pow_number(&Arguments::new(&[*exponent, zero.into()]), &call.with_kernel(kernel!(c"pow_scalar")))
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

/// `abs`; the result of complex numbers is real.
pub fn abs(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    let dtype = input.dtype().real();
    take_if(call.has_dtype(0, dtype))?;
    let call = if input.dtype().is_complex() { call.with_kernel(kernel!(c"complex_abs")) } else { *call };
    launch_with(&alone(input, Types::Result(dtype), &call)?, &[], &call)
}

/// `angle`; the result of complex numbers is real and contiguous.
pub fn angle(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    let dtype = input.dtype();
    if !dtype.is_complex() {
        return UNARY_FLOATING.run(arguments, call);
    }
    let wanted = call.given(0).map_or(dtype.real(), Tensor::dtype);
    check_cast(dtype.real(), wanted)?;
    ensure_computed(dtype, call)?;
    let operands = alone(input, Types::Result(wanted), call)?;
    operands.launch(call, call.contiguous(0, input.sizes(), wanted, Strides::Any)?, &[])
}

/// `complex` and `polar`, from two real tensors of one dtype.
pub fn joined(call: &Call<'_>, one: Tensor<'_>, other: Tensor<'_>) -> Outcome {
    let parts = [one, other];
    let [first, second] = parts.map(Tensor::dtype);
    let (dtype, given) = (complex_of(first), call.given(0));
    ensure!(COMPONENTS.contains(first) && second == first && given.is_none_or(|out| out.dtype() == dtype));
    let operands = Elementwise::of(Rule::new(Types::Result(dtype)), &parts.map(Into::into), given, call)?;
    launch_with(&operands, &[], call)
}

/// The dimension that is split into halves.
fn halved_dim(input: Tensor<'_>, dim: i64) -> Result<usize, CallError> {
    let dim = wrap_dim(dim, input.ndim())?;
    ensure!(input.sizes().get(dim).is_some_and(|size| size % 2 == 0));
    Ok(dim)
}

fn halves(tensor: Tensor<'_>, dim: usize) -> [Tensor<'_>; 2] {
    let half = tensor.sizes()[dim] / 2;
    [tensor.section(dim, 0, half), tensor.section(dim, half, half)]
}

pub fn glu(call: &Call<'_>, input: Tensor<'_>, dim: i64) -> Outcome {
    let halves = halves(input, halved_dim(input, dim)?).map(Input::Tensor);
    let operands = Elementwise::of(Rule::with_host_number(Types::Common), &halves, call.given(0), call)?;
    launch_with(&operands, &[], call)
}

/// `glu_backward`. The first half of the output holds the sigmoid until the second half has been computed from it.
pub fn glu_backward(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, dim: i64) -> Outcome {
    let dim = halved_dim(input, dim)?;
    ensure_computed(input.dtype(), call)?;
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Shared)?;
    let ([first, second], [first_grad, second_grad]) = (halves(input, dim), halves(out, dim));
    call.operator(&callees::SIGMOID_OUT, &[Value::Tensor(second), Value::Tensor(first_grad)])?;
    Elementwise::of(SAME, &[first_grad.into(), first.into(), grad.into()], Some(second_grad), call)?.launch(
        call,
        second_grad,
        &[],
    )?;
    call.operator(&callees::MUL_IN_PLACE, &[Value::Tensor(first_grad), Value::Tensor(grad)]).map(drop)
}

pub fn addr(call: &Call<'_>, input: Tensor<'_>, first: Tensor<'_>, second: Tensor<'_>, beta: Scalar, alpha: Scalar) -> Outcome {
    ensure!(first.ndim() == 1 && second.ndim() == 1);
    let (sizes, given) = ([first.numel(), second.numel()], call.given(0));
    let is_in_place = given.is_some_and(|out| out.handle() == input.handle());
    take_if(input.ndim() <= 2 || is_in_place)?;
    let matrix = if is_in_place { input } else { input.expanded(&sizes)? };
    ensure!(matrix.ndim() == 2, "2D tensor expected, got {}D tensor for input", matrix.ndim());
    ensure!(
        matrix.has_sizes(&sizes),
        "size mismatch, input: {:?}, v1: {:?}, v2: {:?}",
        matrix.sizes(),
        first.sizes(),
        second.sizes()
    );
    let inputs = [matrix, first.unsqueeze(1), second].map(Into::into);
    let operands = Elementwise::of(Rule::with_host_number(Types::Common), &inputs, given, call)?;
    ensure_computed(operands.compute(), call)?;
    let out = operands.output(call)?;
    check_factor(out.dtype(), beta, "beta")?;
    check_factor(out.dtype(), alpha, "alpha")?;
    operands.launch(call, out, &[beta, alpha])
}
