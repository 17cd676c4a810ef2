//! Bitwise operations; logical ones on Bool.

use super::functions;
use crate::tensor::{Bits, Integer};

functions! {
    bitwise_and, And, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_and(rhs);
    /// `aten::bitwise_left_shift`: 0 if the shift is not below the width.
    bitwise_left_shift, LeftShift, INTEGRAL, Integer, [], |[x, bits]| x.shift_left(bits);
    /// `aten::bitwise_right_shift`: 0 or -1, by the sign, if the shift is not below the width.
    bitwise_right_shift, RightShift, INTEGRAL, Integer, [], |[x, bits]| x.shift_right(bits);
    bitwise_not, Not, INTEGRAL | BOOL, Bits, [], |[x]| x.bit_not();
    bitwise_or, Or, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_or(rhs);
    bitwise_xor, Xor, INTEGRAL | UNSIGNED | BOOL, Bits, [], |[lhs, rhs]| lhs.bit_xor(rhs);
}
