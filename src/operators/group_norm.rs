//! Group normalisation, forward and backward, with PyTorch's checks. The kernels get a row for each sample and channel.

use super::call::{Arguments, Call, CallError, Outcome, Shape, Strides, check_same_device, ensure};
use super::layer_norm::{check_dtypes, statistics_dtype};
use super::tensors::{Dims, Format, Tensor};
use crate::kernels::channel_norm::{native_group_norm as kernel, native_group_norm_backward as backward_kernel};
use crate::tensor::launch::Scalar;

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

pub fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    check_same_device(arguments.tensors(), "tensor", "rustdev")?;
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
    let inputs = call.all_dense([Some(groups.rows(call, input)?), weight, bias])?;
    let scalars = kernel::Scalars { channels: groups.channels.into(), groups: groups.count.into(), eps: Scalar::Double(eps) };
    let sizes = groups.sizes(input.numel())?;
    with_result(call, input, sizes, |out| call.launch(&[out, mean, inverse], &inputs, &scalars.list()))
}

pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    check_same_device(arguments.tensors(), "tensor", "rustdev")?;
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
    let scalars = backward_kernel::Scalars { channels: channels.into(), groups: count.into() };
    // The kernel always computes the gradient of the input.
    let launch = |out: Tensor<'_>| call.launch(&[Some(out), of_weight, of_bias], &inputs, &scalars.list());
    let sizes = groups.sizes(input.numel())?;
    if wanted[0] { with_result(call, input, sizes, launch) } else { launch(call.empty(&sizes, input.dtype())?) }
}
