//! Layer normalisation and its gradients, over matrices. Values are computed in `f32`, or `f64` for Double. Statistics, weights and
//! their gradients have their own dtypes. The gradients of the weights are summed over blocks of rows, and the blocks in their
//! order, so that the bits do not depend on the threads.

#![forbid(unsafe_code)]

use super::channel_norm::map_run;
use super::failure::Failure;
use super::mean_variance;
use crate::kernels::signature::signature;
use crate::runtime::sync::Mutex;
use crate::simd::{Aligned, across};
use crate::tensor::dtype::{DType, Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::loops::lines::{self, LANES, Lines, Values};
use crate::tensor::loops::parallel;
use crate::tensor::number::{Number, Real};
use crate::tensor::part::Narrowed;
use crate::tuning::sharing::{LAYER_NORM_ROWS, MAX_LAYER_NORM_BLOCKS};

signature! {
    native_layer_norm(out, mean, rstd, x, weight?, bias?)[eps, has_weight, has_bias] in FLOATING;
    native_layer_norm_backward(grad_x, grad_weight?, grad_bias?, grad, x, mean, rstd, weight?)[has_grad_weight, has_grad_bias, has_weight] in FLOATING;
}

/// Normalises rows; writes the mean of each and the reciprocal of its standard deviation.
struct Normalize<'a, T> {
    weight: &'a [T],
    bias: &'a [T],
    eps: f64,
    means: Values<'a, T>,
    scales: Values<'a, T>,
}

impl<E: Element<Acc = T>, T: Element<Acc = T> + Real> Lines<E, 1, 1> for Normalize<'_, T> {
    #[inline(always)]
    fn line(&self, row: usize, [input]: [&[E]; 1], [output]: [&mut [E]; 1]) {
        let [mean, squares] = mean_variance::of_row(input);
        let scale = T::from_f64(1.0 / (squares / input.len() as f64 + self.eps).sqrt());
        let mean = T::from_f64(mean);
        let (weight, bias) = (&self.weight[..input.len()], &self.bias[..input.len()]);
        map_run([input], output, |at, [value]| value.sub(mean).mul(scale).mul(weight[at]).add(bias[at]));
        self.means.set(row, mean);
        self.scales.set(row, scale);
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

/// The operand at `position`, or `count` times `value` if the launch does not have it.
fn parameter<T: Element + Real>(launch: &Launch<'_>, position: Option<usize>, count: usize, value: T) -> Result<Vec<T>, Error> {
    position.map_or_else(|| Ok(vec![value; count]), |position| Ok(Values::<T>::new(launch.view(position))?.to_vec()))
}

/// Finds the positions of the optional operands from `next` on. Scalars say whether each is given.
struct OptionalOperands {
    next: usize,
}

impl OptionalOperands {
    fn take(&mut self, is_given: Scalar) -> Option<usize> {
        let there = is_given == Scalar::Bool(true);
        self.next += there as usize;
        there.then(|| self.next - 1)
    }
}

/// `aten::native_layer_norm`: mean and rstd have an element for each row, weight and bias one for each column.
pub fn native_layer_norm(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.view(3).dtype();
    dispatch!(dtype in FLOATING, E => forward::<E, <E as Element>::Acc>(launch))
}

fn forward<E: Element<Acc = T>, T: Element<Acc = T> + Real>(launch: &Launch<'_>) -> Result<(), Error> {
    let input = launch.view(3);
    let cols = input.size(1);
    let native_layer_norm::Scalars { eps, has_weight, has_bias } = native_layer_norm::Scalars::of(launch)?;
    let mut optional_operands = OptionalOperands { next: 4 };
    let (weight, bias) = (optional_operands.take(has_weight), optional_operands.take(has_bias));
    let (weight, bias) = (parameter(launch, weight, cols, T::ONE)?, parameter(launch, bias, cols, T::ZERO)?);
    let (means, scales) = (Values::<T>::new(launch.view(1))?, Values::<T>::new(launch.view(2))?);
    let normalize = Normalize { weight: &weight, bias: &bias, eps: eps.to(), means, scales };
    lines::run::<E, 1, 1>([input], [launch.view(0)], 1, launch.cost(), &normalize)
}

/// `aten::native_layer_norm_backward`.
pub fn native_layer_norm_backward(launch: &Launch<'_>) -> Result<(), Error> {
    if launch.compute() == DType::Double { backward::<f64>(launch) } else { backward::<f32>(launch) }
}

fn backward<T: Element<Acc = T> + Real>(launch: &Launch<'_>) -> Result<(), Error> {
    let given = native_layer_norm_backward::Scalars::of(launch)?;
    let mut optional_operands = OptionalOperands { next: 1 };
    let grads = [optional_operands.take(given.has_grad_weight), optional_operands.take(given.has_grad_bias)];
    let first = optional_operands.next;
    optional_operands.next += 4;
    let weight = optional_operands.take(given.has_weight);
    let (rows, cols) = (launch.view(first).size(0), launch.view(first).size(1));
    let weight = parameter(launch, weight, cols, T::ONE)?;
    let (means, scales) = (Values::<T>::new(launch.view(first + 2))?, Values::<T>::new(launch.view(first + 3))?);
    let (means, scales) = (means.to_vec(), scales.to_vec());
    let height = LAYER_NORM_ROWS.max(rows.div_ceil(MAX_LAYER_NORM_BLOCKS));
    let sums: Vec<_> = (0..rows.div_ceil(height)).map(|_| Mutex::new([vec![T::ZERO; cols], vec![T::ZERO; cols]])).collect();
    let failure = Failure::default();
    parallel(sums.len(), 1, launch.cost() * (height * cols) as f64, &|begin, end| {
        for (block, sums) in sums.iter().enumerate().take(end).skip(begin) {
            let before = block * height;
            let rows = before..rows.min(before + height);
            let [output, grads, input] = [0, first, first + 1].map(|position| {
                let mut part = Narrowed::of(&launch.view(position));
                part.narrow(0, rows.start, rows.end);
                part
            });
            let gradient = Gradient { weight: &weight, means: &means[rows.clone()], scales: &scales[rows], sums };
            // A cost of 0 makes the loop sequential.
            failure.note(lines::run::<T, 2, 1>([grads.view(), input.view()], [output.view()], 1, 0.0, &gradient));
        }
    });
    failure.result()?;
    let sums: Vec<_> = sums.into_iter().map(Mutex::into_inner).collect();
    for (which, position) in grads.into_iter().enumerate() {
        if let Some(position) = position {
            let grad = Values::<T>::new(launch.view(position))?;
            for col in 0..cols {
                grad.set(col, sums.iter().fold(T::ZERO, |sum, block| sum.add(block[which][col])));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod layer_norm_tests;
