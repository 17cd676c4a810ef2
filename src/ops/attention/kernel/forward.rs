//! Attention forward: each block of queries goes over all of its keys.

use std::ops::Range;

use super::{Call, Loaded, Score, add_mask, load_rows, store};
use crate::ops::matmul::kernel::register_tile::{COLUMNS, Left, RowMajor, multiply};
use crate::tensor::prelude::*;
use crate::tuning::caches::{ATTENTION_KEYS, ATTENTION_QUERIES};

signature! {
    /// `aten::_scaled_dot_product_flash_attention_for_cpu` without dropout. Operands [out, logsumexp, query, key, value, mask?]:
    /// out [batch, heads, queries, size], logsumexp [batch, heads, queries] and mask [batch, heads, queries, keys] of the computing
    /// dtype, query as out, key and value [batch, heads of keys, keys, size]; scalars [is_causal, whether there is a scale, scale].
    attention(out, logsumexp; query, key, value, mask?)[is_causal, has_scale, scale] in FLOATING => |launch, E| run::<E>(launch);
}

/// Lanes of partial maxima and sums of a row.
const LANES: usize = COLUMNS;

struct Inputs<'a> {
    query: View<'a>,
    key: View<'a>,
    value: View<'a>,
    mask: Option<View<'a>>,
}

fn run<E: Element<Acc: Score>>(launch: &Launch<'_>) -> Result<(), Error> {
    let attention::Operands { out, logsumexp, query, key, value, mask } = attention::Operands::of(launch)?;
    let call = Call::new(launch, &query, &key, &value)?;
    let inputs = Inputs { query, key, value, mask };
    // Divided along the dimension with the most pieces, which the shape alone decides, so that results do not depend on the
    // threads.
    let pieces = [call.batch, call.heads, call.queries.div_ceil(ATTENTION_QUERIES)];
    let dim = (0..3).rev().max_by_key(|&dim| pieces[dim]).unwrap_or(0);
    let grain = if dim == 2 { ATTENTION_QUERIES } else { 1 };
    let count = [call.batch, call.heads, call.queries][dim];
    let cost = super::cost(launch) as f64 / count.max(1) as f64;
    let failure = Failure::default();
    Output::in_parts([(out, dim), (logsumexp, dim)], grain, cost, &|begin, end, outputs| {
        let mut ranges = [0..call.batch, 0..call.heads, 0..call.queries];
        ranges[dim] = begin..end;
        failure.note(Part::<E>::new(&inputs, call, outputs, &ranges).run(&ranges));
    });
    failure.result()
}

/// A part of the results, and its scratch memory.
struct Part<'a, E: Element<Acc: Score>> {
    inputs: &'a Inputs<'a>,
    call: Call,
    outputs: [Output<'a>; 2],
    /// The batch, head and query at which the outputs begin.
    first: [usize; 3],
    keys: Loaded<E::Acc>,
    values: Loaded<E::Acc>,
    /// Scaled queries, scores, sums of weighted values; and for each query the maximum score and the sum of the weights.
    memory: [Memory; 5],
}

impl<'a, E: Element<Acc: Score>> Part<'a, E> {
    fn new(inputs: &'a Inputs<'a>, call: Call, outputs: [Output<'a>; 2], ranges: &[Range<usize>; 3]) -> Self {
        let (rows, padded) = (call.queries.min(ATTENTION_QUERIES), call.padded);
        let keys = call.keys.min(ATTENTION_KEYS);
        let sizes = [rows * padded, rows * keys.next_multiple_of(COLUMNS), rows * padded, rows, rows];
        Self {
            inputs,
            call,
            outputs,
            first: ranges.each_ref().map(|range| range.start),
            keys: Loaded::new(keys, padded),
            values: Loaded::new(keys, padded),
            memory: sizes.map(|size| Memory::of(size * size_of::<E::Acc>())),
        }
    }

    fn run(&mut self, [batches, heads, queries]: &[Range<usize>; 3]) -> Result<(), Error> {
        for batch in batches.clone() {
            for head in heads.clone() {
                for begin in queries.clone().step_by(ATTENTION_QUERIES) {
                    self.block([batch, head], begin..queries.end.min(begin + ATTENTION_QUERIES))?;
                }
            }
        }
        Ok(())
    }

    /// Computes a block of queries of one head.
    fn block(&mut self, [batch, head]: [usize; 2], queries: Range<usize>) -> Result<(), Error> {
        let Self { inputs, call, keys: key, values: value, memory, .. } = self;
        let (rows, padded) = (queries.len(), call.padded);
        let [scaled, scores, out, maxima, sums] = memory.each_mut();
        let (scaled, out) = (scaled.numbers::<E::Acc>(rows * padded), out.numbers::<E::Acc>(rows * padded));
        let (maxima, sums) = (maxima.numbers::<E::Acc>(rows), sums.numbers::<E::Acc>(rows));
        let scale = <E::Acc as Number>::from_f64(call.scale);
        load_rows::<E>(&inputs.query, [batch, head], queries.clone(), scaled, padded, scale);
        out.fill(<E::Acc as Number>::ZERO);
        sums.fill(<E::Acc as Number>::ZERO);
        maxima.fill(<E::Acc as Number>::from_f64(f64::NEG_INFINITY));
        let kv_head = [batch, call.kv_head(head)];
        let until = call.keys_until(queries.end);
        for begin in (0..until).step_by(ATTENTION_KEYS) {
            let keys = begin..until.min(begin + ATTENTION_KEYS);
            key.load::<E>(&inputs.key, kv_head, keys.clone(), true);
            value.load::<E>(&inputs.value, kv_head, keys.clone(), false);
            let wide = key.columns_count();
            let scores = scores.numbers::<E::Acc>(rows * wide);
            let first = call.first_query(&queries, begin) - queries.start;
            let of_rows = |data, distance| Left { data, rows: distance, cols: 1 };
            let to_scores = RowMajor { data: &mut scores[first * wide..], rows: wide };
            let columns = RowMajor { data: key.columns(), rows: wide };
            multiply([rows - first, wide, call.size], to_scores, of_rows(&scaled[first * padded..], padded), columns, false);
            for row in first..rows {
                let query = queries.start + row;
                let scores = &mut scores[row * wide..][..wide];
                let (valid, rest) = scores.split_at_mut(call.valid(query, &keys));
                add_mask(inputs.mask.as_ref(), [batch, head, query], begin, valid);
                rest.fill(<E::Acc as Number>::from_f64(f64::NEG_INFINITY));
                weigh(scores, &mut out[row * padded..][..padded], &mut maxima[row], &mut sums[row]);
            }
            let to_out = RowMajor { data: &mut out[first * padded..], rows: padded };
            let values = RowMajor { data: value.rows(), rows: padded };
            multiply([rows - first, padded, keys.len()], to_out, of_rows(&scores[first * wide..], wide), values, true);
        }
        self.store([batch, head], queries)
    }

    /// Divides the sums of a block of queries by the sums of weights, and writes them and the logsumexp.
    fn store(&mut self, [batch, head]: [usize; 2], queries: Range<usize>) -> Result<(), Error> {
        let Self { call, outputs: [output, logsumexp], first, memory, .. } = self;
        let (rows, padded) = (queries.len(), call.padded);
        let [_, _, out, maxima, sums] = memory.each_mut();
        let (out, maxima) = (out.numbers::<E::Acc>(rows * padded), maxima.numbers::<E::Acc>(rows));
        let sums = sums.numbers::<E::Acc>(rows);
        let head = [batch - first[0], head - first[1]];
        let begin = queries.start - first[2];
        for (row, &sum) in sums.iter().enumerate() {
            let mut to = output.row_mut(&[head[0], head[1], begin + row]);
            let to = to.as_slice_mut::<E>().ok_or_else(|| Error::new("a result of attention has gaps"))?;
            // A query without keys has the sum 0 and the result 0.
            let one = <E::Acc as Number>::from_i64(1);
            let factor = if sum == <E::Acc as Number>::ZERO { one } else { one.div(sum) };
            store(&out[row * padded..][..call.size], to, factor);
        }
        log_sum_exp(maxima, sums);
        let mut to = logsumexp.row_mut(&head);
        for (row, &value) in sums.iter().enumerate() {
            to.store(begin + row, value);
        }
        Ok(())
    }
}

leaf! {
    /// Replaces each sum of weights by the logsumexp of the scores: maximum + log(sum), and 0 where there is no key.
    fn log_sum_exp<T: Score>(maxima: &[T], sums: &mut [T]) {
        for (sum, &maximum) in sums.iter_mut().zip(maxima) {
            let value = maximum.add(sum.log());
            *sum = if *sum == <T as Number>::ZERO { <T as Number>::ZERO } else { value };
        }
    }

    /// Online softmax step: score => exp(score - running maximum). Sum and output are rescaled when the maximum grows. The length
    /// of `scores` is a multiple of [`LANES`], and scores without a key are -infinity.
    fn weigh<T: Score>(scores: &mut [T], out: &mut [T], maximum: &mut T, sum: &mut T) {
        let before = *maximum;
        // NaN is never taken as the maximum; its weight is NaN, and so is the sum.
        let greater = |one: T, other: T| if one > other { one } else { other };
        let mut lanes = [before; LANES];
        let chunks = scores.as_chunks_mut::<LANES>().0;
        for chunk in &*chunks {
            for lane in 0..LANES {
                lanes[lane] = greater(chunk[lane], lanes[lane]);
            }
        }
        let new = across(lanes, greater);
        // While the maximum is -infinity (no key so far), the shift is 0 and all weights are 0.
        let least = T::from_f64(f64::NEG_INFINITY);
        let shift = if new == least { <T as Number>::ZERO } else { new };
        let mut lanes = [<T as Number>::ZERO; LANES];
        for chunk in chunks {
            for lane in 0..LANES {
                chunk[lane] = chunk[lane].sub(shift).exp_nonpositive();
                lanes[lane] = lanes[lane].add(chunk[lane]);
            }
        }
        let added = across(lanes, Number::add);
        let factor = before.sub(shift).exp_nonpositive();
        *sum = sum.mul(factor).add(added);
        *maximum = new;
        if before != new {
            for out in out {
                *out = out.mul(factor);
            }
        }
    }
}
