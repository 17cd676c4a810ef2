//! Layer normalisation and its gradients, over matrices. Values are computed in `f32`, or `f64` for Double. Statistics, weights and
//! their gradients have their own dtypes. The gradients of the weights are summed over blocks of rows, and the blocks in their
//! order, so that the bits do not depend on the threads.

use super::channel_norm::map_run;
use super::mean_variance;
use crate::runtime::sync::Mutex;
use crate::simd::{Aligned, across};
use crate::tensor::loops::failure::Failure;
use crate::tensor::loops::lines::{self, LANES, Lines, Statistics, Values, ValuesMut};
use crate::tensor::{DType, Element, Error, Launch, Number, Part, Real, dispatch, signature};
use crate::tuning::sharing::{LAYER_NORM_ROWS, MAX_LAYER_NORM_BLOCKS};

signature! {
    native_layer_norm(out, mean, rstd; x, weight?, bias?)[eps] in FLOATING;
    native_layer_norm_backward(grad_x, grad_weight?, grad_bias?; grad, x, mean, rstd, weight?)[] in FLOATING =>
        |launch| if launch.compute() == DType::Double { backward::<f64>(launch) } else { backward::<f32>(launch) };
}

/// Normalises rows; writes the mean of each and the reciprocal of its standard deviation.
struct Normalize<'a, T> {
    weight: &'a [T],
    bias: &'a [T],
    eps: f64,
    /// Means and scales of the rows.
    statistics: [&'a Statistics; 2],
}

impl<E: Element<Acc = T>, T: Element<Acc = T> + Real> Lines<E, 1, 1> for Normalize<'_, T> {
    #[inline(always)]
    fn line(&self, row: usize, [input]: [&[E]; 1], [output]: [&mut [E]; 1]) {
        let [mean, squares] = mean_variance::of_row(input);
        let scale = T::from_f64(1.0 / (squares / input.len() as f64 + self.eps).sqrt());
        let mean = T::from_f64(mean);
        let (weight, bias) = (&self.weight[..input.len()], &self.bias[..input.len()]);
        map_run([input], output, |at, [value]| value.sub(mean).mul(scale).mul(weight[at]).add(bias[at]));
        for (statistics, value) in self.statistics.iter().zip([mean, scale]) {
            statistics.set(row, value);
        }
    }
}

/// The gradients of a block of rows.
struct Gradient<'a, T> {
    weight: &'a [T],
    means: &'a [T],
    scales: &'a [T],
    /// The gradients of weight and bias, summed over the rows so far.
    sums: &'a Mutex<[Vec<T>; 2]>,
}

impl<T: Real> Lines<T, 2, 1> for Gradient<'_, T> {
    #[inline(always)]
    fn line(&self, row: usize, [grads, input]: [&[T]; 2], [output]: [&mut [T]; 1]) {
        let (mean, scale, count) = (self.means[row], self.scales[row], input.len());
        let (Aligned(plain), Aligned(weighted)) = (&mut Aligned([T::ZERO; LANES]), &mut Aligned([T::ZERO; LANES]));
        let mut sums = self.sums.lock();
        let [weight_grad, bias_grad] = &mut *sums;
        let mut look = |position: usize, lane: usize| {
            let normal = input[position].sub(mean).mul(scale);
            let grad = grads[position];
            weight_grad[position] = weight_grad[position].add(grad.mul(normal));
            bias_grad[position] = bias_grad[position].add(grad);
            let grad = grad.mul(self.weight[position]);
            plain[lane] = plain[lane].add(grad);
            weighted[lane] = weighted[lane].add(grad.mul(normal));
        };
        let whole = count / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            for lane in 0..LANES {
                look(first + lane, lane);
            }
        }
        for lane in 0..count - whole {
            look(whole + lane, lane);
        }
        let count = T::from_i64(count as i64);
        let (plain, weighted) = (across(*plain, Number::add).div(count), across(*weighted, Number::add).div(count));
        for (position, output) in output.iter_mut().enumerate() {
            let normal = input[position].sub(mean).mul(scale);
            *output = grads[position].mul(self.weight[position]).sub(plain).sub(normal.mul(weighted)).mul(scale);
        }
    }
}

/// `aten::native_layer_norm`: mean and rstd have an element for each row, weight and bias one for each column.
pub fn native_layer_norm(launch: &Launch<'_>) -> Result<(), Error> {
    let operands = native_layer_norm::Operands::of(launch)?;
    let dtype = operands.x.dtype();
    dispatch!(dtype in FLOATING, E => forward::<E, <E as Element>::Acc>(launch, operands))
}

fn forward<E: Element<Acc = T>, T: Element<Acc = T> + Real>(
    launch: &Launch<'_>,
    operands: native_layer_norm::Operands<'_>,
) -> Result<(), Error> {
    let native_layer_norm::Operands { out, mean, rstd, x, weight, bias } = operands;
    let (cols, eps) = (x.size(1), native_layer_norm::Scalars::of(launch)?.eps.to());
    let (weight, bias) = (Values::or(weight, cols, T::ONE)?, Values::or(bias, cols, T::ZERO)?);
    let (means, scales) = (Statistics::new(x.size(0)), Statistics::new(x.size(0)));
    let normalize = Normalize { weight: &weight, bias: &bias, eps, statistics: [&means, &scales] };
    lines::run::<E, 1, 1>([x], [out], 1, launch.cost(), &normalize)?;
    means.assign(mean)?;
    scales.assign(rstd)
}

fn backward<T: Element<Acc = T> + Real>(launch: &Launch<'_>) -> Result<(), Error> {
    let native_layer_norm_backward::Operands { grad_x, grad_weight, grad_bias, grad, x, mean, rstd, weight } =
        native_layer_norm_backward::Operands::of(launch)?;
    let (rows, cols) = (grad.size(0), grad.size(1));
    let weight = Values::or(weight, cols, T::ONE)?;
    let (means, scales) = (Values::<T>::new(mean)?.to_vec(), Values::<T>::new(rstd)?.to_vec());
    let height = LAYER_NORM_ROWS.max(rows.div_ceil(MAX_LAYER_NORM_BLOCKS));
    let sums: Vec<_> = (0..rows.div_ceil(height)).map(|_| Mutex::new([vec![T::ZERO; cols], vec![T::ZERO; cols]])).collect();
    let failure = Failure::default();
    grad_x.in_blocks(0, height, launch.cost() * cols as f64, &|begin, end, output| {
        let [grads, input] = [grad, x].map(|operand| {
            let mut part = Part::of(&operand);
            part.narrow(0, begin, end);
            part
        });
        let gradient =
            Gradient { weight: &weight, means: &means[begin..end], scales: &scales[begin..end], sums: &sums[begin / height] };
        // A cost of 0 makes the loop sequential.
        failure.note(lines::run::<T, 2, 1>([grads.view(), input.view()], [output], 1, 0.0, &gradient));
    });
    failure.result()?;
    let sums: Vec<_> = sums.into_iter().map(Mutex::into_inner).collect();
    for (which, output) in [grad_weight, grad_bias].into_iter().enumerate() {
        let Some(output) = output else { continue };
        let mut grad = ValuesMut::<T>::new(output)?;
        for col in 0..cols {
            grad.set(col, sums.iter().fold(T::ZERO, |sum, block| sum.add(block[which][col])));
        }
    }
    Ok(())
}
