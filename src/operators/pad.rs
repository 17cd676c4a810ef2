//! Reflection and replication padding of 1-D, 2-D and 3-D data, and their gradients. A padding is a list of pairs (before,
//! after), the last dimension first.

use super::call::{Call, Outcome, Shape, Strides, ensure};
use super::tensors::{Format, Tensor};
use crate::tensor::launch::Scalar;

/// Launches into an output of these sizes. Its memory format is that which tensor `like` suggests, as from PyTorch's CPU
/// kernels; the meta functions would make it contiguous.
fn launch(call: &Call<'_>, sizes: &[i64], like: Tensor<'_>, source: Tensor<'_>, padding: &[i64]) -> Outcome {
    let out = match like.suggested_format() {
        Format::Contiguous => call.contiguous(0, sizes, like.dtype(), Strides::Any)?,
        format => call.output(0, &Shape::new(sizes, like.dtype(), format), Strides::Given)?,
    };
    let before = call.arena().keep_all(padding.len() / 2, |pair| Scalar::Long(padding[2 * pair]));
    call.launch(&[out], &[source], before)
}

/// Padding operators with their own meta function.
pub fn pad(call: &Call<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    launch(call, &call.shape()?.sizes, input, input, padding)
}

/// `reflection_pad2d`, which has no meta function. It uses that of replication and limits the padding to the elements that can
/// be reflected.
pub fn reflect_images(call: &Call<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    let shape = call.shape()?;
    ensure!(padding.iter().enumerate().all(|(side, &size)| size < input.size_from_end(side / 2)));
    launch(call, &shape.sizes, input, input, padding)
}

fn check_padding(padding: &[i64], dims: usize) -> Outcome {
    ensure!(padding.len() == 2 * dims, "padding size is expected to be {}, but got: {}", 2 * dims, padding.len());
    Ok(())
}

/// Gradients with their own meta function.
pub fn pad_backward_of_meta(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    let shape = call.shape()?;
    launch(call, &shape.sizes, input, grad, padding)
}

/// `reflection_pad1d_backward`, whose meta function does not check that the padding has two numbers.
pub fn reflect_lines_backward(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    check_padding(padding, 1)?;
    pad_backward_of_meta(call, grad, input, padding)
}

/// Gradients without a meta function: the output's gradient must have the sizes of the padded input.
pub fn pad_backward<const DIMS: usize>(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
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
