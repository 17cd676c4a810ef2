//! Attention and its gradient: lengths, groups of heads, masks, dtypes and layouts.

use ndarray::{ArrayD, IxDyn};

use crate::ops::check::{Case, Make, Tensor, agree, real, run, values};
use crate::simd::for_each_isa;
use crate::tensor::{DType, FLOATING, Scalar};

const FORWARD: &str = "_scaled_dot_product_flash_attention_for_cpu";
const BACKWARD: &str = "_scaled_dot_product_flash_attention_for_cpu_backward";

/// [batch, heads, heads of keys, queries, keys, size]: below and above the blocks of queries and keys, and with heads that share
/// keys.
const SHAPES: [[usize; 6]; 4] = [[1, 2, 2, 3, 5, 7], [1, 1, 1, 1, 130, 16], [1, 4, 2, 20, 20, 20], [1, 1, 1, 70, 140, 5]];

/// Two flags of a case: it is causal; it has a mask.
const OPTIONS: [[bool; 2]; 3] = [[false, false], [true, false], [false, true]];

fn scalars(is_causal: bool) -> [Scalar; 3] {
    [Scalar::Bool(is_causal), Scalar::Bool(true), Scalar::Double(0.3)]
}

fn eighths(make: &Make, sizes: &[usize], seed: usize) -> Tensor {
    make.of(make.dtype(), &values(make.dtype(), sizes, seed).mapv(|value| value / 8.0))
}

/// Operands [query, key, value, mask]. The mask hides every third key, and all keys of the second query.
fn operands(make: &Make, [batch, heads, kv_heads, queries, keys, size]: [usize; 6], has_mask: bool) -> Vec<Tensor> {
    let mask = ArrayD::from_shape_fn(IxDyn(&[batch, heads, queries, keys]), |at| {
        real(if at[3] % 3 == 2 || at[2] == 1 { f64::NEG_INFINITY } else { at[3] as f64 / 64.0 - 1.0 })
    });
    let of_keys = |seed| eighths(make, &[batch, kv_heads, keys, size], seed);
    let mut operands = vec![eighths(make, &[batch, heads, queries, size], 1), of_keys(2), of_keys(3)];
    operands.extend(has_mask.then(|| make.of(make.dtype().opmath(), &mask)));
    operands
}

#[test]
fn attention_over_blocks_of_keys() {
    for (shape, [is_causal, has_mask]) in SHAPES.into_iter().flat_map(|shape| OPTIONS.map(|options| (shape, options))) {
        let [batch, heads, _, queries, _, size] = shape;
        agree(FORWARD, FLOATING, [4.0, 4.0], |make| {
            let results = make.contiguous();
            let outputs = [
                results.output(&[batch, heads, queries, size]),
                results.output_of(make.dtype().opmath(), &[batch, heads, queries]),
            ];
            Case::new(outputs, operands(make, shape, has_mask), scalars(is_causal))
        });
    }
}

/// The result and the logsumexp are not those of the operands: the gradient is a function of them too.
fn gradient(make: &Make, shape: [usize; 6], [is_causal, has_mask]: [bool; 2]) -> Case {
    let ([batch, heads, kv_heads, queries, keys, size], stats) = (shape, make.dtype().opmath());
    let [of_queries, of_keys] = [[batch, heads, queries, size], [batch, kv_heads, keys, size]];
    let mut inputs = operands(make, shape, has_mask);
    let mask = inputs.drain(3..).collect::<Vec<_>>();
    inputs.insert(0, eighths(make, &of_queries, 4));
    let logsumexp = values(stats, &[batch, heads, queries], 6).mapv(|value| 3.0 + value / 8.0);
    inputs.extend([eighths(make, &of_queries, 5), make.of(stats, &logsumexp)]);
    inputs.extend(mask);
    Case::new([&of_queries, &of_keys, &of_keys].map(|sizes| make.contiguous().output(sizes)), inputs, scalars(is_causal))
}

#[test]
fn gradients_over_blocks_of_keys() {
    for (shape, options) in SHAPES.into_iter().flat_map(|shape| OPTIONS.map(|options| (shape, options))) {
        agree(BACKWARD, FLOATING, [16.0, 16.0], |make| gradient(make, shape, options));
    }
}

#[test]
fn a_single_key_gives_queries_and_keys_gradients_of_zero() {
    let make = Make::plain(DType::Float);
    // The bits of such sums depend on the order of their terms.
    let sevenths = |length: usize, seed| {
        let sizes = [1, 2, length, 37];
        make.of(DType::Float, &values(DType::Float, &sizes, seed).mapv(|value| value / 7.0))
    };
    let given = [sevenths(9, 1), sevenths(1, 2), sevenths(1, 3)];
    for_each_isa(|isa| {
        let results = [make.output(&[1, 2, 9, 37]), make.output(&[1, 2, 9])];
        run(FORWARD, &results.each_ref(), &given.each_ref(), &scalars(false), DType::Float).unwrap();
        let ([query, key, value], [out, logsumexp]) = (given.clone(), results);
        let grads = [9, 1, 1].map(|length| make.output(&[1, 2, length, 37]));
        let case = Case::new(grads, [sevenths(9, 4), query, key, value, out, logsumexp], scalars(false));
        let found = case.run(BACKWARD, DType::Float, None).unwrap();
        assert!(found[..2].iter().flatten().all(|&byte| byte << 1 == 0), "{isa:?}");
    });
}
