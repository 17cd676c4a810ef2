//! Arithmetic.

#![forbid(unsafe_code)]

use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::loops::pointwise::{self, Map};
use crate::tensor::number::Number;

#[derive(Clone, Copy)]
struct Add<T> {
    alpha: T,
}

impl<T: Number> Map<T, 2> for Add<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.add(self.alpha.mul(rhs))
    }
}

/// `aten::add`: lhs + alpha * rhs. Operands [out, lhs, rhs]; scalars [alpha = 1].
///
/// # Errors
/// A dtype outside the table's.
pub fn add(launch: &Launch<'_>) -> Result<(), String> {
    let (dtype, alpha) = (launch.compute(), launch.scalar_or(0, Scalar::Long(1)));
    dispatch!(dtype in ALL, T => {
        pointwise::run::<T, T, _, 2>(launch, 0.15, Add { alpha: alpha.to::<<T as Element>::Acc>() })
    })
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::tensor::dtype::DType;
    use crate::tensor::launch::Scalar;

    #[test]
    fn add_scales_by_alpha() {
        check::pointwise::<2>("add", &[], |dtype| dtype, |[lhs, rhs]| lhs + rhs);
        check::pointwise::<2>("add", &[Scalar::Long(3)], |dtype| dtype, |[lhs, rhs]| lhs + rhs * 3.0);
    }

    #[test]
    fn python_numbers_keep_their_precision_beside_half() {
        let tensor = Tensor::of(DType::Half, &check::values(DType::Half, &[40], 1), Strides::Contiguous);
        let output = Tensor::new(DType::Half, &[40], Strides::Contiguous);
        let number = Tensor::immediate(DType::Double, real(0.1));
        check::run("add", &[&output], &[&tensor, &number], &[], DType::Half).unwrap();
        for (found, given) in output.values().iter().zip(&tensor.values()) {
            assert_eq!(*found, check::round_trip(DType::Half, real((given.re as f32 + 0.1f32) as f64)));
        }
    }
}
