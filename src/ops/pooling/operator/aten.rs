//! Pooling, unpooling and grid samplers of images and volumes by PyTorch's kernels.

use crate::call::prelude::*;
use crate::call::tasks::{NORMED, OF_META, contiguous, like, result, results, take_filled, tasks, with_elements};
use crate::tensor::{BYTE, LONG};

const PIXELS: DTypeSet = FLOATING.and(BYTE);
const WIDE_PIXELS: DTypeSet = WIDE.and(BYTE);

tasks! {
    c"avg_pool2d" => c"avg_pool2d.out": FLOATING.and(LONG), Images, OF_META;
    c"avg_pool2d_backward" => c"avg_pool2d_backward.grad_input": WIDE, Images, OF_META, widens;
    c"avg_pool3d" => c"avg_pool3d.out": WIDE.and(LONG), Images, OF_META, widens;
    c"avg_pool3d_backward" => c"avg_pool3d_backward.grad_input": WIDE, Images, OF_META, widens;
    c"_adaptive_avg_pool2d" => c"adaptive_avg_pool2d.out": FLOATING, Images, plain(adaptive_average::<2>);
    c"_adaptive_avg_pool3d" => c"adaptive_avg_pool3d.out": WIDE, Images, plain(adaptive_average::<3>), widens;
    c"_adaptive_avg_pool2d_backward": WIDE, Images, plain(adaptive_average_backward::<2>), widens;
    c"_adaptive_avg_pool3d_backward" => c"adaptive_avg_pool3d_backward.grad_input": WIDE, Images, plain(adaptive_average_backward::<3>), widens;
    c"adaptive_max_pool2d" => c"adaptive_max_pool2d.out": FLOATING, Images, OF_META;
    c"adaptive_max_pool2d_backward" => c"adaptive_max_pool2d_backward.grad_input": WIDE, Images, OF_META, guarded, widens;
    c"adaptive_max_pool3d" => c"adaptive_max_pool3d.out": NORMED, Images, OF_META, widens;
    c"adaptive_max_pool3d_backward" => c"adaptive_max_pool3d_backward.grad_input": WIDE, Images, OF_META, guarded, widens;
    c"fractional_max_pool2d" => c"fractional_max_pool2d.output": FLOATING, Images, OF_META;
    c"fractional_max_pool2d_backward" => c"fractional_max_pool2d_backward.grad_input": WIDE, Images, OF_META, guarded, widens;
    c"fractional_max_pool3d" => c"fractional_max_pool3d.output": FLOATING, Images, OF_META;
    c"fractional_max_pool3d_backward" => c"fractional_max_pool3d_backward.grad_input": WIDE, Images, plain(like::<1>), guarded, widens;
    c"max_pool3d_with_indices" => c"max_pool3d_with_indices.out": REAL, Images, plain(max_pool3d);
    c"max_pool3d_with_indices_backward" => c"max_pool3d_with_indices_backward.grad_input":
        WIDE, Images, plain(max_pool3d_backward), guarded, widens;
    c"max_unpool2d" => c"max_unpool2d.out": FLOATING, Images, plain(max_unpool::<2>);
    c"max_unpool3d" => c"max_unpool3d.out": FLOATING, Images, plain(max_unpool::<3>);
    c"upsample_nearest1d" => c"upsample_nearest1d.out": PIXELS, Images, OF_META;
    c"upsample_nearest1d_backward" => c"upsample_nearest1d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_nearest2d" => c"upsample_nearest2d.out": PIXELS, Images, OF_META;
    c"upsample_nearest2d_backward" => c"upsample_nearest2d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_nearest3d" => c"upsample_nearest3d.out": PIXELS, Images, OF_META;
    c"upsample_nearest3d_backward" => c"upsample_nearest3d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_nearest_exact1d" => c"_upsample_nearest_exact1d.out": PIXELS, Images, OF_META;
    c"_upsample_nearest_exact1d_backward" => c"_upsample_nearest_exact1d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_nearest_exact2d" => c"_upsample_nearest_exact2d.out": PIXELS, Images, OF_META;
    c"_upsample_nearest_exact2d_backward" => c"_upsample_nearest_exact2d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_nearest_exact3d" => c"_upsample_nearest_exact3d.out": PIXELS, Images, OF_META;
    c"_upsample_nearest_exact3d_backward" => c"_upsample_nearest_exact3d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_bilinear2d" => c"upsample_bilinear2d.out": PIXELS, Images, OF_META;
    c"upsample_bilinear2d_backward" => c"upsample_bilinear2d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_bicubic2d" => c"upsample_bicubic2d.out": PIXELS, Images, OF_META;
    c"upsample_bicubic2d_backward" => c"upsample_bicubic2d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_linear1d" => c"upsample_linear1d.out": WIDE, Images, OF_META, widens;
    c"upsample_linear1d_backward" => c"upsample_linear1d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_trilinear3d" => c"upsample_trilinear3d.out": FLOATING, Images, OF_META;
    c"upsample_trilinear3d_backward" => c"upsample_trilinear3d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_bilinear2d_aa" => c"_upsample_bilinear2d_aa.out": WIDE_PIXELS, Images, OF_META, widens;
    c"_upsample_bilinear2d_aa_backward" => c"_upsample_bilinear2d_aa_backward.grad_input": WIDE, Images, OF_META, widens;
    c"_upsample_bicubic2d_aa" => c"_upsample_bicubic2d_aa.out": WIDE_PIXELS, Images, OF_META, widens;
    c"_upsample_bicubic2d_aa_backward" => c"_upsample_bicubic2d_aa_backward.grad_input": WIDE, Images, OF_META, widens;
    c"grid_sampler_2d" => c"grid_sampler_2d.out": WIDE, Images, plain(grid_sampler::<2>), widens;
    c"grid_sampler_3d" => c"grid_sampler_3d.out": WIDE, Images, plain(grid_sampler::<3>), widens;
    c"grid_sampler_2d_backward": WIDE, Images, plain(grid_sampler_backward), guarded, widens;
    c"grid_sampler_3d_backward": WIDE, Images, plain(grid_sampler_backward), guarded, widens;
}

/// True for images with `SPATIAL` dimensions, with or without a batch.
fn are_images<const SPATIAL: usize>(images: Tensor<'_>) -> bool {
    [SPATIAL + 1, SPATIAL + 2].contains(&images.ndim())
}

fn are_positive(values: &[i64]) -> bool {
    values.iter().all(|&value| value > 0)
}

/// The memory format of results: channels last if the images are; for volumes contiguous.
fn format_of<const SPATIAL: usize>(images: Tensor<'_>) -> Format {
    if SPATIAL == 2 { images.suggested_format() } else { Format::Contiguous }
}

/// The shape of the same number of images with another size.
fn resized<const SPATIAL: usize>(images: Tensor<'_>, size: &[i64]) -> Shape {
    let leading = &images.sizes()[..images.ndim() - SPATIAL];
    Shape::new(&[leading, size].concat(), images.dtype(), format_of::<SPATIAL>(images))
}

pub fn adaptive_average<const SPATIAL: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (images, size): (Tensor<'_>, &[i64]) = with_elements(arguments)?;
    take_if(are_images::<SPATIAL>(images) && size.len() == SPATIAL && are_positive(size))?;
    result(call, resized::<SPATIAL>(images, size))
}

/// The gradients of `_adaptive_avg_pool2d` and `_adaptive_avg_pool3d`.
pub fn adaptive_average_backward<const SPATIAL: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, images): (Tensor<'_>, Tensor<'_>) = with_elements(arguments)?;
    take_if(are_images::<SPATIAL>(images) && grad.dtype() == images.dtype())?;
    result(call, Shape::new(images.sizes(), images.dtype(), format_of::<SPATIAL>(images)))
}

/// True for volumes; they may be channels last only with a batch.
fn are_volumes(images: Tensor<'_>) -> bool {
    are_images::<3>(images) && (images.ndim() == 5 || images.suggested_format() == Format::Contiguous)
}

pub fn max_pool3d(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (images, kernel, stride, padding, dilation, ceil_mode): (_, &[i64], &[i64], &[i64], &[i64], _) = with_elements(arguments)?;
    take_if(are_volumes(images))?;
    let stride = if stride.is_empty() { kernel } else { stride };
    let mut windows = [[0; 3]; 4];
    for (numbers, given) in windows.iter_mut().zip([kernel, stride, padding, dilation]) {
        *numbers = match *given {
            [value] => [value; 3],
            _ => given.try_into().map_err(|_| CallError::Fallback)?,
        };
    }
    let mut sizes = images.sizes().to_vec();
    for (dim, size) in sizes.iter_mut().rev().take(3).enumerate() {
        let [kernel, stride, padding, dilation] = windows.map(|numbers| numbers[2 - dim]);
        let is_number = |number: &i64| (1..=i64::from(i32::MAX)).contains(number);
        take_if([kernel, stride, dilation].iter().all(is_number) && (0..=kernel / 2).contains(&padding))?;
        let free = *size + 2 * padding - dilation * (kernel - 1) - 1 + if ceil_mode { stride - 1 } else { 0 };
        let count = free.div_euclid(stride) + 1;
        // The last window must begin inside the volume.
        let is_outside = ceil_mode && (count - 1) * stride >= *size + padding;
        *size = count - i64::from(is_outside);
        take_if(*size > 0)?;
    }
    let shape = |dtype| Shape::new(&sizes, dtype, images.suggested_format());
    results(call, &[shape(images.dtype()), shape(DType::Long)])
}

pub fn max_pool3d_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_filled(arguments)?;
    let images = arguments.tensor(1)?;
    take_if(are_volumes(images))?;
    result(call, Shape::new(images.sizes(), images.dtype(), images.suggested_format()))
}

/// `max_unpool2d`, `max_unpool3d`; the latter has strides and paddings, too. The kernels refuse to run if algorithms must be
/// deterministic. The fallback raises that error during the call.
pub fn max_unpool<const SPATIAL: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [images, indices, size, parameters @ ..] = &arguments[..] else { return take_if(false) };
    let (images, indices, size): (Tensor<'_>, Tensor<'_>, &[i64]) = (images.get()?, indices.get()?, size.get()?);
    take_if(images.numel() != 0 && are_images::<SPATIAL>(images) && !shim::is_deterministic())?;
    take_if(indices.dtype() == DType::Long && indices.sizes() == images.sizes())?;
    take_if(size.len() == SPATIAL && are_positive(size))?;
    if let [stride, padding] = parameters {
        let (stride, padding): (&[i64], &[i64]) = (stride.get()?, padding.get()?);
        take_if(stride.len() == SPATIAL && are_positive(stride) && padding.len() == SPATIAL)?;
    }
    result(call, resized::<SPATIAL>(images, size))
}

pub fn grid_sampler<const SPATIAL: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, grid) = (arguments.tensor(0)?, arguments.tensor(1)?);
    take_if(input.ndim() == SPATIAL + 2 && grid.ndim() == SPATIAL + 2)?;
    let (images, positions) = (input.sizes(), grid.sizes());
    let are_there = images[2..].iter().all(|&size| size > 0);
    take_if(images[0] == positions[0] && positions[SPATIAL + 1] == SPATIAL as i64 && are_there)?;
    result(call, contiguous(&[&images[..2], &positions[1..=SPATIAL]].concat(), input))
}

/// The requested gradients of input and grid.
pub fn grid_sampler_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (operands, wanted) = ([arguments.tensor(1)?, arguments.tensor(2)?], arguments[6].get::<&[bool]>()?);
    take_if(wanted.contains(&true))?;
    for (index, (operand, _)) in operands.iter().zip(wanted).enumerate().filter(|(_, (_, wanted))| **wanted) {
        call.output(index, &contiguous(operand.sizes(), *operand), Strides::Given)?;
    }
    Ok(())
}
