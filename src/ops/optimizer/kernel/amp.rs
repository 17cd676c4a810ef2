//! Gradient scaling of automatic mixed precision: unscales gradients, finds infinities, and updates the scale.

use crate::tensor::loops::lists::{self, Lists, Step};
use crate::tensor::prelude::*;

signature! {
    unscale(..gradients)[tensors] in FLOATING;
    update_scale(scale, growth_tracker; found_inf)[growth_factor, backoff_factor, growth_interval] in FLOAT;
}

/// `aten::_amp_foreach_non_finite_check_and_unscale_`. Operands [gradients..., found, inverse of the scale], the last two of one
/// element; scalars [gradients]. Found becomes 1 if a gradient is infinite or NaN, and else is unchanged.
pub fn unscale(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, tensors) = (launch.compute(), unscale::Scalars::of(launch)?.tensors.to::<i64>() as usize);
    if launch.num_operands() != tensors + 2 {
        return Err(Error::new(format!("{} operands for {tensors} gradients", launch.num_operands())));
    }
    let factor = Values::<f64>::new(Operand::of(launch, tensors + 1)?)?.get(0);
    let lists = Lists { tensors, first_input: 0, written: 1 };
    let found = dispatch!(dtype in FLOATING, E => {
        let step = Unscale(<E as Element>::Acc::from_f64(factor));
        lists::run::<E, _, 1, 2>(launch, lists, &|_| step)
    })?;
    if found {
        ValuesMut::<f64>::new(launch.output(tensors)?)?.set(0, 1.0);
    }
    Ok(())
}

/// Multiplies an element by the factor; returns whether it is not finite.
#[derive(Clone, Copy)]
struct Unscale<T>(T);

impl<T: Real> Step<T, 1, 2> for Unscale<T> {
    const FINDS: bool = true;

    #[inline(always)]
    fn apply(self, [grad]: [T; 1]) -> [T; 2] {
        let Self(factor) = self;
        [grad.mul(factor), if grad.sub(grad) == T::ZERO { T::ZERO } else { T::ONE }]
    }
}

/// `aten::_amp_update_scale_`. All operands have one element; `growth_tracker` counts the steps since the scale grew. The scale
/// stays finite.
pub fn update_scale(launch: &Launch<'_>) -> Result<(), Error> {
    let update_scale::Operands { scale, growth_tracker, found_inf } = update_scale::Operands::of(launch)?;
    let (mut scale, mut tracker) = (ValuesMut::<f64>::new(scale)?, ValuesMut::<i64>::new(growth_tracker)?);
    let found = Values::<f64>::new(found_inf)?.get(0);
    let given = update_scale::Scalars::of(launch)?;
    if found != 0.0 {
        scale.set(0, scale.get(0) * given.backoff_factor.to::<f64>());
        tracker.set(0, 0);
        return Ok(());
    }
    let steps = tracker.get(0) + 1;
    if steps != given.growth_interval.to::<i64>() {
        tracker.set(0, steps);
        return Ok(());
    }
    let grown = scale.get(0) * given.growth_factor.to::<f64>();
    if (grown as f32).is_finite() {
        scale.set(0, grown);
    }
    tracker.set(0, 0);
    Ok(())
}
