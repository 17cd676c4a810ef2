//! Operations on bits; on Bool, logic.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::number::Bits;

functions! {
    /// `aten::bitwise_and`. Operands [out, lhs, rhs].
    bitwise_and, And, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_and(rhs);
    /// `aten::bitwise_not`. Operands [out, x].
    bitwise_not, Not, INTEGRAL | BOOL, Bits, [], |[x]| x.bit_not();
    /// `aten::bitwise_or`. Operands [out, lhs, rhs].
    bitwise_or, Or, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_or(rhs);
    /// `aten::bitwise_xor`. Operands [out, lhs, rhs].
    bitwise_xor, Xor, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_xor(rhs);
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::dtype::DType;

    #[test]
    fn bits_are_combined() {
        let check = |name: &str, oracle: fn(i64, i64) -> i64| {
            check::pointwise::<2>(name, &[], |dtype| dtype, |[lhs, rhs]| real(oracle(lhs.re as i64, rhs.re as i64) as f64));
        };
        check("bitwise_and", |lhs, rhs| lhs & rhs);
        check("bitwise_or", |lhs, rhs| lhs | rhs);
        check("bitwise_xor", |lhs, rhs| lhs ^ rhs);
        check::pointwise_by_dtype::<1>(
            "bitwise_not",
            &[],
            |dtype| dtype,
            |dtype, [x]| real(if dtype == DType::Bool { 1.0 - x.re } else { !(x.re as i64) as f64 }),
        );
    }
}
