//! Batch normalisation, forward and backward. The kernels get a matrix with a row for each plane, or with a column for each
//! channel.

use super::call::{Arguments, Call, CallError, Outcome, Shape, Strides, Value, ensure};
use super::mixed_data_type;
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
    if input.ndim() < 2 {
        return Err(CallError::Fallback);
    }
    let channels = input.sizes()[1];
    for parameter in parameters.iter().flatten() {
        let count = parameter.numel();
        ensure!(count == channels, "batch norm: expected a value for each of {channels} channels, got {count}");
    }
    let are_here = parameters.iter().flatten().all(|parameter| parameter.device() == input.device());
    if call.takes(input.dtype()) && input.numel() > 0 && are_here { Ok(()) } else { Err(CallError::Fallback) }
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
    fn new(
        [input, weight, bias]: [&'a Value<'_>; 3],
        running: [&'a Value<'_>; 2],
        training: bool,
        [momentum, eps]: [&Value<'_>; 2],
    ) -> Result<Self, CallError> {
        let (input, weight, bias) = (input.tensor()?, weight.optional_tensor()?, bias.optional_tensor()?);
        let running = [running[0].optional_tensor()?, running[1].optional_tensor()?];
        Ok(Self { input, weight, bias, running, training, momentum: momentum.double()?, eps: eps.double()? })
    }

    fn check(&self, call: &Call<'_>) -> Outcome {
        let has_running = self.running.iter().all(Option::is_some);
        ensure!(self.training || has_running, "batch norm: expected running statistics in evaluation");
        let parameters = self.parameters();
        check_operands(call, self.input, &parameters)?;
        if self.running[0].is_some() != self.running[1].is_some() {
            return Err(CallError::Fallback);
        }
        mixed_data_type::check(self.input, &parameters)
    }

    fn parameters(&self) -> [Option<Tensor<'a>>; 4] {
        [self.weight, self.bias, self.running[0], self.running[1]]
    }

    /// Makes the outputs: the result, and the statistics that training saves.
    fn run(&self, call: &Call<'_>) -> Outcome {
        self.check(call)?;
        let samples = Samples::of(self.input);
        let out = call.output(0, &Shape::new(self.input.sizes(), self.input.dtype(), samples.format), Strides::Any)?;
        let dtype = mixed_data_type::of_statistics(self.input, &self.parameters());
        let count = [if self.training { samples.channels } else { 0 }];
        let saved = [call.contiguous(1, &count, dtype, Strides::Any)?, call.contiguous(2, &count, dtype, Strides::Any)?];
        let [mean, var] = self.running;
        let running = [call.dense_given(mean)?, call.dense_given(var)?];
        let [save_mean, save_inverse] = saved.map(|saved| Some(saved).filter(|_| self.training));
        let outputs = [Some(samples.rows(call, out)?), save_mean, save_inverse, running[0], running[1]];
        let inputs = call.all_dense([Some(samples.rows(call, self.input)?), self.weight, self.bias])?;
        call.launch(&outputs, &inputs, &self.scalars(&samples).list())?;
        if self.training { self.update(call, running) } else { Ok(()) }
    }

    fn scalars(&self, samples: &Samples) -> kernel::Scalars {
        kernel::Scalars {
            channels: samples.channels.into(),
            columns: samples.columns.into(),
            momentum: Scalar::Double(self.momentum),
            eps: Scalar::Double(self.eps),
        }
    }

    /// Copies the running statistics from contiguous copies to the caller's tensors.
    fn update(&self, call: &Call<'_>, dense: [Option<Tensor<'_>>; 2]) -> Outcome {
        for (running, dense) in self.running.into_iter().flatten().zip(dense.into_iter().flatten()) {
            if running.handle() != dense.handle() {
                call.copy(running, dense)?;
            }
        }
        Ok(())
    }
}

/// `native_batch_norm` and `_native_batch_norm_legit`.
pub fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, weight, bias, mean, var, training, momentum, eps] = arguments.all()?;
    Forward::new([input, weight, bias], [mean, var], training.flag()?, [momentum, eps])?.run(call)
}

/// `_native_batch_norm_legit.no_stats`.
pub fn forward_without_statistics(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, weight, bias, training, momentum, eps] = arguments.all()?;
    Forward::new([input, weight, bias], [&Value::None; 2], training.flag()?, [momentum, eps])?.run(call)
}

/// `_batch_norm_with_update`, which trains, and `_batch_norm_no_update`. The reserve for the backward is empty.
pub fn forward_with_reserve<const TRAINING: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, weight, bias, mean, var, momentum, eps] = arguments.all()?;
    Forward::new([input, weight, bias], [mean, var], TRAINING, [momentum, eps])?.run(call)?;
    call.contiguous(3, &[0], DType::Byte, Strides::Any).map(drop)
}

struct Backward<'a> {
    grad: Tensor<'a>,
    input: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    mean: Tensor<'a>,
    /// The inverse standard deviation in training, else the variance.
    spread: Tensor<'a>,
    training: bool,
    eps: f64,
    /// Which gradients are requested: those of input, weight and bias.
    wanted: [bool; 3],
}

impl<'a> Backward<'a> {
    fn new(arguments: &'a [Value<'_>; 10]) -> Result<Self, CallError> {
        let [grad, input, weight, running_mean, running_var, save_mean, save_inverse, training, eps, mask] = arguments;
        let (grad, input, weight, training) = (grad.tensor()?, input.tensor()?, weight.optional_tensor()?, training.flag()?);
        let (mean, spread) = if training { (save_mean, save_inverse) } else { (running_mean, running_var) };
        let (Some(mean), Some(spread)) = (mean.optional_tensor()?, spread.optional_tensor()?) else {
            let which = if training { "saved" } else { "running" };
            return Err(CallError::Invalid(format!("batch norm: expected {which} statistics")));
        };
        let (found, sizes) = (grad.sizes(), input.sizes());
        ensure!(found == sizes, "batch norm: expected a gradient of sizes {sizes:?}, got {found:?}");
        let &[of_input, of_weight, of_bias] = mask.flags()? else {
            return Err(CallError::Invalid("internal error: expected three flags".into()));
        };
        let wanted = [of_input, of_weight, of_bias];
        Ok(Self { grad, input, weight, mean, spread, training, eps: eps.double()?, wanted })
    }

    fn run(&self, call: &Call<'_>) -> Outcome {
        let input = self.input;
        let parameters = [self.weight, Some(self.mean), Some(self.spread)];
        check_operands(call, input, &parameters)?;
        if self.grad.dtype() != input.dtype() {
            return Err(CallError::Fallback);
        }
        let samples = Samples::of(input);
        let outputs = self.outputs(call, &samples, mixed_data_type::of_statistics(input, &parameters))?;
        let rows = [samples.rows(call, self.grad)?, samples.rows(call, input)?].map(Some);
        let inputs = call.all_dense([rows[0], rows[1], Some(self.mean), Some(self.spread), self.weight])?;
        call.launch(&outputs, &inputs, &self.scalars(&samples).list())
    }

    /// Makes the gradients. The kernel always computes that of the input.
    fn outputs<'b>(&self, call: &Call<'b>, samples: &Samples, dtype: DType) -> Result<[Option<Tensor<'b>>; 3], CallError> {
        let input = self.input;
        let of_input = if self.wanted[0] {
            let out = call.output(0, &Shape::new(input.sizes(), input.dtype(), samples.format), Strides::Any)?;
            samples.rows(call, out)?
        } else {
            call.empty(&samples.sizes(input), input.dtype())?
        };
        let of_channels = |index: usize| call.contiguous(index, &[samples.channels], dtype, Strides::Any);
        let wanted = |index: usize| self.wanted[index].then(|| of_channels(index)).transpose();
        Ok([Some(of_input), wanted(1)?, wanted(2)?])
    }

    fn scalars(&self, samples: &Samples) -> backward_kernel::Scalars {
        backward_kernel::Scalars {
            channels: samples.channels.into(),
            columns: samples.columns.into(),
            training: self.training.into(),
            eps: Scalar::Double(self.eps),
        }
    }
}

/// `native_batch_norm_backward`.
pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    Backward::new(arguments.all()?)?.run(call)
}

/// `batch_norm_backward`.
pub fn backward_with_reserve(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [arguments @ .., _reserve] = arguments.all::<11>()?;
    Backward::new(arguments)?.run(call)
}
