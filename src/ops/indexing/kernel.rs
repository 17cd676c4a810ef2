//! Gathers, scatters and advanced indexing.
//!
//! Each operator is a launch of [`indexed`]. The addressed operand has stride 0 in the indexed dimensions. The scalars of each
//! index are the number of slots that it chooses from and the distance between slots in bytes. The loop (`tensor/loops/indexed.rs`)
//! finds an index out of bounds, inside the task.

pub mod scatter;

use crate::tensor::loops::indexed::{Indexed, Rules};
use crate::tensor::signature;

signature! {
    /// `aten::gather`, `aten::index_select`: the elements at nonnegative indices. Operands [out, self, indices...]; scalars [slots,
    /// bytes between them] for each index.
    gather(out; input, ..indices)[..slots] in ANY => |launch| Indexed::new(launch, 0, Rules::PLAIN)?.load();
    /// `aten::index.Tensor`, `aten::take`: as [`gather`], with indices below 0 counted from the end.
    gather_wrapped(out; input, ..indices)[..slots] in ANY => |launch| Indexed::new(launch, 0, Rules::WRAPPED)?.load();
}
