//! Fused optimizers: one step over lists of parameters reads and writes each element of parameters, states and gradients once.
//!
//! The operands of a launch are lists of equal length: the parameters, their states, and the gradients as the last list. After the
//! lists come one step count for each parameter, if the operator has step counts, and then single elements in device memory, if the
//! call gives them: the learning rate, the factor by which gradients were scaled, and whether a gradient overflowed. Their values
//! are unknown when the step is launched. The scalars of a launch begin with those of [`shared`]; the settings of the operator
//! follow.
//!
//! The formulas are those of PyTorch's CPU kernels. Scaled gradients are written back unscaled; a step with an overflow does
//! nothing.

pub mod adagrad;
pub mod adam;
pub mod amp;
pub mod sgd;

use crate::tensor::loops::lists::Lists;
use crate::tensor::prelude::*;

signature! {
    shared(..lists)[tensors, has_rate, has_scale, has_overflow, ..settings] in FLOATING;
}

/// The number of parameters and the values of the operands after the lists.
struct SharedSettings {
    lists: Lists,
    /// The step count of each parameter, if the operator has step counts.
    steps: Vec<f64>,
    /// The learning rate, if the call gives it as a tensor.
    rate: Option<f64>,
    /// The factor that unscales gradients: 1 over the factor by which they were scaled.
    unscale: f64,
    /// True if a gradient overflowed, so that the step is skipped.
    overflow: bool,
}

impl SharedSettings {
    /// Reads a launch with `lists` lists, and with step counts if `counted`.
    fn of(launch: &Launch<'_>, lists: usize, counted: bool) -> Result<Self, Error> {
        let shared::Scalars { tensors, has_rate, has_scale, has_overflow } = shared::Scalars::of(launch)?;
        let tensors = tensors.to::<i64>() as usize;
        let mut indices = lists * tensors..;
        let mut take = || single(launch, indices.next().unwrap_or(usize::MAX));
        let steps = (0..if counted { tensors } else { 0 }).map(|_| take()).collect::<Result<_, _>>()?;
        let rate = has_rate.is_true().then(&mut take).transpose()?;
        let factor = has_scale.is_true().then(&mut take).transpose()?;
        let overflow = has_overflow.is_true() && take()? != 0.0;
        // Gradients are the last list. They are written only if they are unscaled.
        let written = if factor.is_some() { lists } else { lists - 1 };
        let lists = Lists { tensors, first_input: 0, written };
        Ok(Self { lists, steps, rate, unscale: factor.map_or(1.0, f64::recip), overflow })
    }
}

/// The transformation of a gradient before the optimizer's step.
#[derive(Clone, Copy)]
struct Gradient<T> {
    unscale: T,
    maximize: bool,
    /// True if weight decay is added to the gradient, and its factor.
    decays: bool,
    decay: T,
}

impl<T: Real> Gradient<T> {
    fn of(shared: &SharedSettings, maximize: bool, decay: f64) -> Self {
        Self { unscale: T::from_f64(shared.unscale), maximize, decays: decay != 0.0, decay: T::from_f64(decay) }
    }

    /// The unscaled gradient, and the gradient with sign and weight decay applied.
    #[inline(always)]
    fn apply(self, parameter: T, grad: T) -> (T, T) {
        let unscaled = grad.mul(self.unscale);
        let grad = if self.maximize { unscaled.neg() } else { unscaled };
        (unscaled, if self.decays { grad.add(parameter.mul(self.decay)) } else { grad })
    }
}

/// The value of an operand of one element.
fn single(launch: &Launch<'_>, index: usize) -> Result<f64, Error> {
    let values = Values::<f64>::new(Operand::of(launch, index)?)?;
    match values.len() {
        1 => Ok(values.get(0)),
        len => Err(Error::new(format!("{len} elements where one is needed"))),
    }
}
