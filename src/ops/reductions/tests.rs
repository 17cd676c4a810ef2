//! Sums and moments of many terms.

use ndarray::{ArrayD, Dimension, IxDyn};

use crate::ops::check::{Case, Make, agree, any_threads, doubles, real};
use crate::tensor::{DType, FLOAT};

/// Cases that are divided between threads or into several levels of sums.
const LARGE: [(&[usize], &[usize]); 4] = [(&[70_001], &[0]), (&[3, 33_000], &[1]), (&[2000, 20], &[0]), (&[70, 600], &[0])];

/// Sums that depend on the order of their terms.
#[test]
fn neither_threads_nor_instruction_sets_change_a_bit() {
    for (sizes, dims) in LARGE {
        let sines =
            ArrayD::from_shape_fn(IxDyn(sizes), |at| real((at.slice().iter().fold(1, |hash, &at| hash * 31 + at) as f64).sin()));
        let kept: Vec<_> = sizes.iter().enumerate().map(|(dim, &size)| if dims.contains(&dim) { 1 } else { size }).collect();
        let build = |make: &Make| Case::new([make.output(&kept).expanded(sizes, dims)], [make.dense(DType::Float, &sines)], []);
        agree("sum", FLOAT, [1000.0, 0.0], build);
        any_threads("sum", &[DType::Float], build);
    }
}

#[test]
fn a_distant_mean_does_not_spoil_the_variance() {
    let distant = ArrayD::from_shape_fn(IxDyn(&[30_000]), |at| real(10_000.0 + (at[0] % 4) as f64));
    agree("std", FLOAT, [10.0, 10.0], |make| {
        Case::new([make.output(&[1]).expanded(&[30_000], &[0])], [make.of(make.dtype(), &distant)], doubles(&[0.0]))
    });
}
