//! Adam and AdamW (Kingma and Ba 2014; Loshchilov and Hutter 2017; AMSGrad: Reddi et al. 2018).

use super::{Gradient, SharedSettings};
use crate::tensor::loops::lists::{self, Step};
use crate::tensor::{Element, Error, Launch, Real, Scalar, dispatch, signature};

signature! {
    /// `aten::_fused_adam_`. Lists [parameters, first moments, second moments, maximum second moments (AMSGrad only), gradients],
    /// step counts; scalars [those of every optimizer, lr, ...].
    fused_adam(..lists)[tensors, has_rate, has_scale, has_overflow, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize] in FLOATING =>
        |launch| step(launch, false);
    /// `aten::_fused_adamw_`: weight decay is decoupled from the gradient. Operands and scalars as of [`fused_adam`].
    fused_adamw(..lists)[tensors, has_rate, has_scale, has_overflow, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize] in FLOATING =>
        |launch| step(launch, true);
}

fn step(launch: &Launch<'_>, decoupled: bool) -> Result<(), Error> {
    let (dtype, given) = (launch.compute(), fused_adam::Scalars::of(launch)?);
    let amsgrad = given.amsgrad.is_true();
    let shared = SharedSettings::of(launch, if amsgrad { 5 } else { 4 }, true)?;
    if shared.overflow {
        return Ok(());
    }
    dispatch!(dtype in FLOATING, E => {
        let step = |&count: &f64| update::<<E as Element>::Acc>(&given, &shared, decoupled, count);
        let steps: Vec<_> = shared.steps.iter().map(step).collect();
        if amsgrad {
            lists::run::<E, _, 5, 5>(launch, shared.lists, &|entry| steps[entry])?;
        } else {
            lists::run::<E, _, 4, 4>(launch, shared.lists, &|entry| steps[entry])?;
        }
        Ok(())
    })
}

/// The update of step number `count`. Everything that the elements share is computed in double precision.
fn update<T: Real>(given: &fused_adam::Scalars, shared: &SharedSettings, decoupled: bool, count: f64) -> Adam<T> {
    let rate = shared.rate.unwrap_or_else(|| given.lr.to());
    let [beta1, beta2, decay, eps] = [given.beta1, given.beta2, given.weight_decay, given.eps].map(Scalar::to::<f64>);
    let (weight, near) = (1.0 - beta1, 1.0 - beta1 < 0.5);
    Adam {
        gradient: Gradient::of(shared, given.maximize.is_true(), if decoupled { 0.0 } else { decay }),
        keep: T::from_f64(if decoupled { 1.0 - rate * decay } else { 1.0 }),
        near,
        weight: T::from_f64(if near { weight } else { weight - 1.0 }),
        beta2: T::from_f64(beta2),
        rest2: T::from_f64(1.0 - beta2),
        eps: T::from_f64(eps),
        step_size: T::from_f64(rate / (1.0 - beta1.powf(count))),
        correction: T::from_f64((1.0 - beta2.powf(count)).sqrt().recip()),
    }
}

/// The update of an element.
#[derive(Clone, Copy)]
struct Adam<T> {
    gradient: Gradient<T>,
    /// The factor of decoupled weight decay.
    keep: T,
    /// True if 1 - beta1 is below 1/2, and the weight of the interpolation of the first moment (as `lerp`): 1 - beta1 from the old
    /// moment if `near`, else -beta1 from the gradient.
    near: bool,
    weight: T,
    beta2: T,
    /// 1 - beta2.
    rest2: T,
    eps: T,
    /// The learning rate over the bias correction of the first moment.
    step_size: T,
    /// 1 over the root of the bias correction of the second moment.
    correction: T,
}

impl<T: Real> Adam<T> {
    /// The unscaled gradient, the parameter, the first and the second moment after the step.
    #[inline(always)]
    fn moments(self, [parameter, first, second, grad]: [T; 4]) -> [T; 4] {
        let (unscaled, grad) = self.gradient.apply(parameter, grad);
        let base = if self.near { first } else { grad };
        let first = base.add(self.weight.mul(grad.sub(first)));
        let second = second.mul(self.beta2).add(self.rest2.mul(grad).mul(grad));
        [parameter.mul(self.keep), first, second, unscaled]
    }

    /// The parameter after a step, where `bound` is the second moment that divides it.
    #[inline(always)]
    fn advance(self, parameter: T, first: T, bound: T) -> T {
        let divisor = bound.sqrt().mul(self.correction).add(self.eps);
        parameter.sub(self.step_size.mul(first).div(divisor))
    }
}

impl<T: Real> Step<T, 4, 4> for Adam<T> {
    #[inline(always)]
    fn apply(self, values: [T; 4]) -> [T; 4] {
        let [parameter, first, second, unscaled] = self.moments(values);
        [self.advance(parameter, first, second), first, second, unscaled]
    }
}

impl<T: Real> Step<T, 5, 5> for Adam<T> {
    #[inline(always)]
    fn apply(self, [parameter, first, second, greatest, grad]: [T; 5]) -> [T; 5] {
        let [parameter, first, second, unscaled] = self.moments([parameter, first, second, grad]);
        let greatest = greatest.maximum(second);
        [self.advance(parameter, first, greatest), first, second, greatest, unscaled]
    }
}
