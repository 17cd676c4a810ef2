//! Signs and magnitudes: `abs`, `neg`, `copysign`, `sign`, `sgn`, `signbit`. The sign bit of 16 bit floats is changed without
//! conversion.

use num_complex::Complex;

use super::complex_parts::parts;
use super::{functions, maps};
use crate::tensor::ComplexHalf;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::op::Run;
use crate::tensor::prelude::*;

signature! {
    /// `aten::abs` of real numbers; the least integer wraps to itself.
    abs(out; x)[] in REAL | FLOAT8 => |launch| on_bits(launch, Signed::<false>, wide_abs);
    /// `aten::neg`: -x; unsigned integers wrap.
    neg(out; x)[] in SIGNED => |launch| on_bits(launch, Signed::<true>, wide_neg);
    /// `aten::copysign`: the magnitude of lhs with the sign of rhs.
    copysign(out; lhs, rhs)[] in FLOATING => |launch| on_bits(launch, SignOf, wide_copysign);
    /// `aten::abs` of complex numbers.
    complex_abs(out; x)[] in COMPLEX => |launch| {
        match launch.compute() {
            DType::ComplexHalf => run::<ComplexHalf, half::f16, _, 1>(launch, Magnitude),
            DType::ComplexFloat => run::<Complex<f32>, f32, _, 1>(launch, Magnitude),
            DType::ComplexDouble => run::<Complex<f64>, f64, _, 1>(launch, Magnitude),
            other => Err(Error::new(format!("{other:?} is not complex"))),
        }
    };
    /// `aten::sgn`: x / |x|, 0 at 0; the same as `sign` for real numbers.
    sgn(out; x)[] in SIGNED | BOOL => |launch| {
        match launch.compute() {
            DType::ComplexHalf => run::<ComplexHalf, ComplexHalf, _, 1>(launch, Direction),
            DType::ComplexFloat => run::<Complex<f32>, Complex<f32>, _, 1>(launch, Direction),
            DType::ComplexDouble => run::<Complex<f64>, Complex<f64>, _, 1>(launch, Direction),
            _ => sign(launch),
        }
    };
    /// `aten::signbit`: whether the sign bit is set, for -0 and NaN too.
    signbit(out; x)[] in ORDERED => |launch| {
        let dtype = launch.compute();
        if FLOATING.contains(dtype) {
            return dispatch!(dtype in FLOATING, T => run::<T, Bool, _, 1>(launch, SignBit));
        }
        dispatch!(dtype in INTEGRAL | UNSIGNED | BOOL, T => run::<T, Bool, _, 1>(launch, Negative))
    };
}

/// The sign bit of a 16 bit float.
const SIGN: u16 = 0x8000;
/// The factor that makes tiny and subnormal numbers normal.
const RAISED: f64 = (1u128 << 100) as f64;

functions! {
    /// `aten::abs` of other dtypes than 16 bit floats.
    wide_abs, Abs, WIDE | INTEGRAL | FLOAT8, Ordered, [], |[x]| if x < T::ZERO { x.neg() } else { x.add(T::ZERO) };
    /// `aten::copysign` of other dtypes than 16 bit floats.
    wide_copysign, Copysign, WIDE, Real, [], |[lhs, rhs]| lhs.copysign(rhs);
    /// `aten::neg` of other dtypes than 16 bit floats.
    wide_neg, Neg, WIDE | INTEGRAL | WIDE_COMPLEX | COMPLEX_HALF, Number, [], |[x]| x.neg();
    /// `aten::sign`: -1, 0 or 1; 0 for NaN.
    sign, Sign, REAL | BOOL, Ordered, [], |[x]| if x > T::ZERO { T::ONE } else if x < T::ZERO { T::ZERO.sub(T::ONE) } else { T::ZERO };
}

parts! {
    Magnitude, 1, Complex<R> => R, |[z]| z.re.hypot(z.im);
    Direction, 1, Complex<R> => Complex<R>, |[z]| {
        // The magnitude of tiny numbers would be subnormal, with few or no significant digits.
        let raise = R::from_f64(if z.re.abs().maximum(z.im.abs()) < R::from_f64(1e-30) { RAISED } else { 1.0 });
        let z = Complex { re: z.re.mul(raise), im: z.im.mul(raise) };
        let magnitude = z.re.hypot(z.im);
        if magnitude == R::ZERO { Complex::<R>::ZERO } else { Complex { re: z.re.div(magnitude), im: z.im.div(magnitude) } }
    };
}

/// Clears the sign bit, or flips it if `FLIP`.
#[derive(Clone, Copy)]
struct Signed<const FLIP: bool>;

impl<const FLIP: bool> Map<u16, 1> for Signed<FLIP> {
    type Output = u16;

    #[inline(always)]
    fn apply(self, [bits]: [u16; 1]) -> u16 {
        if FLIP { bits ^ SIGN } else { bits & !SIGN }
    }
}

/// The bits of a number with the sign bit of another.
#[derive(Clone, Copy)]
struct SignOf;

impl Map<u16, 2> for SignOf {
    type Output = u16;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [u16; 2]) -> u16 {
        lhs & !SIGN | rhs & SIGN
    }
}

/// Runs a function of the bits of 16 bit floats, or `wide` for other dtypes.
fn on_bits<M: Map<u16, N, Output = u16>, const N: usize>(launch: &Launch<'_>, map: M, wide: Run) -> Result<(), Error> {
    match launch.compute() {
        dtype if HALVES.contains(dtype) => dispatch!(dtype in HALF_BITS, E => run::<E, E, _, N>(launch, map)),
        _ => wide(launch),
    }
}

maps! {
    Negative, Ordered => Bool, |[x]| (x < T::ZERO).into();
    SignBit, Real => Bool, |[x]| (T::ONE.copysign(x) < T::ZERO).into();
}
