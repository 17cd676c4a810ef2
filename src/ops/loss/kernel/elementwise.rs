//! Losses before their reduction, and their gradients. A gradient's scalar `norm` is 1, or 1 over the number of elements for a
//! mean.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ops::pointwise::kernel::functions;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::{Error, FLOATING, Integer, Number, Real, dispatch, signature};

signature! {
    smooth_l1_loss_backward(out; input, target, grad)[norm, beta] in REAL => |launch| {
        let is_real = FLOATING.contains(launch.compute());
        if is_real { real_smooth_l1_loss_backward(launch) } else { whole_smooth_l1_loss_backward(launch) }
    };
    /// `aten::binary_cross_entropy` without weight: -(target ln x + (1 - target) ln(1 - x)), logarithms at least -100.
    binary_cross_entropy(out; x, target)[] in FLOATING => |launch| {
        let dtype = launch.compute();
        let outside = [AtomicBool::new(false), AtomicBool::new(false)];
        dispatch!(dtype in FLOATING, T => run::<T, T, _, 2>(launch, BinaryCrossEntropy { outside: outside.each_ref() }))?;
        match ["input", "target"].into_iter().zip(outside).find_map(|(name, outside)| outside.into_inner().then_some(name)) {
            Some(name) => Err(Error::new(format!("all elements of {name} should be between 0 and 1"))),
            None => Ok(()),
        }
    };
}

functions! {
    binary_cross_entropy_backward, BinaryCrossEntropyBackward, FLOATING, Real, [], |[grad, input, target]| {
        let variance = T::ONE.sub(input).mul(input).maximum(T::from_f64(1e-12));
        grad.mul(input.sub(target)).div(variance)
    };
    /// `aten::huber_loss`: half the squared distance up to delta, linear beyond.
    huber_loss, HuberLoss, FLOATING, Real, [delta], |[input, target]| {
        let (distance, half) = (input.sub(target).abs(), T::from_f64(0.5));
        if distance <= delta { half.mul(distance).mul(distance) } else { delta.mul(distance.sub(half.mul(delta))) }
    };
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
    /// `aten::smooth_l1_loss_backward` of integers: the quotient is truncated.
    whole_smooth_l1_loss_backward, WholeSmoothL1LossBackward, INTEGRAL, Integer, [norm, beta], |[input, target, grad]| {
        let (difference, outer) = (input.sub(target), norm.mul(grad));
        if difference <= beta.neg() {
            outer.neg()
        } else if difference >= beta {
            outer
        } else {
            norm.mul(difference).mul(grad).trunc_div(beta).unwrap_or(T::ZERO)
        }
    };
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
