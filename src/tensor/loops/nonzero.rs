//! Loops over the nonzero elements of an operand, in order. The rank of an element is the number of nonzero elements before it.
//!
//! A first parallel pass counts the elements of each chunk; a second one visits them, with ranks from the cumulative counts.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{block_results, parallel};
use crate::simd::leaf;
use crate::tensor::{Element, Error, Number, View, dispatch};
use crate::tuning::caches::BLOCK;
use crate::tuning::sharing::GRAIN;

/// Called with the nonzero elements of a block: the rank of the first, the start of the block, and their positions in it.
pub type NonzeroBody<'a> = &'a (dyn Fn(usize, usize, &[u16]) + Sync);

/// Nanoseconds of one thread to test an element.
const LOOK: f64 = 0.5;

/// Counts the elements that are not 0.
pub fn count(condition: &View<'_>) -> Result<usize, Error> {
    let (data, len) = dense(condition)?;
    let total = AtomicUsize::new(0);
    let dtype = condition.dtype();
    dispatch!(dtype in EVERY, T => {
        parallel(len, GRAIN, LOOK / 4.0, &|begin, end| {
            total.fetch_add(count_chunk::<T>(data, begin, end), Ordering::Relaxed);
        });
        Ok(())
    })?;
    Ok(total.into_inner())
}

/// Visits the elements that are not 0; returns their number. `cost`: nanoseconds of one thread for each element of the operand.
pub fn run(condition: &View<'_>, cost: f64, body: NonzeroBody<'_>) -> Result<usize, Error> {
    let (data, len) = dense(condition)?;
    let dtype = condition.dtype();
    dispatch!(dtype in EVERY, T => Ok(visit_all::<T>(data, len, cost + LOOK, body)))
}

/// The address of a contiguous operand, and its number of elements.
fn dense(view: &View<'_>) -> Result<(usize, usize), Error> {
    if !view.is_contiguous() {
        return Err(Error::new("an operand is not contiguous"));
    }
    Ok((view.data() as usize, view.numel()))
}

fn visit_all<T: Element>(data: usize, len: usize, cost: f64, body: NonzeroBody<'_>) -> usize {
    let chunks = len.div_ceil(GRAIN);
    let chunk = |number: usize| (number * GRAIN, (number * GRAIN + GRAIN).min(len));
    let mut ends = block_results(chunks, LOOK / 4.0 * GRAIN as f64, &|number| {
        let (begin, end) = chunk(number);
        count_chunk::<T>(data, begin, end)
    });
    let mut total = 0;
    for end in &mut ends {
        total += *end;
        *end = total;
    }
    parallel(chunks, 1, cost * GRAIN as f64, &|first, last| {
        for number in first..last {
            let (begin, end) = chunk(number);
            let before = if number == 0 { 0 } else { ends[number - 1] };
            if before < ends[number] {
                visit::<T>(data, begin, end, before, body);
            }
        }
    });
    total
}

fn count_chunk<T: Element>(data: usize, begin: usize, end: usize) -> usize {
    count_nonzero((data as *const T).wrapping_add(begin), end - begin)
}

fn visit<T: Element>(data: usize, begin: usize, end: usize, mut rank: usize, body: NonzeroBody<'_>) {
    let mut positions = [0u16; BLOCK];
    for block in (begin..end).step_by(BLOCK) {
        let count = BLOCK.min(end - block);
        let from = (data as *const T).wrapping_add(block);
        let found = find(from, &mut positions[..count]);
        if found > 0 {
            body(rank, block, &positions[..found]);
        }
        rank += found;
    }
}

leaf! {
    fn count_nonzero<T: Element>(from: *const T, count: usize) -> usize {
        let mut total = 0;
        // Runs are so short that their counts fit into `u8` lanes.
        for begin in (0..count).step_by(128) {
            let mut sum = 0u8;
            for position in begin..count.min(begin + 128) {
                // SAFETY: `dense` has found `count` contiguous elements, which the launch guarantees to be readable.
                let element = unsafe { from.wrapping_add(position).read_unaligned() };
                sum += (element.load() != T::Acc::ZERO) as u8;
            }
            total += sum as usize;
        }
        total
    }

    /// Lists the positions of nonzero elements; returns their number.
    fn find<T: Element>(from: *const T, positions: &mut [u16]) -> usize {
        let mut found = 0;
        for position in 0..positions.len() {
            // SAFETY: as in `count_nonzero`, for as many elements as there are positions.
            let element = unsafe { from.wrapping_add(position).read_unaligned() };
            positions[found] = position as u16;
            found += (element.load() != T::Acc::ZERO) as usize;
        }
        found
    }
}
