//! Triangles of matrices: `tril` and `triu`.

use super::call::{Arguments, Outcome, Strides, StructuredCall};
use crate::kernels::movement::triangle::tril as kernel;

/// `tril` and `triu`, whose kernels have the same scalars.
pub fn triangle(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [input, diagonal] = arguments.all()?;
    let (input, diagonal) = (input.tensor()?, diagonal.integer()?);
    let out = call.output(0, &call.shape()?, Strides::Any)?;
    if out.numel() == 0 {
        return Ok(());
    }
    call.launch(&[out], &[input], &kernel::Scalars { diagonal: diagonal.into() }.list())
}
