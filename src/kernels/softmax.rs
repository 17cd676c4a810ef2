//! Softmax, its logarithm and their gradients. Operands: [out, input] or [out, grad, output], of the same sizes; scalars [dim]. Lines are
//! computed in `f32`, or `f64` for Double.

#![forbid(unsafe_code)]

use crate::simd::{Aligned, Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::launch::Launch;
use crate::tensor::loops::lines;
use crate::tensor::number::Real;

const LANES: usize = 32;

/// The fold of all lanes, by halves.
#[inline(always)]
fn across<T: Real, const N: usize>(mut lanes: [T; N], merge: impl Fn(T, T) -> T) -> T {
    let mut half = N / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = merge(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The elements of a line in chunks, the last one filled up with `filler`.
#[inline(always)]
fn filled<T: Real>(rest: &[T], filler: T) -> [T; LANES] {
    let mut chunk = [filler; LANES];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
}

/// The greatest value. Where some are NaN it may be any, since then every result is NaN.
#[inline(always)]
fn greatest<T: Real>(values: &[T]) -> T {
    let greater = |left: T, right: T| if right > left { right } else { left };
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

/// Softmax of one line or, with `LOG`, its logarithm.
struct Forward<'a, T, const LOG: bool> {
    input: &'a [T],
    output: &'a mut [T],
}

impl<T: Real, const LOG: bool> Forward<'_, T, LOG> {
    /// The powers of a chunk, or their exponents; adds the powers up.
    #[inline(always)]
    fn chunk(input: &[T; LANES], output: &mut [T; LANES], sums: &mut [T; LANES], highest: T) {
        for lane in 0..LANES {
            let apart = input[lane].sub(highest);
            let power = apart.exp();
            sums[lane] = sums[lane].add(power);
            output[lane] = if LOG { apart } else { power };
        }
    }
}

impl<T: Real, const LOG: bool> Leaf for Forward<'_, T, LOG> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let highest = greatest(self.input);
        let Aligned(sums) = &mut Aligned([T::ZERO; LANES]);
        let (inputs, input_rest) = self.input.as_chunks::<LANES>();
        let (outputs, output_rest) = self.output.as_chunks_mut::<LANES>();
        for (input, output) in inputs.iter().zip(outputs) {
            Self::chunk(input, output, sums, highest);
        }
        if !input_rest.is_empty() {
            let Aligned(powers) = &mut Aligned([T::ZERO; LANES]);
            Self::chunk(&filled(input_rest, T::from_f32(f32::NEG_INFINITY)), powers, sums, highest);
            output_rest.copy_from_slice(&powers[..output_rest.len()]);
        }
        let sum = across(*sums, T::add);
        let (shift, scale) = (sum.log(), T::ONE.div(sum));
        for value in self.output {
            *value = if LOG { value.sub(shift) } else { value.mul(scale) };
        }
    }
}

/// The gradient for one line: from the gradient and the values of the result.
struct Backward<'a, T, const LOG: bool> {
    grad: &'a [T],
    result: &'a [T],
    output: &'a mut [T],
}

impl<T: Real, const LOG: bool> Leaf for Backward<'_, T, LOG> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Aligned(sums) = &mut Aligned([T::ZERO; LANES]);
        let (grads, grad_rest) = self.grad.as_chunks::<LANES>();
        let (results, result_rest) = self.result.as_chunks::<LANES>();
        for (grad, result) in grads.iter().zip(results) {
            for lane in 0..LANES {
                sums[lane] = sums[lane].add(if LOG { grad[lane] } else { grad[lane].mul(result[lane]) });
            }
        }
        for ((sum, &grad), &result) in sums.iter_mut().zip(grad_rest).zip(result_rest) {
            *sum = sum.add(if LOG { grad } else { grad.mul(result) });
        }
        let sum = across(*sums, T::add);
        for ((&grad, &result), output) in self.grad.iter().zip(self.result).zip(self.output) {
            *output = if LOG { grad.sub(result.exp().mul(sum)) } else { grad.sub(sum).mul(result) };
        }
    }
}

/// The dimension of a launch: scalar 0.
fn dim(launch: &Launch<'_>) -> Result<usize, String> {
    let dim: i64 = launch.scalar(0)?.to();
    usize::try_from(dim).map_err(|_| format!("dimension {dim}"))
}

fn forward<T: Element<Acc = T> + Real, const LOG: bool>(launch: &Launch<'_>) -> Result<(), String> {
    lines::run::<T, 1, 1>([launch.view(1)], [launch.view(0)], dim(launch)?, launch.cost(), &|_, [input], [output]| {
        vectorize(Forward::<T, LOG> { input, output });
    })
}

fn backward<T: Element<Acc = T> + Real, const LOG: bool>(launch: &Launch<'_>) -> Result<(), String> {
    let inputs = [launch.view(1), launch.view(2)];
    lines::run::<T, 2, 1>(inputs, [launch.view(0)], dim(launch)?, launch.cost(), &|_, [grad, result], [output]| {
        vectorize(Backward::<T, LOG> { grad, result, output });
    })
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
