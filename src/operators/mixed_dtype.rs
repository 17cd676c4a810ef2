//! Normalisation of 16 bit floats with `Float` parameters and statistics, which PyTorch's CPU kernels allow.

use super::call::{Outcome, ensure};
use super::descriptor::Tensor;
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
    let are_float = parameters.iter().flatten().all(|parameter| parameter.dtype() == DType::Float);
    ensure!(are_float, "mixed dtype (CPU): expect parameter to have scalar type of Float");
    let is_narrow = input.dtype() != DType::Float && input.dtype().opmath() == DType::Float;
    ensure!(is_narrow, "mixed dtype (CPU): all inputs must share same datatype.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dtype: DType) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, &[3], &[1])
    }

    #[test]
    fn statistics_are_as_wide_as_parameters() {
        let (half, float) = (of(DType::Half), of(DType::Float));
        assert_eq!(of_statistics(half, &[None, Some(float)]), DType::Float);
        assert_eq!(of_statistics(half, &[Some(half), Some(float)]), DType::Half);
        assert_eq!(of_statistics(half, &[None, None]), DType::Half);
    }

    #[test]
    fn parameters_of_narrow_inputs_may_be_float() {
        let (half, float, double) = (of(DType::Half), of(DType::Float), of(DType::Double));
        assert!(check(half, &[Some(float), None]).is_ok() && check(double, &[Some(double)]).is_ok());
        assert!(check(half, &[Some(float), Some(half)]).is_err());
        assert!(check(half, &[Some(double)]).is_err() && check(double, &[Some(float)]).is_err());
    }
}
