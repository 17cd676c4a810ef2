//! `clamp`, `clamp_min` and `clamp_max`. A NaN input stays NaN, and a NaN bound makes the result NaN.

use super::{functions, maps};
use crate::tensor::loops::elementwise::run;
use crate::tensor::{DType, Element, Error, Hub, INTEGRAL, Launch, Ordered, Scalar, UNSIGNED, dispatch, signature};

signature! {
    /// `aten::clamp`: min(max(x, min), max).
    clamp(out; x)[has_min, min, has_max, max] in REAL => |launch| {
        let clamp::Scalars { has_min, min, has_max, max } = clamp::Scalars::of(launch)?;
        let given = |has: Scalar, limit: Scalar| has.is_true().then_some(limit);
        between(launch, given(has_min, min), given(has_max, max))
    };
    /// `aten::clamp_min`: max(x, min).
    clamp_min(out; x)[min] in REAL => |launch| between(launch, Some(clamp_min::Scalars::of(launch)?.min), None);
    /// `aten::clamp_max`: min(x, max).
    clamp_max(out; x)[max] in REAL => |launch| between(launch, None, Some(clamp_max::Scalars::of(launch)?.max));
    /// `aten::clamp.Tensor`: min(max(x, min), max). One of the bounds may be missing.
    clamp_tensor(out; x, min?, max?)[has_min, has_max] in REAL | UNSIGNED => |launch| {
        let clamp_tensor::Scalars { has_min, has_max } = clamp_tensor::Scalars::of(launch)?;
        match (has_min.is_true(), has_max.is_true()) {
            (true, true) => clamp_both_tensors(launch),
            (true, false) => clamp_min_tensor(launch),
            (false, _) => clamp_max_tensor(launch),
        }
    };
}

functions! {
    /// min(max(x, min), max).
    clamp_both_tensors, ClampBothTensors, REAL | UNSIGNED, Ordered in Acc, [], |[x, min, max]| x.maximum(min).minimum(max);
    /// `aten::clamp_max.Tensor`: min(x, max).
    clamp_max_tensor, ClampMaxTensor, ORDERED, Ordered, [], |[x, max]| x.minimum(max);
    /// `aten::clamp_min.Tensor`: max(x, min).
    clamp_min_tensor, ClampMinTensor, ORDERED, Ordered, [], |[x, min]| x.maximum(min);
}

maps! {
    // Each comparison compiles to one min or max instruction; a NaN input passes both.
    Clamp { min, max }, Ordered => T, |[x]| {
        let raised = if x < min { min } else { x };
        if raised > max { max } else { raised }
    };
    /// A constant, whatever the input is.
    Everywhere { value }, Ordered => T, |[_x]| value;
}

/// The bound that a scalar stands for. If it lies outside the range of an integer dtype and therefore has no effect, it is the end
/// of the range.
fn limit<T: Ordered>(scalar: Scalar, dtype: DType, is_min: bool) -> Result<T, Error> {
    let limit: T = scalar.to();
    let wanted = match scalar {
        Scalar::Long(wanted) => wanted,
        // An integer outside the range of int64.
        Scalar::Double(wanted) => wanted as i64,
        _ => return Ok(limit),
    };
    if !(INTEGRAL.contains(dtype) || UNSIGNED.contains(dtype)) || limit.hub().to::<i64>() == wanted {
        return Ok(limit);
    }
    if is_min == (wanted < 0) {
        return Ok(if is_min { T::LOWEST } else { T::HIGHEST });
    }
    let side = if is_min { "min" } else { "max" };
    Err(Error::new(format!("Clamp {side} value {wanted} is outside the representable range of {dtype:?}")))
}

fn between(launch: &Launch<'_>, min: Option<Scalar>, max: Option<Scalar>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL, E => {
        type T = <E as Element>::Acc;
        let min = min.map_or(Ok(T::LOWEST), |min| limit::<T>(min, dtype, true))?;
        let max = max.map_or(Ok(T::HIGHEST), |max| limit::<T>(max, dtype, false))?;
        if min.is_nan() || max.is_nan() {
            return run::<E, E, _, 1>(launch, Everywhere { value: if min.is_nan() { min } else { max } });
        }
        run::<E, E, _, 1>(launch, Clamp { min, max })
    })
}
