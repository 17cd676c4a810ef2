//! Adagrad (Duchi, Hazan and Singer 2011).

use super::{Gradient, SharedSettings};
use crate::tensor::loops::lists::{self, Step};
use crate::tensor::{Element, Error, Launch, Number, Real, dispatch, signature};

signature! {
    fused_adagrad(..lists)[tensors, has_rate, has_scale, has_overflow, lr, lr_decay, weight_decay, eps, maximize] in FLOATING;
}

/// `aten::_fused_adagrad_`. Lists [parameters, sums of squared gradients, gradients], step counts.
pub fn fused_adagrad(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, given) = (launch.compute(), fused_adagrad::Scalars::of(launch)?);
    let shared = SharedSettings::of(launch, 3, true)?;
    if shared.overflow {
        return Ok(());
    }
    let (rate, slower) = (shared.rate.unwrap_or_else(|| given.lr.to()), given.lr_decay.to::<f64>());
    dispatch!(dtype in FLOATING, E => {
        type T = <E as Element>::Acc;
        let step = |count: f64| Adagrad {
            gradient: Gradient::of(&shared, given.maximize.is_true(), given.weight_decay.to()),
            rate: T::from_f64(rate / (1.0 + (count - 1.0) * slower)),
            eps: T::from_f64(given.eps.to()),
        };
        lists::run::<E, _, 3, 3>(launch, shared.lists, &|entry| step(shared.steps[entry]))?;
        Ok(())
    })
}

/// The update of an element.
#[derive(Clone, Copy)]
struct Adagrad<T> {
    gradient: Gradient<T>,
    rate: T,
    eps: T,
}

impl<T: Real> Step<T, 3, 3> for Adagrad<T> {
    #[inline(always)]
    fn apply(self, [parameter, sum, grad]: [T; 3]) -> [T; 3] {
        let (unscaled, grad) = self.gradient.apply(parameter, grad);
        let sum = sum.add(grad.mul(grad));
        [parameter.sub(self.rate.mul(grad).div(sum.sqrt().add(self.eps))), sum, unscaled]
    }
}
