//! Negative log likelihood loss of rows and of images. The fallback gets arguments that do not match; its kernel raises the
//! error.

use super::call::{Arguments, Call, CallError, Outcome, Shape, Strides, take_if};
use super::loss::{NONE, SUM};
use super::tensors::{Format, Tensor};
use crate::kernels::nll_loss::{nll_loss_backward as backward_kernel, nll_loss_forward as kernel};
use crate::tensor::dtype::DType;

/// The arguments that forward and backward share.
type Operands<'a> = (Tensor<'a>, Tensor<'a>, Option<Tensor<'a>>, i64, i64);

struct Loss<'a> {
    input: Tensor<'a>,
    target: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    reduction: i64,
    ignored: i64,
}

impl<'a> Loss<'a> {
    fn new((input, target, weight, reduction, ignored): Operands<'a>) -> Result<Self, CallError> {
        let is_target = target.dtype() == DType::Long || (target.dtype() == DType::Byte && input.ndim() <= 2);
        let fits = |weight: Tensor<'_>| weight.dtype() == input.dtype() && weight.device() == input.device();
        take_if(is_target && weight.is_none_or(fits) && target.device() == input.device())?;
        Ok(Self { input, target, weight, reduction, ignored })
    }

    /// The sizes of images, targets and weights must match.
    fn check_images(&self) -> Outcome {
        let (input, target) = (self.input.sizes(), self.target.sizes());
        let fits = input.len() == 4
            && [input[0], input[2], input[3]] == target
            && self.weight.is_none_or(|weight| weight.numel() == input[1]);
        take_if(fits)
    }

    /// The sizes of the input as images; a row counts as an image of one pixel.
    fn images(&self) -> [i64; 4] {
        match *self.input.sizes() {
            [samples, classes, height, width] => [samples, classes, height, width],
            [samples, classes] => [samples, classes, 1, 1],
            _ => [1, self.input.size_from_end(0), 1, 1],
        }
    }

    fn forward(&self, call: &Call<'_>, out: &Shape, total: &Shape) -> Outcome {
        let out = call.output(0, out, Strides::Copied)?;
        let total = call.output(1, total, Strides::Copied)?;
        let [samples, _, height, width] = self.images();
        let is_rows = self.input.ndim() != 4;
        let images = if is_rows { call.dense(self.input, Format::Contiguous)?.view(&self.images()) } else { self.input };
        let target = call.dense(self.target, Format::Contiguous)?.view(&[samples, height, width]);
        let by_element = self.reduction == NONE && self.input.ndim() > 1;
        let losses = if by_element { out.view(target.sizes()) } else { out };
        // The loss of a single row without a batch is a sum with one term.
        let is_one = self.input.ndim() == 1 && self.reduction == NONE;
        let reduction = if is_one { SUM } else { self.reduction };
        let weight = call.dense_given(self.weight)?;
        let scalars = kernel::Scalars { reduction: reduction.into(), ignored: self.ignored.into() };
        call.launch(&[losses, total], &[Some(images), Some(target), weight], &scalars.list())
    }

    fn backward(&self, call: &Call<'_>, shape: &Shape, grad: Tensor<'_>, total: Tensor<'_>) -> Outcome {
        let out = call.output(0, shape, Strides::Copied)?;
        let [samples, classes, height, width] = self.images();
        let rows = out.view(&[samples, classes * height * width]);
        let target = call.dense(self.target, Format::Contiguous)?.view(&[samples, height * width]);
        let grad = call.dense(grad, Format::Contiguous)?;
        let weight = call.dense_given(self.weight)?;
        let scalars =
            backward_kernel::Scalars { reduction: self.reduction.into(), ignored: self.ignored.into(), classes: classes.into() };
        call.launch(&[rows], &[Some(grad), Some(target), Some(total), weight], &scalars.list())
    }
}

/// `nll_loss_forward` of rows (N, C) or one row (C).
pub fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let shapes = call.meta()?;
    Loss::new(arguments.typed()?)?.forward(call, &shapes[0], &shapes[1])
}

/// `nll_loss2d_forward` of images (N, C, H, W).
pub fn forward_of_images(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let loss = Loss::new(arguments.typed()?)?;
    loss.check_images()?;
    let sizes = if loss.reduction == NONE { loss.target.sizes() } else { &[] };
    let shape = |sizes: &[i64]| Shape::new(sizes, loss.input.dtype(), Format::Contiguous);
    loss.forward(call, &shape(sizes), &shape(&[]))
}

pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, target, weight, reduction, ignored, total) = arguments.typed()?;
    let shape = call.shape()?;
    Loss::new((input, target, weight, reduction, ignored))?.backward(call, &shape, grad, total)
}

pub fn backward_of_images(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, target, weight, reduction, ignored, total): (Tensor<'_>, _, _, _, _, _, Tensor<'_>) = arguments.typed()?;
    let loss = Loss::new((input, target, weight, reduction, ignored))?;
    loss.check_images()?;
    let is_one = grad.ndim() <= 1 && grad.numel() == 1;
    let fits = if loss.reduction == NONE { grad.sizes() == loss.target.sizes() } else { is_one };
    take_if(fits && total.numel() == 1)?;
    let shape = Shape::new(loss.input.sizes(), loss.input.dtype(), Format::Contiguous);
    loss.backward(call, &shape, grad, total)
}
