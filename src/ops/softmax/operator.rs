//! Softmax and its gradients. The kernels get [output, inputs...] and the scalar [dim].
//!
//! Calls that are clearly valid skip PyTorch's meta function, as those of reductions do.

use crate::call::prelude::*;

operators! {
    c"_softmax": any_dtype(structured(typed!(softmax))) => c"_softmax", c"_softmax.out";
    c"_log_softmax": any_dtype(structured(typed!(softmax))) => c"_log_softmax", c"_log_softmax.out";
    c"_softmax_backward_data": any_dtype(structured(typed!(softmax_backward))) =>
        c"_softmax_backward_data", c"_softmax_backward_data.out";
    c"_log_softmax_backward_data": any_dtype(structured(typed!(softmax_backward))) =>
        c"_log_softmax_backward_data", c"_log_softmax_backward_data.out";
}

/// A contiguous output with the input's sizes and the dtype `usual`; without that or with `out=`, the meta function's output.
fn output<'a>(call: &Call<'a>, like: Tensor<'_>, usual: Option<DType>) -> Result<Tensor<'a>, CallError> {
    match usual {
        Some(dtype) if call.given(0).is_none() => call.contiguous(0, like.sizes(), dtype, Strides::Shared),
        _ => call.output(0, &call.shape()?, Strides::Shared),
    }
}

/// Launches a kernel of [output, inputs...] and the scalar [dim] along a dimension, or leaves the call to the fallback.
pub fn launch(call: &Call<'_>, out: Tensor<'_>, inputs: &[Tensor<'_>], dim: i64) -> Outcome {
    take_if(call.takes(out.dtype()))?;
    let dim = wrap_dim(dim, inputs[0].ndim())? as i64;
    call.launch(&[out], inputs, &[dim.into()])
}

pub fn softmax(call: &Call<'_>, input: Tensor<'_>, dim: i64, half_to_float: bool) -> Outcome {
    let is_usual = !half_to_float && wrap_dim(dim, input.ndim()).is_ok();
    let out = output(call, input, Some(input.dtype()).filter(|_| is_usual))?;
    launch(call, out, &[input], dim)
}

pub fn softmax_backward(call: &Call<'_>, grad: Tensor<'_>, result: Tensor<'_>, dim: i64, input_dtype: DType) -> Outcome {
    let have_one_dtype = [result.dtype(), input_dtype] == [grad.dtype(); 2];
    let is_usual = have_one_dtype && grad.sizes() == result.sizes() && wrap_dim(dim, grad.ndim()).is_ok();
    let out = output(call, grad, Some(grad.dtype()).filter(|_| is_usual))?;
    launch(call, out, &[grad, result], dim)
}
