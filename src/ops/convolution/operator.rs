//! Convolutions, forward and backward: PyTorch's CPU kernels (`shim/ops/convolution.cpp`) as tasks that are divided along the
//! batch or the channels. The division depends only on the shapes, so results do not depend on the number of threads.
//!
//! `depthwise_windows` and `kernel_windows` choose the calls that the Rust kernels of `src/ops/convolution/kernel/depthwise.rs` and
//! `src/ops/convolution/kernel.rs` compute, `run` the dtype of others.
//! In the task PyTorch's `at::convolution` chooses the algorithm, except where `has_large_volumes` requests that of oneDNN.
//!
//! 16 bit floats for which the kernels are slow or wrong ([`is_native`], [`is_regular`], [`has_large_planes`]) are computed in
//! `Float`: the operands are cast, and each result is rounded once.

use crate::call::declared;
use crate::call::prelude::*;
use crate::call::{Partition, dims, parts_worth};
use crate::ops::movement::operator::unfold::Windows;
use crate::runtime::name::name;
use crate::runtime::task::demand::Products;
use crate::simd::{self, Isa};
use crate::tuning::tasks::{FEW_POSITIONS, FEWEST_PART_CHANNELS, ONEDNN_VOLUME, PART_CHANNELS, PART_POSITIONS};

mod onednn_limits;

use onednn_limits::{Dimension, Direction, has_large_planes, is_native, is_regular};

const NAME: &str = "convolution";

const NARROW: DTypeSet = HALVES.and(FLOAT8);

operators! {
    divided: plain(forward) => c"convolution_overrideable";
    divided: plain(backward) => c"convolution_backward_overrideable";
}

/// An error unless the operand has the input's device and dtype.
fn check_operand(input: Tensor<'_>, operand: Tensor<'_>, what: &str) -> Outcome {
    check_same_device([input, operand].into_iter(), what, NAME)?;
    let (own, other) = (input.dtype(), operand.dtype());
    ensure!(own == other, "Input type ({0}{own:?}Type) and {what} type ({0}{other:?}Type) should be the same", name());
    Ok(())
}

/// The greatest power of two that exceeds neither argument, at least 1.
fn power_of_two(limit: i64, other: i64) -> i64 {
    1 << limit.min(other).max(1).ilog2()
}

struct Convolution<'a> {
    input: Tensor<'a>,
    weight: Tensor<'a>,
    stride: &'a [i64],
    padding: &'a [i64],
    dilation: &'a [i64],
    output_padding: &'a [i64],
    transposed: bool,
    groups: i64,
}

impl Convolution<'_> {
    /// `other`: a bias or the output's gradient. The checks are those of PyTorch's callers; they protect direct calls of these
    /// operators.
    fn check(&self, other: Option<Tensor<'_>>) -> Outcome {
        check_operand(self.input, self.weight, "weight")?;
        other.map_or(Ok(()), |other| check_operand(self.input, other, "bias"))?;
        let (ndim, of_weight) = (self.input.ndim(), self.weight.ndim());
        ensure!(
            ndim >= 3 && of_weight == ndim,
            "convolution: expected input and weight of as many dimensions, 3 or more, got {ndim} and {of_weight}"
        );
        let spatial = ndim - 2;
        for numbers in [self.stride, self.padding, self.dilation, self.output_padding] {
            let count = numbers.len();
            ensure!(count == spatial, "convolution: expected {spatial} numbers for each parameter, got {count}");
        }
        let are_positive = [self.stride, self.dilation].into_iter().flatten().all(|&number| number > 0);
        ensure!(are_positive, "convolution: expected positive strides and dilations");
        let (sizes, groups, channels) = (self.weight.sizes(), self.groups, self.input.sizes()[1]);
        let wanted = if self.transposed { sizes[0] } else { sizes[1].saturating_mul(groups) };
        ensure!(
            groups > 0 && sizes[0] % groups == 0 && channels == wanted,
            "convolution: weights of sizes {sizes:?} in {groups} groups do not fit {channels} channels"
        );
        Ok(())
    }

    /// The memory format of results.
    fn format(&self) -> Format {
        let format = self.input.suggested_format();
        if format == Format::Contiguous { self.weight.suggested_format() } else { format }
    }

    fn output_channels(&self) -> i64 {
        let sizes = self.weight.sizes();
        if self.transposed { sizes[1] * self.groups } else { sizes[0] }
    }

    fn output_sizes(&self) -> Result<Dims, CallError> {
        let (input, weight) = (self.input.sizes(), self.weight.sizes());
        let mut sizes = dims(input, |size| size);
        sizes[1] = self.output_channels();
        for dim in 2..sizes.len() {
            let at = dim - 2;
            let (stride, padding) = (self.stride[at], 2 * self.padding[at]);
            let kernel = self.dilation[at] * (weight[dim] - 1) + 1;
            sizes[dim] = if self.transposed {
                (input[dim] - 1) * stride - padding + kernel + self.output_padding[at]
            } else {
                (input[dim] + padding - kernel) / stride + 1
            };
        }
        let (spatial, own) = (&sizes[2..], &input[2..]);
        // As on the CPU, where transposed convolutions of 16 bit numbers may be empty.
        let least = i64::from(!(self.transposed && NARROW.contains(self.input.dtype())));
        ensure!(
            spatial.iter().all(|&size| size >= least),
            "Given input size per channel: {own:?}. Calculated output size per channel: {spatial:?}. Output size is too small"
        );
        Ok(sizes)
    }

    /// How a call that computes in `dtype` is divided. `channels`: the number of channels among which it can be divided.
    fn division(&self, output: Tensor<'_>, channels: i64, direction: Direction, dtype: DType) -> Partition {
        // Each weight is multiplied with every position of the smaller side once.
        let smaller = if self.transposed { self.input } else { output };
        let positions = smaller.numel() / smaller.sizes()[1].max(1);
        let product = if NARROW.contains(dtype) { 0.006 } else { 0.03 };
        let factor = if direction == Direction::Forward { 1.0 } else { 2.0 };
        let cost = (factor * positions as f64 * self.weight.numel() as f64 * product) as u64 + 1000;
        let worth = parts_worth(cost);
        let by_batch = power_of_two(worth.min(self.input.sizes()[0]), positions / PART_POSITIONS);
        let is_divided = by_batch > 1 || channels >= 2 * PART_CHANNELS;
        let least = if is_divided { PART_CHANNELS } else { FEWEST_PART_CHANNELS };
        let can_divide_channels = !self.transposed && self.groups == 1;
        let by_channels = if can_divide_channels { power_of_two(worth, channels / least) } else { 1 };
        Partition {
            parts: by_batch.max(by_channels),
            cost,
            by_channels: by_channels > by_batch,
            large_volumes: self.has_large_volumes(dtype),
        }
    }

    /// True for depthwise convolutions with one output channel for each input channel.
    fn is_by_channel(&self) -> bool {
        self.groups > 1 && self.groups == self.input.sizes()[1] && self.groups == self.output_channels()
    }

    /// The windows of a 2-D depthwise convolution that a Rust kernel can compute, else `None`.
    fn depthwise_windows(&self) -> Option<Windows> {
        let is_ours = !self.transposed && self.is_by_channel() && FLOATING.contains(self.input.dtype());
        if is_ours { self.windows() } else { None }
    }

    /// The windows of a 2-D convolution.
    fn windows(&self) -> Option<Windows> {
        let pair = |numbers: &[i64]| <[i64; 2]>::try_from(numbers).ok().filter(|numbers| numbers.iter().all(|&number| number >= 0));
        let [kernel, dilation, padding, stride] = [&self.weight.sizes()[2..], self.dilation, self.padding, self.stride].map(pair);
        Some(Windows { kernel: kernel?, dilation: dilation?, padding: padding?, stride: stride? })
    }

    /// True for one group whose windows are the elements of the image.
    fn is_pointwise(&self) -> bool {
        let are = |numbers: &[i64], number: i64| numbers.iter().all(|&other| other == number);
        self.groups == 1 && are(&self.weight.sizes()[2..], 1) && are(self.stride, 1) && are(self.padding, 0)
    }

    /// The windows of a 2-D convolution that `src/ops/convolution/kernel.rs` computes, on processors with AVX2 and without
    /// AVX-512: 16 bit floats, which it widens as it packs them, `Double`, calls of few positions, for which oneDNN
    /// reorders the weights, and windows of one element, which are matrix products.
    fn kernel_windows(&self, out: Tensor<'_>) -> Option<Windows> {
        let &[images, _, ref sizes @ ..] = out.sizes() else { return None };
        let (dtype, is_pointwise) = (self.input.dtype(), self.is_pointwise());
        let is_ours = match dtype {
            DType::Float => is_pointwise || images * sizes.iter().product::<i64>() <= FEW_POSITIONS,
            other => FLOATING.contains(other),
        };
        let fits = out.is_dense(Format::Contiguous) || dtype == DType::Float && is_pointwise && out.is_dense(Format::ChannelsLast);
        let takes = is_ours && fits && !self.transposed && simd::isa() == Isa::Avx2;
        if takes { self.windows() } else { None }
    }

    /// True for 3-D convolutions in `Float` for which oneDNN's kernel is faster than PyTorch's choice.
    fn has_large_volumes(&self, dtype: DType) -> bool {
        let &[_, _, depth, height, width] = self.input.sizes() else { return false };
        dtype == DType::Float && !self.transposed && self.groups == 1 && depth * height * width >= ONEDNN_VOLUME
    }

    /// The products of a pass, in the dtype of the call, in which a card computes. `wanted`: the gradients of input and weight that
    /// a backward pass computes; `None` forward.
    fn products(&self, output: Tensor<'_>, wanted: Option<&[bool]>) -> Products {
        let (input, weight) = (self.input.sizes(), self.weight.sizes());
        let product = |sizes: &[i64]| sizes.iter().map(|size| size.unsigned_abs()).product::<u64>();
        let windows = product(if self.transposed { &input[2..] } else { &output.sizes()[2..] });
        let (groups, batch) = (self.groups.unsigned_abs(), input[0].unsigned_abs());
        let one = 2 * batch * windows * product(weight);
        // The counter lets all channels of one side meet all of the other, whatever the groups.
        let [executed, counted] = match wanted {
            None => [one, one],
            Some(&[of_input, of_weight, ..]) => [1, groups].map(|times| one * (u64::from(of_input) + times * u64::from(of_weight))),
            Some(_) => [0, 0],
        };
        let (rows, columns, depth) = (batch * windows, weight[0].unsigned_abs() / groups, product(&weight[1..]));
        let executed = if self.is_by_channel() { 0 } else { executed };
        Products {
            count: groups,
            rows,
            columns,
            depth,
            executed,
            counted,
            is_attention: false,
            dtype: self.input.dtype().torch_name(),
        }
    }

    /// Lets the task compute over the arguments. 16 bit floats are widened to `Float` if their kernels are slow or unreliable.
    fn run(
        &self,
        arguments: &Arguments<'_>,
        call: &Call<'_>,
        output: Tensor<'_>,
        channels: i64,
        direction: Direction,
        products: Products,
    ) -> Outcome {
        let dtype = self.input.dtype();
        // The 16 bit kernels for depthwise gradients are slow.
        let is_slow = direction == Direction::Backward && self.is_by_channel();
        if !HALVES.contains(dtype) || !is_slow && is_native(dtype, direction, shim::has_amx()) && self.is_safe(output, direction) {
            let division = self.division(output, channels, direction, dtype);
            return declared::during(products, || call.divide(arguments, &division));
        }
        let (widened, division) = (call.widened(arguments)?, self.division(output, channels, direction, DType::Float));
        declared::during(products, || call.divide(&widened, &division))
    }

    /// True if the 16 bit kernels compute this convolution correctly.
    fn is_safe(&self, output: Tensor<'_>, direction: Direction) -> bool {
        let (image, windows) = if self.transposed { (output, self.input) } else { (self.input, output) };
        let dimension = |(at, ((&image, &windows), &kernel)): (usize, ((&i64, &i64), &i64))| Dimension {
            image,
            windows,
            kernel,
            stride: self.stride[at],
            padding: self.padding[at],
            dilation: self.dilation[at],
        };
        let sizes = image.sizes()[2..].iter().zip(&windows.sizes()[2..]).zip(&self.weight.sizes()[2..]);
        let dimensions: Vec<Dimension> = sizes.enumerate().map(dimension).collect();
        is_regular(&dimensions, self.transposed) && (direction == Direction::Forward || !has_large_planes(&dimensions))
    }
}

fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) = arguments.typed()?;
    let convolution = Convolution { input, weight, stride, padding, dilation, output_padding, transposed, groups };
    convolution.check(bias)?;
    let (channels, sizes) = (convolution.output_channels(), bias.map(Tensor::sizes));
    ensure!(
        sizes.is_none_or(|sizes| sizes == [channels]),
        "Given weight of size {:?}, expected bias to be 1-dimensional with {channels} elements, but got bias of size {:?} instead",
        weight.sizes(),
        sizes.unwrap_or_default()
    );
    let shape = Shape::new(&convolution.output_sizes()?, convolution.input.dtype(), convolution.format());
    let out = call.output(0, &shape, Strides::Any)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if let Some(windows) = convolution.depthwise_windows() {
        let bias = call.dense_given(bias)?;
        return depthwise(call, &windows, [out, convolution.input, convolution.weight], bias, false);
    }
    if let Some(windows) = convolution.kernel_windows(out) {
        // An output of one channel is dense in both formats.
        let takes_last = convolution.is_pointwise() && input.dtype() == DType::Float && input.is_dense(Format::ChannelsLast);
        let is_last = out.is_dense(Format::ChannelsLast) && (takes_last || !out.is_dense(Format::Contiguous));
        let format = if is_last { Format::ChannelsLast } else { Format::Contiguous };
        let inputs = [Some(call.dense(input, format)?), Some(call.dense(weight, Format::Contiguous)?), call.dense_given(bias)?];
        let mut scalars = windows.scalars([2, 3].map(|dim| out.sizes()[dim])).list().to_vec();
        scalars.push(groups.into());
        return call.with_kernel(kernel!(c"convolution")).launch(&[out], &inputs, &scalars);
    }
    let products = convolution.products(out, None);
    convolution.run(arguments, call, out, convolution.weight.sizes()[0], Direction::Forward, products)
}

/// Launches a depthwise convolution or, with `to_image`, the gradient of its images.
fn depthwise<'a>(
    call: &Call<'a>,
    windows: &Windows,
    [out, input, weight]: [Tensor<'a>; 3],
    bias: Option<Tensor<'a>>,
    to_image: bool,
) -> Outcome {
    let counts = if to_image { input } else { out };
    let mut scalars = windows.scalars([2, 3].map(|dim| counts.sizes()[dim])).list().to_vec();
    scalars.push(to_image.into());
    let inputs = [Some(channels_last(call, input)?), Some(channel_rows(call.dense(weight, Format::Contiguous)?)), bias];
    let is_copied = !out.is_dense(Format::ChannelsLast);
    let target = if is_copied { call.empty_as(&Shape::new(out.sizes(), out.dtype(), Format::ChannelsLast))? } else { out };
    call.with_kernel(kernel!(c"depthwise")).launch(&[channels_last(call, target)?], &inputs, &scalars)?;
    if is_copied { call.copy(out, target) } else { Ok(()) }
}

/// Images as a contiguous tensor (N, H, W, C).
fn channels_last<'a>(call: &Call<'a>, images: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
    Ok(call.dense(images, Format::ChannelsLast)?.in_memory_order(Format::ChannelsLast))
}

/// Weights (C, 1, height, width) as (C, height * width).
fn channel_rows(weight: Tensor<'_>) -> Tensor<'_> {
    weight.view(&[weight.sizes()[0], weight.sizes()[2] * weight.sizes()[3]])
}

fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, wanted) = arguments.typed()?;
    let (grad, wanted): (Tensor<'_>, &[bool]) = (grad, wanted);
    let convolution = Convolution { input, weight, stride, padding, dilation, output_padding, transposed, groups };
    convolution.check(Some(grad))?;
    let of_bias = Shape::new(&[convolution.output_channels()], grad.dtype(), Format::Contiguous);
    let like = |tensor: Tensor<'_>| Shape::new(tensor.sizes(), tensor.dtype(), convolution.format());
    let shapes = [like(input), like(weight), of_bias];
    let is_empty = grad.numel() == 0 || input.numel() == 0;
    let mut gradients = [None; 3];
    for (index, shape) in shapes.iter().enumerate().filter(|&(index, _)| wanted[index]) {
        let gradient = call.output(index, shape, Strides::Any)?;
        gradients[index] = Some(gradient);
        if is_empty {
            call.operator(&callees::ZERO, &[Value::Tensor(gradient)])?;
        }
    }
    if is_empty {
        return Ok(());
    }
    let Some(windows) = convolution.depthwise_windows() else {
        let products = convolution.products(grad, Some(wanted));
        return convolution.run(arguments, call, grad, weight.sizes()[1], Direction::Backward, products);
    };
    let [of_input, of_weight, of_bias] = gradients;
    let grad = call.dense(grad, Format::ChannelsLast)?;
    if let Some(of_input) = of_input {
        depthwise(call, &windows, [of_input, grad, weight], None, true)?;
    }
    if of_weight.is_none() && of_bias.is_none() {
        return Ok(());
    }
    let inputs = [channels_last(call, input)?, channels_last(call, grad)?];
    let scalars = windows.scalars([2, 3].map(|dim| grad.sizes()[dim])).list();
    call.with_kernel(kernel!(c"depthwise_weight")).launch(&[of_weight.map(channel_rows), of_bias], &inputs, &scalars)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(sizes: &[i64], dtype: DType) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    fn convolution(input: &[i64], weight: &[i64]) -> Convolution<'static> {
        Convolution {
            input: tensor(input, DType::Float),
            weight: tensor(weight, DType::Float),
            stride: &[2, 1],
            padding: &[1, 0],
            dilation: &[1, 2],
            output_padding: &[1, 0],
            transposed: false,
            groups: 1,
        }
    }

    #[test]
    fn large_calls_are_divided() {
        let division = |input: &[i64], weight: &[i64]| {
            let convolution = Convolution { stride: &[1, 1], padding: &[0, 0], dilation: &[1, 1], ..convolution(input, weight) };
            let output = tensor(&convolution.output_sizes().unwrap(), DType::Float);
            let Partition { parts, by_channels, .. } = convolution.division(output, weight[0], Direction::Forward, DType::Float);
            (parts, by_channels)
        };
        assert_eq!(division(&[1, 3, 8, 8], &[4, 3, 3, 3]), (1, false));
        assert_eq!(division(&[8, 64, 56, 56], &[64, 64, 1, 1]), (8, false));
        assert_eq!(division(&[1, 512, 16, 16], &[512, 512, 3, 3]), (8, true));
        assert_eq!((power_of_two(5, 100), power_of_two(100, 0), power_of_two(16, 8)), (4, 1, 8));
    }

    #[test]
    fn large_volumes_are_those_of_one_group_of_floats() {
        let volumes =
            |size: i64, groups: i64| Convolution { groups, ..convolution(&[1, 4, 2, size, 8], &[4, 4 / groups, 1, 1, 1]) };
        let are_large = |convolution: &Convolution<'_>| convolution.has_large_volumes(DType::Float);
        assert!(are_large(&volumes(8, 1)) && !are_large(&volumes(7, 1)) && !are_large(&volumes(8, 2)));
        assert!(!are_large(&Convolution { transposed: true, ..volumes(8, 1) }));
        assert!(!volumes(8, 1).has_large_volumes(DType::Half));
        assert!(!are_large(&convolution(&[1, 4, 16, 16], &[4, 4, 1, 1])));
    }
}
