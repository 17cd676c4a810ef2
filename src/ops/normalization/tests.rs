//! Layer normalisation and its gradients over sizes, dtypes and numbers of threads.

use crate::ops::check::{Case, Make, Tensor, agree, any_threads, values};
use crate::tensor::{DType, DTypeSet, FLOATING, Scalar, WIDE};

/// A contiguous tensor of positive values.
fn positive(make: &Make, dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
    make.dense(dtype, &values(dtype, sizes, seed).mapv(|value| 0.5 + value * value / 64.0))
}

fn dense(make: &Make, dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
    make.dense(dtype, &values(dtype, sizes, seed))
}

#[test]
fn rows_are_normalised() {
    for (dtype, stats) in
        [(DType::BFloat16, DType::Float), (DType::Half, DType::Half), (DType::Float, DType::Float), (DType::Double, DType::Double)]
    {
        for ([rows, cols], has) in
            [[1, 1], [5, 7], [3, 100], [40, 64], [2, 1031]].into_iter().flat_map(|case| [(case, true), (case, false)])
        {
            agree("native_layer_norm", DTypeSet::of(&[dtype]), [64.0, 16.0], |make| {
                let outputs = [
                    make.dense(dtype, &values(dtype, &[rows, cols], 9)),
                    dense(make, stats, &[rows], 0),
                    dense(make, stats, &[rows], 0),
                ];
                let mut inputs = vec![dense(make, dtype, &[rows, cols], 1)];
                inputs.extend([2, 3].into_iter().filter(|_| has).map(|seed| dense(make, stats, &[cols], seed)));
                Case::new(outputs, inputs, [Scalar::Double(1e-3)])
            });
        }
    }
}

#[test]
fn gradients() {
    for [rows, cols] in [[1, 3], [7, 33], [300, 40], [2000, 33]] {
        let build = |make: &Make| {
            let dtype = make.dtype();
            let stats = dtype.opmath();
            let outputs = [dense(make, dtype, &[rows, cols], 0), dense(make, dtype, &[cols], 0), dense(make, dtype, &[cols], 0)];
            let [grad, x] = [1, 2].map(|seed| dense(make, dtype, &[rows, cols], seed));
            let inputs =
                [grad, x, dense(make, stats, &[rows], 4), positive(make, stats, &[rows], 5), dense(make, dtype, &[cols], 3)];
            Case::new(outputs, inputs, [])
        };
        agree("native_layer_norm_backward", if rows > 40 { WIDE } else { FLOATING }, [1000.0, 100.0], build);
        any_threads("native_layer_norm_backward", &[DType::Float, DType::Double], build);
    }
}
