//! `cat`. Calls that are clearly valid skip PyTorch's meta function, which takes longer than the rest of a small call.

use super::call::{Call, Outcome, Shape, Strides, check_same_device_in, wrap_dim};
use super::tensors::{Dims, Format, Tensor};
use crate::kernels::movement::cat_flip_roll::cat as kernel;
use crate::tensor::launch::Scalar;

/// The most sizes and strides that the descriptors of one launch may hold, with a margin.
const WORDS_PER_LAUNCH: usize = 60_000;

/// True for tensors that PyTorch skips whatever the sizes of the others: 1-D and empty.
fn is_passed_over(tensor: Tensor<'_>) -> bool {
    tensor.sizes() == [0]
}

/// The memory format that all tensors suggest; contiguous if they differ.
fn common_format(tensors: &[Tensor<'_>]) -> Format {
    let first = tensors[0].suggested_format();
    let is_common = first == Format::Contiguous || tensors.iter().all(|tensor| tensor.suggested_format() == first);
    if is_common { first } else { Format::Contiguous }
}

/// The shape of the result if the tensors have one dtype and sizes that differ only in dimension `dim`. The meta function
/// handles all other calls.
fn usual_shape(tensors: &[Tensor<'_>], dim: i64) -> Option<Shape> {
    let first = *tensors.first()?;
    let dim = wrap_dim(dim, first.ndim()).ok().filter(|&dim| dim < first.ndim())?;
    let fits = |tensor: &Tensor<'_>| {
        let (own, sizes) = (tensor.sizes(), first.sizes());
        let are_same = own.len() == sizes.len() && (0..own.len()).all(|other| other == dim || own[other] == sizes[other]);
        are_same && tensor.dtype() == first.dtype() && !is_passed_over(*tensor)
    };
    if !tensors.iter().all(fits) {
        return None;
    }
    let mut sizes = Dims::from(first.sizes());
    sizes[dim] = tensors.iter().map(|tensor| tensor.sizes()[dim]).sum();
    Some(Shape::new(&sizes, first.dtype(), common_format(tensors)))
}

/// Launches over as many tensors at a time as one launch can take.
fn launch(call: &Call<'_>, out: Tensor<'_>, inputs: &[Tensor<'_>], dim: usize) -> Outcome {
    let scalars = kernel::Scalars { dim: Scalar::Long(dim as i64) }.list();
    let per_launch = WORDS_PER_LAUNCH / (2 * out.ndim().max(1));
    if inputs.len() <= per_launch && !inputs.is_empty() {
        return call.launch(&[out], inputs, &scalars);
    }
    let mut begin = 0;
    for part in inputs.chunks(per_launch) {
        let length = part.iter().map(|tensor| tensor.sizes()[dim]).sum();
        call.launch(&[out.section(dim, begin, length)], part, &scalars)?;
        begin += length;
    }
    Ok(())
}

pub fn join(call: &Call<'_>, tensors: &[Tensor<'_>], dim: i64) -> Outcome {
    let given = call.given(0);
    check_same_device_in(given.into_iter().chain(tensors.iter().copied()), "argument tensors", "cat")?;
    let shape = if given.is_none() { usual_shape(tensors, dim) } else { None };
    let shape = shape.map_or_else(|| call.shape(), Ok)?;
    let out = call.output(0, &shape, Strides::Any)?;
    if tensors.iter().all(|tensor| tensor.numel() != 0) {
        return launch(call, out, tensors, wrap_dim(dim, out.ndim())?);
    }
    let filled: Vec<_> = tensors.iter().copied().filter(|tensor| tensor.numel() != 0).collect();
    if filled.is_empty() { Ok(()) } else { launch(call, out, &filled, wrap_dim(dim, out.ndim())?) }
}
