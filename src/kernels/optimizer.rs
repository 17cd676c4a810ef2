//! Fused optimizers: one step over lists of parameters reads and writes each element of parameters, states and gradients once.
//!
//! The operands of a launch are lists of equally many tensors: the parameters, their states, and the gradients as the last list.
//! After the lists come, where the operator has them, one step count for each parameter, and then single numbers in device memory,
//! where the call gives them: the learning rate, the factor that gradients were scaled by, and whether one of them overflowed.
//! These values are unknown when the step is launched. The scalars of a launch begin with [`SHARED_SCALARS`]; the settings of the operator
//! follow.
//!
//! The formulas are those of PyTorch's CPU kernels. Gradients that come scaled are written back unscaled; a step with an overflow
//! does nothing.

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

/// How many parameters there are; whether there is a tensor with the learning rate, with the gradients' factor, with the overflow.
const SHARED_SCALARS: usize = 4;

/// Common data of the operators.
struct SharedSettings {
    lists: Lists,
    /// The step count of each parameter, where the operator has them.
    steps: Vec<f64>,
    /// The learning rate that the call gave as a tensor.
    rate: Option<f64>,
    /// The factor of gradients: 1 over the factor that they were scaled by.
    unscale: f64,
    /// Whether the step is left out.
    overflow: bool,
}

impl SharedSettings {
    /// The parts of a launch with so many lists, and step counts if `counted`.
    fn of(launch: &Launch<'_>, lists: usize, counted: bool) -> Result<Self, Error> {
        let tensors = launch.scalar(0)?.to::<i64>() as usize;
        let mut singles = Singles { launch, next: lists * tensors };
        let steps = (0..if counted { tensors } else { 0 }).map(|_| singles.take()).collect::<Result<_, _>>()?;
        let rate = if flag(launch, 1)? { Some(singles.take()?) } else { None };
        let factor = if flag(launch, 2)? { Some(singles.take()?) } else { None };
        let overflow = flag(launch, 3)? && singles.take()? != 0.0;
        // Gradients are the last list: they are written where they are unscaled.
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
    /// Whether weights decay through the gradient, and how much.
    decays: bool,
    decay: T,
}

impl<T: Real> Gradient<T> {
    fn of(shared: &SharedSettings, maximize: bool, decay: f64) -> Self {
        Self { unscale: T::from_f64(shared.unscale), maximize, decays: decay != 0.0, decay: T::from_f64(decay) }
    }

    /// The unscaled gradient, and the one that the step follows.
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

/// A setting of the operator, by its place after the shared scalars.
fn setting(launch: &Launch<'_>, index: usize) -> Result<f64, Error> {
    Ok(launch.scalar(SHARED_SCALARS + index)?.to())
}

/// A setting that is yes or no.
fn switch(launch: &Launch<'_>, index: usize) -> Result<bool, Error> {
    flag(launch, SHARED_SCALARS + index)
}

fn flag(launch: &Launch<'_>, index: usize) -> Result<bool, Error> {
    Ok(launch.scalar(index)? == Scalar::Bool(true))
}

#[cfg(test)]
mod optimizer_tests;
