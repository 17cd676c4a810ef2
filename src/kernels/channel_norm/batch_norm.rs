//! Batch normalisation: each channel has one mean and variance, computed over all samples or given.

use super::{Affine, Combined, Operands, Scaled, Shape, inverse, map, moments, narrow, products};
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::number::Real;
use crate::tensor::view::View;

/// Scalars [channels, whether they are columns].
fn shape_of(launch: &Launch<'_>, input: &View<'_>) -> Result<Shape, Error> {
    Shape::of(input, launch.scalar(0)?.to::<i64>() as usize, launch.scalar(1)? == Scalar::Bool(true))
}

/// `aten::native_batch_norm`. Operands [out, save mean?, save invstd?, running mean?, running var?, x, weight?, bias?]; out and x are rows of
/// one channel each, or have a column for each channel; scalars [channels, whether they are columns, whether statistics are those of x, which
/// are then saved, whether there are running ones, a weight, a bias, momentum, eps].
///
/// # Errors
/// The wrong operands.
pub fn native_batch_norm(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => forward::<E>(launch))
}

fn forward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let (momentum, eps): (f64, f64) = (launch.scalar(6)?.to(), launch.scalar(7)?.to());
    let mut operands = Operands { launch, next: 0 };
    let shape = shape_of(launch, &launch.view(0))?;
    let output = operands.results::<E>()?;
    let (save_mean, save_inverse) = (operands.given::<f64>(2)?, operands.given::<f64>(2)?);
    let (running_mean, running_var) = (operands.given::<f64>(3)?, operands.given::<f64>(3)?);
    let input = operands.elements::<E>()?;
    let weight = operands.parameter(4, shape.channels, 1.0)?;
    let bias = operands.parameter(5, shape.channels, 0.0)?;
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
    // What a mean loses when it is rounded is in the shift.
    let rounded: Vec<E::Acc> = means.iter().copied().map(narrow).collect();
    let scales: Vec<f64> = inverses.iter().zip(&weight).map(|(inverse, weight)| inverse * weight).collect();
    let lost = |channel: usize| means[channel] - super::wide(rounded[channel]);
    let shift = |channel: usize| if lost(channel) == 0.0 { 0.0 } else { lost(channel) * scales[channel] };
    let shifts: Vec<_> = (0..shape.channels).map(|channel| narrow(bias[channel] - shift(channel))).collect();
    let scales: Vec<_> = scales.iter().copied().map(narrow).collect();
    map::<E, _, 1, 3>(output, [input], shape, [&rounded, &scales, &shifts], Affine, launch.cost());
    Ok(())
}

/// `aten::native_batch_norm_backward`. Operands [grad of x, grad of weight?, grad of bias?, grad, x, mean, invstd or variance, weight?]; scalars
/// [channels, whether they are columns, whether statistics are those of x, whether there is a grad of weight, of bias, a weight, eps]. Given
/// statistics have a variance.
///
/// # Errors
/// The wrong operands.
pub fn native_batch_norm_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => backward::<E>(launch))
}

fn backward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let shape = shape_of(launch, &launch.view(0))?;
    let mut operands = Operands { launch, next: 0 };
    let (is_own, output) = (operands.flag(2)?, operands.results::<E>()?);
    let (weight_grad, bias_grad) = (operands.given::<f64>(3)?, operands.given::<f64>(4)?);
    let inputs = [operands.elements::<E>()?, operands.elements::<E>()?];
    let means = operands.values::<E::Acc>()?.to_vec();
    let mut inverses = operands.values::<f64>()?.to_vec();
    if !is_own {
        let eps = launch.scalar(6)?.to();
        for value in &mut inverses {
            *value = inverse(*value, eps);
        }
    }
    let weight = operands.parameter(5, shape.channels, 1.0)?;
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
