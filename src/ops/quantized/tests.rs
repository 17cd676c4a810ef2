//! Products with quantised weights against sums of all products, over shapes, dtypes and instruction sets.

use ndarray::{ArrayD, IxDyn};
use num_complex::Complex64;

use crate::ops::check::{Strides, Tensor, close, longs, real, run, tolerance, values};
use crate::simd::for_each_isa;
use crate::tensor::DType;

const DTYPES: [DType; 3] = [DType::Float, DType::Half, DType::BFloat16];
/// M, N, K: fewer rows than are multiplied directly and more; whole and partial strips, tiles, blocks and lanes.
const CASES: [[usize; 3]; 9] =
    [[1, 32, 64], [2, 48, 96], [3, 16, 32], [4, 80, 160], [5, 64, 160], [13, 48, 288], [1, 144, 192], [70, 16, 64], [7, 0, 32]];

fn dense(dtype: DType, values: &ArrayD<Complex64>) -> Tensor {
    Tensor::of(dtype, values, Strides::Contiguous)
}

/// Integers of a range that depend on the seed.
fn integers(range: std::ops::Range<i64>, sizes: &[usize], seed: usize) -> ArrayD<Complex64> {
    let mut at = seed as i64;
    ArrayD::from_shape_simple_fn(IxDyn(sizes), || {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        real((range.start + (at >> 33).rem_euclid(range.end - range.start)) as f64)
    })
}

/// The sum of the products of a row of x and a column of `weight`, and the sum of their magnitudes.
fn sum(x: &ArrayD<Complex64>, [row, column]: [usize; 2], weight: impl Fn(usize, usize) -> f64) -> [f64; 2] {
    let terms = (0..x.shape()[1]).map(|term| x[[row, term]].re * weight(column, term));
    terms.fold([0.0; 2], |[sum, magnitude], term| [sum + term, magnitude + term.abs()])
}

fn check(out: &Tensor, x: &ArrayD<Complex64>, dtype: DType, what: &str, weight: impl Fn(usize, usize) -> f64) {
    for (index, found) in out.values().indexed_iter() {
        let [expected, magnitude] = sum(x, [index[0], index[1]], &weight);
        let allowed = tolerance(dtype) + magnitude * 2e-6;
        assert!(close(*found, real(expected), allowed), "{what} {dtype:?} {index:?}: {found}, not {expected}");
    }
}

#[test]
fn products_with_int8_weights_are_sums_of_their_terms() {
    for ([m, n, k], dtype) in CASES.into_iter().flat_map(|case| DTYPES.map(|dtype| (case, dtype))) {
        let (n, k) = (n + n / 48, k + k / 96);
        let (x, weights) = (values(dtype, &[m, k], 1), integers(-128..128, &[n, k], 2));
        // The sums stay below the greatest float16.
        let scales = values(dtype, &[n], 3).mapv(|scale| scale / 64.0);
        let operands = [dense(dtype, &x), dense(DType::Char, &weights), dense(dtype, &scales)];
        for_each_isa(|isa| {
            let out = Tensor::new(dtype, &[m, n], Strides::Contiguous);
            run("_weight_int8pack_mm", &[&out], &operands.each_ref(), &[], dtype).unwrap();
            check(&out, &x, dtype, &format!("{isa:?} {m} {n} {k}"), |column, term| {
                weights[[column, term]].re * scales[[column]].re
            });
        });
    }
}

#[test]
fn products_with_int4_weights_are_sums_of_their_terms() {
    for ([m, n, k], dtype) in CASES.into_iter().flat_map(|case| DTYPES.map(|dtype| (case, dtype))) {
        for group in [32, 64].into_iter().filter(|group| k % group == 0) {
            let (x, weights) = (values(dtype, &[m, k], 1), integers(0..16, &[n, k], 2));
            let parameters = values(dtype, &[k / group, n, 2], 3);
            let operands = [dense(dtype, &x), dense(DType::Int, &weights), dense(dtype, &parameters)];
            for_each_isa(|isa| {
                let packed = Tensor::new(DType::Byte, &[n, k / 2], Strides::Contiguous);
                run("_convert_weight_to_int4pack_for_cpu", &[&packed], &[&operands[1]], &[], DType::Int).unwrap();
                let out = Tensor::new(dtype, &[m, n], Strides::Contiguous);
                let inputs = [&operands[0], &packed, &operands[2]];
                run("_weight_int4pack_mm_for_cpu", &[&out], &inputs, &longs(&[group as i64]), dtype).unwrap();
                check(&out, &x, dtype, &format!("{isa:?} {m} {n} {k} {group}"), |column, term| {
                    let [scale, offset] = [0, 1].map(|at| parameters[[term / group, column, at]].re);
                    (weights[[column, term]].re - 8.0) * scale + offset
                });
            });
        }
    }
}

#[test]
fn products_of_integers_are_exact_and_wrap() {
    for ([m, n, k], dtype) in CASES.into_iter().flat_map(|case| [DType::Char, DType::Byte].map(|dtype| (case, dtype))) {
        for k in [k, 2 * k + 1] {
            let (least, n) = (if dtype == DType::Char { -128 } else { 0 }, n + n / 48);
            let (a, columns) = (integers(least..least + 256, &[m, k], 1), integers(-128..128, &[n, k], 2));
            let operands = [dense(dtype, &a), dense(DType::Char, &columns)];
            for_each_isa(|isa| {
                let out = Tensor::new(DType::Int, &[m, n], Strides::Sliced);
                run("_int_mm", &[&out], &operands.each_ref(), &[], DType::Int).unwrap();
                for (index, found) in out.values().indexed_iter() {
                    let [expected, _] = sum(&a, [index[0], index[1]], |column, term| columns[[column, term]].re);
                    assert_eq!(found.re, expected, "{isa:?} {m} {n} {k} {dtype:?} {index:?}");
                }
            });
        }
    }
}

#[test]
fn operands_of_other_sizes_are_refused() {
    let tensor = |dtype: DType, sizes: &[usize]| Tensor::new(dtype, sizes, Strides::Contiguous);
    let (out, x, scales) = (tensor(DType::Float, &[2, 32]), tensor(DType::Float, &[2, 64]), tensor(DType::Float, &[32]));
    let int8 = |weights: &Tensor| run("_weight_int8pack_mm", &[&out], &[&x, weights, &scales], &[], DType::Float);
    assert!(int8(&tensor(DType::Char, &[32, 64])).is_ok());
    assert!(int8(&tensor(DType::Char, &[32, 63])).is_err() && int8(&tensor(DType::Short, &[32, 64])).is_err());
    let int4 = |parameters: &[usize], group: i64| {
        let operands = [&x, &tensor(DType::Byte, &[32, 32]), &tensor(DType::Float, parameters)];
        run("_weight_int4pack_mm_for_cpu", &[&out], &operands, &longs(&[group]), DType::Float)
    };
    assert!(int4(&[2, 32, 2], 32).is_ok() && int4(&[1, 32, 2], 32).is_err() && int4(&[2, 32, 2], 48).is_err());
    assert!(int4(&[2, 32, 2], 0).is_err());
}
