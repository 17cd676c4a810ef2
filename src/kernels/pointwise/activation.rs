//! Activation functions and their backwards.

#![forbid(unsafe_code)]

use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run};
use crate::tensor::number::Ordered;

#[derive(Clone, Copy)]
struct Relu;

impl<T: Ordered> Map<T, 1> for Relu {
    type Output = T;

    #[inline(always)]
    fn apply(self, [x]: [T; 1]) -> T {
        if x < T::ZERO { T::ZERO } else { x }
    }
}

/// `aten::relu`: max(x, 0); NaN stays. Operands [out, x].
///
/// # Errors
/// A dtype outside the table's.
pub fn relu(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | UNSIGNED, T => run::<T, T, _, 1>(launch, Relu))
}

#[derive(Clone, Copy)]
struct ThresholdBackward<T> {
    threshold: T,
}

impl<T: Ordered> Map<T, 2> for ThresholdBackward<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [grad, x]: [T; 2]) -> T {
        if x <= self.threshold { T::ZERO } else { grad }
    }
}

/// `aten::threshold_backward`: grad where x > threshold (or x is NaN), else 0. Operands [out, grad, x]; scalars [threshold].
///
/// # Errors
/// A dtype outside the table's, or no threshold.
pub fn threshold_backward(launch: &Launch<'_>) -> Result<(), String> {
    let (dtype, threshold) = (launch.compute(), launch.scalar(0)?);
    dispatch!(dtype in REAL, T => {
        run::<T, T, _, 2>(launch, ThresholdBackward { threshold: threshold.to::<<T as Element>::Acc>() })
    })
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::launch::Scalar;

    #[test]
    fn relu_and_its_backward() {
        check::pointwise::<1>("relu", &[], |dtype| dtype, |[x]| real(x.re.max(0.0)));
        let backward = |[grad, x]: [num_complex::Complex<f64>; 2]| if x.re <= 1.0 { real(0.0) } else { real(grad.re) };
        check::pointwise::<2>("threshold_backward", &[Scalar::Double(1.0)], |dtype| dtype, backward);
    }
}
