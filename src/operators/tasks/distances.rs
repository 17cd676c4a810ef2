//! Distances between rows, and `renorm`.

use super::matrices::{are_matrices, batch_of};
use super::{contiguous, of_meta, result, take_if, with_elements};
use crate::operators::call::{Arguments, Call, Outcome, StructuredCall, Value, broadcast};
use crate::operators::tensors::Format;

/// `renorm`. The fallback serves empty tensors, for which some norms are refused.
pub fn renorm(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    with_elements::<4>(arguments)?;
    of_meta(arguments, call)
}

/// `_cdist_forward`: distances of each row of `x1` to each row of `x2`.
pub fn of_rows(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [x1, x2, p, mode] = with_elements(arguments)?;
    let (x1, x2, p) = (x1.tensor()?, x2.tensor()?, p.double()?);
    let mode = if matches!(mode, Value::None) { 0 } else { mode.integer()? };
    take_if(are_matrices(x1, x2) && x1.dtype() == x2.dtype() && p >= 0.0 && (0..=2).contains(&mode))?;
    take_if(x1.size_from_end(0) == x2.size_from_end(0))?;
    let batch = broadcast(batch_of(x1, 2), batch_of(x2, 2))?;
    result(call, contiguous(&[&batch[..], &[x1.size_from_end(1), x2.size_from_end(1)]].concat(), x1))
}

/// `_cdist_backward`.
pub fn of_rows_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [_, x1, x2, ..] = with_elements::<5>(arguments)?;
    let (x1, x2) = (x1.tensor()?, x2.tensor()?);
    take_if(are_matrices(x1, x2))?;
    let batch = broadcast(batch_of(x1, 2), batch_of(x2, 2))?;
    result(call, contiguous(&[&batch[..], &[x1.size_from_end(1), x1.size_from_end(0)]].concat(), x1))
}

/// `_pdist_forward`: distances of each pair of rows.
pub fn of_pairs(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rows, p] = with_elements(arguments)?;
    let rows = rows.tensor()?;
    take_if(rows.ndim() == 2 && rows.is_dense(Format::Contiguous) && p.double()? >= 0.0)?;
    let count = rows.sizes()[0];
    result(call, contiguous(&[count * (count - 1) / 2], rows))
}
