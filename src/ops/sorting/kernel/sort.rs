//! `sort`, stable in both directions.

#![forbid(unsafe_code)]

use std::cell::RefCell;

use super::key::{Key, Order, Pair};
use super::radix;
use crate::runtime::sync::Mutex;
use crate::tensor::loops::lines;
use crate::tensor::{DType, Error, Launch, dispatch, signature};
use crate::tuning::algorithms::COMPARED_LINE;

signature! {
    sort(values, indices, workspace?; input)[dim, descending] in ORDERED;
}

thread_local! {
    /// Memory for the lines that one thread sorts alone.
    static MEMORY: RefCell<Vec<u128>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with at least `words` words of this thread's memory.
pub(super) fn with_memory<R>(words: usize, body: impl FnOnce(&mut [u128]) -> R) -> R {
    MEMORY.with_borrow_mut(|memory| {
        if memory.len() < words {
            memory.resize(words, 0);
        }
        body(&mut memory[..words])
    })
}

/// Bytes of the workspace with which all threads sort a line of `len` elements; 0 for a dtype outside the table's.
pub fn workspace(dtype: DType, len: usize) -> usize {
    dispatch!(dtype in ORDERED, T => Ok(16 * radix::memory::<T>(len))).unwrap_or(0)
}

/// `aten::sort.stable`: sorts each line, and gives the indices of its elements; NaN is the greatest. `indices` is Long. With a
/// workspace of as many bytes as [`workspace`] returns for the last dimension, all threads sort each line. Fails for a dtype outside the table's, or a workspace that is too small.
pub fn sort(launch: &Launch<'_>) -> Result<(), Error> {
    let sort::Operands { values, indices, workspace: memory, input } = sort::Operands::of(launch)?;
    let sort::Scalars { dim, descending } = sort::Scalars::of(launch)?;
    let (dim, descending) = (dim.to::<i64>() as usize, descending.is_true());
    let dtype = input.dtype();
    let needed = workspace(dtype, input.sizes().last().map_or(1, |&len| len as usize));
    dispatch!(dtype in ORDERED, T => {
        match memory {
            None => lines::run_with_indices::<T>(input, values, indices, dim, launch.cost(), &|line, values, indices| {
                sort_line(line, values, indices, descending);
            }),
            Some(memory) if memory.numel() < needed => {
                Err(Error::new(format!("a workspace of {} bytes where {needed} are needed", memory.numel())))
            }
            Some(memory) => {
                let memory = Mutex::new(radix::as_wide_words(memory.into_elements()?));
                // A cost of 0 makes the loop sequential.
                lines::run_with_indices::<T>(input, values, indices, dim, 0.0, &|line, values, indices| {
                    radix::sort(line, values, indices, &mut memory.lock(), descending);
                })
            }
        }
    })
}

/// Sorts a line with one thread.
pub(super) fn sort_line<T: Key>(line: &[T], values: &mut [T], indices: &mut [i64], descending: bool) {
    if line.len() >= COMPARED_LINE {
        with_memory(radix::memory::<T>(line.len()), |memory| radix::sort(line, values, indices, memory, descending));
        return;
    }
    let order = Order::of::<T>(descending);
    if T::WIDTH <= <u64 as Pair>::KEY_BITS {
        // Flipping the sign bit makes pairs in the memory of the indices, which are signed, sort as unsigned ones.
        for (position, (pair, &value)) in indices.iter_mut().zip(line).enumerate() {
            *pair = <u64 as Pair>::new(order.key(value), position).as_position() ^ i64::MIN;
        }
        indices.sort_unstable();
        for pair in indices.iter_mut() {
            *pair &= 0xffff_ffff;
        }
    } else {
        with_memory(line.len(), |pairs| {
            for (position, (pair, &value)) in pairs.iter_mut().zip(line).enumerate() {
                *pair = <u128 as Pair>::new(order.key(value), position);
            }
            pairs.sort_unstable();
            indices.iter_mut().zip(pairs).for_each(|(position, pair)| *position = pair.position() as i64);
        });
    }
    values.iter_mut().zip(indices).for_each(|(value, position)| *value = line[*position as usize]);
}
