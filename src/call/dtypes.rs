//! Classes and limits of dtypes, and casts between them. Promotion is `Call::result_type`.

use half::{bf16, f16};

use super::{Call, CallError, Input, take_if};
use crate::tensor::{BOOL, DType, DTypeSet, FLOAT8, FLOATING, INTEGRAL, ORDERED, UNSIGNED};

/// Every integer dtype except Bool.
const INTEGERS: DTypeSet = INTEGRAL.and(UNSIGNED);
/// Every floating-point dtype.
const FLOATS: DTypeSet = FLOATING.and(FLOAT8);

/// True for integer dtypes without Bool.
pub fn is_integer(dtype: DType) -> bool {
    INTEGERS.contains(dtype)
}

/// True for integer dtypes and Bool.
pub fn is_whole(dtype: DType) -> bool {
    INTEGERS.and(BOOL).contains(dtype)
}

pub fn is_floating(dtype: DType) -> bool {
    FLOATS.contains(dtype)
}

/// Like `torch.can_cast`.
pub fn can_cast(from: DType, to: DType) -> bool {
    let loses_part = from.is_complex() && !to.is_complex();
    let loses_fraction = is_floating(from) && is_integer(to);
    let loses_value = from != DType::Bool && to == DType::Bool;
    !loses_part && !loses_fraction && !loses_value
}

/// The complex dtype whose parts have a floating-point dtype.
pub fn complex_of(dtype: DType) -> DType {
    match dtype {
        DType::BFloat16 => DType::ComplexBFloat16,
        DType::Half => DType::ComplexHalf,
        DType::Float => DType::ComplexFloat,
        DType::Double => DType::ComplexDouble,
        other => other,
    }
}

/// The greatest finite number of a floating-point dtype.
pub fn greatest_finite(dtype: DType) -> Option<f64> {
    match dtype {
        DType::Half => Some(f16::MAX.to_f64()),
        DType::BFloat16 => Some(bf16::MAX.to_f64()),
        DType::Float => Some(f64::from(f32::MAX)),
        DType::Double => Some(f64::MAX),
        _ => None,
    }
}

/// The least and the greatest number of an integral dtype, as far as `i64` holds them.
pub fn limits(dtype: DType) -> Option<[i64; 2]> {
    Some(match dtype {
        DType::Bool => [0, 1],
        DType::Byte => [0, u8::MAX.into()],
        DType::Char => [i8::MIN.into(), i8::MAX.into()],
        DType::Short => [i16::MIN.into(), i16::MAX.into()],
        DType::Int => [i32::MIN.into(), i32::MAX.into()],
        DType::Long => [i64::MIN, i64::MAX],
        DType::UInt16 => [0, u16::MAX.into()],
        DType::UInt32 => [0, u32::MAX.into()],
        DType::UInt64 => [0, i64::MAX],
        _ => return None,
    })
}

/// The dtype that two operands are compared in. Fails if there is none. The fallback gets complex numbers, which have no order.
pub fn common_dtype(one: Input<'_>, other: Input<'_>, call: &Call<'_>) -> Result<DType, CallError> {
    let common = call.result_type(&[one, other])?;
    let is_known = ORDERED.contains(common) || FLOAT8.contains(common);
    take_if(is_known)?;
    Ok(common)
}
