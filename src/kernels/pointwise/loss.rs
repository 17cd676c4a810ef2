//! Losses before their reduction, and their gradients. A gradient's scalar `norm` is 1, or 1 over the number of elements for a
//! mean.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use super::functions;
use crate::kernels::signature::signature;
use crate::tensor::dtype::{FLOATING, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::{Integer, Number, Real};

signature! {
    smooth_l1_loss_backward(out, input, target, grad)[norm, beta] in REAL;
    binary_cross_entropy(out, x, target)[] in FLOATING;
}

functions! {
    /// `aten::binary_cross_entropy_backward`.
    binary_cross_entropy_backward, BinaryCrossEntropyBackward, FLOATING, Real, [], |[grad, input, target]| {
        let variance = T::ONE.sub(input).mul(input).maximum(T::from_f64(1e-12));
        grad.mul(input.sub(target)).div(variance)
    };
    /// `aten::huber_loss`: half the squared distance up to delta, linear beyond.
    huber_loss, HuberLoss, FLOATING, Real, [delta], |[input, target]| {
        let (distance, half) = (input.sub(target).abs(), T::from_f64(0.5));
        if distance <= delta { half.mul(distance).mul(distance) } else { delta.mul(distance.sub(half.mul(delta))) }
    };
    /// `aten::huber_loss_backward`.
    huber_loss_backward, HuberLossBackward, FLOATING, Real, [norm, delta], |[input, target, grad]| {
        let difference = input.sub(target);
        let bounded = if difference > delta { delta } else if difference < delta.neg() { delta.neg() } else { difference };
        norm.mul(bounded).mul(grad)
    };
    /// `aten::mse_loss`: (input - target)^2.
    mse_loss, MseLoss, FLOATING, Real, [], |[input, target]| input.sub(target).mul(input.sub(target));
    /// `aten::mse_loss_backward`. Operands [out, input, target, grad]; scalars [norm], which includes the factor 2 of the
    /// derivative.
    mse_loss_backward, MseLossBackward, FLOATING | INTEGRAL, Number, [norm], |[input, target, grad]| norm.mul(input.sub(target)).mul(grad);
    /// `aten::smooth_l1_loss`: quadratic below beta, linear above. Operands [out, input, target]; scalars [beta].
    smooth_l1_loss, SmoothL1Loss, FLOATING, Real, [beta], |[input, target]| {
        let distance = input.sub(target).abs();
        let half = T::from_f64(0.5);
        if distance < beta { half.mul(distance).mul(distance).div(beta) } else { distance.sub(half.mul(beta)) }
    };
    /// `aten::smooth_l1_loss_backward` of floating point dtypes.
    real_smooth_l1_loss_backward, SmoothL1LossBackward, FLOATING, Real, [norm, beta], |[input, target, grad]| {
        let difference = input.sub(target);
        let inner = norm.mul(difference).mul(grad).div(beta);
        let outer = norm.mul(grad);
        if difference <= beta.neg() { outer.neg() } else if difference >= beta { outer } else { inner }
    };
}

/// `aten::smooth_l1_loss_backward` of integers: the quotient is truncated.
#[derive(Clone, Copy)]
struct WholeSmoothL1LossBackward<T> {
    norm: T,
    beta: T,
}

impl<T: Integer> Map<T, 3> for WholeSmoothL1LossBackward<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [input, target, grad]: [T; 3]) -> T {
        let (difference, outer) = (input.sub(target), self.norm.mul(grad));
        if difference <= self.beta.neg() {
            outer.neg()
        } else if difference >= self.beta {
            outer
        } else {
            self.norm.mul(difference).mul(grad).trunc_div(self.beta).unwrap_or(T::ZERO)
        }
    }
}

/// `aten::smooth_l1_loss_backward`.
pub fn smooth_l1_loss_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    if FLOATING.contains(dtype) {
        return real_smooth_l1_loss_backward(launch);
    }
    let smooth_l1_loss_backward::Scalars { norm, beta } = smooth_l1_loss_backward::Scalars::of(launch)?;
    dispatch!(dtype in INTEGRAL, T => run::<T, T, _, 3>(launch, WholeSmoothL1LossBackward { norm: norm.to(), beta: beta.to() }))
}

/// The cross entropy of two probabilities; records inputs and targets that are not in 0..=1.
#[derive(Clone, Copy)]
struct BinaryCrossEntropy<'a> {
    outside: [&'a AtomicBool; 2],
}

impl<T: Real> Map<T, 2> for BinaryCrossEntropy<'_> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [input, target]: [T; 2]) -> T {
        for (value, outside) in [input, target].into_iter().zip(self.outside) {
            if !(value >= T::ZERO && value <= T::ONE) {
                outside.store(true, Ordering::Relaxed);
            }
        }
        let least = T::from_f64(-100.0);
        let (of_one, of_zero) = (input.log().maximum(least), input.neg().log1p().maximum(least));
        target.sub(T::ONE).mul(of_zero).sub(target.mul(of_one))
    }
}

/// `aten::binary_cross_entropy` without weight: -(target ln x + (1 - target) ln(1 - x)), logarithms at least -100.
pub fn binary_cross_entropy(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    let outside = [AtomicBool::new(false), AtomicBool::new(false)];
    dispatch!(dtype in FLOATING, T => run::<T, T, _, 2>(launch, BinaryCrossEntropy { outside: outside.each_ref() }))?;
    match ["input", "target"].into_iter().zip(outside).find_map(|(name, outside)| outside.into_inner().then_some(name)) {
        Some(name) => Err(Error::value(format!("all elements of {name} should be between 0 and 1"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::ArrayD;

    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::tensor::dtype::{Complex64, DType, FLOATING};
    use crate::tensor::kernel_error::ErrorKind;
    use crate::tensor::launch::Scalar;

    fn same(dtype: DType) -> DType {
        dtype
    }

    fn doubles(values: &[f64]) -> Vec<Scalar> {
        values.iter().map(|&value| Scalar::Double(value)).collect()
    }

    #[test]
    fn losses() {
        let distance = |[input, target]: [Complex64; 2]| (input.re - target.re).abs();
        check::pointwise::<2>("mse_loss", &[], same, |pair| real(distance(pair).powi(2)));
        check::pointwise::<2>("smooth_l1_loss", &doubles(&[2.0]), same, |pair| {
            let d = distance(pair);
            real(if d < 2.0 { d * d / 4.0 } else { d - 1.0 })
        });
        check::pointwise::<2>("huber_loss", &doubles(&[2.0]), same, |pair| {
            let d = distance(pair);
            real(if d < 2.0 { d * d / 2.0 } else { 2.0 * d - 2.0 })
        });
    }

    #[test]
    fn slopes() {
        let of = |name: &str, scalars: &[f64], slope: fn(DType, f64) -> f64| {
            check::pointwise_by_dtype::<3>(name, &doubles(scalars), same, |dtype, [input, target, grad]| {
                real(slope(dtype, input.re - target.re) * grad.re)
            });
        };
        of("mse_loss_backward", &[2.0], |_, d| 2.0 * d);
        // Differences of Byte wrap, and minus beta is 254: as on PyTorch's CPU, nearly all differences are below it.
        of("smooth_l1_loss_backward", &[2.0, 2.0], |dtype, d| match dtype {
            DType::Byte => {
                if d == -1.0 {
                    2.0
                } else {
                    -2.0
                }
            }
            _ => d.clamp(-2.0, 2.0),
        });
        of("huber_loss_backward", &[0.5, 2.0], |_, d| 0.5 * d.clamp(-2.0, 2.0));
    }

    #[test]
    fn cross_entropy_of_probabilities() {
        let list = |values: &[f64]| ArrayD::from_shape_vec(vec![values.len()], values.iter().map(|&x| real(x)).collect()).unwrap();
        let (inputs, targets) = ([0.0, 0.25, 0.5, 0.75, 1.0, 1.0], [0.0, 1.0, 0.5, 0.25, 0.0, 1.0]);
        for dtype in FLOATING.iter() {
            let [x, y, grad] = [&inputs, &targets, &[2.0; 6]].map(|values| Tensor::of(dtype, &list(values), Strides::Contiguous));
            let output = Tensor::new(dtype, &[6], Strides::Contiguous);
            check::run("binary_cross_entropy", &[&output], &[&x, &y], &[], dtype).unwrap();
            for ((found, x), y) in output.values().iter().zip(inputs).zip(targets) {
                let expected = -(y * x.ln().max(-100.0)) - (1.0 - y) * (1.0 - x).ln().max(-100.0);
                assert!(check::close(*found, real(expected), check::tolerance(dtype)), "{dtype:?} {x} {y}: {found}");
            }
            check::run("binary_cross_entropy_backward", &[&output], &[&grad, &x, &y], &[], dtype).unwrap();
            let found = output.values();
            assert!(check::close(found[[1]], real(-8.0), 0.05) && found[[0]] == real(0.0), "{dtype:?} {found}");
            let outside = Tensor::of(dtype, &list(&[0.5, 1.5, f64::NAN, -0.5, 0.5, 0.5]), Strides::Contiguous);
            for (operands, name) in [([&outside, &y], "input"), ([&x, &outside], "target")] {
                let failure = check::run("binary_cross_entropy", &[&output], &operands, &[], dtype).unwrap_err();
                assert!(failure.kind() == ErrorKind::Value && failure.text().contains(name), "{failure}");
            }
        }
    }
}
