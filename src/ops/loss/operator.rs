//! Losses with a reduction, forward and backward: elementwise ones, and the negative log likelihood of rows and of images.
//! `log_sigmoid` and `binary_cross_entropy` have no meta function in PyTorch.

use std::iter;

use smallvec::SmallVec;

use super::kernel::{nll_loss_backward as backward_kernel, nll_loss_forward as kernel};
use crate::call::pointwise::ensure_computed;
use crate::call::prelude::*;
use crate::call::tensor_iterator::{Elementwise, Rule, SAME, Types};

operators! {
    c"nll_loss_forward": structured(nll) => c"nll_loss_forward", c"nll_loss_forward.output";
    c"nll_loss_forward": plain(nll_of_images) => c"nll_loss2d_forward", c"nll_loss2d_forward.output";
    c"nll_loss_backward": structured(nll_backward) => c"nll_loss_backward", c"nll_loss_backward.grad_input";
    c"binary_cross_entropy": any_dtype(plain(entropy)) => c"binary_cross_entropy", c"binary_cross_entropy.out";
    c"binary_cross_entropy_backward": any_dtype(plain(entropy_backward)) =>
        c"binary_cross_entropy_backward", c"binary_cross_entropy_backward.grad_input";
    c"log_sigmoid_forward": any_dtype(plain(typed!(log_sigmoid))) => c"log_sigmoid_forward", c"log_sigmoid_forward.output";
    c"log_sigmoid_backward": any_dtype(plain(typed!(log_sigmoid_backward))) =>
        c"log_sigmoid_backward", c"log_sigmoid_backward.grad_input";
    c"nll_loss_backward": plain(nll_of_images_backward) => c"nll_loss2d_backward", c"nll_loss2d_backward.grad_input";
}

/// Numbers of `at::Reduction`.
pub const NONE: i64 = 0;
const MEAN: i64 = 1;
pub const SUM: i64 = 2;

/// `log_sigmoid_forward`. The buffer serves the CPU's own backward; as on other accelerators it stays empty.
pub fn log_sigmoid(call: &Call<'_>, input: Tensor<'_>) -> Outcome {
    let operands = Elementwise::of(SAME, &[input.into()], call.given(0), call)?;
    let out = operands.output(call)?;
    if call.given(1).is_none() {
        call.contiguous(1, &[0], input.dtype(), Strides::Any)?;
    }
    operands.launch(call, out, &[])
}

pub fn log_sigmoid_backward(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, _buffer: Value<'_>) -> Outcome {
    let operands = Elementwise::of(SAME, &[input.into(), grad.into()], call.given(0), call)?;
    operands.launch(call, operands.output_like(call, grad)?, &[])
}

/// Multiplies losses or gradients by weights, if there are any.
fn weigh(call: &Call<'_>, tensor: Tensor<'_>, weight: Option<Tensor<'_>>) -> Outcome {
    let Some(weight) = weight else { return Ok(()) };
    call.operator(&callees::MUL_IN_PLACE, &[Value::Tensor(tensor), Value::Tensor(weight)]).map(drop)
}

/// Writes the mean or the sum of the losses to output number 0.
fn reduce(call: &Call<'_>, losses: Tensor<'_>, reduction: i64) -> Outcome {
    let losses = Value::Tensor(losses);
    let is_mean = reduction == MEAN;
    let Some(out) = call.given(0) else {
        let operator = if is_mean { &callees::MEAN } else { &callees::SUM_OF_ALL };
        return call.give(0, call.operator(operator, &[losses, Value::None])?);
    };
    let operator = if is_mean { &callees::MEAN_OUT } else { &callees::SUM_OUT };
    call.operator(operator, &[losses, Value::None, false.into(), Value::None, out.into()]).map(drop)
}

pub fn entropy(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, target, weight, reduction): (Tensor<'_>, Tensor<'_>, _, _) = arguments.typed()?;
    let is_reduced = reduction != NONE;
    let operands = Elementwise::of(SAME, &[input.into(), target.into()], call.given(0).filter(|_| !is_reduced), call)?;
    let losses = if is_reduced { call.empty_as(&operands.shape_like(input))? } else { operands.output_like(call, input)? };
    operands.launch(call, losses, &[])?;
    weigh(call, losses, weight)?;
    if is_reduced { reduce(call, losses, reduction) } else { Ok(()) }
}

pub fn entropy_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, target, weight, reduction): (Tensor<'_>, Tensor<'_>, Tensor<'_>, _, i64) = arguments.typed()?;
    let operands = Elementwise::of(SAME, &[grad.into(), input.into(), target.into()], call.given(0), call)?;
    let out = operands.output_like(call, input)?;
    operands.launch(call, out, &[])?;
    weigh(call, out, weight)?;
    if reduction != MEAN {
        return Ok(());
    }
    call.operator(&callees::DIV_NUMBER_IN_PLACE, &[out.into(), input.numel().into()]).map(drop)
}

/// `mse_loss`, `smooth_l1_loss` and, in the dtype of the input, `huber_loss`: elementwise, or the mean or sum of the losses. The
/// arguments are the input, the target, the reduction and, unless it is `mse_loss`, a number.
pub fn elementwise(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, target, reduction): (Tensor<'_>, Tensor<'_>, i64) = arguments.first(3).typed()?;
    let number = arguments.get(3).map(Value::get::<f64>).transpose()?;
    let is_huber = call.kernel_name() == "huber_loss";
    ensure!(number.is_none_or(|number| number >= 0.0 && !(is_huber && number == 0.0)));
    let given = call.given(0).filter(|_| reduction == NONE);
    let rule = Rule::with_host_number(Types::Common);
    let mut operands = Elementwise::of(rule, &[input.into(), target.into()], given, call)?;
    if is_huber {
        operands = operands.with_dtype(input.dtype())?;
    }
    ensure_computed(operands.compute(), call)?;
    let numbers: SmallVec<[Scalar; 1]> = number.map(Scalar::Double).into_iter().collect();
    if reduction == NONE {
        return operands.launch(call, operands.output(call)?, &numbers);
    }
    let losses = call.empty_as(&operands.shape())?;
    operands.launch(call, losses, &numbers)?;
    reduce(call, losses, reduction)
}

/// The gradient of an elementwise loss. The arguments are the loss's gradient, the input, the target, the reduction and, unless it
/// is `mse_loss`, a number. The kernel's first scalar is a factor, for a mean divided by the number of elements.
pub fn gradient(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (types, factor) = match call.kernel_name() {
        "mse_loss_backward" => (Types::Common, 2.0),
        "huber_loss_backward" => (Types::Same, 1.0),
        _ => (Types::Common, 1.0),
    };
    let [grad, input, target] = [0, 1, 2].map(|index| arguments.tensor(index));
    let (input, given) = (input?, call.given(0));
    let is_mean = arguments.get(3).unwrap_or(&Value::None).get::<i64>()? == MEAN;
    let norm = if is_mean { factor / input.numel() as f64 } else { factor };
    let inputs = [input, target?, grad?].map(Into::into);
    let operands = Elementwise::of(Rule::new(types), &inputs, given, call)?.with_dtype(input.dtype())?;
    ensure_computed(operands.compute(), call)?;
    let out = match given {
        Some(_) => operands.output(call)?,
        None => call.contiguous(0, operands.sizes(), operands.dtype(), Strides::Any)?,
    };
    let number = arguments.get(4).and_then(Value::as_number);
    let scalars: SmallVec<[Scalar; 2]> = iter::once(Scalar::Double(norm)).chain(number).collect();
    operands.launch(call, out, &scalars)
}

// ---- negative log likelihood: the fallback gets arguments that do not match; its kernel raises the error ----

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
pub fn nll(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let shapes = call.meta()?;
    Loss::new(arguments.typed()?)?.forward(call, &shapes[0], &shapes[1])
}

/// `nll_loss2d_forward` of images (N, C, H, W).
pub fn nll_of_images(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let loss = Loss::new(arguments.typed()?)?;
    loss.check_images()?;
    let sizes = if loss.reduction == NONE { loss.target.sizes() } else { &[] };
    let shape = |sizes: &[i64]| Shape::new(sizes, loss.input.dtype(), Format::Contiguous);
    loss.forward(call, &shape(sizes), &shape(&[]))
}

pub fn nll_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, target, weight, reduction, ignored, total) = arguments.typed()?;
    let shape = call.shape()?;
    Loss::new((input, target, weight, reduction, ignored))?.backward(call, &shape, grad, total)
}

pub fn nll_of_images_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, target, weight, reduction, ignored, total): (Tensor<'_>, _, _, _, _, _, Tensor<'_>) = arguments.typed()?;
    let loss = Loss::new((input, target, weight, reduction, ignored))?;
    loss.check_images()?;
    let is_one = grad.ndim() <= 1 && grad.numel() == 1;
    let fits = if loss.reduction == NONE { grad.sizes() == loss.target.sizes() } else { is_one };
    take_if(fits && total.numel() == 1)?;
    let shape = Shape::new(loss.input.sizes(), loss.input.dtype(), Format::Contiguous);
    loss.backward(call, &shape, grad, total)
}
