//! Radix sort of one line: stable, in parallel, least significant digit first.
//!
//! Each pass sorts pairs of key and index by one digit. The line is divided into blocks. Within a digit, a block's elements follow
//! those of the blocks before it, so that the result does not depend on the number of threads. The first pass reads the line, the
//! last one writes the results.

use super::key::{Key, Order, Pair};
use crate::tensor::loops::disjoint::DisjointSlice;
use crate::tensor::prelude::*;
use crate::tuning::algorithms::{NARROW_DIGIT_BITS, WIDE_DIGIT_BITS, WIDE_DIGIT_LINES};
use crate::tuning::sharing::{MAX_RADIX_BLOCKS, RADIX_BLOCK};

/// Nanoseconds of one thread for an element: for reading its key, and for a pass.
const LOOK_COST: f64 = 0.4;
const PASS_COST: f64 = 1.2;

/// 16-byte words of memory that [`sort`] needs for a line of `len` elements of `T`.
pub const fn memory<T: Key>(len: usize) -> usize {
    if T::WIDTH <= <u64 as Pair>::KEY_BITS && len >> 32 == 0 { len.div_ceil(2) } else { 2 * len }
}

/// Reinterprets the memory as words of 64 bits.
pub fn as_words(memory: &mut [u128]) -> &mut [u64] {
    // SAFETY: every bit pattern is a `u64`, whose alignment is at most that of `u128`.
    unsafe { memory.align_to_mut().1 }
}

/// Reinterprets bytes as words of 128 bits, without the bytes before the first aligned one.
pub fn as_wide_words(bytes: &mut [u8]) -> &mut [u128] {
    // SAFETY: every bit pattern is a `u128`.
    unsafe { bytes.align_to_mut().1 }
}

/// How a line is divided into blocks.
#[derive(Clone, Copy)]
struct DigitBlocks {
    len: usize,
    count: usize,
}

impl DigitBlocks {
    fn of(len: usize) -> Self {
        Self { len, count: (len / RADIX_BLOCK).clamp(1, MAX_RADIX_BLOCKS) }
    }

    fn range(&self, block: usize) -> std::ops::Range<usize> {
        self.len * block / self.count..self.len * (block + 1) / self.count
    }

    /// Runs `body` for every block. `cost`: nanoseconds of one thread per element.
    fn for_each(&self, cost: f64, body: &(dyn Fn(usize) + Sync)) {
        let cost = cost * self.len as f64 / self.count as f64;
        parallel(self.count, 1, cost, &|begin, end| (begin..end).for_each(body));
    }
}

/// The range of the keys of a line.
#[derive(Clone, Copy)]
struct Extent {
    least: u64,
    greatest: u64,
    /// True if an element cannot be recovered from its key.
    ambiguous: bool,
}

impl Extent {
    fn merged(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            ambiguous: self.ambiguous | other.ambiguous,
        }
    }

    /// The extent of a whole line, computed by blocks.
    fn of_line<T: Key>(line: &[T], order: Order) -> Self {
        let blocks = DigitBlocks::of(line.len());
        let mut found = vec![Self { least: u64::MAX, greatest: 0, ambiguous: false }; blocks.count];
        let shared = DisjointSlice::new(&mut found);
        blocks.for_each(LOOK_COST, &|block| {
            // SAFETY: each block writes its own position.
            unsafe { shared.set(block, look(&line[blocks.range(block)], order)) };
        });
        found.into_iter().reduce(Self::merged).unwrap_or(Self { least: 0, greatest: 0, ambiguous: false })
    }
}

leaf! {
    /// Reads the keys of a part of a line.
    fn look<T: Key>(line: &[T], order: Order) -> Extent {
        let mut extent = Extent { least: u64::MAX, greatest: 0, ambiguous: false };
        for &value in line {
            let key = order.key(value);
            extent.least = extent.least.min(key);
            extent.greatest = extent.greatest.max(key);
            extent.ambiguous |= value.is_ambiguous();
        }
        extent
    }
}

/// Sorts `line` into `values` and `indices`, which must not overlap anything. `memory` has at least [`memory`] words. Panics if
/// there is too little memory, or the lengths differ.
pub fn sort<T: Key>(line: &[T], values: &mut [T], indices: &mut [i64], memory: &mut [u128], descending: bool) {
    assert!(values.len() == line.len() && indices.len() == line.len() && memory.len() >= self::memory::<T>(line.len()));
    let extent = Extent::of_line(line, Order::of::<T>(descending));
    let order = Order::of::<T>(descending).from(extent.least);
    let bits = (64 - (extent.greatest - extent.least).leading_zeros()).max(1);
    let job = Job { line, order, bits, ambiguous: extent.ambiguous };
    if bits <= <u64 as Pair>::KEY_BITS && <u64 as Pair>::holds(line.len()) {
        let first = as_words(memory);
        job.run::<u64>(
            &DisjointSlice::new(&mut first[..line.len()]),
            None,
            &DisjointSlice::new(values),
            &DisjointSlice::new(indices),
        );
    } else {
        let (first, second) = memory.split_at_mut(line.len());
        job.run::<u128>(
            &DisjointSlice::new(first),
            Some(&DisjointSlice::new(&mut second[..line.len()])),
            &DisjointSlice::new(values),
            &DisjointSlice::new(indices),
        );
    }
}

/// A line, and how it is sorted.
struct Job<'a, T> {
    line: &'a [T],
    order: Order,
    /// Bits of the keys.
    bits: u32,
    ambiguous: bool,
}

impl<T: Key> Job<'_, T> {
    /// Runs all passes. Without a `second` buffer the memory of the indices, which have the size of pairs, is the second one.
    fn run<P: Pair>(
        &self,
        first: &DisjointSlice<'_, P>,
        second: Option<&DisjointSlice<'_, P>>,
        values: &DisjointSlice<'_, T>,
        indices: &DisjointSlice<'_, i64>,
    ) {
        let width = if WIDE_DIGIT_LINES.contains(&self.line.len()) { WIDE_DIGIT_BITS } else { NARROW_DIGIT_BITS };
        let passes = self.bits.div_ceil(width);
        let width = self.bits.div_ceil(passes);
        // A pair of 64 bits fits the memory of an index.
        let other_get = |position: usize| match second {
            // SAFETY: a pass reads what an earlier one has written; no thread writes it meanwhile.
            Some(second) => unsafe { second.get(position) },
            // SAFETY: as above.
            None => P::from_position(unsafe { indices.get(position) }),
        };
        let other_set = |position: usize, pair: P| match second {
            // SAFETY: a pass writes each position once, and reads other memory.
            Some(second) => unsafe { second.set(position, pair) },
            // SAFETY: as above.
            None => unsafe { indices.set(position, pair.as_position()) },
        };
        // SAFETY: as for `other_get`.
        let first_get = |position: usize| unsafe { first.get(position) };
        // SAFETY: as for `other_set`.
        let first_set = |position: usize, pair: P| unsafe { first.set(position, pair) };
        let of_line = |position: usize| P::new(self.order.key(self.line[position]), position);
        let result = |position: usize, pair: P| {
            let value = if self.ambiguous { self.line[pair.position()] } else { self.order.value(pair.key()) };
            // SAFETY: as for `other_set`.
            unsafe { values.set(position, value) };
            // SAFETY: as above.
            unsafe { indices.set(position, pair.position() as i64) };
        };
        let blocks = DigitBlocks::of(self.line.len());
        let mut counts = if blocks.count == 1 { self.count_all(passes, width) } else { Vec::new() };
        for pass in 0..passes {
            let known = counts.get_mut((pass as usize) << width..(pass as usize + 1) << width);
            let step = Step { blocks, shift: pass * width, width };
            // The last pass but one writes to `first`, since the last one writes to the indices.
            let to_first = (passes - pass).is_multiple_of(2);
            match (pass == 0, pass + 1 == passes, to_first) {
                (true, true, _) => step.run(known, of_line, result),
                (true, false, true) => step.run(known, of_line, first_set),
                (true, false, false) => step.run(known, of_line, other_set),
                (false, true, _) => step.run(known, first_get, result),
                (false, false, true) => step.run(known, other_get, first_set),
                (false, false, false) => step.run(known, first_get, other_set),
            }
        }
    }
}

impl<T: Key> Job<'_, T> {
    /// Counts the keys by digit, for all passes.
    fn count_all(&self, passes: u32, width: u32) -> Vec<u32> {
        let mut counts = vec![0u32; (passes as usize) << width];
        for &value in self.line {
            let mut key = self.order.key(value);
            for counts in counts.chunks_exact_mut(1 << width) {
                counts[key as usize & ((1 << width) - 1)] += 1;
                key >>= width;
            }
        }
        counts
    }
}

#[derive(Clone, Copy)]
struct Step {
    blocks: DigitBlocks,
    shift: u32,
    width: u32,
}

impl Step {
    #[inline(always)]
    fn digit<P: Pair>(&self, pair: P) -> usize {
        (pair.key() >> self.shift) as usize & ((1 << self.width) - 1)
    }

    /// Moves the pairs that `get` returns for all positions to the positions of their digits, by `set`. `known`: the counts of each
    /// digit, if they are known because there is one block.
    #[inline(always)]
    fn run<P: Pair>(self, known: Option<&mut [u32]>, get: impl Fn(usize) -> P + Sync, set: impl Fn(usize, P) + Sync) {
        let mut counted = Vec::new();
        let counts = if let Some(known) = known {
            known
        } else {
            counted.resize(self.blocks.count << self.width, 0);
            self.count(&mut counted, &get);
            &mut counted[..]
        };
        let (buckets, mut before) = (1usize << self.width, 0usize);
        let mut starts = vec![0usize; counts.len()];
        for bucket in 0..buckets {
            for at in (bucket..counts.len()).step_by(buckets) {
                starts[at] = before;
                before += counts[at] as usize;
            }
        }
        self.blocks.for_each(PASS_COST, &|block| {
            let mut next = [0usize; 1 << WIDE_DIGIT_BITS];
            next[..buckets].copy_from_slice(&starts[block * buckets..][..buckets]);
            for position in self.blocks.range(block) {
                let pair = get(position);
                let digit = self.digit(pair);
                set(next[digit], pair);
                next[digit] += 1;
            }
        });
    }

    /// Counts the pairs of each digit in each block.
    #[inline(always)]
    fn count<P: Pair>(self, counts: &mut [u32], get: &(impl Fn(usize) -> P + Sync)) {
        let buckets = 1usize << self.width;
        let shared = DisjointSlice::new(counts);
        self.blocks.for_each(LOOK_COST, &|block| {
            let mut own = [0u32; 1 << WIDE_DIGIT_BITS];
            self.blocks.range(block).for_each(|position| own[self.digit(get(position))] += 1);
            // SAFETY: each block writes its own row.
            (0..buckets).for_each(|bucket| unsafe { shared.set(block * buckets + bucket, own[bucket]) });
        });
    }
}
