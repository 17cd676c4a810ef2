//! Maximum pooling of images. The kernels take planes or, for channels last, samples.

use super::call::{Arguments, Call, CallError, Outcome, Shape, Strides, ensure, take_if};
use super::tensors::{Format, Tensor};
use super::unfold::Windows;
use crate::kernels::max_pool::max_pool2d_backward as backward_kernel;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

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

/// The outputs, values and indices, of a call that is clearly valid; `None` leaves the call to the meta function.
fn usual_outputs<'a>(call: &Call<'a>, input: Tensor<'_>, windows: &Windows) -> Result<Option<[Tensor<'a>; 2]>, CallError> {
    let fits = |axis: usize| {
        let (window, padding) = (windows.kernel[axis], windows.padding[axis]);
        window > 0 && (0..=window / 2).contains(&padding) && windows.stride[axis] > 0 && windows.dilation[axis] > 0
    };
    if !(3..=4).contains(&input.ndim()) || input.numel() == 0 || !fits(0) || !fits(1) {
        return Ok(None);
    }
    check_plane(input)?;
    let counts = windows.counts([input.size_from_end(1), input.size_from_end(0)]);
    if counts[0] < 1 || counts[1] < 1 {
        return Ok(None);
    }
    let first = input.ndim() - 2;
    let size_of = |dim: usize| if dim < first { input.sizes()[dim] } else { counts[dim - first] };
    let sizes = call.arena().keep_all(input.ndim(), size_of);
    let output = |index, dtype| match input.suggested_format() {
        Format::Contiguous => call.contiguous(index, sizes, dtype, Strides::Copied),
        format => call.output(index, &Shape::new(sizes, dtype, format), Strides::Copied),
    };
    Ok(Some([output(0, input.dtype())?, output(1, DType::Long)?]))
}

/// One or two numbers for height and width; an empty list stands for `default`.
fn pair(values: &[i64], default: [i64; 2]) -> Option<[i64; 2]> {
    match *values {
        [] => Some(default),
        [both] => Some([both; 2]),
        [height, width] => Some([height, width]),
        _ => None,
    }
}

/// `max_pool2d_with_indices` of images (N, C, H, W) or (C, H, W).
pub fn max_pool2d(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, window, stride, padding, dilation, ceil_mode): (Tensor<'_>, _, _, _, _, bool) = arguments.typed()?;
    let kernel = pair(window, [0; 2]);
    let given = [pair(stride, kernel.unwrap_or_default()), pair(padding, [0; 2]), pair(dilation, [1; 2])];
    let windows = match (kernel, given) {
        (Some(kernel), [Some(stride), Some(padding), Some(dilation)]) => Some(Windows { kernel, dilation, padding, stride }),
        _ => None,
    };
    let usual = match &windows {
        Some(windows) if !ceil_mode => usual_outputs(call, input, windows)?,
        _ => None,
    };
    let [out, positions] = if let Some(outputs) = usual {
        outputs
    } else {
        let shapes = call.meta()?;
        check_plane(input)?;
        [call.output(0, &shapes[0], Strides::Copied)?, call.output(1, &shapes[1], Strides::Copied)?]
    };
    let Some(windows) = windows.filter(|_| out.numel() > 0) else { return Ok(()) };
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
    let out = call.output(0, &shape.in_format(layout.format), Strides::Copied)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (grads, positions) = (layout.rows(call, grad)?, layout.rows(call, positions)?);
    let rows = layout.rows(call, out)?;
    call.launch(&[rows], &[grads, positions], &backward_kernel::Scalars { channels: layout.channels.into() }.list())
}
