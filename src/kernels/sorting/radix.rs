//! Sorting a line by its digits: stable, without comparisons, with all threads.
//!
//! Each pass puts pairs of key and place into the order of one digit, the least one first. The line is cut into blocks; a block's elements
//! of a digit go after those of the blocks before it, so that the result is the same for any number of threads. The first pass reads the
//! line itself, the last one writes the results.

use super::key::{Key, Order, Pair};
use crate::tensor::loops::parallel;
use crate::tensor::loops::shared::Shared;

/// Bits of a digit where the line stays in the cache, and where every bucket needs a line of the cache of its own.
const WIDE: u32 = 11;
const NARROW: u32 = 8;
const CACHED: usize = 256 * 1024;

/// Elements of a block at least, and the most blocks.
const BLOCK: usize = 64 * 1024;
const BLOCKS: usize = 64;

/// Nanoseconds of one thread per element: of looking at keys, of a pass.
const LOOK_COST: f64 = 0.4;
const PASS_COST: f64 = 1.2;

/// Elements below which comparisons are faster.
pub const SHORT: usize = 1024;

/// 16-byte words of memory that [`sort`] needs for a line of `len` elements of `T`.
pub const fn memory<T: Key>(len: usize) -> usize {
    if T::WIDTH <= <u64 as Pair>::KEY_BITS && len <= u32::MAX as usize { len.div_ceil(2) } else { 2 * len }
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
    fn of<T: Key>(line: &[T], order: Order) -> Self {
        let mut extent = Self { least: u64::MAX, greatest: 0, ambiguous: false };
        for &value in line {
            let key = order.key(value);
            extent.least = extent.least.min(key);
            extent.greatest = extent.greatest.max(key);
            extent.ambiguous |= value.is_ambiguous();
        }
        extent
    }

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
            unsafe { shared.set(block, Self::of(&line[blocks.range(block)], order)) };
        });
        found.into_iter().reduce(Self::merged).unwrap_or(Self { least: 0, greatest: 0, ambiguous: false })
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
    if bits <= <u64 as Pair>::KEY_BITS && line.len() <= u32::MAX as usize {
        // SAFETY: any bits are a `u64`, and it needs no more alignment than what it is made of.
        let (_, first, _) = unsafe { memory.align_to_mut::<u64>() };
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
        let width = if self.line.len() <= CACHED { WIDE } else { NARROW };
        let passes = self.bits.div_ceil(width);
        let width = self.bits.div_ceil(passes);
        // SAFETY: each place is read and written by the thread that has it; a pair of 64 bits is what a place is.
        let other_get = |place: usize| match second {
            Some(second) => unsafe { second.get(place) },
            None => P::from_place(unsafe { places.get(place) }),
        };
        // SAFETY: as above.
        let other_set = |place: usize, pair: P| match second {
            Some(second) => unsafe { second.set(place, pair) },
            None => unsafe { places.set(place, pair.as_place()) },
        };
        // SAFETY: as above.
        let (first_get, first_set) =
            (|place: usize| unsafe { first.get(place) }, |place: usize, pair: P| unsafe { first.set(place, pair) });
        let of_line = |place: usize| P::new(self.order.key(self.line[place]), place);
        let result = |place: usize, pair: P| {
            let value = if self.ambiguous { self.line[pair.place()] } else { self.order.value(pair.key()) };
            // SAFETY: as above.
            unsafe { values.set(place, value) };
            // SAFETY: as above.
            unsafe { places.set(place, pair.place() as i64) };
        };
        for pass in 0..passes {
            let step = Step { len: self.line.len(), shift: pass * width, width };
            // The last pass but one leaves its pairs in `first`, since the last one writes the places.
            let to_first = (passes - pass).is_multiple_of(2);
            match (pass == 0, pass + 1 == passes, to_first) {
                (true, true, _) => step.run(of_line, result),
                (true, false, true) => step.run(of_line, first_set),
                (true, false, false) => step.run(of_line, other_set),
                (false, true, _) => step.run(first_get, result),
                (false, false, true) => step.run(other_get, first_set),
                (false, false, false) => step.run(first_get, other_set),
            }
        }
    }
}

/// One pass.
#[derive(Clone, Copy)]
struct Step {
    len: usize,
    shift: u32,
    width: u32,
}

impl Step {
    #[inline(always)]
    fn digit<P: Pair>(&self, pair: P) -> usize {
        (pair.key() >> self.shift) as usize & ((1 << self.width) - 1)
    }

    /// Brings the pairs that `get` gives for all places to those that `set` takes.
    #[inline(always)]
    fn run<P: Pair>(self, get: impl Fn(usize) -> P + Sync, set: impl Fn(usize, P) + Sync) {
        let (blocks, buckets) = (Blocks::of(self.len), 1usize << self.width);
        let mut counts = vec![0usize; blocks.count * buckets];
        let shared = Shared::new(&mut counts);
        blocks.for_each(LOOK_COST, &|block| {
            let mut own = [0usize; 1 << WIDE];
            blocks.range(block).for_each(|place| own[self.digit(get(place))] += 1);
            // SAFETY: each block has a row of its own.
            (0..buckets).for_each(|bucket| unsafe { shared.set(block * buckets + bucket, own[bucket]) });
        });
        let mut before = 0;
        for bucket in 0..buckets {
            for block in 0..blocks.count {
                before += std::mem::replace(&mut counts[block * buckets + bucket], before);
            }
        }
        let counts = &counts;
        blocks.for_each(PASS_COST, &|block| {
            let mut next = [0usize; 1 << WIDE];
            next[..buckets].copy_from_slice(&counts[block * buckets..][..buckets]);
            for place in blocks.range(block) {
                let pair = get(place);
                let digit = self.digit(pair);
                set(next[digit], pair);
                next[digit] += 1;
            }
        });
    }
}
