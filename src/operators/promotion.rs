//! PyTorch's rules of type promotion.

use super::call::{Input, Refusal};
use super::descriptor::Tensor;
use crate::tensor::dtype::{ALL, BOOL, COMPLEX, DType, DTypeSet, FLOAT8, FLOATING, INTEGRAL, ORDERED, UNSIGNED};
use crate::tensor::launch::Scalar;

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

/// True for floating-point dtypes.
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

/// The priority of an operand in type promotion, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number,
    WithoutDimensions,
    WithDimensions,
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

/// A number only contributes its category to type promotion; `default` is `torch.get_default_dtype()`.
fn of_kind(dtype: DType, default: DType) -> DType {
    match dtype {
        dtype if dtype.is_complex() => complex_of(default),
        dtype if is_floating(dtype) => default,
        dtype => dtype,
    }
}

fn of_tensor(tensor: Tensor<'_>, default: DType) -> (Rank, DType) {
    let dtype = tensor.dtype();
    match tensor.ndim() {
        0 if tensor.is_wrapped_number() => (Rank::Number, of_kind(dtype, default)),
        0 => (Rank::WithoutDimensions, dtype),
        _ => (Rank::WithDimensions, dtype),
    }
}

/// The priority of an operand and its dtype.
fn facts(operand: Input<'_>, default: DType) -> Result<(Rank, DType), Refusal> {
    match operand {
        Input::Tensor(tensor) | Input::Immediate(tensor) => Ok(of_tensor(tensor, default)),
        Input::Number(number) => Ok((Rank::Number, of_kind(number_dtype(number)?, default))),
    }
}

/// The dtype of `torch.tensor(number)`, with double precision.
pub fn number_dtype(number: Scalar) -> Result<DType, Refusal> {
    match number {
        Scalar::Bool(_) => Ok(DType::Bool),
        Scalar::Long(_) => Ok(DType::Long),
        Scalar::Double(_) => Ok(DType::Double),
        Scalar::Complex(..) => Ok(DType::ComplexDouble),
        Scalar::Cell(_) => Err(Refusal::Fallback),
    }
}

/// The narrowest complex dtype that holds the values of another dtype.
fn least_complex(dtype: DType) -> DType {
    match dtype {
        DType::BFloat16 | DType::Float | DType::ComplexFloat => DType::ComplexFloat,
        DType::Double | DType::ComplexDouble => DType::ComplexDouble,
        _ => DType::ComplexHalf,
    }
}

/// The promoted dtype of two operands of the same priority.
fn promote(one: DType, other: DType) -> Result<DType, Refusal> {
    if one == other {
        return Ok(one);
    }
    if FLOAT8.contains(one) || FLOAT8.contains(other) {
        let text = "Promotion for Float8 Types is not supported, attempted to promote";
        return Err(Refusal::Invalid(format!("{text} {one:?} and {other:?}")));
    }
    if !ALL.contains(one) || !ALL.contains(other) {
        return Err(Refusal::Fallback);
    }
    if UNSIGNED.contains(one) || UNSIGNED.contains(other) {
        let floating = [one, other].into_iter().find(|&dtype| FLOATING.contains(dtype));
        let text = "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote";
        return floating.ok_or_else(|| Refusal::Invalid(format!("{text} {one:?} and {other:?}")));
    }
    if COMPLEX.contains(one) || COMPLEX.contains(other) {
        return Ok(least_complex(one).max(least_complex(other)));
    }
    let width = |dtype: DType| match dtype {
        DType::Bool => 0,
        DType::Byte | DType::Char => 1,
        DType::Short => 2,
        DType::Int => 3,
        DType::Long => 4,
        DType::Half | DType::BFloat16 => 5,
        DType::Float => 6,
        _ => 7,
    };
    // Half and BFloat16 are promoted to Float; Char and Byte are promoted to Short.
    match width(one).cmp(&width(other)) {
        std::cmp::Ordering::Less => Ok(other),
        std::cmp::Ordering::Greater => Ok(one),
        std::cmp::Ordering::Equal => Ok(if FLOATING.contains(one) { DType::Float } else { DType::Short }),
    }
}

/// The promoted dtype of operands of one priority and of all lower ones.
fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>, Refusal> {
    let (Some(higher), Some(lower)) = (higher, lower) else { return Ok(higher.or(lower)) };
    if higher.is_complex() {
        return Ok(Some(higher));
    }
    if is_floating(higher) && lower.is_complex() {
        return if FLOAT8.contains(higher) { Err(Refusal::Fallback) } else { Ok(Some(complex_of(higher))) };
    }
    if is_floating(higher) {
        return Ok(Some(higher));
    }
    if lower.is_complex() {
        return Ok(Some(lower));
    }
    let gives_way = higher == DType::Bool || is_floating(lower);
    if gives_way { promote(higher, lower).map(Some) } else { Ok(Some(higher)) }
}

/// The result type of operands, like `at::result_type`; `default` is `torch.get_default_dtype()`.
///
/// # Errors
/// If there is none. The fallback gets dtypes that PyTorch promotes by other rules.
pub fn result_type(operands: &[Input<'_>], default: DType) -> Result<DType, Refusal> {
    let mut of_rank = [None; 3];
    for &operand in operands {
        let (rank, dtype) = facts(operand, default)?;
        let found: &mut Option<DType> = &mut of_rank[rank as usize];
        *found = Some(found.map_or(Ok(dtype), |before| promote(before, dtype))?);
    }
    let [of_numbers, without_dimensions, with_dimensions] = of_rank;
    let lower = combine(without_dimensions, of_numbers)?;
    combine(with_dimensions, lower)?.ok_or(Refusal::Fallback)
}

/// The dtype that two operands are compared in; `default` is `torch.get_default_dtype()`.
///
/// # Errors
/// If there is none. The fallback gets complex numbers, which have no order, and dtypes that PyTorch promotes by other rules.
pub fn common_dtype(one: Input<'_>, other: Input<'_>, default: DType) -> Result<DType, Refusal> {
    let common = result_type(&[one, other], default)?;
    let is_known = ORDERED.contains(common) || FLOAT8.contains(common);
    if is_known { Ok(common) } else { Err(Refusal::Fallback) }
}

#[cfg(test)]
mod tests {
    use super::super::Tensor;
    use super::*;

    fn of(dtype: DType, sizes: &[i64]) -> Input<'static> {
        Input::Tensor(Tensor::leaked(1, dtype, 0, sizes, &vec![1; sizes.len()]))
    }

    #[test]
    fn dtypes_of_one_rank_have_one_that_holds_both() {
        let cases = [
            (DType::Byte, DType::Char, DType::Short),
            (DType::Bool, DType::Byte, DType::Byte),
            (DType::Long, DType::Short, DType::Long),
            (DType::Long, DType::Half, DType::Half),
            (DType::Half, DType::BFloat16, DType::Float),
            (DType::BFloat16, DType::Double, DType::Double),
            (DType::UInt16, DType::BFloat16, DType::BFloat16),
            (DType::UInt32, DType::UInt32, DType::UInt32),
        ];
        for (one, other, common) in cases {
            for sizes in [&[3_i64][..], &[]] {
                assert_eq!(common_dtype(of(one, sizes), of(other, sizes), DType::Float), Ok(common));
                assert_eq!(common_dtype(of(other, sizes), of(one, sizes), DType::Float), Ok(common));
            }
        }
        let text = "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt16 and Int";
        assert_eq!(promote(DType::UInt16, DType::Int), Err(Refusal::Invalid(text.into())));
        assert!(matches!(promote(DType::Float, DType::Float8E5M2), Err(Refusal::Invalid(_))));
        assert!(promote(DType::UInt16, DType::ComplexFloat).is_err());
        let complex = [
            (DType::ComplexHalf, DType::BFloat16, DType::ComplexFloat),
            (DType::ComplexHalf, DType::Half, DType::ComplexHalf),
            (DType::ComplexHalf, DType::Long, DType::ComplexHalf),
            (DType::ComplexHalf, DType::ComplexFloat, DType::ComplexFloat),
            (DType::ComplexFloat, DType::Double, DType::ComplexDouble),
        ];
        for (one, other, common) in complex {
            assert_eq!((promote(one, other), promote(other, one)), (Ok(common), Ok(common)));
        }
    }

    #[test]
    fn operands_of_less_rank_give_their_kind_alone() {
        let common = |one, other| common_dtype(one, other, DType::Double);
        let (number, whole) = (Input::Number(Scalar::Double(0.5)), Input::Number(Scalar::Long(300)));
        assert_eq!(common(of(DType::Half, &[2]), of(DType::Double, &[])), Ok(DType::Half));
        assert_eq!(common(of(DType::Int, &[]), of(DType::Byte, &[2])), Ok(DType::Byte));
        assert_eq!(common(of(DType::Int, &[2]), number), Ok(DType::Double));
        assert_eq!(common(number, of(DType::Float, &[])), Ok(DType::Float));
        assert_eq!(common(of(DType::Bool, &[2]), whole), Ok(DType::Long));
        assert_eq!(common(of(DType::Byte, &[2]), whole), Ok(DType::Byte));
        assert_eq!(common(of(DType::Float, &[2]), of(DType::ComplexFloat, &[])), Err(Refusal::Fallback));
    }
    #[test]
    fn complex_numbers_of_less_rank_make_complex_of_the_same_width() {
        let common = |one, other| result_type(&[one, other], DType::Float);
        let number = Input::Number(Scalar::Complex(0.0, 1.0));
        assert_eq!(common(of(DType::Half, &[2]), number), Ok(DType::ComplexHalf));
        assert_eq!(common(of(DType::BFloat16, &[2]), number), Ok(DType::ComplexBFloat16));
        assert_eq!(common(number, of(DType::Double, &[])), Ok(DType::ComplexDouble));
        assert_eq!(common(of(DType::Int, &[2]), number), Ok(DType::ComplexFloat));
        assert_eq!(common(of(DType::ComplexHalf, &[2]), of(DType::Double, &[])), Ok(DType::ComplexHalf));
        let three = [of(DType::Bool, &[2]), of(DType::Byte, &[]), Input::Number(Scalar::Double(0.5))];
        assert_eq!(result_type(&three, DType::Double), Ok(DType::Double));
    }

    #[test]
    fn results_are_written_where_little_is_lost() {
        let cases = [
            (DType::Double, DType::Half, true),
            (DType::Float, DType::Int, false),
            (DType::Float, DType::ComplexHalf, true),
            (DType::ComplexFloat, DType::Float, false),
            (DType::Int, DType::Bool, false),
            (DType::Bool, DType::Byte, true),
            (DType::Long, DType::Byte, true),
        ];
        for (from, to, may) in cases {
            assert_eq!(can_cast(from, to), may, "{from:?} to {to:?}");
        }
    }
}
