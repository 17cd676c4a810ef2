//! Between complex numbers and their parts: `abs`, `angle`, `complex`, `polar`.

use super::broadcasting::{Elementwise, Rule, Types};
use super::call::{Arguments, Call, Outcome, Refusal, ensure};
use super::names;
use super::pointwise_calls::{UNARY_FLOATING, alone, launch_with};
use super::promotion::{can_cast, complex_of};
use crate::tensor::dtype::{COMPONENTS, DType};

/// `abs`, of complex numbers a real one.
pub fn abs(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    let dtype = input.dtype().real();
    if call.given(0).is_some_and(|out| out.dtype() != dtype) {
        return Err(Refusal::Fallback);
    }
    let call = if input.dtype().is_complex() { call.with_kernel(&names::COMPLEX_ABS) } else { *call };
    launch_with(&alone(input, Types::Result(dtype), &call)?, &[], &call)
}

/// `angle`, of complex numbers a real one.
pub fn angle(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    if !input.dtype().is_complex() {
        return UNARY_FLOATING.run(arguments, call);
    }
    let dtype = input.dtype().real();
    if let Some(out) = call.given(0).map(super::Tensor::dtype) {
        ensure!(can_cast(dtype, out), "result type {dtype:?} can't be cast to the desired output type {out:?}");
    }
    launch_with(&alone(input, Types::Result(dtype), call)?, &[], call)
}

/// `complex` and `polar`, of two real numbers of one dtype.
pub fn joined(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [one, other] = arguments.all()?;
    let parts = [one.tensor()?, other.tensor()?];
    let [first, second] = parts.map(super::Tensor::dtype);
    let are_parts = COMPONENTS.contains(first) && COMPONENTS.contains(second);
    ensure!(are_parts, "Expected both inputs to be Half, Float or Double tensors but got {first:?} and {second:?}");
    let wrong = "but got scalar type";
    ensure!(first == second, "Expected object of scalar type {first:?} {wrong} {second:?} for second argument");
    let (dtype, given): (DType, _) = (complex_of(first), call.given(0));
    if let Some(out) = given.map(super::Tensor::dtype) {
        ensure!(out == dtype, "Expected object of scalar type {dtype:?} {wrong} {out:?} for argument 'out'");
    }
    let operands = Elementwise::of(Rule::new(Types::Result(dtype)), &parts.map(Into::into), given, call.default_dtype())?;
    launch_with(&operands, &[], call)
}
