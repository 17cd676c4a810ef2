//! Softmax, its gradients and scans: operators along one dimension. Their kernels get [output, inputs...] and the scalar [dim].
//!
//! As for reductions, calls that are clearly valid skip PyTorch's meta function.

use super::call::{Arguments, Call, CallError, Outcome, Strides, StructuredCall, Value, wrap_dim};
use super::tensor_options::dtype_of;
use super::tensors::Tensor;
use crate::tensor::dtype::DType;

/// A contiguous output with the input's sizes and the dtype `usual`; without that or with `out=`, the meta function's output.
fn output<'a>(call: &StructuredCall<'a>, like: Tensor<'_>, usual: Option<DType>) -> Result<Tensor<'a>, CallError> {
    match usual {
        Some(dtype) if call.given(0).is_none() => call.contiguous(0, like.sizes(), dtype, Strides::Shared),
        _ => call.output(0, &call.shape()?, Strides::Shared),
    }
}

/// Launches the kernel along a dimension, or leaves the call to the fallback.
fn launch(call: &Call<'_>, out: Tensor<'_>, inputs: &[Tensor<'_>], dim: &Value<'_>) -> Outcome {
    if !call.takes(out.dtype()) {
        return Err(CallError::Fallback);
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let dim = wrap_dim(dim.integer()?, inputs[0].ndim())? as i64;
    call.launch(&[out], inputs, &[dim.into()])
}

/// True if the dimension is in range.
fn has_dim(tensor: Tensor<'_>, dim: &Value<'_>) -> Result<bool, CallError> {
    Ok(wrap_dim(dim.integer()?, tensor.ndim()).is_ok())
}

/// `_softmax` and `_log_softmax`.
pub fn softmax(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [input, dim, half_to_float] = arguments.all()?;
    let input = input.tensor()?;
    let usual = Some(input.dtype()).filter(|_| !half_to_float.flag().unwrap_or(true));
    let usual = if has_dim(input, dim)? { usual } else { None };
    let out = output(call, input, usual)?;
    launch(call, out, &[input], dim)
}

/// `_softmax_backward_data` and `_log_softmax_backward_data`.
pub fn softmax_backward(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [grad, result, dim, input_dtype] = arguments.all()?;
    let (grad, result) = (grad.tensor()?, result.tensor()?);
    let dtypes = [Some(result.dtype()), dtype_of(input_dtype)?];
    let is_usual = dtypes == [Some(grad.dtype()); 2] && grad.sizes() == result.sizes() && has_dim(grad, dim)?;
    let out = output(call, grad, Some(grad.dtype()).filter(|_| is_usual))?;
    launch(call, out, &[grad, result], dim)
}

/// `cumsum` and `cumprod`.
pub fn scan(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [input, dim, _dtype] = arguments.all()?;
    let input = input.tensor()?;
    let out = call.output(0, &call.shape()?, Strides::Shared)?;
    if call.given(0).is_some() {
        out.check_no_internal_overlap()?;
        out.check_no_partial_overlap(input)?;
    }
    launch(call, out, &[input], dim)
}

/// `_logcumsumexp`.
pub fn logcumsumexp(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, dim] = arguments.all()?;
    let input = input.tensor()?;
    wrap_dim(dim.integer()?, input.ndim())?;
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
    out.check_no_partial_overlap(input)?;
    launch(call, out, &[input], dim)
}

/// `_cummax_helper` and `_cummin_helper`, whose caller has made values and indices.
pub fn cummax(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, values, indices, dim] = arguments.all()?;
    let input = input.tensor()?;
    if input.numel() == 0 {
        return Ok(());
    }
    let dim = wrap_dim(dim.integer()?, input.ndim())? as i64;
    call.launch_in(input.dtype(), &[values.tensor()?, indices.tensor()?], &[input], &[dim.into()])
}
