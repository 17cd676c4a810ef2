//! Operators of `torch.amp.GradScaler`. Gradients and the scale stay on the device.

use std::slice;

use smallvec::SmallVec;

use super::call::{Arguments, Call, Outcome, ensure};
use super::tensor_lists::{self, List};
use super::tensors::{Format, Tensor};
use crate::kernels::optimizer::amp::update_scale as kernel;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// PyTorch's checks of a one-element tensor on the device.
fn check_single(tensor: Tensor<'_>, name: &str, dtype: DType, dtype_name: &str) -> Outcome {
    ensure!(tensor.device() >= 0, "{name} must be a rustdev tensor.");
    ensure!(tensor.numel() == 1, "{name} must be a 1-element tensor.");
    ensure!(tensor.dtype() == dtype, "{name} must be {dtype_name} tensor.");
    Ok(())
}

/// The distinct elements of a tensor: expanded dimensions are narrowed to size 1.
fn distinct(tensor: Tensor<'_>) -> Tensor<'_> {
    let is_expanded = |tensor: Tensor<'_>, dim: usize| tensor.strides()[dim] == 0 && tensor.sizes()[dim] > 1;
    (0..tensor.ndim()).fold(tensor, |tensor, dim| if is_expanded(tensor, dim) { tensor.section(dim, 0, 1) } else { tensor })
}

/// Unscales dense gradients of one dtype.
fn launch_unscale(call: &Call<'_>, grads: List<'_>, found: Tensor<'_>, inverse: Tensor<'_>) -> Outcome {
    for part in tensor_lists::parts(grads.len()) {
        let scalars = [Scalar::Long(part.len() as i64)];
        let lists = [&grads[part], slice::from_ref(&found), slice::from_ref(&inverse)];
        call.launch_lists(grads[0].dtype(), 2, &lists, &scalars)?;
    }
    Ok(())
}

/// `_amp_foreach_non_finite_check_and_unscale_`: one launch for the gradients of each dtype. Gradients that are not dense are
/// unscaled in copies, which are written back.
pub fn unscale(call: &Call<'_>, grads: &[Tensor<'_>], found: Tensor<'_>, inverse: Tensor<'_>) -> Outcome {
    if grads.is_empty() {
        return Ok(());
    }
    check_single(inverse, "inv_scale", DType::Float, "a float")?;
    check_single(found, "found_inf", DType::Float, "a float")?;
    let (mut dense, mut copies) = (Vec::with_capacity(grads.len()), SmallVec::<[(Tensor<'_>, Tensor<'_>); 2]>::new());
    for &given in grads {
        ensure!(given.device() >= 0, "one of scaled_grads was not a rustdev tensor.");
        let is_near = given.device() == found.device() && given.device() == inverse.device();
        ensure!(is_near, "scaled_grads, found_inf and inv_scale must be on one device.");
        let grad = distinct(given);
        let has_gaps = !grad.fills_memory();
        dense.push(if has_gaps { call.dense(grad, Format::Contiguous)? } else { grad });
        copies.extend(has_gaps.then(|| (grad, dense[dense.len() - 1])));
    }
    if !dense.is_sorted_by_key(|grad| grad.dtype() as i32) {
        dense.sort_by_key(|grad| grad.dtype() as i32);
    }
    for group in dense.chunk_by(|one, other| one.dtype() == other.dtype()) {
        launch_unscale(call, group, found, inverse)?;
    }
    copies.into_iter().try_for_each(|(grad, copy)| call.copy(grad, copy))
}

pub fn update_scale(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scale, tracker, found, growth_factor, backoff_factor, growth_interval) = arguments.typed()?;
    check_single(tracker, "growth_tracker", DType::Int, "an int")?;
    check_single(scale, "current_scale", DType::Float, "a float")?;
    check_single(found, "found_inf", DType::Float, "a float")?;
    let scalars = kernel::Scalars { growth_factor, backoff_factor, growth_interval };
    call.launch(&[scale, tracker], &[found], &scalars.list())
}
