//! Which numbers a dtype can represent: those that `c10::Scalar::to` converts without an overflow error.

use super::call::{Outcome, Refusal, ensure};
use super::number_text::type_name;
use super::whole_numbers::{greatest_finite, limits};
use crate::tensor::dtype::{DType, FLOATING};
use crate::tensor::float8::Float8E8M0FnU;
use crate::tensor::launch::Scalar;

/// An error if a dtype cannot represent the number.
pub fn check_number(number: Scalar, dtype: DType) -> Outcome {
    if !dtype.is_convertible() {
        return Err(Refusal::Unsupported(format!("\"a number\" not implemented for '{dtype:?}'")));
    }
    ensure!(holds(number, dtype), "value cannot be converted to type {} without overflow", name_of(dtype));
    Ok(())
}

fn holds(number: Scalar, dtype: DType) -> bool {
    let part = dtype.real();
    match number {
        _ if dtype == DType::Bool => true,
        Scalar::Bool(_) | Scalar::Cell(_) => true,
        Scalar::Long(value) => holds_integer(value, part),
        Scalar::Double(value) => holds_real(value, part),
        // PyTorch also checks an imaginary part of 0, which Float8_e8m0fnu cannot represent.
        Scalar::Complex(real, imaginary) => {
            (dtype.is_complex() || imaginary == 0.0) && holds_real(real, part) && holds_real(imaginary, part)
        }
    }
}

/// Negative integers wrap around in an unsigned dtype, down to the negated maximum.
fn holds_integer(value: i64, dtype: DType) -> bool {
    match (dtype, limits(dtype)) {
        (DType::UInt64 | DType::Float8E8M0FnU, _) => true,
        (_, Some([0, greatest])) => (-greatest..=greatest).contains(&value),
        (_, Some([least, greatest])) => (least..=greatest).contains(&value),
        _ => holds_real(value as f64, dtype),
    }
}

fn holds_real(value: f64, dtype: DType) -> bool {
    if let Some([least, greatest]) = limits(dtype) {
        // The exclusive end is a power of 2, which a double represents exactly.
        let end = if dtype == DType::UInt64 { 2.0_f64.powi(64) } else { greatest as f64 + 1.0 };
        return (least as f64..end).contains(&value);
    }
    let has_infinity = FLOATING.contains(dtype) || dtype == DType::Float8E5M2;
    let [least, greatest] = finite_limits(dtype);
    value.is_nan() || (has_infinity && value.is_infinite()) || (least..=greatest).contains(&value)
}

/// The least and the greatest finite number of a floating-point dtype.
fn finite_limits(dtype: DType) -> [f64; 2] {
    let greatest = match dtype {
        DType::Float8E5M2 | DType::Float8E5M2FnUz => 57344.0,
        DType::Float8E4M3Fn => 448.0,
        DType::Float8E4M3FnUz => 240.0,
        DType::Float8E8M0FnU => return [0, 254].map(|bits| Float8E8M0FnU(bits).to_f32().into()),
        _ => greatest_finite(dtype).unwrap_or(f64::MAX),
    };
    [-greatest, greatest]
}

/// The C++ type of a dtype, spelled as in PyTorch's list of scalar types.
fn name_of(dtype: DType) -> String {
    let name = match dtype {
        DType::Byte => "uint8_t",
        DType::Char => "int8_t",
        DType::Short => "int16_t",
        DType::Long => "int64_t",
        DType::UInt16 => "uint16_t",
        DType::UInt32 => "uint32_t",
        DType::UInt64 => "uint64_t",
        DType::ComplexHalf => "c10::complex<c10::Half>",
        // The parts are checked one by one.
        DType::ComplexBFloat16 => return type_name(DType::BFloat16),
        other => return type_name(other),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dtype::{EVERY, FLOAT8};

    const LARGEST: f64 = 9_223_372_036_854_775_808.0;

    fn held(dtype: DType, numbers: &[Scalar]) -> Vec<bool> {
        numbers.iter().map(|&number| check_number(number, dtype).is_ok()).collect()
    }

    #[test]
    fn integers_are_held_between_limits() {
        let longs = |dtype, values: [i64; 4]| held(dtype, &values.map(Scalar::Long));
        assert_eq!(longs(DType::Char, [127, 128, -128, -129]), [true, false, true, false]);
        assert_eq!(longs(DType::Short, [32767, 32768, -32768, -32769]), [true, false, true, false]);
        // Negative numbers wrap around in unsigned dtypes.
        assert_eq!(longs(DType::Byte, [255, 256, -255, -256]), [true, false, true, false]);
        assert_eq!(longs(DType::UInt32, [u32::MAX.into(), 1 << 32, -1, -(1 << 32)]), [true, false, true, false]);
        assert_eq!(longs(DType::UInt64, [i64::MAX, i64::MIN, -1, 0]), [true; 4]);
        assert_eq!(longs(DType::Half, [65504, 65505, -65504, -65505]), [true, false, true, false]);
        assert_eq!(longs(DType::Float8E4M3FnUz, [240, 241, -240, -241]), [true, false, true, false]);
        assert_eq!(longs(DType::Float8E8M0FnU, [0, -1, i64::MAX, i64::MIN]), [true; 4]);
        assert_eq!(longs(DType::ComplexHalf, [65504, 65505, i64::MAX, 0]), [true, false, false, true]);
    }

    #[test]
    fn reals_are_held_between_limits() {
        let doubles = |dtype, values: [f64; 4]| held(dtype, &values.map(Scalar::Double));
        // A fraction above the maximum is truncated; one below the minimum is refused.
        assert_eq!(doubles(DType::Char, [127.9, 128.0, -128.0, -128.5]), [true, false, true, false]);
        assert_eq!(doubles(DType::Byte, [255.9, -0.5, -0.0, f64::NAN]), [true, false, true, false]);
        assert_eq!(doubles(DType::Long, [LARGEST, -LARGEST, f64::INFINITY, f64::NAN]), [false, true, false, false]);
        assert_eq!(doubles(DType::UInt64, [LARGEST, 2.0 * LARGEST, -1.0, f64::NAN]), [true, false, false, false]);
        // Numbers that would be rounded to the maximum are out of range.
        assert_eq!(doubles(DType::Half, [65504.0, 65505.0, f64::INFINITY, f64::NAN]), [true, false, true, true]);
        assert_eq!(doubles(DType::Float, [f32::MAX.into(), 3.402_823_5e38, 1e39, -1e39]), [true, false, false, false]);
        assert_eq!(doubles(DType::Float8E5M2, [57344.0, 57345.0, f64::INFINITY, f64::NAN]), [true, false, true, true]);
        assert_eq!(doubles(DType::Float8E4M3Fn, [448.0, 449.0, f64::INFINITY, f64::NAN]), [true, false, false, true]);
        let tiny = 2.0_f64.powi(-127);
        assert_eq!(doubles(DType::Float8E8M0FnU, [tiny, 0.0, -1.0, f64::NAN]), [true, false, false, true]);
        assert_eq!(doubles(DType::Bool, [1e300, -1e300, f64::INFINITY, f64::NAN]), [true; 4]);
    }

    #[test]
    fn complex_numbers_are_held_by_their_parts() {
        let numbers = [(1.0, 0.0), (1.0, 1.0), (1e39, 0.0), (0.0, 1e39)].map(|(real, imaginary)| Scalar::Complex(real, imaginary));
        assert_eq!(held(DType::Long, &numbers[..2]), [true, false]);
        assert_eq!(held(DType::Float, &numbers), [true, false, false, false]);
        assert_eq!(held(DType::ComplexFloat, &numbers), [true, true, false, false]);
        assert_eq!(held(DType::ComplexBFloat16, &numbers), [true, true, false, false]);
        assert_eq!(held(DType::ComplexDouble, &numbers), [true; 4]);
        assert_eq!(held(DType::Float8E8M0FnU, &numbers[..1]), [false]);
    }

    #[test]
    fn refusals_are_those_of_pytorch() {
        let text = |dtype| match check_number(Scalar::Complex(1e300, 1.0), dtype) {
            Err(Refusal::Invalid(text)) => text,
            other => panic!("{dtype:?}: {other:?}"),
        };
        let of = |name| format!("value cannot be converted to type {name} without overflow");
        assert_eq!((text(DType::Char), text(DType::Int)), (of("int8_t"), of("int")));
        assert_eq!((text(DType::Half), text(DType::Float8E5M2)), (of("c10::Half"), of("c10::Float8_e5m2")));
        assert_eq!(text(DType::ComplexHalf), of("c10::complex<c10::Half>"));
        assert_eq!((text(DType::ComplexFloat), text(DType::ComplexBFloat16)), (of("c10::complex<float>"), of("c10::BFloat16")));
        let refusal = check_number(Scalar::Bool(true), DType::QInt8);
        assert_eq!(refusal, Err(Refusal::Unsupported("\"a number\" not implemented for 'QInt8'".into())));
    }

    #[test]
    fn every_dtype_holds_true_and_one() {
        for dtype in EVERY.iter() {
            assert_eq!(held(dtype, &[Scalar::Bool(true), Scalar::Long(1), Scalar::Double(1.0)]), [true; 3], "{dtype:?}");
        }
        for dtype in FLOAT8.iter() {
            assert_eq!(held(dtype, &[Scalar::Double(1e39)]), [false], "{dtype:?}");
        }
    }
}
