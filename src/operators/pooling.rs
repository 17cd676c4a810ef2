//! Maximum pooling of images: the kernels take planes, or samples in channels-last layout.

use super::call::{Arguments, Call, Outcome, Refusal, Strides, StructuredCall, ensure};
use super::descriptor::{Format, Tensor};
use super::windows::Windows;
use crate::kernels::max_pool::max_pool2d_backward as backward_kernel;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// Images as the kernels see them.
struct Layout {
    format: Format,
    channels: i64,
}

impl Layout {
    fn of(images: &Tensor) -> Self {
        let format = images.suggested_format();
        Self { format, channels: if format == Format::Contiguous { 1 } else { images.sizes()[1] } }
    }

    /// The elements of each plane or sample, in a row.
    fn rows(&self, call: &mut Call<'_>, images: &Tensor) -> Result<Tensor, Refusal> {
        let ordered = call.dense(images, self.format)?.in_memory_order(self.format);
        let elements = images.size_from_end(0) * images.size_from_end(1) * self.channels;
        Ok(ordered.view(&[if elements == 0 { 0 } else { images.numel() / elements }, elements]))
    }
}

/// Positions are numbers of 32 bits in the kernels.
fn check_plane(images: &Tensor) -> Outcome {
    let elements = images.size_from_end(0) * images.size_from_end(1);
    if elements <= i64::from(i32::MAX) { Ok(()) } else { Err(Refusal::Fallback) }
}

/// `max_pool2d_with_indices`: of images (N, C, H, W) or (C, H, W).
pub fn max_pool2d(arguments: &Arguments<'_>, call: &mut StructuredCall<'_>) -> Outcome {
    let [input, window, stride, padding, dilation, _ceil_mode] = arguments.all()?;
    let (input, window, stride) = (input.tensor()?, window.integers()?, stride.integers()?);
    let shapes = call.meta()?;
    check_plane(input)?;
    let out = call.output(0, &shapes[0], Strides::Copied)?;
    let positions = call.output(1, &shapes[1], Strides::Copied)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let layout = Layout::of(input);
    let pair = |values: &[i64]| [values[0], values[values.len() - 1]];
    let (window, stride) = (pair(window), pair(if stride.is_empty() { window } else { stride }));
    let (padding, dilation) = (pair(padding.integers()?), pair(dilation.integers()?));
    let (height, width) = (out.size_from_end(1), out.size_from_end(0));
    let rows = layout.rows(call, input)?;
    let sizes = [rows.sizes()[0], height, width * layout.channels];
    let rows_of = |images: &Tensor| images.in_memory_order(layout.format).view(&sizes);
    let mut scalars = Windows { kernel: window, dilation, padding, stride }.scalars([height, width]).list();
    scalars.extend([input.size_from_end(1), input.size_from_end(0), layout.channels].map(Scalar::Long));
    call.launch(&[&rows_of(&out), &rows_of(&positions)], &[&rows], &scalars)
}

/// `max_pool2d_with_indices_backward`.
pub fn max_pool2d_backward(arguments: &Arguments<'_>, call: &mut StructuredCall<'_>) -> Outcome {
    let [grad, input, .., positions] = arguments.all::<8>()?;
    let (grad, input, positions) = (grad.tensor()?, input.tensor()?, positions.tensor()?);
    let shape = call.shape()?;
    check_plane(input)?;
    ensure!(positions.dtype() == DType::Long, "expected scalar type Long but found {:?}", positions.dtype());
    let layout = Layout::of(input);
    let out = call.output(0, &shape.in_format(layout.format), Strides::Copied)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (grads, positions) = (layout.rows(call, grad)?, layout.rows(call, positions)?);
    let rows = layout.rows(call, &out)?;
    call.launch(&[&rows], &[&grads, &positions], &backward_kernel::Scalars { channels: layout.channels.into() }.list())
}
