//! Grid samplers.

use super::{contiguous, result, take_if};
use crate::operators::call::{Arguments, Call, Outcome, Strides};

pub fn grid_sampler<const SPATIAL: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, grid) = (arguments.tensor(0)?, arguments.tensor(1)?);
    take_if(input.ndim() == SPATIAL + 2 && grid.ndim() == SPATIAL + 2)?;
    let (images, positions) = (input.sizes(), grid.sizes());
    let are_there = images[2..].iter().all(|&size| size > 0);
    take_if(images[0] == positions[0] && positions[SPATIAL + 1] == SPATIAL as i64 && are_there)?;
    result(call, contiguous(&[&images[..2], &positions[1..=SPATIAL]].concat(), input))
}

/// The requested gradients of input and grid.
pub fn grid_sampler_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (operands, wanted) = ([arguments.tensor(1)?, arguments.tensor(2)?], arguments[6].get::<&[bool]>()?);
    take_if(wanted.contains(&true))?;
    for (index, (operand, _)) in operands.iter().zip(wanted).enumerate().filter(|(_, (_, wanted))| **wanted) {
        call.output(index, &contiguous(operand.sizes(), *operand), Strides::Given)?;
    }
    Ok(())
}
