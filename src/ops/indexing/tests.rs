//! Scatters of sums and products: rounding, layouts and numbers of threads. The Python tests hold the other kernels.

use ndarray::{ArrayD, IxDyn};

use crate::ops::check::{Case, Make, Tensor, agree, any_threads, real, values};
use crate::tensor::{DType, HALVES, Scalar};

const ADD: i64 = 1;
const MULTIPLY: i64 = 2;

/// Indices below `slots`, spread over them.
fn indices(sizes: &[usize], slots: usize) -> ArrayD<f64> {
    let mut state = 12345u64;
    ArrayD::from_shape_simple_fn(IxDyn(sizes), || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as i64 % slots as i64) as f64
    })
}

/// An index of Longs over `sizes`, one for each element or, if `by_line`, one for each position along the dimension.
fn index(make: &Make, found: &ArrayD<f64>, dim: usize, sizes: &[usize], by_line: bool) -> Tensor {
    let index = make.of(DType::Long, &found.mapv(real));
    if by_line {
        let step = index.view().stride(0) as i64;
        let strides: Vec<i64> = (0..sizes.len()).map(|at| if at == dim { step } else { 0 }).collect();
        return index.restrided(&sizes.iter().map(|&size| size as i64).collect::<Vec<_>>(), &strides);
    }
    index
}

/// A launch that updates `target` with `source` at indices.
fn store(make: &Make, [target, source]: [Tensor; 2], found: &ArrayD<f64>, dim: usize, by_line: bool, operation: i64) -> Case {
    let sizes: Vec<usize> = source.view().sizes().iter().map(|&size| size as usize).collect();
    let [count, step] = [target.view().size(dim) as i64, target.view().stride(dim) as i64].map(Scalar::Long);
    let rest = [Scalar::Bool(false), Scalar::Double(1.0), Scalar::Long(-1), count, step];
    let index = index(make, found, dim, &sizes, by_line);
    Case::new([target.expanded(&sizes, &[dim])], [source, index], [&[Scalar::Long(operation)], &rest[..]].concat())
}

/// Sums that would stop growing, and products of numbers next to 1 that would stay 1, if they were rounded to 16 bits each time;
/// over elements in a small and in a large target, rows, and columns. Rows are divided by target positions if these are spread over
/// the target, else by columns.
#[test]
fn updates_that_meet_are_rounded_once_in_the_same_order() {
    for (sizes, index_sizes, dim, used, by_line) in [
        (&[5][..], &[3000][..], 0, 5, false),
        (&[60_000], &[3000], 0, 9, false),
        (&[3, 4], &[3, 700], 1, 4, false),
        (&[4, 19], &[300, 19], 0, 4, true),
        (&[2, 4, 19], &[2, 100, 19], 1, 4, true),
        (&[50, 1024], &[200, 1024], 0, 50, true),
        (&[50, 1024], &[200, 1024], 0, 3, true),
        (&[300, 70], &[300, 300], 1, 70, false),
    ] {
        let found = indices(if by_line { &index_sizes[dim..=dim] } else { index_sizes }, used);
        for (operation, divisor, start) in [(ADD, 7.0, 0.5), (MULTIPLY, 512.0, 1.0)] {
            let build = |make: &Make| {
                let of = |sizes: &[usize], seed| {
                    make.of(make.dtype(), &values(DType::Float, sizes, seed).mapv(|value| start + value / divisor))
                };
                store(make, [of(sizes, 1), of(index_sizes, 2)], &found, dim, by_line, operation)
            };
            if index_sizes.iter().product::<usize>() < 10_000 {
                agree("scatter", HALVES, [2.0, 0.0], build);
            }
            any_threads("scatter", &[DType::Float, DType::BFloat16], build);
        }
    }
}
