//! Sliding windows: `im2col`, `col2im` and the gradient of `unfold`.
//!
//! Gradients are gathered: an element adds the elements of its windows in order, so that the sum does not depend on the number of
//! threads.

use crate::tensor::MAX_DIMS;
use crate::tensor::prelude::*;

signature! {
    im2col(out; input)[kernel_height, kernel_width, dilation_height, dilation_width, padding_height, padding_width, stride_height, stride_width, windows_height, windows_width] in ANY;
    col2im(out; columns)[kernel_height, kernel_width, dilation_height, dilation_width, padding_height, padding_width, stride_height, stride_width, windows_height, windows_width] in FIELD | BOOL;
    unfold_backward(out; grad)[dim, size, step] in FIELD | INTEGRAL | BOOL;
}

/// Nanoseconds of one thread for each window that contains an element.
const WINDOW_COST: f64 = 1.0;

/// Windows along one dimension of an image.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Windows {
    pub kernel: usize,
    pub dilation: usize,
    pub padding: usize,
    pub stride: usize,
    /// The number of windows.
    pub count: usize,
}

impl Windows {
    /// The windows along height and width, from the first scalars of a launch, which all kernels of windows have in common.
    pub fn both(launch: &Launch<'_>) -> Result<[Self; 2], Error> {
        let scalars = im2col::Scalars::of(launch)?.list();
        let axis = |axis: usize| {
            let number = |parameter: usize| scalars[2 * parameter + axis].count();
            let (kernel, dilation, padding) = (number(0)?, number(1)?, number(2)?);
            let windows = Self { kernel, dilation, padding, stride: number(3)?, count: number(4)? };
            if kernel == 0 || windows.stride == 0 { Err(Error::new("an empty window")) } else { Ok(windows) }
        };
        Ok([axis(0)?, axis(1)?])
    }

    /// The element of an image of `size` under tap `tap` of a window; `None` in the padding.
    pub fn element(&self, window: usize, tap: usize, size: usize) -> Option<usize> {
        (window * self.stride + tap * self.dilation).checked_sub(self.padding).filter(|&at| at < size)
    }

    /// The range of windows whose tap lies on an element of the image.
    pub fn inside(&self, tap: usize, size: usize) -> (usize, usize) {
        let shift = tap * self.dilation;
        let begin = self.padding.saturating_sub(shift).div_ceil(self.stride);
        let end = (size + self.padding).saturating_sub(shift).div_ceil(self.stride);
        (begin.min(self.count), end.clamp(begin.min(self.count), self.count))
    }

    /// The window whose tap lies on the element.
    pub fn window(&self, element: usize, tap: usize) -> Option<usize> {
        let from = (element + self.padding).checked_sub(tap * self.dilation)?;
        (from.is_multiple_of(self.stride) && from / self.stride < self.count).then_some(from / self.stride)
    }
}

/// The windows of both axes, checked against the sizes of columns and image.
fn parts(launch: &Launch<'_>, columns: View<'_>, image: View<'_>) -> Result<[Windows; 2], Error> {
    let [height, width] = Windows::both(launch)?;
    let fits = columns.ndim() == 3
        && image.ndim() == 4
        && columns.size(0) == image.size(0)
        && columns.size(1) == image.size(1) * height.kernel * width.kernel
        && columns.size(2) == height.count * width.count
        && columns.dtype() == image.dtype();
    if fits { Ok([height, width]) } else { Err(Error::new(format!("columns {:?} of {:?}", columns.sizes(), image.sizes()))) }
}

/// `aten::im2col`: the element under each tap of every window. Operands [out (N, C * kernel, windows), input (N, C, H, W)] of one
/// dtype; scalars [kernel, dilation, padding, stride, windows], each height and width.
pub fn im2col(launch: &Launch<'_>) -> Result<(), Error> {
    let im2col::Operands { out: output, input } = im2col::Operands::of(launch)?;
    let ([height, width], cost) = (parts(launch, *output, input)?, 0.1 * output.dtype().size() as f64);
    rows::for_each(output, cost, &|index, mut row| {
        let taps = index[1] % (height.kernel * width.kernel);
        let channel = index[1] / (height.kernel * width.kernel);
        let (begin, end) = width.inside(taps % width.kernel, input.size(3));
        for line in 0..height.count {
            let at = line * width.count;
            let element = height.element(line, taps / width.kernel, input.size(2)).filter(|_| begin < end);
            let Some(y) = element else {
                row.zero(at, at + width.count);
                continue;
            };
            let from = Row::of(&input, &[index[0], channel, y]);
            let start = width.element(begin, taps % width.kernel, input.size(3)).unwrap_or(0);
            row.zero(at, at + begin);
            row.copy(at + begin, &from, start, width.stride, end - begin);
            row.zero(at + end, at + width.count);
        }
    });
    Ok(())
}

/// `aten::col2im`: every element of the image adds up the columns' elements that stand for it. Operands [out (N, C, H, W), columns
/// (N, C * kernel, windows)]; scalars as for [`im2col`].
pub fn col2im(launch: &Launch<'_>) -> Result<(), Error> {
    let col2im::Operands { out: output, columns } = col2im::Operands::of(launch)?;
    let [height, width] = parts(launch, columns, *output)?;
    let (taps, dtype, cols) = (height.kernel * width.kernel, output.dtype(), output.size(3));
    dispatch!(dtype in FIELD | BOOL, T => {
        rows::for_each(output, WINDOW_COST * taps as f64, &|index, mut row| {
            let mut sums = vec![<T as Element>::Acc::ZERO; cols];
            for tap in 0..taps {
                let Some(line) = height.window(index[2], tap / width.kernel) else { continue };
                let from = Row::of(&columns, &[index[0], index[1] * taps + tap]);
                let (begin, end) = width.inside(tap % width.kernel, cols);
                for window in begin..end {
                    let x = window * width.stride + tap % width.kernel * width.dilation - width.padding;
                    sums[x] = sums[x].add(from.load::<T>(line * width.count + window).load());
                }
            }
            sums.into_iter().enumerate().for_each(|(at, sum)| row.store(at, T::store(sum)));
        });
        Ok(())
    })
}

/// `aten::unfold_backward`: every element adds up the gradients of the windows that contain it. Operands [out, gradient]; the
/// gradient has the windows in the dimension, and their elements in an additional last one. Scalars [dim, size, step].
pub fn unfold_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let unfold_backward::Operands { out: output, grad } = unfold_backward::Operands::of(launch)?;
    let unfold_backward::Scalars { dim, size, step } = unfold_backward::Scalars::of(launch)?;
    let (dim, size, step) = (dim.count()?, size.count()?, step.count()?);
    let ndim = output.ndim();
    if grad.ndim() != ndim + 1 || (ndim > 0 && dim >= ndim) || grad.size(ndim) != size || step == 0 {
        return Err(Error::new(format!("windows {:?} of {:?}", grad.sizes(), output.sizes())));
    }
    let windows = grad.sizes().get(dim).map_or(1, |&windows| windows as usize);
    let (dtype, cols) = (output.dtype(), output.sizes().last().map_or(1, |&len| len as usize));
    dispatch!(dtype in FIELD | INTEGRAL | BOOL, T => {
        rows::for_each(output, WINDOW_COST * (3 + size / step) as f64, &|index, mut row| {
            let mut position = [0; MAX_DIMS];
            position[..index.len()].copy_from_slice(index);
            for at in 0..cols {
                position[index.len()] = at;
                let element = position[dim];
                let mut sum = <T as Element>::Acc::ZERO;
                let first = (element + 1).saturating_sub(size).div_ceil(step);
                for window in first..(element / step + 1).min(windows) {
                    position[dim] = window;
                    sum = sum.add(Row::of(&grad, &position[..ndim]).load::<T>(element - window * step).load());
                }
                position[dim] = element;
                row.store(at, T::store(sum));
            }
        });
        Ok(())
    })
}
