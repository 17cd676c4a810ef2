//! Batch and group normalisation, forward and backward. The kernels get a matrix with a row for each plane or, in batch
//! normalisation, with a column for each channel.

use super::layer_norm::{check_dtypes, statistics_dtype};
use crate::call::prelude::*;
use crate::ops::normalization::kernel::channel_norm::{
    native_batch_norm as kernel, native_batch_norm_backward as backward_kernel, native_group_norm as group_kernel,
    native_group_norm_backward as group_backward_kernel,
};
use crate::runtime::name::name;

operators! {
    // normalisation, whose functions check dtypes after PyTorch's own checks
    c"native_batch_norm": any_dtype(plain(batch_norm)) => c"native_batch_norm" | c"_native_batch_norm_legit";
    c"native_batch_norm": any_dtype(plain(batch_norm_without_statistics)) => c"_native_batch_norm_legit.no_stats";
    c"native_batch_norm": any_dtype(plain(batch_norm_with_reserve::<true>)) => c"_batch_norm_with_update";
    c"native_batch_norm": any_dtype(plain(batch_norm_with_reserve::<false>)) => c"_batch_norm_no_update";
    c"native_batch_norm_backward": any_dtype(plain(batch_norm_backward)) => c"native_batch_norm_backward" | c"batch_norm_backward";
    c"native_group_norm": any_dtype(plain(group_norm)) => c"native_group_norm";
    c"native_group_norm_backward": any_dtype(plain(group_norm_backward)) => c"native_group_norm_backward";
}

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

struct BatchNorm<'a> {
    input: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    bias: Option<Tensor<'a>>,
    /// Running mean and variance.
    running: [Option<Tensor<'a>>; 2],
    training: bool,
    momentum: f64,
    eps: f64,
}

impl BatchNorm<'_> {
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

pub fn batch_norm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, weight, bias, mean, var, training, momentum, eps) = arguments.typed()?;
    BatchNorm { input, weight, bias, running: [mean, var], training, momentum, eps }.run(call)
}

/// `_native_batch_norm_legit.no_stats`.
pub fn batch_norm_without_statistics(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, weight, bias, training, momentum, eps) = arguments.typed()?;
    BatchNorm { input, weight, bias, running: [None; 2], training, momentum, eps }.run(call)
}

/// `_batch_norm_with_update`, which trains, and `_batch_norm_no_update`. The reserve for the backward is empty.
pub fn batch_norm_with_reserve<const TRAINING: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, weight, bias, mean, var, momentum, eps) = arguments.typed()?;
    BatchNorm { input, weight, bias, running: [mean, var], training: TRAINING, momentum, eps }.run(call)?;
    call.contiguous(3, &[0], DType::Byte, Strides::Any).map(drop)
}

/// `native_batch_norm_backward`, and `batch_norm_backward`, which has another argument at the end.
pub fn batch_norm_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
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

// ---- group normalisation, with PyTorch's checks ----

/// The sizes that the caller passes.
struct Groups {
    samples: i64,
    channels: i64,
    positions: i64,
    /// The number of groups of channels.
    count: i64,
}

impl Groups {
    /// The sizes of the kernels' matrix; an error unless it has `numel` elements.
    fn sizes(&self, numel: i64) -> Result<[i64; 2], CallError> {
        let sizes = [self.samples.saturating_mul(self.channels), self.positions];
        let fits = sizes.iter().all(|&size| size >= 0) && sizes[0].checked_mul(sizes[1]) == Some(numel);
        ensure!(fits, "shape '{sizes:?}' is invalid for input of size {numel}");
        Ok(sizes)
    }

    fn rows<'a>(&self, call: &Call<'a>, tensor: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
        let sizes = self.sizes(tensor.numel())?;
        Ok(call.dense(tensor, Format::Contiguous)?.view(&sizes))
    }
}

/// Makes output number 0 and launches into its rows. If it is not contiguous, the rows are a temporary that is copied to it.
fn with_result(call: &Call<'_>, input: Tensor<'_>, sizes: [i64; 2], launch: impl FnOnce(Tensor<'_>) -> Outcome) -> Outcome {
    // Dense, in the format that the input's strides suggest.
    let format = input.suggested_format();
    let mut shape = Shape::new(input.sizes(), input.dtype(), format);
    if input.is_dense(format) {
        shape.strides = Dims::from(input.strides());
    }
    let out = call.output(0, &shape, Strides::Any)?;
    if out.is_dense(Format::Contiguous) {
        return launch(out.view(&sizes));
    }
    let rows = call.empty(&sizes, input.dtype())?;
    launch(rows)?;
    call.copy(out, rows.view(input.sizes()))
}

fn fill_all<const N: usize>(call: &Call<'_>, outputs: [(Option<Tensor<'_>>, f64); N]) -> Outcome {
    outputs.into_iter().try_for_each(|(output, value)| output.map_or(Ok(()), |output| call.fill(output, Scalar::Double(value))))
}

pub fn group_norm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    check_same_device(arguments.tensors(), "tensor", name())?;
    let (input, weight, bias, samples, channels, positions, count, eps): (Tensor<'_>, _, _, _, _, _, _, f64) = arguments.typed()?;
    let groups = Groups { samples, channels, positions, count };
    ensure!(groups.count > 0 && groups.channels % groups.count == 0);
    ensure!([weight, bias].into_iter().flatten().all(|parameter: Tensor<'_>| parameter.sizes() == [groups.channels]));
    check_dtypes(input, &[weight, bias])?;
    let dtype = statistics_dtype(input, &[weight, bias]);
    let statistics = |index: usize| call.contiguous(index, &[groups.samples, groups.count], dtype, Strides::Any);
    let (mean, inverse) = (statistics(1)?, statistics(2)?);
    if input.numel() == 0 {
        call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
        return fill_all(call, [(Some(mean), 0.0), (Some(inverse), f64::NAN)]);
    }
    groups.sizes(input.numel())?;
    // A row of the kernel's matrix is a group.
    let rows = Groups { channels: count, positions: channels / count * positions, ..groups };
    let inputs = call.all_dense([Some(rows.rows(call, input)?), weight, bias])?;
    let scalars = group_kernel::Scalars { channels: groups.channels.into(), groups: groups.count.into(), eps: Scalar::Double(eps) };
    let sizes = rows.sizes(input.numel())?;
    with_result(call, input, sizes, |out| call.launch(&[out, mean, inverse], &inputs, &scalars.list()))
}

pub fn group_norm_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    check_same_device(arguments.tensors(), "tensor", name())?;
    let (grad, input, mean, inverse, weight, samples, channels, positions, count, wanted) = arguments.typed()?;
    let (grad, input, weight, wanted): (Tensor<'_>, Tensor<'_>, Option<Tensor<'_>>, [bool; 3]) = (grad, input, weight, wanted);
    let groups = Groups { samples, channels, positions, count };
    ensure!(input.dtype() == grad.dtype());
    let statistics = [Some(mean), Some(inverse)];
    check_dtypes(input, &statistics)?;
    let dtype = weight.unwrap_or(input).dtype();
    let sums = |index: usize| wanted[index].then(|| call.contiguous(index, &[channels], dtype, Strides::Any)).transpose();
    let (of_weight, of_bias) = (sums(1)?, sums(2)?);
    if input.numel() == 0 {
        if wanted[0] {
            call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
        }
        return fill_all(call, [(of_weight, 0.0), (of_bias, 0.0)]);
    }
    let rows = [groups.rows(call, grad)?, groups.rows(call, input)?].map(Some);
    let inputs = call.all_dense([rows[0], rows[1], statistics[0], statistics[1], weight])?;
    let scalars = group_backward_kernel::Scalars { channels: channels.into(), groups: count.into() };
    // The kernel always computes the gradient of the input.
    let launch = |out: Tensor<'_>| call.launch(&[Some(out), of_weight, of_bias], &inputs, &scalars.list());
    let sizes = groups.sizes(input.numel())?;
    if wanted[0] { with_result(call, input, sizes, launch) } else { launch(call.empty(&sizes, input.dtype())?) }
}
