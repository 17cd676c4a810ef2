//! Loops over the operands of elementwise launches.
//!
//! The index space of a launch (innermost dimension first, adjacent dimensions merged: see [`super::launch`]) is divided into
//! *patches*: rectangles of two dimensions whose elements fit a block buffer. [`Space`] distributes the patches, in parallel if the
//! work is large. The loop reads each operand of a patch directly if it has the right dtype and is contiguous, or else gathers and
//! casts it into a block buffer (`staging`). [`elementwise`] does that for operators given as a function of values. Its
//! fast path, for operands that are all contiguous, is one SIMD loop without patches and buffers.
//!
//! Outputs may be the same memory as inputs, element for element. The loops use raw pointers, never references to operands.

mod blocks;
mod buffer;
pub mod cast;
pub mod chunks;
pub mod copy_fill;
pub mod disjoint;
pub mod elementwise;
pub mod failure;
pub mod fast_path;
pub mod index_space;
pub mod indexed;
pub mod lines;
pub mod lists;
pub mod nonzero;
pub mod reduction;
pub mod row;
pub mod rows;
mod staging;
pub mod strided;
pub mod table_lookup;
mod transpose;
pub mod words;

pub use buffer::{Buffer, Memory};

use crate::runtime::parallel_for;
use crate::runtime::sync::Mutex;
use crate::tuning::caches::BLOCK;
use crate::tuning::sharing::{GRAIN, MAX_PIECE_NS};

/// Elements that one thread takes at a time, if each takes `cost` nanoseconds: a power of two, from [`BLOCK`] to [`GRAIN`]. Pieces
/// are small because the cores of a machine may differ in speed, and a loop lasts until its last piece is done.
#[inline]
pub fn grain(cost: f64) -> usize {
    1 << ((MAX_PIECE_NS / cost) as usize).clamp(BLOCK, GRAIN).ilog2()
}

/// Runs `body(begin, end)` over pieces of `0..count`, in parallel where it is worth it. `cost`: nanoseconds of one thread per
/// index. The pieces depend on `count` and `grain` alone.
#[inline]
pub fn parallel(count: usize, grain: usize, cost: f64, body: &(dyn Fn(usize, usize) + Sync)) {
    let grain = grain.max(1);
    if count < 2 * grain {
        body(0, count);
        return;
    }
    let pieces = count.div_ceil(grain);
    let total = (count as f64 * cost) as u64;
    parallel_for::parallel_for(pieces, total, &|piece| body(piece * grain, (piece * grain + grain).min(count)));
}

/// Calls `body`, in parallel where it is worth it, with each run of `grain` items and the position of its first item. `cost`:
/// nanoseconds of one thread for an item.
pub fn each_part<T: Send>(items: &mut [T], grain: usize, cost: f64, body: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let parts: Vec<_> = items.chunks_mut(grain).map(Mutex::new).collect();
    parallel(parts.len(), 1, cost * grain as f64, &|begin, end| {
        for (part, items) in parts.iter().enumerate().take(end).skip(begin) {
            body(part * grain, &mut items.lock());
        }
    });
}

/// The results of `count` blocks, in their order, computed in parallel where it is worth it. `cost`: nanoseconds of one thread for
/// a block.
pub fn block_results<T: Send>(count: usize, cost: f64, result: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    each_part(&mut results, 1, cost, &|block, place| place[0] = Some(result(block)));
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_elements_make_smaller_pieces() {
        assert_eq!([0.0, 0.1, 0.3, 1.0, 3.0, 1e6].map(grain), [GRAIN, GRAIN, 8192, 2048, BLOCK, BLOCK]);
    }
}
