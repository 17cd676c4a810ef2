//! Maximum pooling of images. The kernels take planes or, for channels last, samples.

pub mod aten;

use super::kernel::max_pool2d_backward as kernel;
use crate::call::prelude::*;
use crate::ops::movement::operator::unfold::Windows;

operators! {
    c"max_pool2d_with_indices": structured(max_pool2d) => c"max_pool2d_with_indices", c"max_pool2d_with_indices.out";
    c"max_pool2d_with_indices_backward": structured(max_pool2d_backward) =>
        c"max_pool2d_with_indices_backward", c"max_pool2d_with_indices_backward.grad_input";
}

/// How the kernels interpret the images.
struct Layout {
    format: Format,
    channels: i64,
}

impl Layout {
    fn of(images: Tensor<'_>) -> Self {
        let format = images.suggested_format();
        Self { format, channels: if format == Format::Contiguous { 1 } else { images.sizes()[1] } }
    }

    /// A row for each plane or sample, with all its elements.
    fn rows<'a>(&self, call: &Call<'a>, images: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
        let ordered = call.dense(images, self.format)?.in_memory_order(self.format);
        let elements = images.size_from_end(0) * images.size_from_end(1) * self.channels;
        Ok(ordered.view(&[if elements == 0 { 0 } else { images.numel() / elements }, elements]))
    }
}

/// Leaves a call to the fallback if a position exceeds the kernels' 32 bits.
fn check_plane(images: Tensor<'_>) -> Outcome {
    let elements = images.size_from_end(0) * images.size_from_end(1);
    take_if(elements <= i64::from(i32::MAX))
}

/// `max_pool2d_with_indices` of images (N, C, H, W) or (C, H, W).
pub fn max_pool2d(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, kernel, stride, padding, dilation, _): (Tensor<'_>, _, &[i64], _, _, bool) = arguments.typed()?;
    let shapes = call.meta()?;
    check_plane(input)?;
    let [out, positions] = [call.output(0, &shapes[0], Strides::Copied)?, call.output(1, &shapes[1], Strides::Copied)?];
    if out.numel() == 0 {
        return Ok(());
    }
    // The meta function has checked that these are one number or two.
    let pair = |values: &[i64]| [values[0], values[values.len() - 1]];
    let stride = pair(if stride.is_empty() { kernel } else { stride });
    let windows = Windows { kernel: pair(kernel), dilation: pair(dilation), padding: pair(padding), stride };
    let layout = Layout::of(input);
    let (height, width) = (out.size_from_end(1), out.size_from_end(0));
    let rows = layout.rows(call, input)?;
    let sizes = [rows.sizes()[0], height, width * layout.channels];
    let mut scalars = windows.scalars([height, width]).list().to_vec();
    scalars.extend([input.size_from_end(1), input.size_from_end(0), layout.channels].map(Scalar::Long));
    call.launch(&[out, positions].map(|images| images.in_memory_order(layout.format).view(&sizes)), &[rows], &scalars)
}

pub fn max_pool2d_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [grad, input, .., positions] = arguments.all::<8>()?;
    let (grad, input, positions) = (grad.tensor()?, input.tensor()?, positions.tensor()?);
    let shape = call.shape()?;
    check_plane(input)?;
    ensure!(positions.dtype() == DType::Long, "expected scalar type Long but found {:?}", positions.dtype());
    let layout = Layout::of(input);
    let out = call.output(0, &Shape::new(&shape.sizes, shape.dtype, layout.format), Strides::Copied)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (grads, positions) = (layout.rows(call, grad)?, layout.rows(call, positions)?);
    let rows = layout.rows(call, out)?;
    call.launch(&[rows], &[grads, positions], &kernel::Scalars { channels: layout.channels.into() }.list())
}
