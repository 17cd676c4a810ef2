//! Reflection and replication padding of lines, images and volumes, and their gradients. A padding is a list of (before, after), the last
//! dimension first.

use super::call::{Arguments, Call, Outcome, Shape, Strides, StructuredCall, ensure};
use super::descriptor::{Format, Tensor};
use crate::tensor::launch::Scalar;

/// Launches into an output of this shape. Results have the memory format of the tensor that their sizes come from, as those of PyTorch's CPU
/// kernels have; its metas leave them contiguous.
fn launch(call: &mut Call<'_>, shape: Shape, like: &Tensor, source: &Tensor, padding: &[i64]) -> Outcome {
    let format = like.suggested_format();
    let strides = if format == Format::Contiguous { Strides::Any } else { Strides::Given };
    let out = call.output(0, &shape.in_format(format), strides)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let before: Vec<Scalar> = padding.iter().step_by(2).map(|&before| Scalar::Long(before)).collect();
    call.launch(&[&out], &[source], &before)
}

/// Padding with a meta of its own.
pub fn pad(arguments: &Arguments<'_>, call: &mut StructuredCall<'_>) -> Outcome {
    let [input, padding] = arguments.all()?;
    let shape = call.shape()?;
    launch(call, shape, input.tensor()?, input.tensor()?, padding.integers()?)
}

/// `reflection_pad2d`, which has no meta: that of replication, and no more padding than there is to reflect.
pub fn reflect_images(arguments: &Arguments<'_>, call: &mut StructuredCall<'_>) -> Outcome {
    let [input, padding] = arguments.all()?;
    let (input, padding) = (input.tensor()?, padding.integers()?);
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
    launch(call, shape, input, input, padding)
}

fn check_padding(padding: &[i64], dims: usize) -> Outcome {
    ensure!(padding.len() == 2 * dims, "padding size is expected to be {}, but got: {}", 2 * dims, padding.len());
    Ok(())
}

/// Gradients with a meta of their own.
pub fn pad_backward_of_meta(arguments: &Arguments<'_>, call: &mut StructuredCall<'_>) -> Outcome {
    let [grad, input, padding] = arguments.all()?;
    let shape = call.shape()?;
    launch(call, shape, input.tensor()?, grad.tensor()?, padding.integers()?)
}

/// `reflection_pad1d_backward`, whose meta reads both sides' padding without a look at how many there are.
pub fn reflect_lines_backward(arguments: &Arguments<'_>, call: &mut StructuredCall<'_>) -> Outcome {
    let [.., padding] = arguments.all::<3>()?;
    check_padding(padding.integers()?, 1)?;
    pad_backward_of_meta(arguments, call)
}

/// Gradients without a meta: the output's has the sizes of the padded input.
pub fn pad_backward<const DIMS: usize>(arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
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
    launch(call, Shape::new(input.sizes(), input.dtype(), Format::Contiguous), input, grad, padding)
}
