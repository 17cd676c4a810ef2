//! Softmax and its gradients, compared with `f64`.

use ndarray::{ArrayD, Axis};

use crate::kernels::check::{self, Strides, Tensor};
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType};
use crate::tensor::launch::Scalar;

const CASES: [(&[usize], usize); 9] = [
    (&[1], 0),
    (&[7], 0),
    (&[3, 100], 1),
    (&[100, 3], 0),
    (&[4, 33, 5], 1),
    (&[2, 40, 64], 1),
    (&[2, 1000], 1),
    (&[3, 20, 50], 1),
    (&[90, 300], 0),
];
const DTYPES: [DType; 4] = [DType::Half, DType::BFloat16, DType::Float, DType::Double];

/// Applies a function of lines to the inputs.
fn lines(inputs: &[ArrayD<Complex64>], axis: usize, function: impl Fn(&[Vec<f64>]) -> Vec<f64>) -> ArrayD<Complex64> {
    let mut result = inputs[0].clone();
    for (number, mut target) in result.lanes_mut(Axis(axis)).into_iter().enumerate() {
        let line = |input: &ArrayD<Complex64>| -> Vec<f64> {
            input.lanes(Axis(axis)).into_iter().nth(number).unwrap().iter().map(|value| value.re).collect()
        };
        let line = function(&inputs.iter().map(line).collect::<Vec<_>>());
        target.iter_mut().zip(line).for_each(|(target, value)| *target = check::real(value));
    }
    result
}

fn check_row(name: &str, inputs: usize, function: impl Fn(&[Vec<f64>]) -> Vec<f64> + Copy) {
    for dtype in DTYPES {
        for (case, (sizes, axis)) in CASES.into_iter().enumerate() {
            for strides in [Strides::Contiguous, Strides::Transposed, Strides::Sliced] {
                let inputs: Vec<Tensor> = (0..inputs)
                    .map(|index| Tensor::of(dtype, &(check::values(dtype, sizes, case + index) * check::real(0.5)), strides))
                    .collect();
                let values: Vec<ArrayD<Complex64>> = inputs.iter().map(Tensor::values).collect();
                let expected = lines(&values, axis, function);
                let output = Tensor::new(dtype, sizes, Strides::Contiguous);
                for_each_isa(|isa| {
                    let given: Vec<&Tensor> = inputs.iter().collect();
                    check::run(name, &[&output], &given, &[Scalar::Long(axis as i64)], dtype).unwrap();
                    for (index, found) in output.values().indexed_iter() {
                        let expected = check::round_trip(dtype, expected[&index]);
                        assert!(
                            check::close(*found, expected, 10.0 * check::tolerance(dtype)),
                            "{name} {dtype:?} {isa:?} {sizes:?} {axis} {strides:?} {index:?}: {found} != {expected}"
                        );
                    }
                });
            }
        }
    }
}

fn log_sum(line: &[f64]) -> f64 {
    line.iter().map(|value| value.exp()).sum::<f64>().ln()
}

#[test]
fn softmax_sums_to_one() {
    check_row("_softmax", 1, |lines| lines[0].iter().map(|value| (value - log_sum(&lines[0])).exp()).collect());
}

#[test]
fn log_softmax_is_its_logarithm() {
    check_row("_log_softmax", 1, |lines| lines[0].iter().map(|value| value - log_sum(&lines[0])).collect());
}

#[test]
fn gradients() {
    check_row("_softmax_backward_data", 2, |lines| {
        let sum: f64 = lines[0].iter().zip(&lines[1]).map(|(grad, result)| grad * result).sum();
        lines[0].iter().zip(&lines[1]).map(|(grad, result)| (grad - sum) * result).collect()
    });
    check_row("_log_softmax_backward_data", 2, |lines| {
        let sum: f64 = lines[0].iter().sum();
        lines[0].iter().zip(&lines[1]).map(|(grad, result)| grad - result.exp() * sum).collect()
    });
}

#[test]
fn large_values_do_not_overflow() {
    let values = ndarray::arr1(&[1e30, 1e30, -1e30]).into_dyn().mapv(check::real);
    let (input, output) =
        (Tensor::of(DType::Float, &values, Strides::Contiguous), Tensor::new(DType::Float, &[3], Strides::Contiguous));
    check::run("_softmax", &[&output], &[&input], &[Scalar::Long(0)], DType::Float).unwrap();
    assert_eq!(output.values().mapv(|value| value.re).into_raw_vec_and_offset().0, [0.5, 0.5, 0.0]);
}
