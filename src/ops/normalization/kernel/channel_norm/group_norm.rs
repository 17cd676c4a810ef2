//! Group normalisation: each group of neighbouring channels of each sample has its own mean and variance.

use super::{Affine, Channelwise, Combined, Numbers, Shape, inverse, map_rows, map_run, narrow, optional, products, wide};
use crate::ops::normalization::kernel::mean_variance;
use crate::tensor::loops::lines::{self, Lines, Statistics};
use crate::tensor::prelude::*;
use crate::tuning::sharing::MEAN_VARIANCE_PIECE;

signature! {
    /// `aten::native_group_norm`: out and x have a row for every sample and group of channels.
    native_group_norm(out, mean, rstd; x, weight?, bias?)[channels, groups, eps] in FLOATING => |launch, E| forward::<E>(launch);
    /// `aten::native_group_norm_backward`: grads and x have a row for every sample and channel.
    native_group_norm_backward(grad_x, grad_weight?, grad_bias?; grad, x, mean, rstd, weight?)[channels, groups] in FLOATING =>
        |launch, E| backward::<E>(launch);
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

/// Normalises groups of one piece each while they are in the cache.
struct Small<'a, T> {
    /// Groups of a sample, and channels of a group.
    groups: usize,
    span: usize,
    eps: f64,
    weight: &'a [T],
    bias: &'a [T],
    /// Means of the groups, and the inverses of their standard deviations.
    statistics: [&'a Statistics; 2],
}

impl<E: Element<Acc = T>, T: Real> Lines<E, 1, 1> for Small<'_, T> {
    #[inline(always)]
    fn line(&self, number: usize, [input]: [&[E]; 1], [output]: [&mut [E]; 1]) {
        let channel = number % self.groups * self.span;
        let (weight, bias) = (&self.weight[channel..][..self.span], &self.bias[channel..][..self.span]);
        let [center, squares] = mean_variance::of_piece(input);
        let (mean, inverse): (T, T) = (narrow(center), narrow(super::inverse(squares / input.len() as f64, self.eps)));
        for (statistics, value) in self.statistics.iter().zip([mean, inverse]) {
            statistics.set(number, value);
        }
        let positions = input.len() / self.span;
        if positions == 1 {
            map_run([input], output, |at, value| Affine.apply([mean, inverse.mul(weight[at]), bias[at]], value));
            return;
        }
        let rows = input.chunks_exact(positions).zip(output.chunks_exact_mut(positions));
        for ((input, output), (&weight, &bias)) in rows.zip(weight.iter().zip(bias)) {
            let scale = inverse.mul(weight);
            map_run([input], output, |_, value| Affine.apply([mean, scale, bias], value));
        }
    }
}

fn forward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_group_norm::Scalars::of(launch)?;
    let native_group_norm::Operands { out, mean, rstd, x, weight, bias } = native_group_norm::Operands::of(launch)?;
    let whole = Shape::of(&x, given.groups, Scalar::Bool(false))?;
    let (groups, channels, eps): (usize, usize, f64) = (whole.channels, given.channels.count()?, given.eps.to());
    let span = channels / groups;
    if !channels.is_multiple_of(groups) || span == 0 || !whole.cols.is_multiple_of(span) {
        return Err(Error::new(format!("{groups} groups of {channels} channels in {:?}", x.sizes())));
    }
    let weight = Values::or(weight, channels, E::Acc::ONE)?;
    let bias = Values::or(bias, channels, E::Acc::ZERO)?;
    let (rows, cols) = (whole.rows, whole.cols);
    if cols <= MEAN_VARIANCE_PIECE {
        let (means, inverses) = (Statistics::new(rows), Statistics::new(rows));
        let small = Small { groups, span, eps, weight: &weight, bias: &bias, statistics: [&means, &inverses] };
        lines::run::<E, 1, 1>([x], [out], 1, launch.cost(), &small)?;
        means.assign(mean)?;
        return inverses.assign(rstd);
    }
    let (output, input) = (out.into_elements::<E>()?, x.elements::<E>()?);
    let found = super::moments(input, Shape { channels: rows, ..whole });
    let means: Vec<E::Acc> = found.iter().map(|&[mean, _]| narrow(mean)).collect();
    let inverses: Vec<E::Acc> = found.iter().map(|&[_, squares]| narrow(inverse(squares / cols as f64, eps))).collect();
    rows::assign(mean, &means)?;
    rows::assign(rstd, &inverses)?;
    let numbers = Normal { means: &means, inverses: &inverses, weight: &weight, bias: &bias };
    let shape = Shape { rows: rows * span, cols: cols / span, channels, by_columns: false };
    map_rows::<E, _, _, 1, 3>(output, [input], shape, span, numbers, Affine, launch.cost());
    Ok(())
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

fn backward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_group_norm_backward::Scalars::of(launch)?;
    let native_group_norm_backward::Operands { grad_x, grad_weight, grad_bias, grad, x, mean, rstd, weight } =
        native_group_norm_backward::Operands::of(launch)?;
    let (shape, groups) = (Shape::of(&x, given.channels, Scalar::Bool(false))?, given.groups.to::<i64>() as usize);
    let channels = shape.channels;
    let output = grad_x.into_elements::<E>()?;
    let (mut weight_grad, mut bias_grad) = (optional(grad_weight)?, optional(grad_bias)?);
    let inputs = [grad.elements::<E>()?, x.elements::<E>()?];
    let (means, inverses) = (Values::<E::Acc>::new(mean)?.to_vec(), Values::<E::Acc>::new(rstd)?.to_vec());
    let weight = Values::or(weight, channels, E::Acc::ONE)?;
    let span = channels / groups;
    let own = Shape { channels: shape.rows, ..shape };
    let sums = products(inputs, own, &means, span);
    // Sums of each channel over all samples, and sums of each group over its channels. The latter give slope and base: the
    // gradients through the group's standard deviation and mean.
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
        if let Some(weight_grad) = &mut weight_grad {
            weight_grad.set(channel, product);
        }
        if let Some(bias_grad) = &mut bias_grad {
            bias_grad.set(channel, plain);
        }
    }
    let numbers = Gradient { means: &means, inverses: &inverses, weight: &weight, lines: &lines };
    map_rows::<E, _, _, 2, 4>(output, inputs, shape, span, numbers, Combined, launch.cost());
    Ok(())
}
