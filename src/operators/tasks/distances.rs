//! Distances between rows, and `renorm`.

use super::matrices::{are_matrices, batch_of};
use super::{contiguous, of_meta, result, take_filled, take_if, with_elements};
use crate::operators::call::{Arguments, Call, Outcome, broadcast};
use crate::operators::tensors::{Format, Tensor};

/// `renorm`. The fallback serves empty tensors, for which some norms are refused.
pub fn renorm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_filled(arguments)?;
    of_meta(arguments, call)
}

/// `_cdist_forward`: distances of each row of `x1` to each row of `x2`.
pub fn of_rows(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (x1, x2, p, mode): (Tensor<'_>, Tensor<'_>, f64, Option<i64>) = with_elements(arguments)?;
    let mode = mode.unwrap_or(0);
    take_if(are_matrices(x1, x2) && x1.dtype() == x2.dtype() && p >= 0.0 && (0..=2).contains(&mode))?;
    take_if(x1.size_from_end(0) == x2.size_from_end(0))?;
    let batch = broadcast(batch_of(x1, 2), batch_of(x2, 2))?;
    result(call, contiguous(&[&batch[..], &[x1.size_from_end(1), x2.size_from_end(1)]].concat(), x1))
}

/// `_cdist_backward`.
pub fn of_rows_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_filled(arguments)?;
    let (x1, x2) = (arguments.tensor(1)?, arguments.tensor(2)?);
    take_if(are_matrices(x1, x2))?;
    let batch = broadcast(batch_of(x1, 2), batch_of(x2, 2))?;
    result(call, contiguous(&[&batch[..], &[x1.size_from_end(1), x1.size_from_end(0)]].concat(), x1))
}

/// `_pdist_forward`: distances of each pair of rows.
pub fn of_pairs(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (rows, p): (Tensor<'_>, f64) = with_elements(arguments)?;
    take_if(rows.ndim() == 2 && rows.is_dense(Format::Contiguous) && p >= 0.0)?;
    let count = rows.sizes()[0];
    result(call, contiguous(&[count * (count - 1) / 2], rows))
}
