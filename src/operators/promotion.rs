//! The dtype that two operands are compared in, by PyTorch's rules of promotion.

use super::call::{Input, Refusal};
use crate::tensor::dtype::{COMPLEX, DType, FLOAT8, FLOATING, ORDERED, UNSIGNED};
use crate::tensor::launch::Scalar;

/// Operands whose dtype counts for more than that of others, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number,
    WithoutDimensions,
    WithDimensions,
}

/// An operand's rank and dtype; `default` is that of floating point numbers.
fn facts(operand: Input<'_>, default: DType) -> Result<(Rank, DType), Refusal> {
    match operand {
        Input::Tensor(tensor) if COMPLEX.contains(tensor.dtype()) => Err(Refusal::Fallback),
        Input::Tensor(tensor) if tensor.ndim() == 0 => Ok((Rank::WithoutDimensions, tensor.dtype())),
        Input::Tensor(tensor) => Ok((Rank::WithDimensions, tensor.dtype())),
        Input::Number(Scalar::Bool(_)) => Ok((Rank::Number, DType::Bool)),
        Input::Number(Scalar::Long(_)) => Ok((Rank::Number, DType::Long)),
        Input::Number(Scalar::Double(_)) => Ok((Rank::Number, default)),
        Input::Number(_) => Err(Refusal::Fallback),
    }
}

/// The dtype of operands of one rank.
fn promote(one: DType, other: DType) -> Result<DType, Refusal> {
    if one == other {
        return Ok(one);
    }
    if !ORDERED.contains(one) || !ORDERED.contains(other) {
        return Err(Refusal::Fallback);
    }
    if UNSIGNED.contains(one) || UNSIGNED.contains(other) {
        let floating = [one, other].into_iter().find(|&dtype| FLOATING.contains(dtype));
        let text = "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote";
        return floating.ok_or_else(|| Refusal::Invalid(format!("{text} {one:?} and {other:?}")));
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
    // Two of one width have the next one.
    match width(one).cmp(&width(other)) {
        std::cmp::Ordering::Less => Ok(other),
        std::cmp::Ordering::Greater => Ok(one),
        std::cmp::Ordering::Equal => Ok(if FLOATING.contains(one) { DType::Float } else { DType::Short }),
    }
}

/// The dtype that both operands are compared in, as `at::result_type` has it; `default` is that of floating point numbers.
///
/// # Errors
/// There is none. Complex numbers, which have no order, and dtypes that PyTorch promotes by other rules are left to the fallback.
pub fn common_dtype(one: Input<'_>, other: Input<'_>, default: DType) -> Result<DType, Refusal> {
    let ((first_rank, first), (second_rank, second)) = (facts(one, default)?, facts(other, default)?);
    if first_rank == second_rank {
        return promote(first, second);
    }
    let (higher, lower) = if first_rank > second_rank { (first, second) } else { (second, first) };
    let floating = FLOATING.and(FLOAT8);
    let gives_way = higher == DType::Bool || (!floating.contains(higher) && floating.contains(lower));
    if gives_way { promote(higher, lower) } else { Ok(higher) }
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
        assert_eq!(promote(DType::Float, DType::Float8E5M2), Err(Refusal::Fallback));
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
}
