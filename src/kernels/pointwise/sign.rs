//! Operators that concern the sign alone. That of a 16 bit float is a bit, which needs no conversion.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::dtype::{HALVES, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run};
use crate::tensor::number::{Number, Ordered, Real};

/// The sign of a 16 bit float.
const SIGN: u16 = 0x8000;

functions! {
    /// `aten::abs` beyond 16 bit floats.
    wide_abs, Abs, WIDE | INTEGRAL | FLOAT8, Ordered, [], |[x]| if x < T::ZERO { x.neg() } else { x.add(T::ZERO) };
    /// `aten::copysign` beyond 16 bit floats.
    wide_copysign, Copysign, WIDE, Real, [], |[lhs, rhs]| lhs.copysign(rhs);
    /// `aten::neg` beyond 16 bit floats.
    wide_neg, Neg, WIDE | INTEGRAL | WIDE_COMPLEX | COMPLEX_HALF, Number, [], |[x]| x.neg();
}

/// The bits of a number without its sign, or with the other one.
#[derive(Clone, Copy)]
struct Signed<const FLIP: bool>;

impl<const FLIP: bool> Map<u16, 1> for Signed<FLIP> {
    type Output = u16;

    #[inline(always)]
    fn apply(self, [bits]: [u16; 1]) -> u16 {
        if FLIP { bits ^ SIGN } else { bits & !SIGN }
    }
}

/// The bits of a number with the sign of another.
#[derive(Clone, Copy)]
struct SignOf;

impl Map<u16, 2> for SignOf {
    type Output = u16;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [u16; 2]) -> u16 {
        lhs & !SIGN | rhs & SIGN
    }
}

/// `aten::abs` of real numbers: the magnitude; the least integer stays. Operands [out, x].
///
/// # Errors
/// A dtype outside the table's.
pub fn abs(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    if !HALVES.contains(dtype) {
        return wide_abs(launch);
    }
    dispatch!(dtype in HALF_BITS, E => run::<E, E, _, 1>(launch, Signed::<false>))
}

/// `aten::neg`: -x; unsigned integers wrap. Operands [out, x].
///
/// # Errors
/// A dtype outside the table's.
pub fn neg(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    if !HALVES.contains(dtype) {
        return wide_neg(launch);
    }
    dispatch!(dtype in HALF_BITS, E => run::<E, E, _, 1>(launch, Signed::<true>))
}

/// `aten::copysign`: the magnitude of lhs with the sign of rhs. Operands [out, lhs, rhs].
///
/// # Errors
/// A dtype outside the table's.
pub fn copysign(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    if !HALVES.contains(dtype) {
        return wide_copysign(launch);
    }
    dispatch!(dtype in HALF_BITS, E => run::<E, E, _, 2>(launch, SignOf))
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};

    #[test]
    fn signs_are_dropped_turned_and_taken_over() {
        check::pointwise::<1>("abs", &[], |dtype| dtype, |[x]| real(x.re.abs()));
        check::pointwise::<1>("neg", &[], |dtype| dtype, |[x]| -x);
        check::pointwise::<2>("copysign", &[], |dtype| dtype, |[x, y]| real(x.re.copysign(y.re)));
    }
}
