//! Sliding windows over images: `im2col`, `col2im` and the gradient of `unfold`.

use crate::call::prelude::*;
use crate::ops::movement::kernel::unfold::{im2col as kernel, unfold_backward as unfold_kernel};

operators! {
    c"im2col": plain(im2col) => c"im2col", c"im2col.out";
    c"col2im": plain(col2im) => c"col2im", c"col2im.out";
    c"unfold_backward": plain(typed!(unfold_backward)) => c"unfold_backward";
}

/// Windows over the last two dimensions: (height, width) of each parameter.
pub struct Windows {
    pub kernel: [i64; 2],
    pub dilation: [i64; 2],
    pub padding: [i64; 2],
    pub stride: [i64; 2],
}

fn pair(numbers: &[i64]) -> Result<[i64; 2], CallError> {
    numbers.try_into().map_err(|_| CallError::CpuError)
}

impl Windows {
    fn new([kernel, dilation, padding, stride]: [&[i64]; 4]) -> Result<Self, CallError> {
        let windows = Self { kernel: pair(kernel)?, dilation: pair(dilation)?, padding: pair(padding)?, stride: pair(stride)? };
        let [height, width] = windows.kernel;
        // Not every release of PyTorch checks this.
        ensure!(height.checked_mul(width).is_some(), "the product of kernel_height={height} and kernel_width={width} overflows");
        ensure!([windows.kernel, windows.stride, windows.dilation].as_flattened().iter().all(|&number| number > 0));
        ensure!(windows.padding.iter().all(|&number| number >= 0));
        Ok(windows)
    }

    /// The numbers of windows along height and width of an image of this size; 0 or less if none fits.
    fn counts(&self, sizes: [i64; 2]) -> [i64; 2] {
        [0, 1].map(|axis| {
            let reach = self.dilation[axis].saturating_mul(self.kernel[axis] - 1).saturating_add(1);
            let free = sizes[axis].saturating_add(self.padding[axis].saturating_mul(2)).saturating_sub(reach);
            free.div_euclid(self.stride[axis]) + 1
        })
    }

    /// The number of elements of a window.
    fn elements(&self) -> i64 {
        self.kernel.iter().product()
    }

    /// The scalars of a kernel for this number of windows.
    pub fn scalars(&self, counts: [i64; 2]) -> kernel::Scalars {
        let [kernel, dilation, padding, stride] = [self.kernel, self.dilation, self.padding, self.stride];
        kernel::Scalars {
            kernel_height: kernel[0].into(),
            kernel_width: kernel[1].into(),
            dilation_height: dilation[0].into(),
            dilation_width: dilation[1].into(),
            padding_height: padding[0].into(),
            padding_width: padding[1].into(),
            stride_height: stride[0].into(),
            stride_width: stride[1].into(),
            windows_height: counts[0].into(),
            windows_width: counts[1].into(),
        }
    }
}

/// The tensor with `ndim` dimensions, the first of which is the batch: a missing one is added. Only the batch may be empty.
fn batched(tensor: Tensor<'_>, ndim: usize) -> Result<Tensor<'_>, CallError> {
    ensure!([ndim, ndim - 1].contains(&tensor.ndim()));
    let batched = if tensor.ndim() == ndim { tensor } else { tensor.unsqueeze(0) };
    ensure!(!batched.sizes()[1..].contains(&0));
    Ok(batched)
}

/// Makes the output and launches the kernel. `sizes`: the output's with a batch, from which it is left out if the input has none.
fn launch(call: &Call<'_>, input: Tensor<'_>, has_batch: bool, sizes: &[i64], scalars: &kernel::Scalars) -> Outcome {
    let out = call.contiguous(0, &sizes[usize::from(!has_batch)..], input.dtype(), Strides::Any)?;
    let [out, input] = if has_batch { [out, input] } else { [out, input].map(|tensor| tensor.unsqueeze(0)) };
    call.launch(&[out], &[input], &scalars.list())
}

/// `im2col`: the windows of images (N, C, H, W) or (C, H, W) as columns.
pub fn im2col(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, kernel, dilation, padding, stride): (Tensor<'_>, _, _, _, _) = arguments.typed()?;
    let windows = Windows::new([kernel, dilation, padding, stride])?;
    let images = batched(input, 4)?.sizes();
    let counts = windows.counts([images[2], images[3]]);
    ensure!(counts[0] > 0 && counts[1] > 0);
    let sizes = [images[0], images[1] * windows.elements(), counts[0] * counts[1]];
    launch(call, input, input.ndim() == 4, &sizes, &windows.scalars(counts))
}

/// `col2im`: adds up columns (N, C * kernel, L) or (C * kernel, L) to images.
pub fn col2im(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, size, kernel, dilation, padding, stride): (Tensor<'_>, _, _, _, _, _) = arguments.typed()?;
    let (size, windows) = (pair(size)?, Windows::new([kernel, dilation, padding, stride])?);
    let columns = batched(input, 3)?.sizes();
    let (counts, elements) = (windows.counts(size), windows.elements());
    ensure!(columns[1] % elements == 0 && columns[2] == counts[0].saturating_mul(counts[1]));
    ensure!(counts.into_iter().chain(size).all(|number| number > 0));
    let sizes = [columns[0], columns[1] / elements, size[0], size[1]];
    launch(call, input, input.ndim() == 3, &sizes, &windows.scalars(counts))
}

/// The gradient of `unfold` for an input with these sizes.
pub fn unfold_backward(call: &Call<'_>, grad: Tensor<'_>, sizes: &[i64], dim: i64, size: i64, step: i64) -> Outcome {
    let out = call.contiguous(0, sizes, grad.dtype(), Strides::Any)?;
    let dim = wrap_dim(dim, sizes.len())? as i64;
    let scalars = unfold_kernel::Scalars { dim: dim.into(), size: size.into(), step: step.into() };
    call.launch(&[out], &[grad], &scalars.list())
}
