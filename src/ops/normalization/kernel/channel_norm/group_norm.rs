//! Group normalisation: each group of neighbouring channels of each sample has its own mean and variance.

use super::{Affine, Channelwise, Combined, Numbers, Shape, inverse, map_rows, map_run, narrow, optional, products, wide};
use crate::ops::normalization::kernel::mean_variance;
use crate::runtime::sync::Mutex;
use crate::tensor::prelude::*;
use crate::tuning::sharing::{GRAIN, MEAN_VARIANCE_PIECE};

signature! {
    /// `aten::native_group_norm`: out and x have a row for every sample and channel.
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
struct Small<'a, E: Element> {
    shape: Shape,
    /// Channels of a group.
    span: usize,
    eps: f64,
    /// The index of the first group within its sample.
    first: usize,
    weight: &'a [E::Acc],
    bias: &'a [E::Acc],
    input: &'a [E],
    output: &'a mut [E],
    means: &'a mut [E::Acc],
    inverses: &'a mut [E::Acc],
}

impl<E: Element<Acc: Real>> Leaf for &mut Small<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (positions, span) = (self.shape.cols, self.span);
        let size = positions * span;
        let mut channel = self.first * span;
        let groups = self.input.chunks_exact(size).zip(self.output.chunks_exact_mut(size));
        for ((input, output), (mean, inverse)) in groups.zip(self.means.iter_mut().zip(self.inverses.iter_mut())) {
            let [center, squares] = mean_variance::of_piece(input);
            (*mean, *inverse) = (narrow(center), narrow(super::inverse(squares / size as f64, self.eps)));
            let (mean, inverse) = (*mean, *inverse);
            if positions == 1 {
                let (weight, bias) = (&self.weight[channel..channel + span], &self.bias[channel..channel + span]);
                map_run([input], output, |at, value| Affine.apply([mean, inverse.mul(weight[at]), bias[at]], value));
            } else {
                let parameters = self.weight[channel..channel + span].iter().zip(&self.bias[channel..channel + span]);
                let rows = input.chunks_exact(positions).zip(output.chunks_exact_mut(positions));
                for ((input, output), (&weight, &bias)) in rows.zip(parameters) {
                    let scale = inverse.mul(weight);
                    map_run([input], output, |_, value| Affine.apply([mean, scale, bias], value));
                }
            }
            channel = if channel + span == self.shape.channels { 0 } else { channel + span };
        }
    }
}

fn forward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_group_norm::Scalars::of(launch)?;
    let native_group_norm::Operands { out, mean, rstd, x, weight, bias } = native_group_norm::Operands::of(launch)?;
    let (shape, groups) = (Shape::of(&x, given.channels, Scalar::Bool(false))?, given.groups.to::<i64>() as usize);
    let (channels, eps): (usize, f64) = (shape.channels, given.eps.to());
    let span = channels / groups;
    let (output, input) = (out.into_elements::<E>()?, x.elements::<E>()?);
    let weight = Values::or(weight, channels, E::Acc::ONE)?;
    let bias = Values::or(bias, channels, E::Acc::ZERO)?;
    let (rows, cols) = (shape.rows / span, shape.cols * span);
    if cols <= MEAN_VARIANCE_PIECE {
        let (mut means, mut inverses) = (vec![E::Acc::ZERO; rows], vec![E::Acc::ZERO; rows]);
        let grain = (GRAIN / cols).max(1);
        let statistics = means.chunks_mut(grain).zip(inverses.chunks_mut(grain));
        let parts = input.chunks(grain * cols).zip(output.chunks_mut(grain * cols)).zip(statistics).enumerate();
        let parts: Vec<_> = parts
            .map(|(part, ((input, output), (means, inverses)))| {
                let first = part * grain % groups;
                Mutex::new(Small { shape, span, eps, first, weight: &weight, bias: &bias, input, output, means, inverses })
            })
            .collect();
        parallel(parts.len(), 1, launch.cost() * (grain * cols) as f64, &|begin, end| {
            for part in &parts[begin..end] {
                vectorize(&mut *part.lock());
            }
        });
        drop(parts);
        rows::assign(mean, &means)?;
        return rows::assign(rstd, &inverses);
    }
    let whole = Shape { rows, cols, channels: rows, by_columns: false };
    let found = super::moments(input, whole);
    let means: Vec<E::Acc> = found.iter().map(|&[mean, _]| narrow(mean)).collect();
    let inverses: Vec<E::Acc> = found.iter().map(|&[_, squares]| narrow(inverse(squares / cols as f64, eps))).collect();
    rows::assign(mean, &means)?;
    rows::assign(rstd, &inverses)?;
    let numbers = Normal { means: &means, inverses: &inverses, weight: &weight, bias: &bias };
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
