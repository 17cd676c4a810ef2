//! `clamp` with numbers or tensors, and `hardtanh`, a kind of `clamp`.

use smallvec::SmallVec;

use super::broadcasting::Types;
use super::call::{Arguments, Call, Outcome, Refusal, Value, ensure};
use super::descriptor::Tensor;
use super::number_text::{NumberText, type_name};
use super::pointwise_calls::{Scalars, alone, as_promoted, ensure_implemented, launch, promoted};
use super::promotion::{is_floating, is_integer};
use super::whole_numbers::limits;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// An error if the dtype cannot represent the limit. For integers only a limit that excludes every value is refused.
fn check_limit(call: &Call<'_>, dtype: DType, limit: Scalar, is_min: bool) -> Outcome {
    if !is_integer(dtype) {
        return call.check_number(limit, dtype);
    }
    let side = if is_min { "min" } else { "max" };
    let refused = |text: &dyn std::fmt::Display| {
        Err(Refusal::Invalid(format!("Clamp {side} value {text} is outside the representable range of {dtype:?}")))
    };
    let value = match limit {
        Scalar::Long(value) => value,
        Scalar::Bool(value) => value.into(),
        // An integer beyond `i64`.
        _ if is_min => return refused(&NumberText(limit.to())),
        _ => i64::MAX,
    };
    let [least, greatest] = limits(dtype).unwrap_or([i64::MIN, i64::MAX]);
    let leaves_values = if is_min { value <= greatest } else { value >= least };
    if leaves_values { Ok(()) } else { refused(&value) }
}

/// Clamps a tensor's values by numbers; each limit has a flag that is true for a minimum.
fn limit(limits: &[(Scalar, bool)], scalars: Scalars, arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    let own = input.dtype();
    ensure_implemented(!own.is_complex(), NO_COMPLEX_LIMITS)?;
    let wanted = if is_floating(own) { own } else { promoted(input, arguments[1..].iter().filter_map(as_promoted), call)? };
    let is_in_place = call.given(0).is_some_and(|out| out.handle() == input.handle());
    let name = || type_name(own);
    ensure!(!is_in_place || wanted == own, "result type {wanted:?} can't be cast to the desired output type {}", name());
    ensure_implemented(!wanted.is_complex(), NO_COMPLEX_LIMITS)?;
    let operands = alone(input, Types::As(wanted), call)?;
    limits.iter().try_for_each(|&(limit, is_min)| check_limit(call, operands.compute(), limit, is_min))?;
    launch(&operands, scalars, arguments, call)
}

/// `clamp`.
pub fn clamp(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [_input, min, max] = arguments.all()?;
    let limits = [(min, true), (max, false)].into_iter();
    let limits: SmallVec<[(Scalar, bool); 2]> = limits.filter_map(|(value, is_min)| Some((value.as_number()?, is_min))).collect();
    ensure!(!limits.is_empty(), "torch.clamp: At least one of 'min' or 'max' must not be None");
    limit(&limits, Scalars::Optional, arguments, call)
}

/// `clamp_min`, `clamp_max`.
pub fn clamp_one_side<const IS_MIN: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [_input, number] = arguments.all()?;
    let number = number.number()?;
    ensure_implemented(!matches!(number, Scalar::Complex(..)), NO_COMPLEX_LIMITS)?;
    limit(&[(number, IS_MIN)], Scalars::Any, arguments, call)
}

const NO_COMPLEX_LIMITS: &str = "clamp is not supported for complex types";

pub fn clamp_tensor(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    ensure!(arguments.tensors().count() > 1, "torch.clamp: At least one of 'min' or 'max' must not be None");
    ensure_implemented(!arguments.tensor(0)?.dtype().is_complex(), NO_COMPLEX_LIMITS)
}

/// `hardtanh`: a `clamp` whose limits do not take part in type promotion.
pub fn hardtanh(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, min, max] = arguments.all()?;
    let dtype = input.tensor()?.dtype();
    ensure_implemented(dtype != DType::Bool, "Bool inputs not supported for hardtanh")?;
    if !is_integer(dtype) {
        return clamp(arguments, call);
    }
    let limits = [min.number()?, max.number()?];
    limits.iter().try_for_each(|&limit| call.check_number(limit, DType::Long))?;
    let [min, max] = limits.map(|limit| Value::Number(Scalar::Long(limit.to())));
    clamp(&Arguments::new(&[*input, min, max]), call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_limit_where_one_is_given() {
        let floats = Value::Tensor(Tensor::leaked(1, DType::Float, 0, &[2], &[1]));
        let is_refused = |max| clamp_tensor(&Arguments::new(&[floats, Value::None, max]), None).is_err();
        assert!(is_refused(Value::None) && !is_refused(floats));
    }
}
