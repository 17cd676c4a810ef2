//! Operators that find elements through indices: gathers, scatters, advanced indexing.
//!
//! Every one of them is a launch of [`indexed`]: the shim gives the addressed operand stride 0 where indices decide, and for each index the
//! number of places and their distance in bytes as scalars.

pub mod compact;
pub mod embedding;
mod update;

use crate::tensor::launch::Launch;
use crate::tensor::loops::indexed::{Indexed, Rules};
pub use update::{update, update_wrapped};

/// `aten::gather`, `aten::index_select`: the elements that indices from 0 on name. Operands [out, self, indices...]; scalars
/// [places, bytes between them] for each index.
///
/// # Errors
/// An index out of bounds.
pub fn load(launch: &Launch<'_>) -> Result<(), String> {
    Indexed::new(launch, 0, Rules::PLAIN)?.load()
}

/// `aten::index.Tensor`, `aten::take`: as [`load`], with indices below 0 counted from the end.
///
/// # Errors
/// An index out of bounds.
pub fn load_wrapped(launch: &Launch<'_>) -> Result<(), String> {
    Indexed::new(launch, 0, Rules::WRAPPED)?.load()
}

#[cfg(test)]
mod tests;
