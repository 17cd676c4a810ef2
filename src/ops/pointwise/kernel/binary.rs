//! Binary operators beyond arithmetic: `gcd`, `lcm`, `heaviside`, `ldexp`, `nextafter`. Operands [out, lhs, rhs].

use super::functions;
use crate::simd::convert;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::{DType, Elementary, HalfBits, Integer, Ordered, signature};

signature! {
    /// `aten::ldexp` with integer exponents: lhs 2^rhs. 16 bit floats are computed as `Float`, because they do not hold every
    /// exponent.
    ldexp(out; lhs, rhs)[] in FLOATING => |launch| {
        match launch.compute() {
            DType::Half | DType::BFloat16 => run::<f32, f32, _, 2>(launch, Ldexp { _computes: std::marker::PhantomData::<f32> }),
            _ => wide_ldexp(launch),
        }
    };
    /// `aten::nextafter`: the number adjacent to lhs in the direction of rhs.
    nextafter(out; lhs, rhs)[] in FLOATING => |launch| {
        match launch.compute() {
            DType::Half => run::<HalfBits<false>, HalfBits<false>, _, 2>(launch, NextHalf::<false>),
            DType::BFloat16 => run::<HalfBits<true>, HalfBits<true>, _, 2>(launch, NextHalf::<true>),
            _ => wide_nextafter(launch),
        }
    };
}

functions! {
    /// `aten::gcd`: the greatest common divisor.
    gcd, Gcd, INTEGRAL, Integer, [], |[lhs, rhs]| lhs.gcd(rhs);
    /// `aten::heaviside`: 0 below 0, 1 above 0, rhs at 0, 0 for NaN.
    heaviside, Heaviside, REAL | BOOL, Ordered, [], |[lhs, rhs]| {
        let step = if lhs > T::ZERO { T::ONE } else { T::ZERO };
        if lhs == T::ZERO { rhs } else { step }
    };
    /// `aten::lcm`: the least common multiple.
    lcm, Lcm, INTEGRAL, Integer, [], |[lhs, rhs]| {
        let multiple = lhs.trunc_div(lhs.gcd(rhs)).unwrap_or(T::ZERO).mul(rhs);
        // An overflow wraps as on PyTorch's CPU: after abs() in types below 32 bits, which C++ promotes to int, and before it in
        // wider types.
        let is_negative = if size_of::<T>() < 4 { (lhs < T::ZERO) != (rhs < T::ZERO) } else { multiple < T::ZERO };
        if is_negative { multiple.neg() } else { multiple }
    };
    /// `aten::ldexp` of `Float` and `Double`.
    wide_ldexp, Ldexp, WIDE, Elementary, [], |[lhs, rhs]| lhs.ldexp(rhs);
    /// `aten::nextafter` of `Float` and `Double`.
    wide_nextafter, Nextafter, WIDE, Elementary, [], |[lhs, rhs]| lhs.nextafter(rhs);
}

/// The adjacent 16 bit float towards another, on bits: BFloat16 with `BRAIN`, else Half.
#[derive(Clone, Copy)]
struct NextHalf<const BRAIN: bool>;

impl<const BRAIN: bool> Map<u16, 2> for NextHalf<BRAIN> {
    type Output = u16;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [u16; 2]) -> u16 {
        let [from, to] = [lhs, rhs].map(if BRAIN { convert::bf16_to_f32 } else { convert::f16_to_f32 });
        let is_away = (from < to) == (from > 0.0);
        let next = if is_away { lhs.wrapping_add(1) } else { lhs.wrapping_sub(1) };
        let next = if from == 0.0 { 1 | rhs & 0x8000 } else { next };
        let next = if from == to { rhs } else { next };
        let either = if from.is_nan() { lhs } else { rhs };
        if from.is_nan() || to.is_nan() { either } else { next }
    }
}
