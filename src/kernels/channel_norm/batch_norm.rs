//! Batch normalisation: each channel has one mean and variance, computed over all samples or given.

use super::{Affine, Combined, Operands, Scaled, Shape, inverse, map, moments, narrow, products};
use crate::kernels::signature::signature;
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::number::Real;

signature! {
    native_batch_norm(out, save_mean?, save_invstd?, running_mean?, running_var?, x, weight?, bias?)[channels, columns, training, has_running, has_weight, has_bias, momentum, eps] in FLOATING;
    native_batch_norm_backward(grad_x, grad_weight?, grad_bias?, grad, x, mean, invstd, weight?)[channels, columns, training, has_grad_weight, has_grad_bias, has_weight, eps] in FLOATING;
}

/// `aten::native_batch_norm`. The matrices out and x have a row for each sample and channel, or a column for each channel. In
/// training the statistics are those of x, which are saved.
pub fn native_batch_norm(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => forward::<E>(launch))
}

fn forward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_batch_norm::Scalars::of(launch)?;
    let (momentum, eps): (f64, f64) = (given.momentum.to(), given.eps.to());
    let mut operands = Operands { launch, next: 0 };
    let shape = Shape::of(&launch.view(0), given.channels, given.columns)?;
    let output = operands.results::<E>()?;
    let (save_mean, save_inverse) = (operands.given::<f64>(given.training)?, operands.given::<f64>(given.training)?);
    let (running_mean, running_var) = (operands.given::<f64>(given.has_running)?, operands.given::<f64>(given.has_running)?);
    let input = operands.elements::<E>()?;
    let weight = operands.parameter(given.has_weight, shape.channels, 1.0)?;
    let bias = operands.parameter(given.has_bias, shape.channels, 0.0)?;
    let (means, inverses): (Vec<f64>, Vec<f64>) = if let (Some(save_mean), Some(save_inverse)) = (save_mean, save_inverse) {
        let count = shape.count() as f64;
        let of_channel = |(channel, [mean, squares]): (usize, [f64; 2])| {
            let found = (mean, inverse(squares / count, eps));
            save_mean.set(channel, found.0);
            save_inverse.set(channel, found.1);
            for (running, value) in [(&running_mean, mean), (&running_var, squares / (count - 1.0))] {
                if let Some(running) = running {
                    running.set(channel, value * momentum + running.get(channel) * (1.0 - momentum));
                }
            }
            found
        };
        moments(input, shape).into_iter().enumerate().map(of_channel).unzip()
    } else {
        let (Some(mean), Some(var)) = (running_mean, running_var) else { return Err(Error::operands("there are no statistics")) };
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

/// `aten::native_batch_norm_backward`. Outside training the operand invstd is a variance.
pub fn native_batch_norm_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => backward::<E>(launch))
}

fn backward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_batch_norm_backward::Scalars::of(launch)?;
    let shape = Shape::of(&launch.view(0), given.channels, given.columns)?;
    let mut operands = Operands { launch, next: 0 };
    let (is_own, output) = (given.training == Scalar::Bool(true), operands.results::<E>()?);
    let (weight_grad, bias_grad) = (operands.given::<f64>(given.has_grad_weight)?, operands.given::<f64>(given.has_grad_bias)?);
    let inputs = [operands.elements::<E>()?, operands.elements::<E>()?];
    let means = operands.values::<E::Acc>()?.to_vec();
    let mut inverses = operands.values::<f64>()?.to_vec();
    if !is_own {
        let eps = given.eps.to();
        for value in &mut inverses {
            *value = inverse(*value, eps);
        }
    }
    let weight = operands.parameter(given.has_weight, shape.channels, 1.0)?;
    let scales: Vec<f64> = inverses.iter().zip(&weight).map(|(inverse, weight)| inverse * weight).collect();
    let narrowed: Vec<E::Acc> = scales.iter().copied().map(narrow).collect();
    let totals = products(inputs, shape, &means, 1);
    for (channel, [plain, product]) in totals.iter().enumerate() {
        if let Some(weight_grad) = &weight_grad {
            weight_grad.set(channel, product * inverses[channel]);
        }
        if let Some(bias_grad) = &bias_grad {
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
