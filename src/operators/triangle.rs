//! Triangles of matrices: `tril` and `triu`.

use super::call::{Call, Outcome, Strides};
use super::tensors::Tensor;
use crate::kernels::movement::triangle::tril as kernel;

/// `tril` and `triu`, whose kernels have the same scalars.
pub fn triangle(call: &Call<'_>, input: Tensor<'_>, diagonal: i64) -> Outcome {
    if input.ndim() < 2 {
        // The meta function refuses the call.
        call.meta()?;
    }
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
    call.launch(&[out], &[input], &kernel::Scalars { diagonal: diagonal.into() }.list())
}
