//! Sums of long lines.

use ndarray::{ArrayD, Dimension, IxDyn};

use crate::ops::check::{Case, Make, any_threads, longs, real};
use crate::tensor::DType;

#[test]
fn long_lines_have_the_same_bits_for_any_thread_count() {
    for sizes in [&[200_000][..], &[70_000, 2], &[1, 50_000, 3], &[40_000, 2, 2]] {
        let dim = sizes.iter().position(|&size| size > 1).expect("a long dimension");
        let sines = ArrayD::from_shape_fn(IxDyn(sizes), |at| real((at.slice().iter().sum::<usize>() as f64).sin()));
        let build = |make: &Make| Case::new([make.output(sizes)], [make.dense(DType::Float, &sines)], longs(&[dim as i64]));
        any_threads("cumsum", &[DType::Float], build);
    }
}
