//! Weight normalisation: weights as a direction and a magnitude.

use super::{contiguous, results, take_if, with_elements};
use crate::operators::call::{Arguments, Call, Outcome, Shape};
use crate::operators::tensors::{Format, Tensor};
use crate::tensor::dtype::DType;

fn is_contiguous(tensor: Tensor<'_>) -> bool {
    tensor.is_dense(Format::Contiguous)
}

/// True if `g` has a magnitude for each slice of `v` along its first or last dimension.
fn are_slices(v: Tensor<'_>, g: Tensor<'_>, dim: i64) -> bool {
    let is_outer = v.ndim() > 0 && (dim == 0 || dim == v.ndim() as i64 - 1);
    is_outer && is_contiguous(v) && is_contiguous(g) && g.numel() == v.sizes()[dim as usize] && v.dtype() == g.dtype()
}

/// `_weight_norm_interface`. The norms of BFloat16 weights are `Float`.
pub fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (v, g, dim): (Tensor<'_>, Tensor<'_>, i64) = with_elements(arguments)?;
    take_if(are_slices(v, g, dim))?;
    let dtype = if g.dtype() == DType::BFloat16 { DType::Float } else { g.dtype() };
    results(call, &[contiguous(v.sizes(), v), Shape { sizes: g.sizes().into(), strides: g.strides().into(), dtype }])
}

pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, v, g, norms, dim): (Tensor<'_>, Tensor<'_>, Tensor<'_>, Tensor<'_>, i64) = with_elements(arguments)?;
    take_if(are_slices(v, g, dim))?;
    take_if(is_contiguous(grad) && grad.sizes() == v.sizes() && is_contiguous(norms) && norms.sizes() == g.sizes())?;
    results(call, &[contiguous(v.sizes(), v), contiguous(g.sizes(), g)])
}
