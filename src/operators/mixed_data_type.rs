//! Normalisation of 16 bit floats with `Float` parameters and statistics, which PyTorch's CPU kernels allow.

use super::call::{Outcome, ensure};
use super::tensors::Tensor;
use crate::tensor::dtype::DType;

/// True if the first parameter that is present has another dtype than the input.
fn is_mixed(input: Tensor<'_>, parameters: &[Option<Tensor<'_>>]) -> bool {
    parameters.iter().flatten().next().is_some_and(|parameter| parameter.dtype() != input.dtype())
}

/// The dtype of statistics.
pub fn of_statistics(input: Tensor<'_>, parameters: &[Option<Tensor<'_>>]) -> DType {
    if is_mixed(input, parameters) { DType::Float } else { input.dtype() }
}

/// An error if the parameters have another dtype than the input, unless they are `Float` and the input is narrower.
pub fn check(input: Tensor<'_>, parameters: &[Option<Tensor<'_>>]) -> Outcome {
    if !is_mixed(input, parameters) {
        return Ok(());
    }
    ensure!(parameters.iter().flatten().all(|parameter| parameter.dtype() == DType::Float));
    ensure!(input.dtype() != DType::Float && input.dtype().opmath() == DType::Float);
    Ok(())
}
