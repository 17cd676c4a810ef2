//! Margin losses between classes. Scores are rows, one row or one score; the result is a loss for each row, or one loss.

use super::{contiguous, result, results, take_if, with_elements};
use crate::operators::call::{Arguments, Call, Outcome, Shape, Value};
use crate::operators::loss::NONE;
use crate::operators::tensors::Tensor;

fn rows_of(scores: Tensor<'_>) -> i64 {
    if scores.ndim() == 2 { scores.sizes()[0] } else { 1 }
}

fn losses(scores: Tensor<'_>, by_row: bool) -> Shape {
    if by_row { contiguous(&[rows_of(scores)], scores) } else { contiguous(&[], scores) }
}

pub fn multi_margin(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scores, target, _, _, weight, reduction): (_, _, Value<'_>, Value<'_>, _, i64) = with_elements(arguments)?;
    let (scores, target, weight): (Tensor<'_>, Tensor<'_>, Option<Tensor<'_>>) = (scores, target, weight);
    take_if(scores.ndim() <= 2 && target.ndim() <= 1 && target.numel() == rows_of(scores))?;
    take_if(weight.is_none_or(|weight| weight.ndim() <= 1 && weight.numel() * rows_of(scores) == scores.numel()))?;
    result(call, losses(scores, reduction == NONE && target.ndim() > 0))
}

pub fn multilabel_margin(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scores, target, reduction): (Tensor<'_>, Tensor<'_>, i64) = with_elements(arguments)?;
    take_if(match scores.ndim() {
        0 | 1 => target.ndim() < 2 && target.numel() == scores.numel(),
        2 => target.sizes() == scores.sizes(),
        _ => false,
    })?;
    let by_row = reduction == NONE && target.ndim() > 1;
    results(call, &[losses(scores, by_row), contiguous(target.sizes(), scores)])
}
