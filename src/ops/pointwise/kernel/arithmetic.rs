//! Arithmetic.

use std::sync::atomic::{AtomicBool, Ordering};

use super::maps;
use crate::tensor::loops::elementwise::{Map, run, run_with_number};
use crate::tensor::loops::fast_path::{self, FastPath};
use crate::tensor::{Element, Error, FLOATING, Field, Integer, Launch, Number, Real, dispatch, signature};

signature! {
    /// `aten::add`: lhs + alpha * rhs.
    add(out; lhs, rhs)[alpha] in ALL => |launch, T| {
        run_with_number::<T, T, _>(launch, Add { alpha: add::Scalars::of(launch)?.alpha.to::<<T as Element>::Acc>() })
    };
    /// `aten::sub`: lhs - alpha * rhs.
    sub(out; lhs, rhs)[alpha] in ALL => |launch, T| {
        run_with_number::<T, T, _>(launch, Add { alpha: sub::Scalars::of(launch)?.alpha.to::<<T as Element>::Acc>().neg() })
    };
    /// `aten::mul`: lhs * rhs; logical and for Bool.
    mul(out; lhs, rhs)[] in EVERY => |launch, T| run_with_number::<T, T, _>(launch, Mul);
    div(out; lhs, rhs)[rounding_mode] in FIELD | INTEGRAL;
    /// `aten::fmod`: the remainder of lhs / rhs with the sign of lhs. An integer divided by 0 is a `ZeroDivisionError`.
    fmod(out; lhs, rhs)[] in REAL => |launch| remainder_of::<false>(launch);
    /// `aten::remainder`: as [`fmod`] with the sign of rhs, as Python's `%`.
    remainder(out; lhs, rhs)[] in REAL => |launch| remainder_of::<true>(launch);
}

maps! {
    Add { alpha }, Number => T, |[lhs, rhs]| lhs.add_scaled(alpha, rhs);
    Mul, Number => T, precise |[lhs, rhs]| lhs.mul(rhs);
    Div, Field => T, precise |[lhs, rhs]| lhs.div(rhs);
    DivTrunc, Real => T, precise |[lhs, rhs]| lhs.div(rhs).trunc();
}

/// Python's `//`: exact even where lhs / rhs rounds up to an integer.
#[derive(Clone, Copy)]
struct DivFloor;

impl DivFloor {
    /// The quotient, from the remainder with the sign of the dividend; the divisor must not be 0.
    #[inline(always)]
    fn quotient<T: Real>(lhs: T, rhs: T, remainder: T) -> T {
        let whole = lhs.sub(remainder).div(rhs);
        let below = remainder != T::ZERO && (rhs < T::ZERO) != (remainder < T::ZERO);
        let whole = if below { whole.sub(T::ONE) } else { whole };
        let floor = whole.floor();
        let nearest = if whole.sub(floor) > T::from_f32(0.5) { floor.add(T::ONE) } else { floor };
        if whole == T::ZERO { T::ZERO.copysign(lhs.div(rhs)) } else { nearest }
    }
}

impl<T: Real> FastPath<T, 2> for DivFloor {
    const PRECISE_NUMBERS: bool = true;

    #[inline(always)]
    fn takes_fast_path(self, [lhs, rhs]: [T; 2]) -> bool {
        lhs.has_fast_fmod(rhs)
    }

    #[inline(always)]
    fn fast(self, [lhs, rhs]: [T; 2]) -> T {
        Self::quotient(lhs, rhs, lhs.fmod_fast(rhs))
    }

    #[inline(always)]
    fn slow(self, [lhs, rhs]: [T; 2]) -> T {
        if rhs == T::ZERO { lhs.div(rhs) } else { Self::quotient(lhs, rhs, lhs.fmod(rhs)) }
    }
}

/// The quotient of integers, or the remainder if `REMAINDER`; records a divisor of 0.
#[derive(Clone, Copy)]
struct Whole<'a, const REMAINDER: bool> {
    floor: bool,
    by_zero: &'a AtomicBool,
}

impl<T: Integer, const REMAINDER: bool> Map<T, 2> for Whole<'_, REMAINDER> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        let result = match (REMAINDER, self.floor) {
            (false, true) => lhs.floor_div(rhs),
            (false, false) => lhs.trunc_div(rhs),
            (true, true) => lhs.rem_floor(rhs),
            (true, false) => lhs.rem_trunc(rhs),
        };
        result.unwrap_or_else(|| {
            self.by_zero.store(true, Ordering::Relaxed);
            T::ZERO
        })
    }
}

fn whole<const REMAINDER: bool>(launch: &Launch<'_>, floor: bool) -> Result<(), Error> {
    let (dtype, by_zero) = (launch.compute(), AtomicBool::new(false));
    dispatch!(dtype in INTEGRAL, T => run::<T, T, _, 2>(launch, Whole::<REMAINDER> { floor, by_zero: &by_zero }))?;
    if by_zero.into_inner() { Err(Error::division_by_zero()) } else { Ok(()) }
}

/// `aten::div`: lhs / rhs. The scalar rounding_mode is 0 for none, 1 for "trunc", 2 for "floor".
///
/// Floating point dtypes support all three modes, complex dtypes only 0, integers only 1 and 2. Fails with a `ZeroDivisionError`
/// for an integer divided by 0, and for an unsupported combination.
pub fn div(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, rounding) = (launch.compute(), div::Scalars::of(launch)?.rounding_mode.to::<i64>());
    match rounding {
        0 => dispatch!(dtype in FIELD, T => run_with_number::<T, T, _>(launch, Div)),
        1 if FLOATING.contains(dtype) => {
            dispatch!(dtype in FLOATING, T => run::<T, T, _, 2>(launch, DivTrunc))
        }
        2 if FLOATING.contains(dtype) => {
            dispatch!(dtype in FLOATING, T => fast_path::run::<T, _, 2>(launch, DivFloor))
        }
        1 | 2 => whole::<false>(launch, rounding == 2),
        other => Err(Error::new(format!("rounding {other} is none of 0, 1, 2"))),
    }
}

/// The remainder of floating point numbers, with the sign of the divisor if `FLOOR`, else of the dividend.
#[derive(Clone, Copy)]
struct Remainder<const FLOOR: bool>;

impl<const FLOOR: bool> Remainder<FLOOR> {
    /// Turns the remainder with the sign of the dividend into that with the sign of the divisor.
    #[inline(always)]
    fn with_sign_of_divisor<T: Real>(remainder: T, rhs: T) -> T {
        let turn = FLOOR && remainder != T::ZERO && (rhs < T::ZERO) != (remainder < T::ZERO);
        if turn { remainder.add(rhs) } else { remainder }
    }
}

impl<T: Real, const FLOOR: bool> FastPath<T, 2> for Remainder<FLOOR> {
    #[inline(always)]
    fn takes_fast_path(self, [lhs, rhs]: [T; 2]) -> bool {
        lhs.has_fast_fmod(rhs)
    }

    #[inline(always)]
    fn fast(self, [lhs, rhs]: [T; 2]) -> T {
        Self::with_sign_of_divisor(lhs.fmod_fast(rhs), rhs)
    }

    #[inline(always)]
    fn slow(self, [lhs, rhs]: [T; 2]) -> T {
        Self::with_sign_of_divisor(lhs.fmod(rhs), rhs)
    }
}

fn remainder_of<const FLOOR: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    match launch.compute() {
        dtype if FLOATING.contains(dtype) => {
            dispatch!(dtype in FLOATING, T => fast_path::run::<T, _, 2>(launch, Remainder::<FLOOR>))
        }
        _ => whole::<true>(launch, FLOOR),
    }
}
