//! Attention and its gradient, compared with the plain formulas in `f64`.

use ndarray::{ArrayD, Axis, IxDyn};

use crate::kernels::check::{self, Strides, Tensor};
use crate::simd::for_each_isa;
use crate::tensor::dtype::{DType, FLOATING};
use crate::tensor::launch::Scalar;

const FORWARD: &str = "_scaled_dot_product_flash_attention_for_cpu";
const BACKWARD: &str = "_scaled_dot_product_flash_attention_for_cpu_backward";

/// [batch, heads, heads of keys, queries, keys, size]: below and above the blocks of queries and keys, and with heads that share
/// keys.
const SHAPES: [[usize; 6]; 5] =
    [[1, 2, 2, 3, 5, 7], [2, 1, 1, 1, 130, 16], [1, 4, 2, 40, 40, 20], [1, 1, 1, 260, 140, 5], [3, 2, 1, 9, 17, 33]];
const SCALE: f64 = 0.3;

struct Case {
    shape: [usize; 6],
    is_causal: bool,
    has_mask: bool,
}

fn cases() -> impl Iterator<Item = Case> {
    let options = [(false, false), (true, false), (false, true)];
    SHAPES.into_iter().flat_map(move |shape| options.map(|(is_causal, has_mask)| Case { shape, is_causal, has_mask }))
}

fn given(dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
    let values = check::values(dtype, sizes, seed).mapv(|value| check::round_trip(dtype, value / 8.0));
    Tensor::of(dtype, &values, Strides::Contiguous)
}

fn empty(dtype: DType, sizes: &[usize]) -> Tensor {
    Tensor::new(dtype, sizes, Strides::Contiguous)
}

fn real(tensor: &Tensor) -> ArrayD<f64> {
    tensor.values().mapv(|value| value.re)
}

/// A mask that hides every third key, and all keys of the second query.
fn mask_of(dtype: DType, [batch, heads, _, queries, keys, _]: [usize; 6]) -> Tensor {
    let values = ArrayD::from_shape_fn(IxDyn(&[batch, heads, queries, keys]), |at| {
        let is_hidden = at[3] % 3 == 2 || at[2] == 1;
        check::real(if is_hidden { f64::NEG_INFINITY } else { at[3] as f64 / 64.0 - 1.0 })
    });
    Tensor::of(dtype.opmath(), &values, Strides::Contiguous)
}

fn scalars(case: &Case) -> [Scalar; 3] {
    [Scalar::Bool(case.is_causal), Scalar::Bool(true), Scalar::Double(SCALE)]
}

/// The weights [batch, heads, queries, keys] and logsumexp [batch, heads, queries].
fn weights(case: &Case, query: &ArrayD<f64>, key: &ArrayD<f64>, mask: &ArrayD<f64>) -> (ArrayD<f64>, ArrayD<f64>) {
    let [batch, heads, kv_heads, queries, keys, size] = case.shape;
    let mut logsumexp = ArrayD::zeros(IxDyn(&[batch, heads, queries]));
    let mut weights = ArrayD::zeros(IxDyn(&[batch, heads, queries, keys]));
    for (at, sum_of) in logsumexp.indexed_iter_mut() {
        let (b, h, q) = (at[0], at[1], at[2]);
        let score = |k: usize| {
            let dot: f64 = (0..size).map(|e| query[[b, h, q, e]] * key[[b, h / (heads / kv_heads), k, e]]).sum();
            let hidden = case.is_causal && k > q;
            if hidden { f64::NEG_INFINITY } else { SCALE * dot + if case.has_mask { mask[[b, h, q, k]] } else { 0.0 } }
        };
        let sum: f64 = (0..keys).map(|k| score(k).exp()).sum();
        *sum_of = if sum == 0.0 { 0.0 } else { sum.ln() };
        for k in 0..keys {
            weights[[b, h, q, k]] = (score(k) - *sum_of).exp();
        }
    }
    (weights, logsumexp)
}

fn assert_near(found: &Tensor, expected: &ArrayD<f64>, tolerance: f64, what: &str) {
    for (found, expected) in real(found).iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "{what}: {found} != {expected}");
    }
}

/// Operands [query, key, value, mask] of a case.
fn operands(dtype: DType, shape: [usize; 6]) -> [Tensor; 4] {
    let [batch, heads, kv_heads, queries, keys, size] = shape;
    let of_keys = |seed| given(dtype, &[batch, kv_heads, keys, size], seed);
    [given(dtype, &[batch, heads, queries, size], 1), of_keys(2), of_keys(3), mask_of(dtype, shape)]
}

#[test]
fn attention_is_its_formula() {
    for (dtype, case) in FLOATING.iter().flat_map(|dtype| cases().map(move |case| (dtype, case))) {
        let [batch, heads, kv_heads, queries, keys, size] = case.shape;
        let [query, key, value, mask] = operands(dtype, case.shape);
        let (weights, logsumexp) = weights(&case, &real(&query), &real(&key), &real(&mask));
        let values = real(&value);
        let expected = ArrayD::from_shape_fn(IxDyn(&[batch, heads, queries, size]), |at| {
            (0..keys)
                .map(|k| weights[[at[0], at[1], at[2], k]] * values[[at[0], at[1] / (heads / kv_heads), k, at[3]]])
                .sum::<f64>()
        });
        for_each_isa(|isa| {
            let results = [empty(dtype, &[batch, heads, queries, size]), empty(dtype.opmath(), &[batch, heads, queries])];
            let inputs = [&query, &key, &value, &mask];
            check::run(FORWARD, &results.each_ref(), &inputs[..3 + usize::from(case.has_mask)], &scalars(&case), dtype).unwrap();
            let what = format!("{dtype:?} {isa:?} {:?} {} {}", case.shape, case.is_causal, case.has_mask);
            assert_near(&results[0], &expected, 4.0 * check::tolerance(dtype), &what);
            assert_near(&results[1], &logsumexp, 4.0 * check::tolerance(dtype.opmath()), &what);
        });
    }
}

#[test]
fn gradients_are_their_formulas() {
    for (dtype, case) in
        [DType::Float, DType::Double, DType::BFloat16].into_iter().flat_map(|dtype| cases().map(move |case| (dtype, case)))
    {
        let [batch, heads, kv_heads, queries, keys, size] = case.shape;
        let group = heads / kv_heads;
        let [query, key, value, mask] = operands(dtype, case.shape);
        let grad = given(dtype, &[batch, heads, queries, size], 4);
        let [q, k, v, g] = [&query, &key, &value, &grad].map(real);
        let (weights, _) = weights(&case, &q, &k, &real(&mask));
        let inputs = [&query, &key, &value, &mask];
        let out = [empty(dtype, &[batch, heads, queries, size]), empty(dtype.opmath(), &[batch, heads, queries])];
        let count = 3 + usize::from(case.has_mask);
        check::run(FORWARD, &out.each_ref(), &inputs[..count], &scalars(&case), dtype).unwrap();
        // The gradients of the weights, then those of the scores.
        let of_weights = ArrayD::from_shape_fn(weights.raw_dim(), |at| {
            (0..size).map(|e| g[[at[0], at[1], at[2], e]] * v[[at[0], at[1] / group, at[3], e]]).sum::<f64>()
        });
        let means = (&weights * &of_weights).sum_axis(Axis(3)).insert_axis(Axis(3));
        let of_scores = &weights * &(&of_weights - &means);
        let of_query = ArrayD::from_shape_fn(IxDyn(&[batch, heads, queries, size]), |at| {
            SCALE * (0..keys).map(|n| of_scores[[at[0], at[1], at[2], n]] * k[[at[0], at[1] / group, n, at[3]]]).sum::<f64>()
        });
        let sum_of_group = |at: &IxDyn, term: &dyn Fn(usize, usize) -> f64| {
            let heads = at[1] * group..(at[1] + 1) * group;
            heads.flat_map(|head| (0..queries).map(move |query| (head, query))).map(|(head, query)| term(head, query)).sum::<f64>()
        };
        let of_key = ArrayD::from_shape_fn(IxDyn(&[batch, kv_heads, keys, size]), |at| {
            SCALE * sum_of_group(&at, &|h, n| of_scores[[at[0], h, n, at[2]]] * q[[at[0], h, n, at[3]]])
        });
        let of_value = ArrayD::from_shape_fn(IxDyn(&[batch, kv_heads, keys, size]), |at| {
            sum_of_group(&at, &|h, n| weights[[at[0], h, n, at[2]]] * g[[at[0], h, n, at[3]]])
        });
        for_each_isa(|isa| {
            let like = |tensor: &ArrayD<f64>| empty(dtype, tensor.shape());
            let results = [like(&of_query), like(&of_key), like(&of_value)];
            let inputs = [&grad, &query, &key, &value, &out[0], &out[1], &mask];
            check::run(BACKWARD, &results.each_ref(), &inputs[..count + 3], &scalars(&case), dtype).unwrap();
            for (number, (found, expected)) in results.iter().zip([&of_query, &of_key, &of_value]).enumerate() {
                let what = format!("{number} {dtype:?} {isa:?} {:?} {} {}", case.shape, case.is_causal, case.has_mask);
                assert_near(found, expected, 16.0 * check::tolerance(dtype), &what);
            }
        });
    }
}

#[test]
fn a_single_key_gives_queries_and_keys_gradients_of_zero() {
    const SIZE: usize = 37;
    // The bits of such sums depend on the order of their terms.
    let given = |length: usize, seed: usize| {
        let values = check::values(DType::Float, &[1, 2, length, SIZE], seed);
        Tensor::of(DType::Float, &values.mapv(|value| value / 7.0), Strides::Contiguous)
    };
    let (query, key, value, grad) = (given(9, 1), given(1, 2), given(1, 3), given(9, 4));
    let case = Case { shape: [1, 2, 2, 9, 1, SIZE], is_causal: false, has_mask: false };
    for_each_isa(|isa| {
        let out = [empty(DType::Float, &[1, 2, 9, SIZE]), empty(DType::Float, &[1, 2, 9])];
        check::run(FORWARD, &out.each_ref(), &[&query, &key, &value], &scalars(&case), DType::Float).unwrap();
        let results = [9, 1, 1].map(|length| empty(DType::Float, &[1, 2, length, SIZE]));
        let inputs = [&grad, &query, &key, &value, &out[0], &out[1]];
        check::run(BACKWARD, &results.each_ref(), &inputs, &scalars(&case), DType::Float).unwrap();
        for gradient in &results[..2] {
            assert!(real(gradient).iter().all(|&value| value == 0.0), "{isa:?}: {}", real(gradient));
        }
    });
}
