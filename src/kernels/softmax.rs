//! Softmax, its logarithm and their gradients. Operands: [out, input] or [out, grad, output], of the same sizes; scalars [dim]. Lines are
//! computed in `f32`, or `f64` for Double.

#![forbid(unsafe_code)]

use std::hint::black_box;

use crate::simd::{Aligned, across};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::launch::Launch;
use crate::tensor::loops::lines::{self, Columns, LANES, Lines, Strip};
use crate::tensor::number::Real;

/// The elements of a line in chunks, the last one filled up with `filler`.
#[inline(always)]
fn filled<T: Real>(rest: &[T], filler: T) -> [T; LANES] {
    let mut chunk = [filler; LANES];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
}

#[inline(always)]
fn greater<T: Real>(left: T, right: T) -> T {
    if right > left { right } else { left }
}

/// The greatest value. Where some are NaN it may be any, since then every result is NaN.
#[inline(always)]
fn greatest<T: Real>(values: &[T]) -> T {
    let Aligned(lanes) = &mut Aligned([values[0]; LANES]);
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = greater(*lane, value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(filled(rest, values[0])) {
        *lane = greater(*lane, value);
    }
    across(*lanes, greater)
}

/// Softmax or, with `LOG`, its logarithm.
struct Forward<const LOG: bool>;

impl<const LOG: bool> Forward<LOG> {
    /// The powers of a chunk, or their exponents; adds the powers up.
    #[inline(always)]
    fn chunk<T: Real>(input: &[T; LANES], output: &mut [T; LANES], sums: &mut [T; LANES], highest: &[T; LANES]) {
        for lane in 0..LANES {
            let apart = input[lane].sub(highest[lane]);
            let power = apart.exp();
            sums[lane] = sums[lane].add(power);
            output[lane] = if LOG { apart } else { power };
        }
    }
}

impl<T: Real, const LOG: bool> Lines<T, 1, 1> for Forward<LOG> {
    #[inline(always)]
    fn line(&self, _: usize, [input]: [&[T]; 1], [output]: [&mut [T]; 1]) {
        let highest = [greatest(input); LANES];
        let Aligned(sums) = &mut Aligned([T::ZERO; LANES]);
        let (inputs, input_rest) = input.as_chunks::<LANES>();
        let (outputs, output_rest) = output.as_chunks_mut::<LANES>();
        for (input, output) in inputs.iter().zip(outputs) {
            Self::chunk(input, output, sums, &highest);
        }
        if !input_rest.is_empty() {
            let Aligned(powers) = &mut Aligned([T::ZERO; LANES]);
            Self::chunk(&filled(input_rest, T::from_f32(f32::NEG_INFINITY)), powers, sums, &highest);
            output_rest.copy_from_slice(&powers[..output_rest.len()]);
        }
        let sum = across(*sums, T::add);
        let (shift, scale) = (sum.log(), T::ONE.div(sum));
        for value in output {
            *value = if LOG { value.sub(shift) } else { value.mul(scale) };
        }
    }
}

impl<T: Real, const LOG: bool> Columns<T, 1, 1> for Forward<LOG> {
    #[inline(always)]
    fn columns(&self, mut strip: Strip<T, 1, 1>) {
        let Aligned(highest) = &mut Aligned(*strip.input(0, 0));
        for row in strip.rows() {
            for (highest, &value) in highest.iter_mut().zip(strip.input(0, row)) {
                *highest = greater(*highest, value);
            }
        }
        let Aligned(sums) = &mut Aligned([T::ZERO; LANES]);
        for row in strip.rows() {
            let ([input], output) = strip.row(row);
            Self::chunk(input, output, sums, highest);
        }
        for sum in sums.iter_mut() {
            *sum = if LOG { sum.log() } else { T::ONE.div(*sum) };
        }
        // Sums in memory: kept in registers since the pass before, they make this one scalar code.
        let sums = black_box(sums);
        for row in strip.rows() {
            for (value, &sum) in strip.output(0, row).iter_mut().zip(sums.iter()) {
                *value = if LOG { value.sub(sum) } else { value.mul(sum) };
            }
        }
    }
}

/// The gradient, from the gradient and the values of the result.
struct Backward<const LOG: bool>;

impl<const LOG: bool> Backward<LOG> {
    /// What is summed up along a line.
    #[inline(always)]
    fn part<T: Real>(grad: T, result: T) -> T {
        if LOG { grad } else { grad.mul(result) }
    }

    #[inline(always)]
    fn finish<T: Real>(grad: T, result: T, sum: T) -> T {
        if LOG { grad.sub(result.exp().mul(sum)) } else { grad.sub(sum).mul(result) }
    }
}

impl<T: Real, const LOG: bool> Lines<T, 2, 1> for Backward<LOG> {
    #[inline(always)]
    fn line(&self, _: usize, [grad, result]: [&[T]; 2], [output]: [&mut [T]; 1]) {
        let Aligned(sums) = &mut Aligned([T::ZERO; LANES]);
        let (grads, grad_rest) = grad.as_chunks::<LANES>();
        let (results, result_rest) = result.as_chunks::<LANES>();
        for (grad, result) in grads.iter().zip(results) {
            for lane in 0..LANES {
                sums[lane] = sums[lane].add(Self::part(grad[lane], result[lane]));
            }
        }
        for ((sum, &grad), &result) in sums.iter_mut().zip(grad_rest).zip(result_rest) {
            *sum = sum.add(Self::part(grad, result));
        }
        let sum = across(*sums, T::add);
        for ((&grad, &result), output) in grad.iter().zip(result).zip(output) {
            *output = Self::finish(grad, result, sum);
        }
    }
}

impl<T: Real, const LOG: bool> Columns<T, 2, 1> for Backward<LOG> {
    #[inline(always)]
    fn columns(&self, mut strip: Strip<T, 2, 1>) {
        let Aligned(sums) = &mut Aligned([T::ZERO; LANES]);
        for row in strip.rows() {
            let ([grad, result], _) = strip.row(row);
            for lane in 0..LANES {
                sums[lane] = sums[lane].add(Self::part(grad[lane], result[lane]));
            }
        }
        for row in strip.rows() {
            let ([grad, result], output) = strip.row(row);
            for lane in 0..LANES {
                output[lane] = Self::finish(grad[lane], result[lane], sums[lane]);
            }
        }
    }
}

/// The dimension of a launch: scalar 0.
fn dim(launch: &Launch<'_>) -> Result<usize, String> {
    let dim: i64 = launch.scalar(0)?.to();
    usize::try_from(dim).map_err(|_| format!("dimension {dim}"))
}

fn forward<T: Element<Acc = T> + Real, const LOG: bool>(launch: &Launch<'_>) -> Result<(), String> {
    lines::run_either::<T, 1, 1>([launch.view(1)], [launch.view(0)], dim(launch)?, launch.cost(), &Forward::<LOG>)
}

fn backward<T: Element<Acc = T> + Real, const LOG: bool>(launch: &Launch<'_>) -> Result<(), String> {
    let inputs = [launch.view(1), launch.view(2)];
    lines::run_either::<T, 2, 1>(inputs, [launch.view(0)], dim(launch)?, launch.cost(), &Backward::<LOG>)
}

/// `aten::_softmax`.
///
/// # Errors
/// The wrong operands.
pub fn softmax(launch: &Launch<'_>) -> Result<(), String> {
    if launch.compute() == DType::Double { forward::<f64, false>(launch) } else { forward::<f32, false>(launch) }
}

/// `aten::_log_softmax`.
///
/// # Errors
/// The wrong operands.
pub fn log_softmax(launch: &Launch<'_>) -> Result<(), String> {
    if launch.compute() == DType::Double { forward::<f64, true>(launch) } else { forward::<f32, true>(launch) }
}

/// `aten::_softmax_backward_data`. Operands [out, grad, output].
///
/// # Errors
/// The wrong operands.
pub fn softmax_backward(launch: &Launch<'_>) -> Result<(), String> {
    if launch.compute() == DType::Double { backward::<f64, false>(launch) } else { backward::<f32, false>(launch) }
}

/// `aten::_log_softmax_backward_data`. Operands [out, grad, output].
///
/// # Errors
/// The wrong operands.
pub fn log_softmax_backward(launch: &Launch<'_>) -> Result<(), String> {
    if launch.compute() == DType::Double { backward::<f64, true>(launch) } else { backward::<f32, true>(launch) }
}

#[cfg(test)]
mod tests;
