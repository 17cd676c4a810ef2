//! Selection without sorting: `topk`, `kthvalue`, `median`. The results are those of a stable sort: the earlier of equal elements
//! comes first.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::key::{Key, Order, Pair};
use super::radix::as_words;
use super::sort::with_memory;
use crate::runtime::sync::Mutex;
use crate::tensor::prelude::*;
use crate::tuning::algorithms::{SELECT_DIGIT_BITS, SELECTED_AS_PAIRS};
use crate::tuning::sharing::SELECT_PIECE;

signature! {
    topk(values, indices; input)[largest] in ORDERED;
    /// `aten::kthvalue`: the k-th least element of each line along the last dimension, and its index. The input's lines are
    /// contiguous; the outputs' last size is 1.
    kthvalue(values, indices; input)[k] in ORDERED => |launch| {
        let rank = kthvalue::Scalars::of(launch)?.k.to::<i64>() as usize;
        one_of_each::<false>(launch, &|len, _| rank.clamp(1, len) - 1)
    };
    /// `aten::median.dim`: the lower of the middle elements of each line along the last dimension, and its index. If there is a
    /// NaN, the first NaN and its index. Operands as for [`kthvalue`].
    median(values, indices; input)[] in ORDERED =>
        |launch| one_of_each::<true>(launch, &|len, nans| if nans > 0 { len - nans } else { (len - 1) / 2 });
    /// `aten::nanmedian.dim`: the median of the elements that are not NaN, if there are any. Operands as for [`kthvalue`].
    nanmedian(values, indices; input)[] in ORDERED =>
        |launch| one_of_each::<true>(launch, &|len, nans| (len - nans).saturating_sub(1) / 2);
}

/// Elements that are compared together.
const GROUP: usize = 32;
/// Nanoseconds of one thread per element.
const COST: f64 = 0.7;
const NAN_COST: f64 = 0.2;

/// `aten::topk`: the first `k` elements of each line along the last dimension, in order, and their indices. The input's lines are
/// contiguous; k is the outputs' last size.
pub fn topk(launch: &Launch<'_>) -> Result<(), Error> {
    let (operands, largest) = (topk::Operands::of(launch)?, topk::Scalars::of(launch)?.largest.is_true());
    let dtype = operands.input.dtype();
    dispatch!(dtype in ORDERED, T => {
        let order = Order::of::<T>(largest);
        each_line::<T>(launch, operands, &|line, mut values, mut indices, count| {
            let mut put = |found: &mut dyn Iterator<Item = usize>| {
                for (at, position) in found.enumerate() {
                    values.store(at, line[position]);
                    indices.store(at, position as i64);
                }
            };
            if T::WIDTH <= <u64 as Pair>::KEY_BITS && <u64 as Pair>::holds(line.len()) {
                put(&mut first::<T, u64>(line, order, count).into_iter().map(Pair::position));
            } else {
                put(&mut first::<T, u128>(line, order, count).into_iter().map(Pair::position));
            }
        })
    })
}

/// Selects one element of each line: that of the rank that `rank` computes from the line's length and its number of NaNs (0 without
/// `WITH_NANS`).
fn one_of_each<const WITH_NANS: bool>(launch: &Launch<'_>, rank: &(dyn Fn(usize, usize) -> usize + Sync)) -> Result<(), Error> {
    // All kernels of this file have the same operands.
    let operands = topk::Operands::of(launch)?;
    let dtype = operands.input.dtype();
    dispatch!(dtype in ORDERED, T => each_line::<T>(launch, operands, &|line, mut values, mut indices, _| {
        let order = Order::of::<T>(false);
        let nans = if WITH_NANS { nans(line) } else { 0 };
        let position = at_rank(line, order, rank(line.len(), nans));
        values.store(0, line[position]);
        indices.store(0, position as i64);
    }))
}

/// The number of NaNs of a line.
fn nans<T: Key>(line: &[T]) -> usize {
    let total = AtomicUsize::new(0);
    parallel(line.len(), SELECT_PIECE, NAN_COST, &|begin, end| {
        let own = line[begin..end].iter().filter(|value| value.is_nan()).count();
        total.fetch_add(own, Ordering::Relaxed);
    });
    total.into_inner()
}

/// Called with a line, its row of values, its row of indices, and their number.
type SelectionBody<'a, T> = &'a (dyn Fn(&[T], RowMut<'_>, RowMut<'_>, usize) + Sync);

fn each_line<T: Key>(launch: &Launch<'_>, operands: topk::Operands<'_>, body: SelectionBody<'_, T>) -> Result<(), Error> {
    let topk::Operands { values, indices, input } = operands;
    let outer = |view: &View<'_>| view.sizes()[..view.ndim().saturating_sub(1)].to_vec();
    if outer(&values) != outer(&input) || values.sizes() != indices.sizes() || input.ndim() == 0 {
        return Err(Error::new(format!("{:?} and {:?} of {:?}", values.sizes(), indices.sizes(), input.sizes())));
    }
    let (len, count) = (input.size(input.ndim() - 1), values.size(input.ndim() - 1));
    if count > len || (len > 1 && input.stride(input.ndim() - 1) != size_of::<T>() as isize) {
        return Err(Error::new(format!("{count} of lines of {len}, or lines with gaps")));
    }
    rows::for_each_beside(input, [values, indices], launch.cost(), &|_, row, [values, indices]| {
        if let Some(line) = row.as_slice::<T>() {
            body(line, values, indices, count);
        }
    })
}

/// The position of the element of the given rank.
fn at_rank<T: Key>(line: &[T], order: Order, rank: usize) -> usize {
    if line.len() <= SELECTED_AS_PAIRS {
        return if T::WIDTH <= <u64 as Pair>::KEY_BITS {
            with_memory(line.len().div_ceil(2), |memory| position_at_rank(line, order, rank, &mut as_words(memory)[..line.len()]))
        } else {
            with_memory(line.len(), |pairs| position_at_rank(line, order, rank, pairs))
        };
    }
    let (key, rank) = key_at_rank(line, order, rank);
    position_of(line, order, key, rank)
}

/// [`at_rank`] by pairs, with memory for as many pairs as the line has elements.
fn position_at_rank<T: Key, P: Pair>(line: &[T], order: Order, rank: usize, pairs: &mut [P]) -> usize {
    for (position, (pair, &value)) in pairs.iter_mut().zip(line).enumerate() {
        *pair = P::new(order.key(value), position);
    }
    pairs.select_nth_unstable(rank).1.position()
}

/// The key of the element of the given rank, and its rank among equal keys, by a radix selection from the most significant digit
/// on.
fn key_at_rank<T: Key>(line: &[T], order: Order, mut rank: usize) -> (u64, usize) {
    let (mut prefix, mut left) = (0u64, T::WIDTH);
    while left > 0 {
        let width = SELECT_DIGIT_BITS.min(left);
        left -= width;
        let counts = Mutex::new([0usize; 1 << SELECT_DIGIT_BITS]);
        parallel(line.len(), SELECT_PIECE, COST, &|begin, end| {
            let mut own = [0u32; 1 << SELECT_DIGIT_BITS];
            for &value in &line[begin..end] {
                let digits = order.key(value) >> left;
                own[digits as usize & ((1 << width) - 1)] += u32::from(width + left == T::WIDTH || digits >> width == prefix);
            }
            let mut counts = counts.lock();
            counts.iter_mut().zip(own).for_each(|(count, own)| *count += own as usize);
        });
        let counts = counts.into_inner();
        let mut digit = 0;
        while rank >= counts[digit] {
            rank -= counts[digit];
            digit += 1;
        }
        prefix = prefix << width | digit as u64;
    }
    (prefix, rank)
}

/// The position of the element of the given rank among those with `key`.
fn position_of<T: Key>(line: &[T], order: Order, key: u64, mut rank: usize) -> usize {
    let pieces = Mutex::new(vec![0usize; line.len().div_ceil(SELECT_PIECE)]);
    parallel(line.len().div_ceil(SELECT_PIECE), 1, COST * SELECT_PIECE as f64, &|begin, end| {
        for piece in begin..end {
            let part = &line[piece * SELECT_PIECE..line.len().min((piece + 1) * SELECT_PIECE)];
            let count = part.iter().filter(|&&value| order.key(value) == key).count();
            pieces.lock()[piece] = count;
        }
    });
    let counts = pieces.into_inner();
    let mut piece = 0;
    while rank >= counts[piece] {
        rank -= counts[piece];
        piece += 1;
    }
    let begin = piece * SELECT_PIECE;
    let equal = line[begin..].iter().enumerate().filter(|&(_, &value)| order.key(value) == key);
    begin + equal.map(|(at, _)| at).nth(rank).unwrap_or(0)
}

/// The first `count` pairs of a line, in order. Each piece of a long line contributes its own candidates.
fn first<T: Key, P: Pair>(line: &[T], order: Order, count: usize) -> Vec<P> {
    if count == 0 {
        return Vec::new();
    }
    let candidates = Mutex::new(Vec::new());
    let piece = SELECT_PIECE.max(16 * count);
    parallel(line.len(), piece, COST, &|begin, end| {
        let own = sieve::<T, P>(&line[begin..end], begin, order, count);
        let mut candidates = candidates.lock();
        candidates.extend_from_slice(&own);
        keep(&mut candidates, count);
    });
    let mut found = candidates.into_inner();
    found.sort_unstable();
    found
}

/// Keeps the first `count` pairs, in any order.
fn keep<P: Pair>(pairs: &mut Vec<P>, count: usize) {
    if pairs.len() > count {
        pairs.select_nth_unstable(count - 1);
        pairs.truncate(count);
    }
}

leaf! {
    /// Searches a part of a line for candidates of the first `count` pairs.
    fn sieve<T: Key, P: Pair>(line: &[T], begin: usize, order: Order, count: usize) -> Vec<P> {
        let mut pairs = Vec::<P>::new();
        let room = line.len().min(2 * count + 8 * GROUP);
        pairs.reserve(room + GROUP);
        // Once there are enough candidates, later elements count only if their keys are less than the greatest candidate's.
        let mut limit = None;
        for (number, group) in line.chunks(GROUP).enumerate() {
            if let Some(limit) = limit
                && !group.iter().fold(false, |some, &value| some | (order.key(value) < limit))
            {
                continue;
            }
            for (at, &value) in group.iter().enumerate() {
                let key = order.key(value);
                if limit.is_none_or(|limit| key < limit) {
                    pairs.push(P::new(key, begin + number * GROUP + at));
                }
            }
            if pairs.len() >= room && pairs.len() > count {
                keep(&mut pairs, count);
                limit = pairs.iter().max().map(|pair| pair.key());
            }
        }
        keep(&mut pairs, count);
        pairs
    }
}
