//! Conversions between complex numbers and their parts: `abs`, `angle`, `complex`, `polar`.

use super::call::{Arguments, Call, Outcome, Strides, ensure, take_if};
use super::callees;
use super::dtypes::complex_of;
use super::pointwise_calls::{UNARY_FLOATING, alone, ensure_computed, launch_with};
use super::tensor_iterator::{Elementwise, Rule, Types, check_cast};
use super::tensors::Tensor;
use crate::tensor::dtype::COMPONENTS;

/// `abs`; the result of complex numbers is real.
pub fn abs(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    let dtype = input.dtype().real();
    take_if(call.has_dtype(0, dtype))?;
    let call = if input.dtype().is_complex() { call.with_kernel(&callees::COMPLEX_ABS) } else { *call };
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
