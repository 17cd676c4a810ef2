//! Group normalisation: every sample has statistics of its own, over some neighbouring channels.

use super::{Affine, Combined, Numbers, Operands, Shape, inverse, map_rows, moments, narrow, products, wide};
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::rows;
use crate::tensor::number::{Number, Real};

/// `aten::native_group_norm`. Operands [out, mean, rstd, x, weight?, bias?]; out and x have a row for every sample and channel; scalars
/// [channels, groups, whether there is a weight, a bias, eps].
///
/// # Errors
/// The wrong operands.
pub fn native_group_norm(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => forward::<E>(launch))
}

/// [mean, scale, shift] of a row.
#[derive(Clone, Copy)]
struct Normal<'a, T> {
    means: &'a [T],
    inverses: &'a [T],
    weight: &'a [T],
    bias: &'a [T],
}

impl<T: Number> Numbers<T, 3> for Normal<'_, T> {
    #[inline(always)]
    fn of(self, group: usize, channel: usize) -> [T; 3] {
        [self.means[group], self.inverses[group].mul(self.weight[channel]), self.bias[channel]]
    }
}

fn forward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), String> {
    let (channels, groups) = (launch.scalar(0)?.to::<i64>() as usize, launch.scalar(1)?.to::<i64>() as usize);
    let eps: f64 = launch.scalar(4)?.to();
    let shape = Shape::of(&launch.view(0), channels, false)?;
    let span = channels / groups;
    let mut operands = Operands { launch, next: 0 };
    let output = operands.results::<E>()?;
    let (save_mean, save_inverse) = (operands.view(), operands.view());
    let input = operands.elements::<E>()?;
    let weight = operands.parameter(2, channels, E::Acc::ONE)?;
    let bias = operands.parameter(3, channels, E::Acc::ZERO)?;
    let (rows, cols) = (shape.rows / span, shape.cols * span);
    let whole = Shape { rows, cols, channels: rows, by_columns: false };
    let found = moments(input, whole);
    let means: Vec<E::Acc> = found.iter().map(|&[mean, _]| narrow(mean)).collect();
    let inverses: Vec<E::Acc> = found.iter().map(|&[_, squares]| narrow(inverse(squares / cols as f64, eps))).collect();
    rows::assign(&save_mean, &means)?;
    rows::assign(&save_inverse, &inverses)?;
    let numbers = Normal { means: &means, inverses: &inverses, weight: &weight, bias: &bias };
    map_rows::<E, _, _, 1, 3>(output, [input], shape, span, numbers, Affine, launch.cost());
    Ok(())
}

/// `aten::native_group_norm_backward`. Operands [grad of x, grad of weight?, grad of bias?, grad, x, mean, rstd, weight?]; grads and x have a
/// row for every sample and channel; scalars [channels, groups, whether there is a grad of weight, of bias, a weight].
///
/// # Errors
/// The wrong operands.
pub fn native_group_norm_backward(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => backward::<E>(launch))
}

/// [mean, scale, slope, base] of a row.
#[derive(Clone, Copy)]
struct Gradient<'a, T> {
    means: &'a [T],
    inverses: &'a [T],
    weight: &'a [T],
    /// Slope and base of every group.
    lines: &'a [[T; 2]],
}

impl<T: Number> Numbers<T, 4> for Gradient<'_, T> {
    #[inline(always)]
    fn of(self, group: usize, channel: usize) -> [T; 4] {
        let [slope, base] = self.lines[group];
        [self.means[group], self.inverses[group].mul(self.weight[channel]), slope, base]
    }
}

fn backward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), String> {
    let (channels, groups) = (launch.scalar(0)?.to::<i64>() as usize, launch.scalar(1)?.to::<i64>() as usize);
    let shape = Shape::of(&launch.view(0), channels, false)?;
    let mut operands = Operands { launch, next: 0 };
    let output = operands.results::<E>()?;
    let (weight_grad, bias_grad) = (operands.given::<f64>(2)?, operands.given::<f64>(3)?);
    let inputs = [operands.elements::<E>()?, operands.elements::<E>()?];
    let (means, inverses) = (operands.values::<E::Acc>()?.to_vec(), operands.values::<E::Acc>()?.to_vec());
    let weight = operands.parameter(4, channels, E::Acc::ONE)?;
    let span = channels / groups;
    let own = Shape { channels: shape.rows, ..shape };
    let sums = products(inputs, own, &means, span);
    // Of a channel over all samples, and of a group over its channels: the latter give the gradients of its mean and its scale.
    let mut totals = vec![[0.0; 2]; channels];
    let mut lines = vec![[E::Acc::ZERO; 2]; means.len()];
    let count = (span * shape.cols) as f64;
    for (group, (sums, line)) in sums.chunks_exact(span).zip(&mut lines).enumerate() {
        let (inverse, first) = (wide(inverses[group]), group % groups * span);
        let mut all = [0.0; 2];
        for ((&[plain, product], total), &weight) in
            sums.iter().zip(&mut totals[first..first + span]).zip(&weight[first..first + span])
        {
            *total = [total[0] + plain, total[1] + product * inverse];
            all = [all[0] + plain * wide(weight), all[1] + product * wide(weight)];
        }
        *line = [narrow(-all[1] / count * inverse * inverse * inverse), narrow(-all[0] / count * inverse)];
    }
    for (channel, [plain, product]) in totals.into_iter().enumerate() {
        if let Some(weight_grad) = &weight_grad {
            weight_grad.set(channel, product);
        }
        if let Some(bias_grad) = &bias_grad {
            bias_grad.set(channel, plain);
        }
    }
    let numbers = Gradient { means: &means, inverses: &inverses, weight: &weight, lines: &lines };
    map_rows::<E, _, _, 2, 4>(output, inputs, shape, span, numbers, Combined, launch.cost());
    Ok(())
}
