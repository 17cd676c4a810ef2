//! Ternary operators, and `lerp`.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::number::{Field, Number};

/// Linear interpolation, exact at `start` and `end`.
#[inline(always)]
pub fn interpolate<T: Field>(start: T, end: T, weight: T) -> T {
    let span = end.sub(start);
    if weight.is_below_half() { start.add(weight.mul(span)) } else { end.sub(span.mul(T::ONE.sub(weight))) }
}

functions! {
    /// `aten::addcdiv`: x + value * numerator / denominator.
    addcdiv, Addcdiv, FIELD, Field, [value], |[x, numerator, denominator]| x.add(value.mul(numerator).div(denominator));
    /// `aten::addcmul`: x + value * lhs * rhs.
    addcmul, Addcmul, FIELD | INTEGRAL | COMPLEX_HALF, Number, [value], |[x, lhs, rhs]| x.add(value.mul(lhs).mul(rhs));
    /// `aten::addr`: beta x + alpha lhs rhs; if beta is 0, x is ignored.
    addr, Addr, FIELD | INTEGRAL | BOOL, Number, [beta, alpha], |[x, lhs, rhs]| {
        let product = alpha.mul(lhs).mul(rhs);
        if beta == T::ZERO { product } else { beta.mul(x).add(product) }
    };
    /// `aten::lerp.Tensor`: from start to end by weight.
    lerp, Lerp, FIELD, Field, [], |[start, end, weight]| interpolate(start, end, weight);
    /// `aten::lerp.Scalar`: from start to end by weight.
    lerp_scalar, LerpScalar, FIELD, Field, [weight], |[start, end]| interpolate(start, end, weight);
    /// `aten::where`: lhs where the condition is not 0, else rhs. Operands [out, condition, lhs, rhs]; the condition is Bool.
    where_self, Where, ALL, Number, [], |[condition, lhs, rhs]| if condition == T::ZERO { rhs } else { lhs };
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, IxDyn};

    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::kernels::table::Op;
    use crate::tensor::dtype::{Complex64, DType};
    use crate::tensor::launch::Scalar;

    fn same(dtype: DType) -> DType {
        dtype
    }

    #[test]
    fn products_and_quotients_are_added() {
        check::sums_by_dtype::<3>("addcmul", &[Scalar::Long(2)], same, |_, [x, lhs, rhs]| x + 2.0 * lhs * rhs);
        let (two, three) = (Scalar::Long(2), Scalar::Long(3));
        check::sums_by_dtype::<3>("addr", &[two, three], same, |dtype, [x, lhs, rhs]| {
            if dtype == DType::Bool { (x + lhs * rhs).sqrt() } else { 2.0 * x + 3.0 * lhs * rhs }
        });
        check::pointwise::<3>("addr", &[Scalar::Long(0), two], same, |[_, lhs, rhs]| 2.0 * lhs * rhs);
        check::sums_by_dtype::<3>("addcdiv", &[Scalar::Double(0.5)], same, |dtype, [x, lhs, rhs]| {
            if dtype.is_complex() && rhs != real(0.0) {
                x + 0.5 * lhs / rhs
            } else if dtype.is_complex() {
                let (re, im) = (0.5 * lhs.re / 0.0, 0.5 * lhs.im / 0.0);
                x + num_complex::Complex::new(re, im)
            } else {
                real(x.re + 0.5 * lhs.re / rhs.re)
            }
        });
    }

    #[test]
    fn interpolation_is_exact_at_the_ends() {
        let between = |start: Complex64, end: Complex64, weight: Complex64| {
            if weight.norm() < 0.5 { start + weight * (end - start) } else { end - (end - start) * (1.0 - weight) }
        };
        check::pointwise::<3>("lerp", &[], same, |[start, end, weight]| between(start, end, weight));
        for weight in [0.0, 0.25, 1.0] {
            check::pointwise::<2>("lerp_scalar", &[Scalar::Double(weight)], same, |[start, end]| between(start, end, real(weight)));
        }
    }

    #[test]
    fn where_takes_a_bool() {
        for dtype in Op::find(b"where").unwrap().dtypes().iter() {
            let [lhs, rhs] = [1, 2].map(|seed| Tensor::of(dtype, &check::values(dtype, &[7, 60], seed), Strides::Contiguous));
            let condition = ArrayD::from_shape_fn(IxDyn(&[7, 60]), |index| real(((index[0] + index[1]) % 3) as f64));
            let (mask, output) =
                (Tensor::of(DType::Bool, &condition, Strides::Transposed), Tensor::new(dtype, &[7, 60], Strides::Contiguous));
            check::run("where", &[&output], &[&mask, &lhs, &rhs], &[], dtype).unwrap();
            let (lhs, rhs) = (lhs.values(), rhs.values());
            for (index, found) in output.values().indexed_iter() {
                assert_eq!(*found, if condition[&index].re == 0.0 { rhs[&index] } else { lhs[&index] }, "{dtype:?}");
            }
        }
    }
}
