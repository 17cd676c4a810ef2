//! Helpers of the tests of layers: operands, and gradients as difference quotients.

use ndarray::ArrayD;

use crate::kernels::check::{self, Strides, Tensor};
use crate::tensor::dtype::DType;

pub const STEPS: usize = 5;
pub const SIZE: usize = 19;

pub fn given(dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
    let values = check::values(dtype, sizes, seed).mapv(|value| check::round_trip(dtype, value / 8.0));
    Tensor::of(dtype, &values, Strides::Contiguous)
}

pub fn empty(dtype: DType, sizes: &[usize]) -> Tensor {
    Tensor::new(dtype, sizes, Strides::Contiguous)
}

pub fn copy(tensor: &Tensor, dtype: DType) -> Tensor {
    Tensor::of(dtype, &tensor.values(), Strides::Contiguous)
}

pub fn real(tensor: &Tensor) -> ArrayD<f64> {
    tensor.values().mapv(|value| value.re)
}

/// The position in the sequence of a step's number.
pub fn position(number: usize, reverse: bool) -> usize {
    if reverse { STEPS - 1 - number } else { number }
}

/// The product of a row's hidden state and the rows of a weight: element `unit` of gate `gate`.
pub fn product(weight: &ArrayD<f64>, hidden: &ArrayD<f64>, row: usize, gate: usize, unit: usize) -> f64 {
    (0..SIZE).map(|k| hidden[[row, k]] * weight[[gate * SIZE + unit, k]]).sum()
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Asserts that some elements of `found` are the derivatives of `loss` with respect to the float64 tensors `by`.
pub fn assert_gradients(by: &[&Tensor], found: &[&Tensor], loss: impl Fn(&[Tensor]) -> f64) {
    let step = 1e-6;
    for (which, found) in found.iter().enumerate() {
        for (at, found) in found.values().iter().enumerate().step_by(97) {
            let sides = [step, -step].map(|shift| {
                let moved = |(index, tensor): (usize, &&Tensor)| {
                    let mut values = tensor.values();
                    if index == which {
                        *values.iter_mut().nth(at).expect("a gradient has as many elements") += shift;
                    }
                    Tensor::of(DType::Double, &values, Strides::Contiguous)
                };
                loss(&by.iter().enumerate().map(moved).collect::<Vec<_>>())
            });
            let expected = (sides[0] - sides[1]) / (2.0 * step);
            assert!((found.re - expected).abs() < 1e-6, "{which} {at}: {found} != {expected}");
        }
    }
}
