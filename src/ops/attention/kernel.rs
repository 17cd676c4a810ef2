//! Scaled dot product attention, `softmax(scale * query @ key^T + mask) @ value`, and its gradient, in memory that is linear in the
//! lengths.
//!
//! The algorithm is that of Dao et al., "FlashAttention" (2022), and Dao, "FlashAttention-2" (2023), on CPU caches: a loop over
//! blocks of keys and values updates the running maximum score and the running sum of each row of queries (online softmax). Sums
//! are `f32`, or `f64` for Double; 16 bit floats are widened when a block is loaded.
//!
//! Operands are [batch, heads, length, size], with any strides. A head of keys and values serves a group of heads of queries. With
//! `is_causal` query i attends to keys 0..=i. A query that attends to no key has the result 0 and a logsumexp of 0.

mod backward;
mod forward;

use std::ops::Range;

use crate::ops::matmul::kernel::Entry;
use crate::ops::matmul::kernel::register_tile::COLUMNS;
use crate::tensor::prelude::*;

pub use backward::attention_backward;
pub use forward::attention;

/// Nanoseconds of one thread for a multiply-add.
const MULTIPLY_ADD: f64 = 0.02;

/// The computing type of scores and sums.
pub trait Score: Real + Entry<Acc = Self> {}

impl Score for f32 {}
impl Score for f64 {}

/// The sizes of a call and its parameters.
#[derive(Clone, Copy, Debug)]
struct Call {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    size: usize,
    /// The length of a loaded row: `size` rounded up to a multiple of [`COLUMNS`].
    padded: usize,
    scale: f64,
    is_causal: bool,
}

impl Call {
    /// Reads the sizes from the operands, and the scalars [is_causal, whether there is a scale, scale].
    fn new(launch: &Launch<'_>, query: &View<'_>, key: &View<'_>, value: &View<'_>) -> Result<Self, Error> {
        let sizes = |view: &View<'_>| {
            let sizes =
                <[i64; 4]>::try_from(view.sizes()).map_err(|_| Error::new("an operand of attention has four dimensions"))?;
            Ok::<_, Error>(sizes.map(|size| size as usize))
        };
        let [batch, heads, queries, size] = sizes(query)?;
        let [_, kv_heads, keys, _] = sizes(key)?;
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(Error::new(format!("{heads} heads of queries for {kv_heads} of keys")));
        }
        for found in [sizes(key)?, sizes(value)?] {
            if found != [batch, kv_heads, keys, size] {
                return Err(Error::new(format!("keys or values of size {found:?}")));
            }
        }
        let attention::Scalars { is_causal, has_scale, scale } = attention::Scalars::of(launch)?;
        let (is_causal, is_given) = (is_causal.is_true(), has_scale.is_true());
        let scale = if is_given { scale.to::<f64>() } else { 1.0 / (size as f64).sqrt() };
        let padded = size.next_multiple_of(COLUMNS);
        Ok(Self { batch, heads, kv_heads, queries, keys, size, padded, scale, is_causal })
    }

    /// The head of keys and values that serves a head of queries.
    fn kv_head(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads)
    }

    /// The end of the keys to which queries below `end` attend.
    fn keys_until(&self, end: usize) -> usize {
        if self.is_causal { self.keys.min(end) } else { self.keys }
    }

    /// The first of `queries` that attends to any key of a block that begins at key `begin`.
    fn first_query(&self, queries: &Range<usize>, begin: usize) -> usize {
        if self.is_causal { queries.start.max(begin).min(queries.end) } else { queries.start }
    }

    /// How many keys of a block a query attends to.
    fn valid(&self, query: usize, keys: &Range<usize>) -> usize {
        if self.is_causal { keys.len().min((query + 1).saturating_sub(keys.start)) } else { keys.len() }
    }
}

/// Nanoseconds of one thread for an attention: two products in the forward pass, five in the backward pass.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let (products, query) = if launch.num_outputs() == 3 { (5.0, 4) } else { (2.0, 2) };
    let (numel, keys) = (launch.numel(query), launch.sizes(query + 1).get(2).copied().unwrap_or(1));
    let share = if launch.scalar_or(0, Scalar::Bool(false)).is_true() { 0.5 } else { 1.0 };
    (numel as f64 * keys as f64 * products * share * MULTIPLY_ADD) as u64
}

leaf! {
    /// Loads a row: `to = from * factor`, widened.
    fn scale<E: Element<Acc: Score>>(from: &[E], to: &mut [E::Acc], factor: E::Acc) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.load().mul(factor);
        }
    }

    /// Stores a row: `to = from * factor`, rounded.
    fn store<E: Element<Acc: Score>>(from: &[E::Acc], to: &mut [E], factor: E::Acc) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = E::store(from.mul(factor));
        }
    }
}

/// Loads rows of a head times a factor, padded with zeros to `padded` elements each.
fn load_rows<E: Element<Acc: Score>>(
    view: &View<'_>,
    [batch, head]: [usize; 2],
    rows: Range<usize>,
    to: &mut [E::Acc],
    padded: usize,
    factor: E::Acc,
) {
    for (number, to) in rows.zip(to.chunks_exact_mut(padded)) {
        let row = Row::of(view, &[batch, head, number]);
        let size = view.size(3);
        let (to, padding) = to.split_at_mut(size);
        if let Some(from) = row.as_slice::<E>() {
            scale(from, to, factor);
        } else {
            to.iter_mut().enumerate().for_each(|(at, to)| *to = row.load::<E>(at).load().mul(factor));
        }
        padding.fill(<E::Acc as Number>::ZERO);
    }
}

/// A loaded block of keys or values of one head. Keys also have their transpose (columns), which the score product reads.
struct Loaded<T: Score> {
    rows: Memory,
    columns: Memory,
    padded: usize,
    count: usize,
    _of: std::marker::PhantomData<T>,
}

impl<T: Score> Loaded<T> {
    /// Memory for blocks of up to `count` rows.
    fn new(count: usize, padded: usize) -> Self {
        let bytes = count.next_multiple_of(COLUMNS) * padded * size_of::<T>();
        Self { rows: Memory::of(bytes), columns: Memory::of(bytes), padded, count: 0, _of: std::marker::PhantomData }
    }

    /// The number of columns: the rows of the block, padded with zeros to a multiple of [`COLUMNS`].
    fn columns_count(&self) -> usize {
        self.count.next_multiple_of(COLUMNS)
    }

    fn load<E: Element<Acc = T>>(&mut self, view: &View<'_>, head: [usize; 2], rows: Range<usize>, has_columns: bool) {
        self.count = rows.len();
        let (count, padded) = (self.columns_count(), self.padded);
        let to = self.rows.numbers::<T>(count * padded);
        load_rows::<E>(view, head, rows.clone(), to, padded, T::from_i64(1));
        if has_columns {
            to[rows.len() * padded..].fill(<T as Number>::ZERO);
            strided::transpose(to, self.columns.numbers::<T>(count * padded), padded);
        }
    }

    fn rows(&mut self) -> &[T] {
        self.rows.numbers::<T>(self.count * self.padded)
    }

    fn columns(&mut self) -> &[T] {
        self.columns.numbers::<T>(self.columns_count() * self.padded)
    }
}

/// Adds the values of the optional mask, of the scores' dtype, from key `first` on to the scores of a query.
fn add_mask<T: Score>(mask: Option<&View<'_>>, [batch, head, query]: [usize; 3], first: usize, scores: &mut [T]) {
    let Some(view) = mask else { return };
    let row = Row::of(view, &[batch, head, query]);
    match row.as_slice::<T>() {
        Some(mask) => add(&mask[first..][..scores.len()], scores),
        None => scores.iter_mut().enumerate().for_each(|(at, score)| *score = score.add(row.load::<T>(first + at))),
    }
}

leaf! {
    /// `scores += mask`.
    fn add<T: Score>(mask: &[T], scores: &mut [T]) {
        for (score, &mask) in scores.iter_mut().zip(mask) {
            *score = score.add(mask);
        }
    }
}
