//! The gradient of attention. The weights are recomputed from the scores and the logsumexp that the forward pass has saved.

use std::ops::Range;

use super::{Call, Loaded, Score, add_mask, load_rows, store};
use crate::ops::matmul::kernel::register_tile::{COLUMNS, Left, RowMajor, multiply};
use crate::tensor::prelude::*;
use crate::tuning::caches::{ATTENTION_BACKWARD_QUERIES, ATTENTION_KEYS};

signature! {
    /// `aten::_scaled_dot_product_flash_attention_for_cpu_backward` without dropout. Operands [grad of query, grad of key, grad of
    /// value, grad of out, query, key, value, out, logsumexp, mask?], sized as those of [`attention`](super::attention); scalars as
    /// there.
    attention_backward(grad_query, grad_key, grad_value; grad_out, query, key, value, out, logsumexp, mask?)[is_causal, has_scale, scale] in FLOATING =>
        |launch, E| run::<E>(launch);
}

struct Inputs<'a> {
    grad_out: View<'a>,
    query: View<'a>,
    key: View<'a>,
    value: View<'a>,
    out: View<'a>,
    logsumexp: View<'a>,
    mask: Option<View<'a>>,
}

fn run<E: Element<Acc: Score>>(launch: &Launch<'_>) -> Result<(), Error> {
    let attention_backward::Operands { grad_query, grad_key, grad_value, grad_out, query, key, value, out, logsumexp, mask } =
        attention_backward::Operands::of(launch)?;
    let call = Call::new(launch, &query, &key, &value)?;
    let inputs = Inputs { grad_out, query, key, value, out, logsumexp, mask };
    // Heads that share keys are computed by one thread.
    let dim = usize::from(call.heads == call.kv_heads && call.heads > call.batch);
    let count = [call.batch, call.heads][dim];
    let cost = super::cost(launch) as f64 / count.max(1) as f64;
    let failure = Failure::default();
    let outputs = [grad_query, grad_key, grad_value].map(|output| (output, dim));
    Output::in_parts(outputs, 1, cost, &|begin, end, mut outputs| {
        let mut ranges = [0..call.batch, 0..call.kv_heads];
        ranges[dim] = begin..end;
        let mut part = Part::<E>::new(&inputs, call);
        for (batch, head) in ranges[0].clone().flat_map(|batch| ranges[1].clone().map(move |head| (batch, head))) {
            let first = [ranges[0].start, ranges[1].start];
            failure.note(part.head([batch, head], first, &mut outputs));
        }
    });
    failure.result()
}

/// The scratch memory of one head of keys and values.
struct Part<'a, E: Element<Acc: Score>> {
    inputs: &'a Inputs<'a>,
    call: Call,
    keys: Loaded<E::Acc>,
    values: Loaded<E::Acc>,
    /// For all queries of a head: scaled queries, gradients of the results, gradients of the queries.
    of_queries: [Memory; 3],
    /// For each query: its logsumexp and delta = dot(gradient of out, out); see [`Part::load_queries`].
    of_sums: [Memory; 2],
    /// The gradients of all keys and values of a head.
    of_keys: [Memory; 2],
    /// For a block of queries and a block of keys: weights, and gradients of scores.
    of_blocks: [Memory; 2],
}

impl<'a, E: Element<Acc: Score>> Part<'a, E> {
    fn new(inputs: &'a Inputs<'a>, call: Call) -> Self {
        let memory = |count: usize| Memory::of(count * size_of::<E::Acc>());
        let (keys, queries) = (call.keys.min(ATTENTION_KEYS), call.queries.min(ATTENTION_BACKWARD_QUERIES));
        Self {
            inputs,
            call,
            keys: Loaded::new(keys, call.padded),
            values: Loaded::new(keys, call.padded),
            of_queries: [(); 3].map(|()| memory(call.queries * call.padded)),
            of_sums: [(); 2].map(|()| memory(call.queries)),
            of_keys: [(); 2].map(|()| memory(call.keys * call.padded)),
            of_blocks: [(); 2].map(|()| memory(queries * keys.next_multiple_of(COLUMNS))),
        }
    }

    /// Computes the gradients of a head of keys and values, and of the queries that it serves. `first`: the batch and head at which
    /// the outputs begin.
    fn head(&mut self, [batch, kv_head]: [usize; 2], first: [usize; 2], outputs: &mut [Output<'_>; 3]) -> Result<(), Error> {
        let Call { padded, size, keys, queries, .. } = self.call;
        for memory in &mut self.of_keys {
            memory.numbers::<E::Acc>(keys * padded).fill(<E::Acc as Number>::ZERO);
        }
        let group = self.call.heads / self.call.kv_heads;
        let [grad_query, grad_key, grad_value] = outputs;
        for head in kv_head * group..(kv_head + 1) * group {
            self.load_queries([batch, head]);
            for begin in (0..keys).step_by(ATTENTION_KEYS) {
                self.block_of_keys([batch, head, kv_head], begin..keys.min(begin + ATTENTION_KEYS));
            }
            let scale = <E::Acc as Number>::from_f64(self.call.scale);
            let from = self.of_queries[2].numbers::<E::Acc>(queries * padded);
            let to = [batch - first[0], head - first[1] * group];
            store_rows::<E>(grad_query, to, from, [padded, size], scale)?;
        }
        let to = [batch - first[0], kv_head - first[1]];
        let one = <E::Acc as Number>::from_i64(1);
        for (output, from) in [grad_key, grad_value].into_iter().zip(&mut self.of_keys) {
            store_rows::<E>(output, to, from.numbers::<E::Acc>(keys * padded), [padded, size], one)?;
        }
        Ok(())
    }

    /// Loads the scaled queries and the gradients of the results, computes the dot product of each result with its gradient, and
    /// zeroes the gradients of the queries.
    fn load_queries(&mut self, head: [usize; 2]) {
        let Self { inputs, call, of_queries, of_sums, .. } = self;
        let (all, padded) = (0..call.queries, call.padded);
        let [scaled, grads, grad_query] = of_queries.each_mut().map(|memory| memory.numbers::<E::Acc>(call.queries * padded));
        let [logsumexp, deltas] = of_sums.each_mut().map(|memory| memory.numbers::<E::Acc>(call.queries));
        load_rows::<E>(&inputs.query, head, all.clone(), scaled, padded, Number::from_f64(call.scale));
        load_rows::<E>(&inputs.grad_out, head, all.clone(), grads, padded, Number::from_i64(1));
        // The results are loaded into the memory of the queries' gradients, which is zeroed afterwards.
        load_rows::<E>(&inputs.out, head, all, grad_query, padded, Number::from_i64(1));
        dots(grads, grad_query, padded, deltas);
        grad_query.fill(<E::Acc as Number>::ZERO);
        let sums = Row::of(&inputs.logsumexp, &head);
        for (query, logsumexp) in logsumexp.iter_mut().enumerate() {
            *logsumexp = sums.load::<E::Acc>(query);
        }
    }

    /// Adds the contribution of a block of keys to all gradients.
    fn block_of_keys(&mut self, [batch, head, kv_head]: [usize; 3], keys: Range<usize>) {
        self.keys.load::<E>(&self.inputs.key, [batch, kv_head], keys.clone(), true);
        self.values.load::<E>(&self.inputs.value, [batch, kv_head], keys.clone(), true);
        for begin in (0..self.call.queries).step_by(ATTENTION_BACKWARD_QUERIES) {
            let block = begin..self.call.queries.min(begin + ATTENTION_BACKWARD_QUERIES);
            let queries = self.call.first_query(&block, keys.start)..block.end;
            if !queries.is_empty() {
                self.weights([batch, head], queries.clone(), keys.clone());
                self.add(queries, keys.clone());
            }
        }
    }

    /// Computes the weights of a block of queries and a block of keys, and the gradients of their scores.
    fn weights(&mut self, [batch, head]: [usize; 2], queries: Range<usize>, keys: Range<usize>) {
        let Self { inputs, call, keys: key, values: value, of_queries, of_sums, of_blocks, .. } = self;
        let (rows, padded, wide) = (queries.len(), call.padded, key.columns_count());
        let [scaled, grads, _] = of_queries.each_mut().map(|memory| memory.numbers::<E::Acc>(call.queries * padded));
        let [logsumexp, deltas] = of_sums.each_mut().map(|memory| memory.numbers::<E::Acc>(call.queries));
        let [weights, grad_scores] = of_blocks.each_mut().map(|memory| memory.numbers::<E::Acc>(rows * wide));
        let sizes = [rows, wide, call.size];
        let left = |data| Left { data, rows: padded, cols: 1 };
        let (scaled, grads) = (&scaled[queries.start * padded..], &grads[queries.start * padded..]);
        multiply(
            sizes,
            RowMajor { data: &mut *weights, rows: wide },
            left(scaled),
            RowMajor { data: key.columns(), rows: wide },
            false,
        );
        multiply(
            sizes,
            RowMajor { data: &mut *grad_scores, rows: wide },
            left(grads),
            RowMajor { data: value.columns(), rows: wide },
            false,
        );
        for (row, query) in queries.enumerate() {
            let valid = call.valid(query, &keys);
            let [weights, grad_scores] = [&mut *weights, &mut *grad_scores].map(|all| {
                let (valid, rest) = all[row * wide..][..keys.len()].split_at_mut(valid);
                rest.fill(<E::Acc as Number>::ZERO);
                valid
            });
            add_mask(inputs.mask.as_ref(), [batch, head, query], keys.start, weights);
            weigh(weights, grad_scores, logsumexp[query], deltas[query]);
        }
    }

    /// Adds the contribution of the weights and of the gradients of scores to the gradients of queries, keys and values.
    fn add(&mut self, queries: Range<usize>, keys: Range<usize>) {
        let Self { call, keys: key, of_queries, of_keys, of_blocks, .. } = self;
        let (rows, padded, wide) = (queries.len(), call.padded, key.columns_count());
        let [scaled, grads, grad_query] = of_queries.each_mut().map(|memory| memory.numbers::<E::Acc>(call.queries * padded));
        let [grad_key, grad_value] = of_keys.each_mut().map(|memory| memory.numbers::<E::Acc>(call.keys * padded));
        let [weights, grad_scores] = of_blocks.each_mut().map(|memory| &*memory.numbers::<E::Acc>(rows * wide));
        let (at_query, at_key) = (queries.start * padded, keys.start * padded);
        let transposed = |data| Left { data, rows: 1, cols: wide };
        let of_keys = [keys.len(), padded, rows];
        let to_value = RowMajor { data: &mut grad_value[at_key..], rows: padded };
        multiply(of_keys, to_value, transposed(weights), RowMajor { data: &grads[at_query..], rows: padded }, true);
        let to_key = RowMajor { data: &mut grad_key[at_key..], rows: padded };
        multiply(of_keys, to_key, transposed(grad_scores), RowMajor { data: &scaled[at_query..], rows: padded }, true);
        let to_query = RowMajor { data: &mut grad_query[at_query..], rows: padded };
        let left = Left { data: grad_scores, rows: wide, cols: 1 };
        multiply([rows, padded, keys.len()], to_query, left, RowMajor { data: key.rows(), rows: padded }, true);
    }
}

/// Stores the rows of a head, times a factor.
fn store_rows<E: Element<Acc: Score>>(
    output: &mut Output<'_>,
    [batch, head]: [usize; 2],
    from: &[E::Acc],
    [padded, size]: [usize; 2],
    factor: E::Acc,
) -> Result<(), Error> {
    for (number, from) in from.chunks_exact(padded).enumerate() {
        let mut to = output.row_mut(&[batch, head, number]);
        let to = to.as_slice_mut::<E>().ok_or_else(|| Error::new("a result of attention has gaps"))?;
        store(&from[..size], to, factor);
    }
    Ok(())
}

leaf! {
    /// The dot product of each pair of rows, summed in the order of [`multiply`]: for a query that attends to a single key, the
    /// difference of gradient and delta is then exactly 0.
    fn dots<T: Score>(left: &[T], right: &[T], padded: usize, sums: &mut [T]) {
        /// Rows that are summed together, for instruction-level parallelism.
        const ROWS: usize = 8;
        let rows = ROWS * padded;
        let operands = left.chunks(rows).zip(right.chunks(rows));
        for ((left, right), sums) in operands.zip(sums.chunks_mut(ROWS)) {
            sums.fill(<T as Number>::ZERO);
            for index in 0..padded {
                for (row, sum) in sums.iter_mut().enumerate() {
                    let at = row * padded + index;
                    *sum = T::fuse(right[at], left[at], *sum);
                }
            }
        }
    }

    /// Replaces scores by weights, and the gradients of weights by those of scores.
    fn weigh<T: Score>(weights: &mut [T], grad_scores: &mut [T], logsumexp: T, delta: T) {
        for (weight, grad) in weights.iter_mut().zip(grad_scores) {
            *weight = weight.sub(logsumexp).exp();
            *grad = weight.mul(grad.sub(delta));
        }
    }
}
