//! Batch normalisation: each channel has one mean and variance, computed over all samples or given.

use super::{Affine, Combined, Scaled, Shape, inverse, map, moments, narrow, optional, products};
use crate::tensor::prelude::*;

signature! {
    /// `aten::native_batch_norm`. The matrices out and x have a row for each sample and channel, or a column for each channel. In
    /// training the statistics are those of x, which are saved.
    native_batch_norm(out, save_mean?, save_invstd?, running_mean?, running_var?; x, weight?, bias?)[channels, columns, momentum, eps] in FLOATING =>
        |launch, E| forward::<E>(launch);
    /// `aten::native_batch_norm_backward`. Outside training the operand invstd is a variance.
    native_batch_norm_backward(grad_x, grad_weight?, grad_bias?; grad, x, mean, invstd, weight?)[channels, columns, training, eps] in FLOATING =>
        |launch, E| backward::<E>(launch);
}

fn forward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_batch_norm::Scalars::of(launch)?;
    let (momentum, eps): (f64, f64) = (given.momentum.to(), given.eps.to());
    let native_batch_norm::Operands { out, save_mean, save_invstd, running_mean, running_var, x, weight, bias } =
        native_batch_norm::Operands::of(launch)?;
    let shape = Shape::of(&x, given.channels, given.columns)?;
    let (output, input) = (out.into_elements::<E>()?, x.elements::<E>()?);
    let (save_mean, save_inverse) = (optional(save_mean)?, optional(save_invstd)?);
    let (mut running_mean, mut running_var) = (optional(running_mean)?, optional(running_var)?);
    let weight = Values::or(weight, shape.channels, 1.0)?;
    let bias = Values::or(bias, shape.channels, 0.0)?;
    let (means, inverses): (Vec<f64>, Vec<f64>) = if let (Some(mut save_mean), Some(mut save_inverse)) = (save_mean, save_inverse) {
        let count = shape.count() as f64;
        let of_channel = |(channel, [mean, squares]): (usize, [f64; 2])| {
            let found = (mean, inverse(squares / count, eps));
            save_mean.set(channel, found.0);
            save_inverse.set(channel, found.1);
            for (running, value) in [(&mut running_mean, mean), (&mut running_var, squares / (count - 1.0))] {
                if let Some(running) = running {
                    running.set(channel, value * momentum + running.get(channel) * (1.0 - momentum));
                }
            }
            found
        };
        moments(input, shape).into_iter().enumerate().map(of_channel).unzip()
    } else {
        let (Some(mean), Some(var)) = (running_mean, running_var) else { return Err(Error::new("there are no statistics")) };
        (mean.to_vec(), var.to_vec().into_iter().map(|var| inverse(var, eps)).collect())
    };
    // The rounding error of a mean goes into the shift.
    let rounded: Vec<E::Acc> = means.iter().copied().map(narrow).collect();
    let scales: Vec<f64> = inverses.iter().zip(&weight).map(|(inverse, weight)| inverse * weight).collect();
    let lost = |channel: usize| means[channel] - super::wide(rounded[channel]);
    let shift = |channel: usize| if lost(channel) == 0.0 { 0.0 } else { lost(channel) * scales[channel] };
    let shifts: Vec<_> = (0..shape.channels).map(|channel| narrow(bias[channel] - shift(channel))).collect();
    let scales: Vec<_> = scales.iter().copied().map(narrow).collect();
    map::<E, _, 1, 3>(output, [input], shape, [&rounded, &scales, &shifts], Affine, launch.cost());
    Ok(())
}

fn backward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_batch_norm_backward::Scalars::of(launch)?;
    let native_batch_norm_backward::Operands { grad_x, grad_weight, grad_bias, grad, x, mean, invstd, weight } =
        native_batch_norm_backward::Operands::of(launch)?;
    let shape = Shape::of(&x, given.channels, given.columns)?;
    let (is_own, output) = (given.training.is_true(), grad_x.into_elements::<E>()?);
    let (mut weight_grad, mut bias_grad) = (optional(grad_weight)?, optional(grad_bias)?);
    let inputs = [grad.elements::<E>()?, x.elements::<E>()?];
    let means = Values::<E::Acc>::new(mean)?.to_vec();
    let mut inverses = Values::<f64>::new(invstd)?.to_vec();
    if !is_own {
        let eps = given.eps.to();
        for value in &mut inverses {
            *value = inverse(*value, eps);
        }
    }
    let weight = Values::or(weight, shape.channels, 1.0)?;
    let scales: Vec<f64> = inverses.iter().zip(&weight).map(|(inverse, weight)| inverse * weight).collect();
    let narrowed: Vec<E::Acc> = scales.iter().copied().map(narrow).collect();
    let totals = products(inputs, shape, &means, 1);
    for (channel, [plain, product]) in totals.iter().enumerate() {
        if let Some(weight_grad) = &mut weight_grad {
            weight_grad.set(channel, product * inverses[channel]);
        }
        if let Some(bias_grad) = &mut bias_grad {
            bias_grad.set(channel, *plain);
        }
    }
    if !is_own {
        map::<E, _, 2, 1>(output, inputs, shape, [&narrowed], Scaled, launch.cost());
        return Ok(());
    }
    let count = shape.count() as f64;
    let channel = |(channel, [plain, product]): (usize, [f64; 2])| {
        let scale = -scales[channel] / count;
        (narrow::<E::Acc>(product * inverses[channel] * inverses[channel] * scale), narrow::<E::Acc>(plain * scale))
    };
    let (slopes, bases): (Vec<E::Acc>, Vec<E::Acc>) = totals.into_iter().enumerate().map(channel).unzip();
    map::<E, _, 2, 4>(output, inputs, shape, [&means, &narrowed, &slopes, &bases], Combined, launch.cost());
    Ok(())
}
