//! Bitwise operations; logical ones on Bool.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::number::{Bits, Integer};

functions! {
    /// `aten::bitwise_and`.
    bitwise_and, And, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_and(rhs);
    /// `aten::bitwise_left_shift`: 0 if the shift is not below the width.
    bitwise_left_shift, LeftShift, INTEGRAL, Integer, [], |[x, bits]| x.shift_left(bits);
    /// `aten::bitwise_right_shift`: 0 or -1, by the sign, if the shift is not below the width.
    bitwise_right_shift, RightShift, INTEGRAL, Integer, [], |[x, bits]| x.shift_right(bits);
    /// `aten::bitwise_not`.
    bitwise_not, Not, INTEGRAL | BOOL, Bits, [], |[x]| x.bit_not();
    /// `aten::bitwise_or`.
    bitwise_or, Or, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_or(rhs);
    /// `aten::bitwise_xor`.
    bitwise_xor, Xor, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_xor(rhs);
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::dtype::DType;

    #[test]
    fn bits_are_moved() {
        let width = |dtype: DType| 8 * dtype.size() as i64;
        check::pointwise_by_dtype::<2>(
            "bitwise_left_shift",
            &[],
            |dtype| dtype,
            |dtype, [x, bits]| {
                let (x, bits) = (x.re as i64, bits.re as i64);
                real(if (0..width(dtype)).contains(&bits) { x << bits } else { 0 } as f64)
            },
        );
        check::pointwise_by_dtype::<2>(
            "bitwise_right_shift",
            &[],
            |dtype| dtype,
            |dtype, [x, bits]| {
                let (x, bits) = (x.re as i64, bits.re as i64);
                real((x >> if (0..width(dtype)).contains(&bits) { bits } else { 63 }) as f64)
            },
        );
    }

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
