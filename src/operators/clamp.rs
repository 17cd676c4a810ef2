//! `clamp` with numbers or tensors, and `hardtanh`, a kind of `clamp`.

use smallvec::SmallVec;

use super::call::{Arguments, Call, CallError, Outcome, Value, ensure};
use super::dtypes::{is_floating, is_integer, limits};
use super::pointwise_calls::{Scalars, alone, as_promoted, launch, promoted};
use super::tensor_iterator::Types;
use super::tensors::Tensor;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

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

/// `clamp` by tensors.
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
