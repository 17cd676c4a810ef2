//! Sorting a line by its digits: stable, without comparisons, with all threads.
//!
//! Each pass puts pairs of key and place into the order of one digit, the least one first. The line is cut into blocks; a block's elements
//! of a digit go after those of the blocks before it, so that the result is the same for any number of threads. The first pass reads the
//! line itself, the last one writes the results.

use super::key::{Key, Order, Pair};
use crate::simd::{Leaf, vectorize};
use crate::tensor::loops::parallel;
use crate::tensor::loops::shared::Shared;

/// Bits of a digit where the line stays in the cache and is longer than the buckets are many, and of all others.
const WIDE: u32 = 11;
const NARROW: u32 = 8;
const WIDE_LINES: std::ops::Range<usize> = 8 * 1024..256 * 1024;

/// Elements of a block at least, and the most blocks.
const BLOCK: usize = 32 * 1024;
const BLOCKS: usize = 64;

/// Nanoseconds of one thread per element: of looking at keys, of a pass.
const LOOK_COST: f64 = 0.4;
const PASS_COST: f64 = 1.2;

/// Elements below which comparisons are faster.
pub const SHORT: usize = 4 * 1024;

/// 16-byte words of memory that [`sort`] needs for a line of `len` elements of `T`.
pub const fn memory<T: Key>(len: usize) -> usize {
    if T::WIDTH <= <u64 as Pair>::KEY_BITS && len >> 32 == 0 { len.div_ceil(2) } else { 2 * len }
}

/// Words as pairs of 64 bits.
pub fn as_words(memory: &mut [u128]) -> &mut [u64] {
    // SAFETY: any bits are a `u64`, and it needs no more alignment than what it is made of.
    unsafe { memory.align_to_mut().1 }
}

/// How a line is cut.
#[derive(Clone, Copy)]
struct Blocks {
    len: usize,
    count: usize,
}

impl Blocks {
    fn of(len: usize) -> Self {
        Self { len, count: (len / BLOCK).clamp(1, BLOCKS) }
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

/// What the keys of a line have in common.
#[derive(Clone, Copy)]
struct Extent {
    least: u64,
    greatest: u64,
    /// Whether some element cannot be had from its key.
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

    /// Of a whole line, by blocks.
    fn of_line<T: Key>(line: &[T], order: Order) -> Self {
        let blocks = Blocks::of(line.len());
        let mut found = vec![Self { least: u64::MAX, greatest: 0, ambiguous: false }; blocks.count];
        let shared = Shared::new(&mut found);
        blocks.for_each(LOOK_COST, &|block| {
            // SAFETY: each block has a place of its own.
            unsafe { shared.set(block, vectorize(Look { line: &line[blocks.range(block)], order })) };
        });
        found.into_iter().reduce(Self::merged).unwrap_or(Self { least: 0, greatest: 0, ambiguous: false })
    }
}

/// Looks at the keys of a part of a line.
struct Look<'a, T> {
    line: &'a [T],
    order: Order,
}

impl<T: Key> Leaf for Look<'_, T> {
    type Output = Extent;

    #[inline(always)]
    fn run(self) -> Extent {
        let mut extent = Extent { least: u64::MAX, greatest: 0, ambiguous: false };
        for &value in self.line {
            let key = self.order.key(value);
            extent.least = extent.least.min(key);
            extent.greatest = extent.greatest.max(key);
            extent.ambiguous |= value.is_ambiguous();
        }
        extent
    }
}

/// Sorts `line` into `values` and `places`, which overlap nothing. `memory` holds [`memory`] words at least.
///
/// # Panics
/// Too little memory, or lengths that differ.
pub fn sort<T: Key>(line: &[T], values: &mut [T], places: &mut [i64], memory: &mut [u128], descending: bool) {
    assert!(values.len() == line.len() && places.len() == line.len() && memory.len() >= self::memory::<T>(line.len()));
    let extent = Extent::of_line(line, Order::of::<T>(descending));
    let order = Order::of::<T>(descending).from(extent.least);
    let bits = (64 - (extent.greatest - extent.least).leading_zeros()).max(1);
    let job = Job { line, order, bits, ambiguous: extent.ambiguous };
    if bits <= <u64 as Pair>::KEY_BITS && <u64 as Pair>::holds(line.len()) {
        let first = as_words(memory);
        job.run::<u64>(&Shared::new(&mut first[..line.len()]), None, &Shared::new(values), &Shared::new(places));
    } else {
        let (first, second) = memory.split_at_mut(line.len());
        job.run::<u128>(
            &Shared::new(first),
            Some(&Shared::new(&mut second[..line.len()])),
            &Shared::new(values),
            &Shared::new(places),
        );
    }
}

/// A line and how it is to be sorted.
struct Job<'a, T> {
    line: &'a [T],
    order: Order,
    /// Bits of the keys.
    bits: u32,
    ambiguous: bool,
}

impl<T: Key> Job<'_, T> {
    /// All passes. Without a `second` buffer the places' own memory serves as one: they have the size of pairs.
    fn run<P: Pair>(
        &self,
        first: &Shared<'_, P>,
        second: Option<&Shared<'_, P>>,
        values: &Shared<'_, T>,
        places: &Shared<'_, i64>,
    ) {
        let width = if WIDE_LINES.contains(&self.line.len()) { WIDE } else { NARROW };
        let passes = self.bits.div_ceil(width);
        let width = self.bits.div_ceil(passes);
        // A pair of 64 bits is what a place is.
        let other_get = |place: usize| match second {
            // SAFETY: what a pass reads, an earlier one has written, and no thread writes it now.
            Some(second) => unsafe { second.get(place) },
            // SAFETY: as above.
            None => P::from_place(unsafe { places.get(place) }),
        };
        let other_set = |place: usize, pair: P| match second {
            // SAFETY: a pass writes each place once, and reads from other memory.
            Some(second) => unsafe { second.set(place, pair) },
            // SAFETY: as above.
            None => unsafe { places.set(place, pair.as_place()) },
        };
        // SAFETY: as for `other_get`.
        let first_get = |place: usize| unsafe { first.get(place) };
        // SAFETY: as for `other_set`.
        let first_set = |place: usize, pair: P| unsafe { first.set(place, pair) };
        let of_line = |place: usize| P::new(self.order.key(self.line[place]), place);
        let result = |place: usize, pair: P| {
            let value = if self.ambiguous { self.line[pair.place()] } else { self.order.value(pair.key()) };
            // SAFETY: as for `other_set`.
            unsafe { values.set(place, value) };
            // SAFETY: as above.
            unsafe { places.set(place, pair.place() as i64) };
        };
        let blocks = Blocks::of(self.line.len());
        let mut counts = if blocks.count == 1 { self.count_all(passes, width) } else { Vec::new() };
        for pass in 0..passes {
            let known = counts.get_mut((pass as usize) << width..(pass as usize + 1) << width);
            let step = Step { blocks, shift: pass * width, width };
            // The last pass but one leaves its pairs in `first`, since the last one writes the places.
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
    /// How many keys there are of each digit, for all passes.
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

/// One pass.
#[derive(Clone, Copy)]
struct Step {
    blocks: Blocks,
    shift: u32,
    width: u32,
}

impl Step {
    #[inline(always)]
    fn digit<P: Pair>(&self, pair: P) -> usize {
        (pair.key() >> self.shift) as usize & ((1 << self.width) - 1)
    }

    /// Brings the pairs that `get` gives for all places to those that `set` takes. `known`: how many there are of each digit, where there is
    /// one block and they have been counted.
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
            let mut next = [0usize; 1 << WIDE];
            next[..buckets].copy_from_slice(&starts[block * buckets..][..buckets]);
            for place in self.blocks.range(block) {
                let pair = get(place);
                let digit = self.digit(pair);
                set(next[digit], pair);
                next[digit] += 1;
            }
        });
    }

    /// How many pairs of each digit each block has, block by block.
    #[inline(always)]
    fn count<P: Pair>(self, counts: &mut [u32], get: &(impl Fn(usize) -> P + Sync)) {
        let buckets = 1usize << self.width;
        let shared = Shared::new(counts);
        self.blocks.for_each(LOOK_COST, &|block| {
            let mut own = [0u32; 1 << WIDE];
            self.blocks.range(block).for_each(|place| own[self.digit(get(place))] += 1);
            // SAFETY: each block has a row of its own.
            (0..buckets).for_each(|bucket| unsafe { shared.set(block * buckets + bucket, own[bucket]) });
        });
    }
}
