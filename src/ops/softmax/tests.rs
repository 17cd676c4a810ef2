//! Softmax and its gradients over dimensions, layouts and dtypes.

use crate::ops::check::{Case, Tensor, agree, longs};
use crate::tensor::FLOATING;

const CASES: [(&[usize], usize); 8] =
    [(&[1], 0), (&[7], 0), (&[3, 100], 1), (&[100, 3], 0), (&[4, 33, 5], 1), (&[2, 40, 64], 1), (&[2, 300], 1), (&[3, 20, 50], 1)];

#[test]
fn lines_of_any_length() {
    for (name, inputs) in [("_softmax", 1), ("_log_softmax", 1), ("_softmax_backward_data", 2), ("_log_softmax_backward_data", 2)] {
        for (sizes, dim) in CASES {
            agree(name, FLOATING, [60.0, 16.0], |make| {
                let inputs: Vec<Tensor> = (0..inputs).map(|seed| make.input(sizes, seed)).collect();
                Case::new([make.output(sizes)], inputs, longs(&[dim as i64]))
            });
        }
    }
}
