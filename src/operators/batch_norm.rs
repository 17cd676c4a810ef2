//! Batch normalisation, forward and backward. The kernels get a matrix with a row for each plane, or with a column for each
//! channel.

use super::call::{Arguments, Call, CallError, Outcome, Shape, Strides, ensure, take_if};
use super::layer_norm::{check_dtypes, statistics_dtype};
use super::tensors::{Format, Tensor};
use crate::kernels::channel_norm::{native_batch_norm as kernel, native_batch_norm_backward as backward_kernel};
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// The memory layout of samples with channels in dimension 1.
struct Samples {
    format: Format,
    channels: i64,
    /// True if each channel is a column of the matrix.
    columns: bool,
}

impl Samples {
    /// The layout of samples that are not empty.
    fn of(input: Tensor<'_>) -> Self {
        let (format, channels) = (input.suggested_format(), input.sizes()[1]);
        let columns = format != Format::Contiguous || input.numel() == input.sizes()[0] * channels;
        Self { format, channels, columns }
    }

    /// The sizes of the kernels' matrix.
    fn sizes(&self, tensor: Tensor<'_>) -> [i64; 2] {
        let rest = tensor.numel() / self.channels;
        let positions = rest / tensor.sizes()[0];
        if self.columns { [rest, self.channels] } else { [tensor.sizes()[0] * self.channels, positions] }
    }

    fn rows<'a>(&self, call: &Call<'a>, tensor: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
        let dense = call.dense(tensor, self.format)?;
        Ok(dense.in_memory_order(self.format).view(&self.sizes(tensor)))
    }
}

/// Leaves cases that the kernel lacks to the fallback. An error if a statistic or weight does not have one element per channel:
/// PyTorch's kernels would read out of bounds.
fn check_operands(call: &Call<'_>, input: Tensor<'_>, parameters: &[Option<Tensor<'_>>]) -> Outcome {
    take_if(input.ndim() >= 2)?;
    let channels = input.sizes()[1];
    for parameter in parameters.iter().flatten() {
        let count = parameter.numel();
        ensure!(count == channels, "batch norm: expected a value for each of {channels} channels, got {count}");
    }
    let are_here = parameters.iter().flatten().all(|parameter| parameter.device() == input.device());
    take_if(call.takes(input.dtype()) && input.numel() > 0 && are_here)
}

struct Forward<'a> {
    input: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    bias: Option<Tensor<'a>>,
    /// Running mean and variance.
    running: [Option<Tensor<'a>>; 2],
    training: bool,
    momentum: f64,
    eps: f64,
}

impl<'a> Forward<'a> {
    /// Makes the outputs: the result, and the statistics that training saves.
    fn run(&self, call: &Call<'_>) -> Outcome {
        let [mean, var] = self.running;
        let parameters = [self.weight, self.bias, mean, var];
        ensure!(self.training || (mean.is_some() && var.is_some()), "batch norm: expected running statistics in evaluation");
        check_operands(call, self.input, &parameters)?;
        take_if(mean.is_some() == var.is_some())?;
        check_dtypes(self.input, &parameters)?;
        let samples = Samples::of(self.input);
        let out = call.output(0, &Shape::new(self.input.sizes(), self.input.dtype(), samples.format), Strides::Any)?;
        let dtype = statistics_dtype(self.input, &parameters);
        let count = [if self.training { samples.channels } else { 0 }];
        let saved = [call.contiguous(1, &count, dtype, Strides::Any)?, call.contiguous(2, &count, dtype, Strides::Any)?];
        let running = [call.dense_given(mean)?, call.dense_given(var)?];
        let [save_mean, save_inverse] = saved.map(|saved| Some(saved).filter(|_| self.training));
        let outputs = [Some(samples.rows(call, out)?), save_mean, save_inverse, running[0], running[1]];
        let inputs = call.all_dense([Some(samples.rows(call, self.input)?), self.weight, self.bias])?;
        let scalars = kernel::Scalars {
            channels: samples.channels.into(),
            columns: samples.columns.into(),
            momentum: Scalar::Double(self.momentum),
            eps: Scalar::Double(self.eps),
        };
        call.launch(&outputs, &inputs, &scalars.list())?;
        let updated = self.running.into_iter().flatten().zip(running.into_iter().flatten()).filter(|_| self.training);
        updated.filter(|(own, dense)| own.handle() != dense.handle()).try_for_each(|(own, dense)| call.copy(own, dense))
    }
}

pub fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, weight, bias, mean, var, training, momentum, eps) = arguments.typed()?;
    Forward { input, weight, bias, running: [mean, var], training, momentum, eps }.run(call)
}

/// `_native_batch_norm_legit.no_stats`.
pub fn forward_without_statistics(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, weight, bias, training, momentum, eps) = arguments.typed()?;
    Forward { input, weight, bias, running: [None; 2], training, momentum, eps }.run(call)
}

/// `_batch_norm_with_update`, which trains, and `_batch_norm_no_update`. The reserve for the backward is empty.
pub fn forward_with_reserve<const TRAINING: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, weight, bias, mean, var, momentum, eps) = arguments.typed()?;
    Forward { input, weight, bias, running: [mean, var], training: TRAINING, momentum, eps }.run(call)?;
    call.contiguous(3, &[0], DType::Byte, Strides::Any).map(drop)
}

/// `native_batch_norm_backward`, and `batch_norm_backward`, which has another argument at the end.
pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, weight, running_mean, running_var, save_mean, save_inverse, training, eps, wanted) =
        arguments.first(10).typed()?;
    let (grad, input, wanted): (Tensor<'_>, Tensor<'_>, [bool; 3]) = (grad, input, wanted);
    // The mean and the inverse standard deviation in training, else the variance.
    let (mean, spread, which) = if training { (save_mean, save_inverse, "saved") } else { (running_mean, running_var, "running") };
    let statistics: [Option<Tensor<'_>>; 2] = [mean, spread];
    ensure!(statistics.iter().all(Option::is_some), "batch norm: expected {which} statistics");
    let (found, sizes) = (grad.sizes(), input.sizes());
    ensure!(found == sizes, "batch norm: expected a gradient of sizes {sizes:?}, got {found:?}");
    let parameters = [weight, mean, spread];
    check_operands(call, input, &parameters)?;
    take_if(grad.dtype() == input.dtype())?;
    let (samples, dtype) = (Samples::of(input), statistics_dtype(input, &parameters));
    // The kernel always computes the gradient of the input.
    let of_input = if wanted[0] {
        samples.rows(call, call.output(0, &Shape::new(sizes, input.dtype(), samples.format), Strides::Any)?)?
    } else {
        call.empty(&samples.sizes(input), input.dtype())?
    };
    let of_channels =
        |index: usize| wanted[index].then(|| call.contiguous(index, &[samples.channels], dtype, Strides::Any)).transpose();
    let rows = [samples.rows(call, grad)?, samples.rows(call, input)?].map(Some);
    let outputs = [Some(of_input), of_channels(1)?, of_channels(2)?];
    let inputs = call.all_dense([rows[0], rows[1], mean, spread, weight])?;
    let scalars = backward_kernel::Scalars {
        channels: samples.channels.into(),
        columns: samples.columns.into(),
        training: training.into(),
        eps: Scalar::Double(eps),
    };
    call.launch(&outputs, &inputs, &scalars.list())
}
