//! Limits. NaN stays NaN, and a limit that is NaN makes the result NaN.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run};
use crate::tensor::number::Ordered;

functions! {
    /// `aten::clamp_max`: at most the limit. Operands [out, x]; scalars [max].
    clamp_max, ClampMax, REAL, Ordered, [max], |[x]| x.minimum(max);
    /// `aten::clamp_max.Tensor`: at most the limit. Operands [out, x, max].
    clamp_max_tensor, ClampMaxTensor, REAL, Ordered, [], |[x, max]| x.minimum(max);
    /// `aten::clamp_min`: at least the limit. Operands [out, x]; scalars [min].
    clamp_min, ClampMin, REAL, Ordered, [min], |[x]| x.maximum(min);
    /// `aten::clamp_min.Tensor`: at least the limit. Operands [out, x, min].
    clamp_min_tensor, ClampMinTensor, REAL, Ordered, [], |[x, min]| x.maximum(min);
}

#[derive(Clone, Copy)]
struct Clamp<T> {
    min: T,
    max: T,
}

impl<T: Ordered> Map<T, 1> for Clamp<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [x]: [T; 1]) -> T {
        x.maximum(self.min).minimum(self.max)
    }
}

/// `aten::clamp`: at least min, then at most max. Operands [out, x]; scalars [has min, min, has max, max].
///
/// # Errors
/// A dtype outside the table's, or a scalar that is missing.
pub fn clamp(launch: &Launch<'_>) -> Result<(), String> {
    let [has_min, min, has_max, max] = [launch.scalar(0)?, launch.scalar(1)?, launch.scalar(2)?, launch.scalar(3)?];
    let dtype = launch.compute();
    dispatch!(dtype in REAL, E => {
        type T = <E as Element>::Acc;
        let limit = |has: crate::tensor::launch::Scalar, value: crate::tensor::launch::Scalar, otherwise: T| {
            if has.to::<i64>() != 0 { value.to() } else { otherwise }
        };
        run::<E, E, _, 1>(launch, Clamp { min: limit(has_min, min, T::LOWEST), max: limit(has_max, max, T::HIGHEST) })
    })
}

#[derive(Clone, Copy)]
struct ClampTensor;

impl<T: Ordered> Map<T, 3> for ClampTensor {
    type Output = T;

    #[inline(always)]
    fn apply(self, [x, min, max]: [T; 3]) -> T {
        x.maximum(min).minimum(max)
    }
}

/// `aten::clamp.Tensor`: at least min, then at most max. Operands [out, x, min, max], of which one limit may be missing; scalars [has min,
/// has max].
///
/// # Errors
/// A dtype outside the table's, or a scalar that is missing.
pub fn clamp_tensor(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    match (launch.scalar(0)?.to::<i64>() != 0, launch.scalar(1)?.to::<i64>() != 0) {
        (true, true) => dispatch!(dtype in REAL, T => run::<T, T, _, 3>(launch, ClampTensor)),
        (true, false) => clamp_min_tensor(launch),
        (false, _) => clamp_max_tensor(launch),
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::dtype::DType;
    use crate::tensor::launch::Scalar;

    fn same(dtype: DType) -> DType {
        dtype
    }

    #[test]
    fn numbers_limit() {
        let (low, high) = (Scalar::Long(1), Scalar::Long(3));
        let (yes, no) = (Scalar::Bool(true), Scalar::Bool(false));
        check::pointwise::<1>("clamp", &[yes, low, yes, high], same, |[x]| real(x.re.clamp(1.0, 3.0)));
        check::pointwise::<1>("clamp", &[no, low, yes, high], same, |[x]| real(x.re.min(3.0)));
        check::pointwise::<1>("clamp", &[yes, low, no, high], same, |[x]| real(x.re.max(1.0)));
        check::pointwise::<1>("clamp_min", &[low], same, |[x]| real(x.re.max(1.0)));
        check::pointwise::<1>("clamp_max", &[high], same, |[x]| real(x.re.min(3.0)));
    }

    #[test]
    fn tensors_limit() {
        check::pointwise::<2>("clamp_min_tensor", &[], same, |[x, min]| real(x.re.max(min.re)));
        let (yes, no) = (Scalar::Bool(true), Scalar::Bool(false));
        check::pointwise::<3>("clamp_tensor", &[yes, yes], same, |[x, min, max]| real(x.re.max(min.re).min(max.re)));
        check::pointwise::<2>("clamp_tensor", &[yes, no], same, |[x, min]| real(x.re.max(min.re)));
        check::pointwise::<2>("clamp_tensor", &[no, yes], same, |[x, max]| real(x.re.min(max.re)));
        check::pointwise::<2>("clamp_max_tensor", &[], same, |[x, max]| real(x.re.min(max.re)));
    }
}
