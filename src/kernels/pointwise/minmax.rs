//! Minimum and maximum of two numbers: `maximum`, `minimum`, `fmax`, `fmin`. Operands [out, lhs, rhs].

#![forbid(unsafe_code)]

use super::functions;
use crate::kernels::signature::signature;
use crate::tensor::dtype::dispatch;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::Ordered;

signature! {
    maximum(out, lhs, rhs)[] in ORDERED;
    minimum(out, lhs, rhs)[] in ORDERED;
}

functions! {
    /// `aten::fmax`: the maximum; if one is NaN, the other one.
    fmax, Fmax, ORDERED, Ordered, [], |[lhs, rhs]| if lhs >= rhs || rhs.is_nan() { lhs } else { rhs };
    /// `aten::fmin`: the minimum; if one is NaN, the other one.
    fmin, Fmin, ORDERED, Ordered, [], |[lhs, rhs]| if lhs <= rhs || rhs.is_nan() { lhs } else { rhs };
}

#[derive(Clone, Copy)]
struct Maximum;

impl<T: Ordered> Map<T, 2> for Maximum {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.maximum(rhs)
    }
}

/// `aten::maximum`: the maximum; NaN if either is NaN.
pub fn maximum(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run::<T, T, _, 2>(launch, Maximum))
}

#[derive(Clone, Copy)]
struct Minimum;

impl<T: Ordered> Map<T, 2> for Minimum {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.minimum(rhs)
    }
}

/// `aten::minimum`: the minimum; NaN if either is NaN.
pub fn minimum(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run::<T, T, _, 2>(launch, Minimum))
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::tensor::dtype::{DType, FLOATING};

    fn same(dtype: DType) -> DType {
        dtype
    }

    fn pair(name: &str, dtype: DType, lhs: f64, rhs: f64) -> f64 {
        let of = |value: f64| Tensor::of(dtype, &ndarray::arr1(&[real(value); 20]).into_dyn(), Strides::Contiguous);
        let output = Tensor::new(dtype, &[20], Strides::Contiguous);
        check::run(name, &[&output], &[&of(lhs), &of(rhs)], &[], dtype).unwrap();
        output.values()[[19]].re
    }

    #[test]
    fn the_greater_and_the_lesser_number() {
        for name in ["maximum", "fmax"] {
            check::pointwise::<2>(name, &[], same, |[lhs, rhs]| real(lhs.re.max(rhs.re)));
        }
        for name in ["minimum", "fmin"] {
            check::pointwise::<2>(name, &[], same, |[lhs, rhs]| real(lhs.re.min(rhs.re)));
        }
    }

    #[test]
    fn nan_propagates_through_maximum_and_minimum() {
        for dtype in FLOATING.iter() {
            for name in ["maximum", "minimum"] {
                assert!(pair(name, dtype, f64::NAN, 1.0).is_nan());
                assert!(pair(name, dtype, 1.0, f64::NAN).is_nan());
            }
        }
    }

    #[test]
    fn fmax_and_fmin_ignore_nan() {
        for dtype in [DType::Float, DType::BFloat16, DType::Double] {
            for name in ["fmax", "fmin"] {
                assert_eq!((pair(name, dtype, f64::NAN, 2.0), pair(name, dtype, 2.0, f64::NAN)), (2.0, 2.0), "{name}");
                assert!(pair(name, dtype, f64::NAN, f64::NAN).is_nan());
            }
        }
    }
}
