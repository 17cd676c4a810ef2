//! Fused optimizers: one step over lists of parameters reads and writes each element of parameters, states and gradients once.
//!
//! The operands of a launch are lists of equal length: the parameters, their states, and the gradients as the last list. After the
//! lists come one step count for each parameter, if the operator has step counts, and then single elements in device memory, if the
//! call gives them: the learning rate, the factor by which gradients were scaled, and whether a gradient overflowed. Their values
//! are unknown when the step is launched. The scalars of a launch begin with [`SHARED_SCALARS`]; the settings of the operator
//! follow.
//!
//! The formulas are those of PyTorch's CPU kernels. Scaled gradients are written back unscaled; a step with an overflow does
//! nothing.

#![forbid(unsafe_code)]

pub mod adagrad;
pub mod adam;
pub mod amp;
pub mod sgd;

use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::loops::lines::Values;
use crate::tensor::loops::lists::Lists;
use crate::tensor::number::Real;

/// Scalars that all operators share: the number of parameters, and whether there are tensors with the learning rate, the gradients'
/// factor and the overflow.
const SHARED_SCALARS: usize = 4;

/// The values of [`SHARED_SCALARS`] and of the operands after the lists.
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
        let tensors = launch.scalar(0)?.to::<i64>() as usize;
        let mut singles = Singles { launch, next: lists * tensors };
        let steps = (0..if counted { tensors } else { 0 }).map(|_| singles.take()).collect::<Result<_, _>>()?;
        let rate = if flag(launch, 1)? { Some(singles.take()?) } else { None };
        let factor = if flag(launch, 2)? { Some(singles.take()?) } else { None };
        let overflow = flag(launch, 3)? && singles.take()? != 0.0;
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

/// Reads operands of one element, one after the other.
struct Singles<'a> {
    launch: &'a Launch<'a>,
    next: usize,
}

impl Singles<'_> {
    fn take(&mut self) -> Result<f64, Error> {
        if self.next >= self.launch.num_operands() {
            return Err(Error::operands(format!("operand {} is missing", self.next)));
        }
        let values = Values::<f64>::new(self.launch.view(self.next))?;
        self.next += 1;
        if values.len() == 1 {
            Ok(values.get(0))
        } else {
            Err(Error::operands(format!("{} elements where one is needed", values.len())))
        }
    }
}

/// A setting of the operator, by its index after the shared scalars.
fn setting(launch: &Launch<'_>, index: usize) -> Result<f64, Error> {
    Ok(launch.scalar(SHARED_SCALARS + index)?.to())
}

/// A boolean setting.
fn switch(launch: &Launch<'_>, index: usize) -> Result<bool, Error> {
    flag(launch, SHARED_SCALARS + index)
}

fn flag(launch: &Launch<'_>, index: usize) -> Result<bool, Error> {
    Ok(launch.scalar(index)? == Scalar::Bool(true))
}

#[cfg(test)]
mod optimizer_tests;
