//! Layer normalisation, forward and backward, with PyTorch's checks. The kernels normalise the rows of a matrix. The dtypes of
//! parameters and statistics, for batch and group normalisation as well.

use crate::call::prelude::*;
use crate::ops::normalization::kernel::layer_norm::native_layer_norm as kernel;

operators! {
    c"native_layer_norm": any_dtype(plain(forward)) => c"native_layer_norm";
    c"native_layer_norm_backward": any_dtype(plain(backward)) => c"native_layer_norm_backward";
}

// 16 bit floats with `Float` parameters and statistics, which PyTorch's CPU kernels allow.

/// True if the first parameter that is present has another dtype than the input.
fn is_mixed(input: Tensor<'_>, parameters: &[Option<Tensor<'_>>]) -> bool {
    parameters.iter().flatten().next().is_some_and(|parameter| parameter.dtype() != input.dtype())
}

/// The dtype of statistics.
pub fn statistics_dtype(input: Tensor<'_>, parameters: &[Option<Tensor<'_>>]) -> DType {
    if is_mixed(input, parameters) { DType::Float } else { input.dtype() }
}

/// An error if the parameters have another dtype than the input, unless they are `Float` and the input is narrower.
pub fn check_dtypes(input: Tensor<'_>, parameters: &[Option<Tensor<'_>>]) -> Outcome {
    if !is_mixed(input, parameters) {
        return Ok(());
    }
    ensure!(parameters.iter().flatten().all(|parameter| parameter.dtype() == DType::Float));
    ensure!(input.dtype() != DType::Float && input.dtype().opmath() == DType::Float);
    Ok(())
}

/// The operands that forward and backward share.
struct Normalised<'a> {
    input: Tensor<'a>,
    /// The sizes of a row.
    shape: &'a [i64],
    weight: Option<Tensor<'a>>,
    bias: Option<Tensor<'a>>,
}

impl<'a> Normalised<'a> {
    /// Checks the operands; the fallback gets cases that the kernels lack.
    fn check(&self, call: &Call<'_>) -> Outcome {
        let Self { input, shape, .. } = *self;
        let have_its_sizes = self.parameters().into_iter().flatten().all(|parameter| parameter.has_sizes(shape));
        ensure!(!shape.is_empty() && input.sizes().ends_with(shape) && have_its_sizes);
        let [rows, columns] = self.matrix();
        take_if(call.takes(input.dtype()) && (columns > 0 || rows == 0))
    }

    /// The number of dimensions before those of a row.
    fn leading(&self) -> usize {
        self.input.ndim() - self.shape.len()
    }

    /// The sizes of the kernels' matrix: rows and columns.
    fn matrix(&self) -> [i64; 2] {
        let (rows, columns) = self.input.sizes().split_at(self.leading());
        [rows.iter().product(), columns.iter().product()]
    }

    fn rows(&self, call: &Call<'a>, tensor: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
        Ok(call.dense(tensor, Format::Contiguous)?.view(&self.matrix()))
    }

    /// A weight or bias as a vector for the kernels.
    fn parameter(&self, call: &Call<'a>, tensor: Option<Tensor<'a>>) -> Result<Option<Tensor<'a>>, CallError> {
        Ok(call.dense_given(tensor)?.map(|dense| dense.view(&self.matrix()[1..])))
    }

    fn parameters(&self) -> [Option<Tensor<'a>>; 2] {
        [self.weight, self.bias]
    }

    /// Output number `index`, with a value for each row.
    fn statistics(&self, call: &Call<'a>, index: usize) -> Result<Tensor<'a>, CallError> {
        let (leading, sizes) = (self.leading(), self.input.sizes());
        let sizes = call.arena().keep_all(sizes.len(), |dim| if dim < leading { sizes[dim] } else { 1 });
        let dtype = statistics_dtype(self.input, &self.parameters());
        call.contiguous(index, sizes, dtype, Strides::Any)
    }
}

pub fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, shape, weight, bias, eps) = arguments.typed()?;
    let normalised = Normalised { input, shape, weight, bias };
    normalised.check(call)?;
    check_dtypes(input, &normalised.parameters())?;
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?.view(&normalised.matrix());
    let (mean, inverse) = (normalised.statistics(call, 1)?, normalised.statistics(call, 2)?);
    let scalars = kernel::Scalars { eps: Scalar::Double(eps) };
    let [weight, bias] = [normalised.parameter(call, weight)?, normalised.parameter(call, bias)?];
    let inputs = call.all_dense([Some(normalised.rows(call, input)?), weight, bias])?;
    call.launch(&[out, mean, inverse], &inputs, &scalars.list())
}

pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, input, shape, mean, inverse, weight, bias, wanted): (Tensor<'_>, Tensor<'_>, _, _, _, _, _, &[bool]) =
        arguments.typed()?;
    let normalised = Normalised { input, shape, weight, bias };
    normalised.check(call)?;
    let (found, sizes) = (grad.sizes(), normalised.input.sizes());
    ensure!(found == sizes, "layer norm: expected a gradient of sizes {sizes:?}, got {found:?}");
    let matrix = normalised.matrix();
    // The kernel always computes the gradient of the input.
    let of_input = if wanted[0] {
        call.contiguous(0, sizes, input.dtype(), Strides::Any)?.view(&matrix)
    } else {
        call.empty(&matrix, input.dtype())?
    };
    let like = |index: usize, like: Option<Tensor<'_>>| {
        let dtype = like.unwrap_or(input).dtype();
        wanted[index].then(|| call.contiguous(index, shape, dtype, Strides::Any)).transpose()
    };
    let outputs = [Some(of_input), like(1, weight)?, like(2, bias.or(weight))?];
    let rows = [normalised.rows(call, grad)?, normalised.rows(call, input)?].map(Some);
    let weight = normalised.parameter(call, normalised.weight)?;
    let inputs = call.all_dense([rows[0], rows[1], Some(mean), Some(inverse), weight])?;
    call.launch(&outputs, &inputs, &[])
}
