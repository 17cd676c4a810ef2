//! Attention and its gradient over a single key.

use crate::ops::check::{Case, Make, run, values};
use crate::simd::for_each_isa;
use crate::tensor::{DType, Scalar};

const FORWARD: &str = "_scaled_dot_product_flash_attention_for_cpu";
const BACKWARD: &str = "_scaled_dot_product_flash_attention_for_cpu_backward";

#[test]
fn a_single_key_gives_queries_and_keys_gradients_of_zero() {
    let make = Make::plain(DType::Float);
    let scalars = [Scalar::Bool(false), Scalar::Bool(true), Scalar::Double(0.3)];
    // The bits of such sums depend on the order of their terms.
    let sevenths = |length: usize, seed| {
        let sizes = [1, 2, length, 37];
        make.of(DType::Float, &values(DType::Float, &sizes, seed).mapv(|value| value / 7.0))
    };
    let given = [sevenths(9, 1), sevenths(1, 2), sevenths(1, 3)];
    for_each_isa(|isa| {
        let results = [make.output(&[1, 2, 9, 37]), make.output(&[1, 2, 9])];
        run(FORWARD, &results.each_ref(), &given.each_ref(), &scalars, DType::Float).unwrap();
        let ([query, key, value], [out, logsumexp]) = (given.clone(), results);
        let grads = [9, 1, 1].map(|length| make.output(&[1, 2, length, 37]));
        let case = Case::new(grads, [sevenths(9, 4), query, key, value, out, logsumexp], scalars);
        let found = case.run(BACKWARD, DType::Float).unwrap();
        assert!(found[..2].iter().flatten().all(|&byte| byte << 1 == 0), "{isa:?}");
    });
}
