//! The gradients of layer normalisation over sizes, dtypes and numbers of threads.

use crate::ops::check::{Case, Make, Tensor, agree, any_threads, values};
use crate::tensor::{DType, FLOATING, WIDE};

fn dense(make: &Make, dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
    make.dense(dtype, &values(dtype, sizes, seed))
}

#[test]
fn gradients() {
    for [rows, cols] in [[1, 3], [7, 33], [300, 40], [2000, 33]] {
        let build = |make: &Make| {
            let dtype = make.dtype();
            let stats = dtype.opmath();
            let outputs = [dense(make, dtype, &[rows, cols], 0), dense(make, dtype, &[cols], 0), dense(make, dtype, &[cols], 0)];
            let [grad, x] = [1, 2].map(|seed| dense(make, dtype, &[rows, cols], seed));
            let rstd = make.dense(stats, &values(stats, &[rows], 5).mapv(|value| 0.5 + value * value / 64.0));
            let inputs = [grad, x, dense(make, stats, &[rows], 4), rstd, dense(make, dtype, &[cols], 3)];
            Case::new(outputs, inputs, [])
        };
        agree("native_layer_norm_backward", if rows > 40 { WIDE } else { FLOATING }, [1000.0, 100.0], build);
        any_threads("native_layer_norm_backward", &[DType::Float, DType::Double], build);
    }
}
