//! Arithmetic.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernels::signature::signature;
use crate::tensor::dtype::{Element, FLOATING, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run, run_with_number};
use crate::tensor::loops::fast_path::{self, FastPath};
use crate::tensor::number::{Field, Integer, Number, Real};

signature! {
    add(out, lhs, rhs)[alpha] in ALL;
    sub(out, lhs, rhs)[alpha] in ALL;
    mul(out, lhs, rhs)[] in EVERY;
    div(out, lhs, rhs)[rounding_mode] in FIELD | INTEGRAL;
    fmod(out, lhs, rhs)[] in REAL;
    remainder(out, lhs, rhs)[] in REAL;
}

#[derive(Clone, Copy)]
struct Add<T> {
    alpha: T,
}

impl<T: Number> Map<T, 2> for Add<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.add_scaled(self.alpha, rhs)
    }
}

/// `aten::add`: lhs + alpha * rhs.
pub fn add(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, add::Scalars { alpha }) = (launch.compute(), add::Scalars::of(launch)?);
    dispatch!(dtype in ALL, T => run_with_number::<T, T, _>(launch, Add { alpha: alpha.to::<<T as Element>::Acc>() }))
}

/// `aten::sub`: lhs - alpha * rhs.
pub fn sub(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, sub::Scalars { alpha }) = (launch.compute(), sub::Scalars::of(launch)?);
    dispatch!(dtype in ALL, T => run_with_number::<T, T, _>(launch, Add { alpha: alpha.to::<<T as Element>::Acc>().neg() }))
}

#[derive(Clone, Copy)]
struct Mul;

impl<T: Number> Map<T, 2> for Mul {
    type Output = T;
    const PRECISE_NUMBERS: bool = true;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.mul(rhs)
    }
}

/// `aten::mul`: lhs * rhs; logical and for Bool.
pub fn mul(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in EVERY, T => run_with_number::<T, T, _>(launch, Mul))
}

#[derive(Clone, Copy)]
struct Div;

impl<T: Field> Map<T, 2> for Div {
    type Output = T;
    const PRECISE_NUMBERS: bool = true;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.div(rhs)
    }
}

#[derive(Clone, Copy)]
struct DivTrunc;

impl<T: Real> Map<T, 2> for DivTrunc {
    type Output = T;
    const PRECISE_NUMBERS: bool = true;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.div(rhs).trunc()
    }
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

/// Division of integers; records a divisor of 0.
#[derive(Clone, Copy)]
struct DivInteger<'a> {
    floor: bool,
    by_zero: &'a AtomicBool,
}

impl<T: Integer> Map<T, 2> for DivInteger<'_> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        let quotient = if self.floor { lhs.floor_div(rhs) } else { lhs.trunc_div(rhs) };
        quotient.unwrap_or_else(|| {
            self.by_zero.store(true, Ordering::Relaxed);
            T::ZERO
        })
    }
}

/// `aten::div`: lhs / rhs. The scalar rounding_mode is 0 for none, 1 for "trunc", 2 for "floor".
///
/// Floating point dtypes support all three modes, complex dtypes only 0, integers only 1 and 2.
///
/// # Errors
/// `ZeroDivisionError` for an integer divided by 0; an error for an unsupported combination.
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
        1 | 2 => div_integer(launch, rounding == 2),
        other => Err(Error::parameter(format!("rounding {other} is none of 0, 1, 2"))),
    }
}

fn div_integer(launch: &Launch<'_>, floor: bool) -> Result<(), Error> {
    let dtype = launch.compute();
    let by_zero = AtomicBool::new(false);
    dispatch!(dtype in INTEGRAL, T => run::<T, T, _, 2>(launch, DivInteger { floor, by_zero: &by_zero }))?;
    if by_zero.into_inner() { Err(Error::division_by_zero()) } else { Ok(()) }
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

/// The remainder of integers; records a divisor of 0.
#[derive(Clone, Copy)]
struct RemainderInteger<'a> {
    floor: bool,
    by_zero: &'a AtomicBool,
}

impl<T: Integer> Map<T, 2> for RemainderInteger<'_> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        let remainder = if self.floor { lhs.rem_floor(rhs) } else { lhs.rem_trunc(rhs) };
        remainder.unwrap_or_else(|| {
            self.by_zero.store(true, Ordering::Relaxed);
            T::ZERO
        })
    }
}

fn remainder_integer(launch: &Launch<'_>, floor: bool) -> Result<(), Error> {
    let dtype = launch.compute();
    let by_zero = AtomicBool::new(false);
    dispatch!(dtype in INTEGRAL, T => run::<T, T, _, 2>(launch, RemainderInteger { floor, by_zero: &by_zero }))?;
    if by_zero.into_inner() { Err(Error::division_by_zero()) } else { Ok(()) }
}

/// `aten::fmod`: the remainder of lhs / rhs with the sign of lhs.
///
/// # Errors
/// `ZeroDivisionError` for an integer divided by 0; an error for a dtype outside the table's.
pub fn fmod(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    if FLOATING.contains(dtype) {
        return dispatch!(dtype in FLOATING, T => fast_path::run::<T, _, 2>(launch, Remainder::<false>));
    }
    remainder_integer(launch, false)
}

/// `aten::remainder`: the remainder of lhs / rhs with the sign of rhs, as Python's `%`.
///
/// # Errors
/// `ZeroDivisionError` for an integer divided by 0; an error for a dtype outside the table's.
pub fn remainder(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    if FLOATING.contains(dtype) {
        return dispatch!(dtype in FLOATING, T => fast_path::run::<T, _, 2>(launch, Remainder::<true>));
    }
    remainder_integer(launch, true)
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor, real, round_trip};
    use crate::tensor::dtype::{Complex64, DType, FIELD, FLOATING, INTEGRAL};
    use crate::tensor::kernel_error::Error;
    use crate::tensor::launch::Scalar;

    fn same(dtype: DType) -> DType {
        dtype
    }

    #[test]
    fn add_and_sub_scale_by_alpha() {
        check::pointwise::<2>("add", &[Scalar::Long(1)], same, |[lhs, rhs]| lhs + rhs);
        check::pointwise::<2>("add", &[Scalar::Long(3)], same, |[lhs, rhs]| lhs + rhs * 3.0);
        check::pointwise::<2>("sub", &[Scalar::Long(2)], same, |[lhs, rhs]| lhs - rhs * 2.0);
    }

    #[test]
    fn mul_multiplies() {
        check::pointwise::<2>("mul", &[], same, |[lhs, rhs]| lhs * rhs);
    }

    fn pair(name: &str, dtype: DType, lhs: Complex64, rhs: Complex64, scalars: &[Scalar]) -> Result<Complex64, Error> {
        let of = |value| Tensor::of(dtype, &ndarray::arr1(&[value; 3]).into_dyn(), Strides::Contiguous);
        let output = Tensor::new(dtype, &[3], Strides::Contiguous);
        check::run(name, &[&output], &[&of(lhs), &of(rhs)], scalars, dtype)?;
        Ok(output.values()[[1]])
    }

    #[test]
    fn division_rounds_as_asked() {
        for dtype in FIELD.iter() {
            let found = pair("div", dtype, real(-7.0), real(2.0), &[Scalar::Long(0)]).unwrap();
            assert!(check::close(found, real(-3.5), check::tolerance(dtype)), "{dtype:?} {found}");
        }
        for dtype in FLOATING.iter().chain(INTEGRAL.iter()).filter(|&dtype| dtype != DType::Byte) {
            for (lhs, rhs, trunc, floor) in
                [(7.0, 2.0, 3.0, 3.0), (-7.0, 2.0, -3.0, -4.0), (7.0, -2.0, -3.0, -4.0), (-8.0, 2.0, -4.0, -4.0)]
            {
                assert_eq!(pair("div", dtype, real(lhs), real(rhs), &[Scalar::Long(1)]).unwrap(), real(trunc), "{dtype:?}");
                assert_eq!(pair("div", dtype, real(lhs), real(rhs), &[Scalar::Long(2)]).unwrap(), real(floor), "{dtype:?}");
            }
        }
        assert_eq!(pair("div", DType::Double, real(1.0), real(0.1), &[Scalar::Long(2)]).unwrap(), real(9.0));
        assert_eq!(pair("div", DType::Float, real(1.0), real(0.0), &[Scalar::Long(2)]).unwrap(), real(f64::INFINITY));
    }

    #[test]
    fn integer_division_by_zero_fails() {
        for rounding in [1, 2] {
            let found = pair("div", DType::Int, real(1.0), real(0.0), &[Scalar::Long(rounding)]);
            assert_eq!(found, Err(Error::division_by_zero()));
        }
        assert_eq!(pair("div", DType::Char, real(-128.0), real(-1.0), &[Scalar::Long(1)]).unwrap(), real(-128.0));
        assert!(pair("div", DType::Int, real(1.0), real(1.0), &[Scalar::Long(0)]).is_err());
    }

    #[test]
    fn remainders_have_the_sign_of_dividend_or_divisor() {
        for dtype in [DType::Float, DType::Half, DType::Int, DType::Long] {
            for (lhs, rhs, trunc, floor) in
                [(7.0, 3.0, 1.0, 1.0), (-7.0, 3.0, -1.0, 2.0), (7.0, -3.0, 1.0, -2.0), (6.0, 3.0, 0.0, 0.0)]
            {
                assert_eq!(pair("fmod", dtype, real(lhs), real(rhs), &[]).unwrap(), real(trunc), "{dtype:?}");
                assert_eq!(pair("remainder", dtype, real(lhs), real(rhs), &[]).unwrap(), real(floor), "{dtype:?}");
            }
        }
        assert_eq!(pair("fmod", DType::Int, real(1.0), real(0.0), &[]), Err(Error::division_by_zero()));
        assert_eq!(pair("remainder", DType::Byte, real(1.0), real(0.0), &[]), Err(Error::division_by_zero()));
    }

    #[test]
    fn complex_division_does_not_overflow() {
        let found =
            pair("div", DType::ComplexFloat, Complex64::new(1e30, 1e30), Complex64::new(1e30, 1e30), &[Scalar::Long(0)]).unwrap();
        assert!(check::close(found, real(1.0), 1e-6), "{found}");
        let zero = pair("div", DType::ComplexDouble, Complex64::new(1.0, 0.0), real(0.0), &[Scalar::Long(0)]).unwrap();
        assert!(zero.re.is_infinite() && zero.im.is_nan(), "{zero}");
    }

    #[test]
    fn an_infinite_part_stays_beside_a_finite_one() {
        let found = pair("add", DType::ComplexFloat, real(0.0), Complex64::new(f64::INFINITY, 1.0), &[Scalar::Long(1)]).unwrap();
        assert_eq!(found, Complex64::new(f64::INFINITY, 1.0));
    }

    #[test]
    fn python_numbers_beside_half_are_rounded_for_sums_alone() {
        let (dtype, number) = (DType::Half, real(1.0007));
        let output = Tensor::new(dtype, &[40], Strides::Contiguous);
        let rounded = round_trip(dtype, number);
        let result_for = |name: &str, value: f64, scalars: &[Scalar]| {
            let tensor = Tensor::of(dtype, &ndarray::arr1(&[real(value); 40]).into_dyn(), Strides::Contiguous);
            check::run(name, &[&output], &[&tensor, &Tensor::immediate(DType::Double, number)], scalars, dtype).unwrap();
            output.values()[[39]]
        };
        let result = |name: &str| result_for(name, 7.0, &[]);
        assert_eq!(result_for("add", -1.0, &[Scalar::Long(1)]), rounded - 1.0);
        assert_eq!(result("mul"), round_trip(dtype, number * 7.0));
        assert_ne!(result("mul"), round_trip(dtype, rounded * 7.0));
        assert_eq!(result("fmod"), round_trip(dtype, real(7.0 % rounded.re)));
        assert_ne!(result("fmod"), round_trip(dtype, real(7.0 % number.re)));
    }

    #[test]
    fn a_divisor_of_another_dtype_is_not_rounded_for_one_element() {
        for size in [1, 40] {
            let output = Tensor::new(DType::Half, &[size], Strides::Contiguous);
            let tensor = Tensor::of(DType::Half, &ndarray::Array1::from_elem(size, real(4000.0)).into_dyn(), Strides::Contiguous);
            let count = Tensor::of(DType::Long, &ndarray::arr1(&[real(100_000.0)]).into_dyn(), Strides::Contiguous);
            let count = if size == 1 { count } else { Tensor::immediate(DType::Long, real(100_000.0)) };
            check::run("div", &[&output], &[&tensor, &count], &[Scalar::Long(0)], DType::Half).unwrap();
            assert_eq!(output.values()[[size - 1]], round_trip(DType::Half, real(0.04)));
        }
    }

    #[test]
    fn operands_of_other_dtypes_are_cast() {
        let integers = Tensor::of(DType::Long, &check::values(DType::Long, &[5, 300], 1), Strides::Transposed);
        let floats = Tensor::of(DType::Float, &check::values(DType::Float, &[5, 300], 2), Strides::Contiguous);
        let output = Tensor::new(DType::Double, &[5, 300], Strides::Sliced);
        check::run("add", &[&output], &[&integers, &floats], &[Scalar::Long(1)], DType::Float).unwrap();
        assert_eq!(output.values(), integers.values() + floats.values());
    }
}
