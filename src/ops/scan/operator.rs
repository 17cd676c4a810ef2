//! Scans along a dimension. The kernels get [outputs..., input] and the scalar [dim].

use crate::call::prelude::*;
use crate::ops::softmax::operator::launch;

operators! {
    c"cumsum": any_dtype(structured(typed!(scan))) => c"cumsum", c"cumsum_", c"cumsum.out";
    c"cumprod": any_dtype(structured(typed!(scan))) => c"cumprod", c"cumprod_", c"cumprod.out";
    c"_logcumsumexp": plain(typed!(logcumsumexp)) => c"_logcumsumexp", c"_logcumsumexp.out";
    c"_cummax_helper": plain(typed!(cummax)) => c"_cummax_helper";
    c"_cummin_helper": plain(typed!(cummax)) => c"_cummin_helper";
}

pub fn scan(call: &Call<'_>, input: Tensor<'_>, dim: i64, _dtype: Value<'_>) -> Outcome {
    let out = call.output(0, &call.shape()?, Strides::Shared)?;
    if call.given(0).is_some() {
        out.check_no_internal_overlap()?;
        out.check_no_partial_overlap(input)?;
    }
    launch(call, out, &[input], dim)
}

pub fn logcumsumexp(call: &Call<'_>, input: Tensor<'_>, dim: i64) -> Outcome {
    wrap_dim(dim, input.ndim())?;
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
    out.check_no_partial_overlap(input)?;
    launch(call, out, &[input], dim)
}

/// `_cummax_helper` and `_cummin_helper`, whose caller has made values and indices.
pub fn cummax(call: &Call<'_>, input: Tensor<'_>, values: Tensor<'_>, indices: Tensor<'_>, dim: i64) -> Outcome {
    if input.numel() == 0 {
        return Ok(());
    }
    let dim = wrap_dim(dim, input.ndim())? as i64;
    call.launch_in(input.dtype(), &[values, indices], &[input], &[dim.into()])
}
