//! Gradient scaling of automatic mixed precision: unscales gradients, finds infinities, and updates the scale.

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::lines::Values;
use crate::tensor::loops::lists::{self, Lists, Step};
use crate::tensor::number::{Number, Real};

signature! {
    unscale(..gradients)[tensors] in FLOATING;
    update_scale(scale, growth_tracker, found_inf)[growth_factor, backoff_factor, growth_interval] in FLOAT;
}

/// `aten::_amp_foreach_non_finite_check_and_unscale_`. Operands [gradients..., found, inverse of the scale], the last two of one
/// element; scalars [gradients]. Found becomes 1 if a gradient is infinite or NaN, and else is unchanged.
pub fn unscale(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, tensors) = (launch.compute(), launch.scalar(0)?.to::<i64>() as usize);
    if launch.num_operands() != tensors + 2 {
        return Err(Error::operands(format!("{} operands for {tensors} gradients", launch.num_operands())));
    }
    let factor = Values::<f64>::new(launch.view(tensors + 1))?.get(0);
    let lists = Lists { tensors, first_input: 0, written: 1 };
    let found = dispatch!(dtype in FLOATING, E => {
        let step = Unscale(<E as Element>::Acc::from_f64(factor));
        lists::run::<E, _, 1, 2>(launch, lists, &|_| step)
    })?;
    if found {
        Values::<f64>::new(launch.view(tensors))?.set(0, 1.0);
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
    let (scale, tracker) = (Values::<f64>::new(launch.view(0))?, Values::<i64>::new(launch.view(1))?);
    let found = Values::<f64>::new(launch.view(2))?.get(0);
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

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, IxDyn};

    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::simd::for_each_isa;
    use crate::tensor::dtype::{DType, FLOATING};
    use crate::tensor::launch::Scalar;

    fn single(dtype: DType, value: f64) -> Tensor {
        Tensor::of(dtype, &ArrayD::from_elem(IxDyn(&[]), real(value)), Strides::Contiguous)
    }

    fn value(tensor: &Tensor) -> f64 {
        tensor.values()[IxDyn(&[])].re
    }

    #[test]
    fn gradients_are_unscaled_and_looked_at() {
        for dtype in FLOATING.iter() {
            for bad in [None, Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(f64::NAN)] {
                let values = [70, 5].map(|size| check::values(dtype, &[size], size));
                let grads = values.each_ref().map(|values| Tensor::of(dtype, values, Strides::Contiguous));
                let poisoned = bad.map_or_else(|| values[1].clone(), |bad| values[1].mapv(|_| real(bad)));
                for_each_isa(|isa| {
                    let grads = [grads[0].clone(), Tensor::of(dtype, &poisoned, Strides::Contiguous)];
                    let (found, factor) = (single(DType::Float, 0.0), single(DType::Float, 0.5));
                    let name = "_amp_foreach_non_finite_check_and_unscale_";
                    check::run(name, &[&grads[0], &grads[1], &found], &[&factor], &[Scalar::Long(2)], dtype).unwrap();
                    assert_eq!(value(&found), bad.is_some() as u8 as f64, "{dtype:?} {isa:?} {bad:?}");
                    assert_eq!(grads[0].values(), values[0].mapv(|value| value * 0.5));
                });
            }
        }
    }

    #[test]
    fn a_find_of_before_stays() {
        let (grad, found) = (single(DType::Float, 1.0).restrided(&[1], &[4]), single(DType::Float, 1.0));
        let factor = single(DType::Float, 1.0);
        check::run("_amp_foreach_non_finite_check_and_unscale_", &[&grad, &found], &[&factor], &[Scalar::Long(1)], DType::Float)
            .unwrap();
        assert_eq!(value(&found), 1.0);
    }

    #[test]
    fn the_scale_backs_off_and_grows() {
        let step = |scale: f64, steps: f64, found: f64| {
            let (scale, tracker) = (single(DType::Float, scale), single(DType::Int, steps));
            let scalars = [Scalar::Double(2.0), Scalar::Double(0.5), Scalar::Long(3)];
            check::run("_amp_update_scale_", &[&scale, &tracker], &[&single(DType::Float, found)], &scalars, DType::Float).unwrap();
            (value(&scale), value(&tracker))
        };
        assert_eq!(step(8.0, 1.0, 1.0), (4.0, 0.0));
        assert_eq!(step(8.0, 1.0, 0.0), (8.0, 2.0));
        assert_eq!(step(8.0, 2.0, 0.0), (16.0, 0.0));
        assert_eq!(step(3e38, 2.0, 0.0), (f64::from(3e38f32), 0.0));
    }
}
