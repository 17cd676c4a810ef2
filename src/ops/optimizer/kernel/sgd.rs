//! Stochastic gradient descent, with optional momentum.

use super::{Gradient, SharedSettings};
use crate::tensor::loops::lists::{self, Step};
use crate::tensor::{Element, Error, Launch, Number, Real, dispatch, signature};

signature! {
    fused_sgd(..lists)[tensors, has_rate, has_scale, has_overflow, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step] in FLOATING;
}

/// `aten::_fused_sgd_`. Lists [parameters, momentum buffers (unless the momentum is 0), gradients].
pub fn fused_sgd(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, given) = (launch.compute(), fused_sgd::Scalars::of(launch)?);
    let has_momentum = given.momentum.to::<f64>() != 0.0;
    let shared = SharedSettings::of(launch, if has_momentum { 3 } else { 2 }, false)?;
    if shared.overflow {
        return Ok(());
    }
    dispatch!(dtype in FLOATING, E => {
        type T = <E as Element>::Acc;
        let step = Sgd {
            gradient: Gradient::of(&shared, given.maximize.is_true(), given.weight_decay.to()),
            momentum: T::from_f64(given.momentum.to()),
            rate: T::from_f64(shared.rate.unwrap_or_else(|| given.lr.to())),
            fresh: T::from_f64(1.0 - given.dampening.to::<f64>()),
            nesterov: given.nesterov.is_true(),
            is_first: given.is_first_step.is_true(),
        };
        if has_momentum {
            lists::run::<E, _, 3, 3>(launch, shared.lists, &|_| step)?;
        } else {
            lists::run::<E, _, 2, 2>(launch, shared.lists, &|_| step)?;
        }
        Ok(())
    })
}

/// The update of an element.
#[derive(Clone, Copy)]
struct Sgd<T> {
    gradient: Gradient<T>,
    momentum: T,
    rate: T,
    /// 1 - dampening.
    fresh: T,
    nesterov: bool,
    /// True if the momentum buffers are uninitialised.
    is_first: bool,
}

impl<T: Real> Step<T, 2, 2> for Sgd<T> {
    #[inline(always)]
    fn apply(self, [parameter, grad]: [T; 2]) -> [T; 2] {
        let (unscaled, grad) = self.gradient.apply(parameter, grad);
        [parameter.sub(grad.mul(self.rate)), unscaled]
    }
}

impl<T: Real> Step<T, 3, 3> for Sgd<T> {
    #[inline(always)]
    fn apply(self, [parameter, buffer, grad]: [T; 3]) -> [T; 3] {
        let (unscaled, grad) = self.gradient.apply(parameter, grad);
        let moved = buffer.mul(self.momentum).add(grad.mul(self.fresh));
        let buffer = if self.is_first { grad } else { moved };
        let direction = if self.nesterov { grad.add(buffer.mul(self.momentum)) } else { buffer };
        [parameter.sub(direction.mul(self.rate)), buffer, unscaled]
    }
}
