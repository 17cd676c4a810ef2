//! Ternary operators, and `lerp`.

use super::functions;
use crate::tensor::{Field, Number};

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
