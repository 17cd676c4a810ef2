//! Sliding windows over images (`im2col`, `col2im`), and the gradient of `unfold`.

use super::call::{Arguments, Call, Outcome, Refusal, Strides, Value, ensure, wrap_dim};
use crate::kernels::movement::unfold::{im2col as kernel, unfold_backward as backward_kernel};

/// Windows over the last two dimensions: (height, width) of each parameter.
pub struct Windows {
    pub kernel: [i64; 2],
    pub dilation: [i64; 2],
    pub padding: [i64; 2],
    pub stride: [i64; 2],
}

fn pair(value: &Value<'_>) -> Result<[i64; 2], Refusal> {
    let values = value.integers()?;
    let wrong = |_| {
        let count = values.len();
        Refusal::Invalid(format!("kernel_size, dilation, padding and stride are expected to have 2 values, but got {count}"))
    };
    values.try_into().map_err(wrong)
}

impl Windows {
    /// Checks the parameters, with the messages of PyTorch's shape checks.
    fn new(kernel: &Value<'_>, dilation: &Value<'_>, padding: &Value<'_>, stride: &Value<'_>) -> Result<Self, Refusal> {
        let windows = Self { kernel: pair(kernel)?, dilation: pair(dilation)?, padding: pair(padding)?, stride: pair(stride)? };
        let positive = |what: &str, name: &str, [height, width]: [i64; 2]| {
            let text = "should be greater than zero, but got";
            ensure!(height > 0 && width > 0, "{what} {text} {name}_height: {height} {name}_width: {width}");
            Ok(())
        };
        positive("kernel size", "kernel", windows.kernel)?;
        positive("stride", "stride", windows.stride)?;
        positive("dilation", "dilation", windows.dilation)?;
        let [height, width] = windows.padding;
        ensure!(height >= 0 && width >= 0, "padding should be non-negative, but got pad_height: {height} pad_width: {width}");
        Ok(windows)
    }

    /// The number of windows along height (`axis` 0) or width (1) of an image of this size; 0 or less if none fits.
    fn count(&self, axis: usize, size: i64) -> i64 {
        let reach = self.dilation[axis].saturating_mul(self.kernel[axis] - 1).saturating_add(1);
        let free = size.saturating_add(self.padding[axis].saturating_mul(2)).saturating_sub(reach);
        free.div_euclid(self.stride[axis]) + 1
    }

    pub fn counts(&self, sizes: [i64; 2]) -> [i64; 2] {
        [self.count(0, sizes[0]), self.count(1, sizes[1])]
    }

    /// The number of elements of a window.
    fn elements(&self) -> Result<i64, Refusal> {
        let [height, width] = self.kernel;
        height.checked_mul(width).ok_or_else(|| {
            let given = format!("Given kernel_width = {width} and kernel_height = {height}");
            Refusal::Invalid(format!("{given} the product of kernel_width and kernel_height overflowed."))
        })
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

    /// The parameters, for messages.
    fn text(&self) -> String {
        let [kernel, dilation, padding, stride] = [self.kernel, self.dilation, self.padding, self.stride].map(in_brackets);
        format!("kernel_size={kernel}, dilation={dilation}, padding={padding}, stride={stride}")
    }
}

fn in_brackets([height, width]: [i64; 2]) -> String {
    format!("({height}, {width})")
}

/// `im2col`: the windows of images (N, C, H, W) or (C, H, W) as columns.
pub fn im2col(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, kernel, dilation, padding, stride] = arguments.all()?;
    let input = input.tensor()?;
    let windows = Windows::new(kernel, dilation, padding, stride)?;
    let sizes = input.sizes();
    let fits = match sizes.len() {
        3 => !sizes.contains(&0),
        4 => !sizes[1..].contains(&0),
        _ => false,
    };
    ensure!(
        fits,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {sizes:?}"
    );
    let image = [input.size_from_end(1), input.size_from_end(0)];
    let counts = windows.counts(image);
    if counts[0] < 1 || counts[1] < 1 {
        let [kernel, dilation, padding] = [windows.kernel, windows.dilation, windows.padding].map(in_brackets);
        return Err(Refusal::Invalid(format!(
            "Given input with spatial size {}, kernel_size={kernel}, dilation={dilation}, padding={padding}, calculated shape of the array \
             of sliding blocks as {}, but its components must be at least one.",
            in_brackets(image),
            in_brackets(counts)
        )));
    }
    let images = if sizes.len() == 3 { input.unsqueeze(0) } else { input };
    let mut columns = vec![images.sizes()[1] * windows.elements()?, counts[0] * counts[1]];
    if sizes.len() == 4 {
        columns.insert(0, sizes[0]);
    }
    let out = call.contiguous(0, &columns, input.dtype(), Strides::Any)?;
    let samples = if sizes.len() == 3 { out.unsqueeze(0) } else { out };
    if samples.numel() == 0 { Ok(()) } else { call.launch(&[samples], &[images], &windows.scalars(counts).list()) }
}

/// `col2im`: adds up columns (N, C * kernel, L) or (C * kernel, L) to images.
pub fn col2im(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, size, kernel, dilation, padding, stride] = arguments.all()?;
    let input = input.tensor()?;
    let size: [i64; 2] = size.integers()?.try_into().map_err(|_| {
        let count = size.integers().map_or(0, <[i64]>::len);
        Refusal::Invalid(format!("It is expected output_size equals to 2, but got size {count}"))
    })?;
    let windows = Windows::new(kernel, dilation, padding, stride)?;
    let sizes = input.sizes();
    let fits = match sizes.len() {
        2 => !sizes.contains(&0),
        3 => !sizes[1..].contains(&0),
        _ => false,
    };
    let text = "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input";
    ensure!(fits, "{text}, but got: {sizes:?}");
    let (planes, length, elements) = (input.size_from_end(1), input.size_from_end(0), windows.elements()?);
    ensure!(
        planes % elements == 0,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={planes} and \
         kernel_size={}.",
        in_brackets(windows.kernel)
    );
    let counts = windows.counts(size);
    let given = format!("Given output_size={}, {}", in_brackets(size), windows.text());
    let [height, width] = counts;
    let blocks = height.saturating_mul(width);
    ensure!(
        length == blocks,
        "{given}, expected size of input's dimension 2 to match the calculated number of sliding blocks {height} * {width} = {blocks}, but \
         got input.size(2)={length}."
    );
    let shape_text = in_brackets(counts);
    ensure!(
        height >= 1 && width >= 1,
        "{given}, calculated shape of the array of sliding blocks as {shape_text}, which is too small (non-positive)"
    );
    let size_text = in_brackets(size);
    ensure!(size[0] >= 1 && size[1] >= 1, "Expected output spatial size to be positive, but got: output_size={size_text}.");
    let mut image = vec![planes / elements, size[0], size[1]];
    if sizes.len() == 3 {
        image.insert(0, sizes[0]);
    }
    let out = call.contiguous(0, &image, input.dtype(), Strides::Any)?;
    let (images, columns) = if sizes.len() == 2 { (out.unsqueeze(0), input.unsqueeze(0)) } else { (out, input) };
    if images.numel() == 0 { Ok(()) } else { call.launch(&[images], &[columns], &windows.scalars(counts).list()) }
}

/// The gradient of `unfold` for an input with these sizes.
pub fn unfold_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [grad, sizes, dim, size, step] = arguments.all()?;
    let (grad, sizes) = (grad.tensor()?, sizes.integers()?);
    let out = call.contiguous(0, sizes, grad.dtype(), Strides::Any)?;
    let dim = wrap_dim(dim.integer()?, sizes.len())? as i64;
    if out.numel() == 0 {
        return Ok(());
    }
    let (size, step) = (size.integer()?, step.integer()?);
    let scalars = backward_kernel::Scalars { dim: dim.into(), size: size.into(), step: step.into() };
    call.launch(&[out], &[grad], &scalars.list())
}
