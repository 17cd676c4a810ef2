//! The range of integers from which `random_` draws: those that the dtype represents, computed as in PyTorch's own template.

use half::{bf16, f16};

use crate::call::dtypes::{greatest_finite, limits};
use crate::call::prelude::*;
use crate::ops::random::kernel::digits;

/// The mantissa bits of a floating-point dtype, or `None` for other dtypes.
fn digits_of(dtype: DType) -> Result<Option<u32>, CallError> {
    ensure!(!FLOAT8.contains(dtype));
    Ok(FLOATING.contains(dtype).then(|| digits(dtype)))
}

/// A number rounded to the dtype. If that is out of range of `i64`, the result is `i64::MIN`, as from x86's conversion.
fn rounded(number: i64, dtype: DType) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    let single = number as f32;
    let value = match dtype {
        DType::Half => f16::from_f32(single).to_f64(),
        DType::BFloat16 => bf16::from_f32(single).to_f64(),
        DType::Float => f64::from(single),
        _ => number as f64,
    };
    if (-END..END).contains(&value) { value as i64 } else { i64::MIN }
}

/// Spacing (ulp) of a float with `digits` mantissa bits near `number`, which may have been rounded.
fn gap(number: i64, digits: u32) -> i64 {
    let width = number.unsigned_abs().max(1).ilog2() + 1;
    1_i64.wrapping_shl(width.saturating_sub(digits))
}

/// The first number from `from` on that the dtype does not round down below `from`.
fn first(from: i64, dtype: DType, digits: u32) -> i64 {
    let next = from.wrapping_add(1);
    let held = rounded(next, dtype);
    if held >= from { from } else { held.wrapping_add(gap(next, digits)) }
}

/// The greatest end up to `to` to which the dtype rounds no smaller number.
fn end(to: i64, dtype: DType, digits: u32) -> i64 {
    let last = to.wrapping_sub(1);
    let held = rounded(last, dtype);
    if held < to { to } else { held.wrapping_sub(gap(last, digits)) }
}

/// An error if the dtype cannot represent the bounds of the range from `from` to `last`; a warning if it rounds them.
fn check_limits(call: &Call<'_>, [from, last]: [i64; 2], dtype: DType) -> Outcome {
    let Some(digits) = digits_of(dtype)? else {
        let [least, greatest] = limits(dtype).ok_or(CallError::CpuError)?;
        ensure!((least..=greatest).contains(&from) && (least..=greatest).contains(&last));
        return Ok(());
    };
    let (greatest, held) = (greatest_finite(dtype).unwrap_or(0.0), 1_i64 << digits);
    ensure!((from as f64).abs() <= greatest && (last as f64).abs() <= greatest);
    for (limit, name) in [(from, "from"), (last, "to - 1")] {
        if !(-held..=held).contains(&limit) {
            call.warn(&format!(
                "{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {} can support discrete uniform \
                 distribution only within this range. This warning will become an error in version 1.7 release, please fix the code in advance",
                type_name(dtype)
            ))?;
        }
    }
    Ok(())
}

/// For the range from `from` to below `to`: its first number and its length modulo 2^64.
fn below(call: &Call<'_>, [mut from, mut to]: [i64; 2], dtype: DType) -> Result<[i64; 2], CallError> {
    ensure!(from < to);
    if let Some(digits) = digits_of(dtype)? {
        (from, to) = (first(from, dtype, digits), end(to, dtype, digits));
        ensure!(from < to);
    }
    check_limits(call, [from, to.wrapping_sub(1)], dtype)?;
    Ok([from, to.wrapping_sub(from)])
}

/// For the range from `from` to the maximum of an integral dtype, or to 2^digits for a float: its first number and its length
/// modulo 2^64.
fn all_from(call: &Call<'_>, mut from: i64, dtype: DType) -> Result<[i64; 2], CallError> {
    let last = if let Some(digits) = digits_of(dtype)? {
        from = first(from, dtype, digits);
        1_i64 << digits
    } else {
        // The maximum of UInt64 does not fit in an `i64`, and -1 is refused.
        if dtype == DType::UInt64 { -1 } else { limits(dtype).ok_or(CallError::CpuError)?[1] }
    };
    ensure!(!FLOATING.contains(dtype) || from < last);
    check_limits(call, [from, last], dtype)?;
    Ok([from, last.wrapping_sub(from).wrapping_add(1)])
}

/// The first number of a range and its length modulo 2^64. Without `to` the range ends as in `all_from`; from `i64::MIN` it is
/// all of 64 bits.
pub fn range(call: &Call<'_>, from: i64, to: Option<i64>, dtype: DType) -> Result<[i64; 2], CallError> {
    match to {
        Some(to) => below(call, [from, to], dtype),
        None if from == i64::MIN => Ok([from, 0]),
        None => all_from(call, from, dtype),
    }
}

/// The C++ name of a floating-point dtype, as in PyTorch's warnings.
fn type_name(dtype: DType) -> String {
    match dtype {
        DType::Float => "float".into(),
        DType::Double => "double".into(),
        other => format!("c10::{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_moved_to_what_the_dtype_holds() {
        let half = digits(DType::Half);
        assert_eq!((end(65504, DType::Half, half), end(2048, DType::Half, half)), (65472, 2048));
        assert_eq!((end(-2048, DType::Half, half), first(-2048, DType::Half, half)), (-2050, -2048));
        let single = digits(DType::Float);
        assert_eq!(
            (end((1 << 24) + 3, DType::Float, single), end((1 << 24) + 4, DType::Float, single)),
            ((1 << 24) + 3, (1 << 24) + 2)
        );
        assert_eq!((end(7, DType::Float, single), first(0, DType::Float, single)), (7, 0));
        // The result for a number that rounds beyond `i64` stays unchanged.
        assert_eq!(end(i64::MAX, DType::Float, single), i64::MAX);
    }
}
