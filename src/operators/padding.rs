//! Reflection and replication padding of 1-D, 2-D and 3-D data, and their gradients. A padding is a list of pairs (before,
//! after), the last dimension first. Calls that are clearly valid skip PyTorch's meta function, which takes longer than the
//! rest of a small call.

use super::call::{Arguments, Call, Outcome, Shape, Strides, StructuredCall, ensure};
use super::tensors::{Format, Tensor};
use crate::tensor::launch::Scalar;

/// The padded sizes of a call that is clearly valid; `None` leaves the call to the meta function.
fn usual_sizes<'a>(call: &Call<'a>, input: Tensor<'_>, padding: &[i64]) -> Option<&'a [i64]> {
    let (sizes, spatial) = (input.sizes(), padding.len() / 2);
    let batch = input.ndim().checked_sub(spatial + 1).filter(|&batch| batch < 2 && padding.len().is_multiple_of(2))?;
    let sides = |dim: usize| (input.ndim() - 1 - dim < spatial).then(|| &padding[2 * (input.ndim() - 1 - dim)..][..2]);
    let is_usual = |dim: usize| sides(dim).is_none_or(|sides| sides.iter().all(|side| (0..sizes[dim]).contains(side)));
    let fits = (batch..input.ndim()).all(|dim| sizes[dim] > 0 && is_usual(dim));
    fits.then(|| call.arena().keep_all(input.ndim(), |dim| sizes[dim] + sides(dim).map_or(0, |sides| sides[0] + sides[1])))
}

/// Launches into an output of these sizes. Its memory format is that which tensor `like` suggests, as from PyTorch's CPU
/// kernels; the meta functions would make it contiguous.
fn launch(call: &Call<'_>, sizes: &[i64], like: Tensor<'_>, source: Tensor<'_>, padding: &[i64]) -> Outcome {
    let out = match like.suggested_format() {
        Format::Contiguous => call.contiguous(0, sizes, like.dtype(), Strides::Any)?,
        format => call.output(0, &Shape::new(sizes, like.dtype(), format), Strides::Given)?,
    };
    if out.numel() == 0 {
        return Ok(());
    }
    let before = call.arena().keep_all(padding.len() / 2, |pair| Scalar::Long(padding[2 * pair]));
    call.launch(&[out], &[source], before)
}

/// Padding operators with their own meta function.
pub fn pad(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [input, padding] = arguments.all()?;
    let (input, padding) = (input.tensor()?, padding.integers()?);
    match usual_sizes(call, input, padding) {
        Some(sizes) => launch(call, sizes, input, input, padding),
        None => launch(call, &call.shape()?.sizes, input, input, padding),
    }
}

/// `reflection_pad2d`, which has no meta function. It uses that of replication and limits the padding to the elements that can
/// be reflected.
pub fn reflect_images(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [input, padding] = arguments.all()?;
    let (input, padding) = (input.tensor()?, padding.integers()?);
    if let Some(sizes) = usual_sizes(call, input, padding) {
        return launch(call, sizes, input, input, padding);
    }
    let shape = call.shape()?;
    for (pair, sides) in padding.chunks_exact(2).enumerate() {
        let (size, dim) = (input.size_from_end(pair), input.ndim() - 1 - pair);
        ensure!(
            sides[0] < size && sides[1] < size,
            "Padding size should be less than the corresponding input dimension, but got: padding ({}, {}) at dimension {dim} of input {:?}",
            sides[0],
            sides[1],
            input.sizes()
        );
    }
    launch(call, &shape.sizes, input, input, padding)
}

fn check_padding(padding: &[i64], dims: usize) -> Outcome {
    ensure!(padding.len() == 2 * dims, "padding size is expected to be {}, but got: {}", 2 * dims, padding.len());
    Ok(())
}

/// Gradients with their own meta function.
pub fn pad_backward_of_meta(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [grad, input, padding] = arguments.all()?;
    let shape = call.shape()?;
    launch(call, &shape.sizes, input.tensor()?, grad.tensor()?, padding.integers()?)
}

/// `reflection_pad1d_backward`, whose meta function does not check that the padding has two numbers.
pub fn reflect_lines_backward(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [.., padding] = arguments.all::<3>()?;
    check_padding(padding.integers()?, 1)?;
    pad_backward_of_meta(arguments, call)
}

/// Gradients without a meta function: the output's gradient must have the sizes of the padded input.
pub fn pad_backward<const DIMS: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [grad, input, padding] = arguments.all()?;
    let (grad, input, padding) = (grad.tensor()?, input.tensor()?, padding.integers()?);
    check_padding(padding, DIMS)?;
    ensure!(
        [DIMS + 1, DIMS + 2].contains(&input.ndim()),
        "Expected {}D or {}D (batch mode) tensor for input, but got: {:?}",
        DIMS + 1,
        DIMS + 2,
        input.sizes()
    );
    let mut padded = input.sizes().to_vec();
    for (size, sides) in padded.iter_mut().rev().zip(padding.chunks_exact(2)) {
        *size += sides[0] + sides[1];
    }
    ensure!(grad.sizes() == padded, "grad_output unexpected. Expected: {padded:?}, Got: {:?}", grad.sizes());
    launch(call, input.sizes(), input, grad, padding)
}
