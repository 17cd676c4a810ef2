//! Gathers along a dimension: gather, index_select, take. Calls that are clearly valid skip PyTorch's meta function. All others
//! use it, because it raises the errors.

use super::addressing::Addressing;
use super::call::{Arguments, Call, DeviceName, Outcome, Refusal, Strides, StructuredCall, check_index, ensure, wrap_dim};
use super::tensors::{Dims, Format, Tensor};
use crate::tensor::dtype::DType;

/// True if the meta functions of gather and scatter would accept the index.
pub fn has_usual_index(input: Tensor<'_>, dim: i64, index: Tensor<'_>) -> bool {
    let (sizes, wanted) = (input.sizes(), index.sizes());
    let is_index = [DType::Long, DType::Int].contains(&index.dtype()) && !sizes.is_empty() && sizes.len() == wanted.len();
    let Ok(dim) = wrap_dim(dim, sizes.len()) else { return false };
    is_index && (0..sizes.len()).all(|other| wanted[other] > 0 && (other == dim || wanted[other] <= sizes[other]))
}

/// `gather`.
pub fn gather(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [input, dim, index, _sparse] = arguments.all()?;
    let (input, dim, index) = (input.tensor()?, dim.integer()?, index.tensor()?);
    if call.given(0).is_some() || !has_usual_index(input, dim, index) {
        call.meta()?;
    }
    let out = call.contiguous(0, index.sizes(), input.dtype(), Strides::Any)?;
    match Addressing::each_element(input, dim, index)? {
        Some(addressing) => addressing.load(call, out, input),
        None => Ok(()),
    }
}

/// An error if the caller's `out=` tensor overlaps itself or an operand.
fn check_given(call: &Call<'_>, operands: [Tensor<'_>; 2]) -> Outcome {
    let Some(out) = call.given(0) else { return Ok(()) };
    out.check_no_internal_overlap()?;
    operands.into_iter().try_for_each(|operand| out.check_no_overlap(operand))
}

/// The sizes of the selected slices.
fn sizes_of_selection(input: Tensor<'_>, dim: i64, index: Tensor<'_>) -> Result<Dims, Refusal> {
    let (dim, ndim, count) = (wrap_dim(dim, input.ndim())?, input.ndim(), index.numel());
    check_index(index.ndim() <= 1, "index_select(): Index is supposed to be a vector")?;
    let is_whole = [DType::Long, DType::Int].contains(&index.dtype());
    ensure!(is_whole, "index_select(): Expected dtype int32 or int64 for index");
    let has_one = ndim > 0 || count == 1;
    ensure!(has_one, "index_select(): Index to scalar can have only 1 value, got {count} value(s)");
    let mut sizes = Dims::from(input.sizes());
    if let Some(size) = sizes.get_mut(dim) {
        let is_there = count == 0 || *size > 0;
        ensure!(is_there || ndim == 1, "index_select(): self indexing axis dim should be positive");
        check_index(is_there, "index out of range in self")?;
        *size = count;
    }
    Ok(sizes)
}

/// `index_select`.
pub fn select(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, dim, index] = arguments.all()?;
    let (input, dim, index) = (input.tensor()?, dim.integer()?, index.tensor()?);
    let sizes = sizes_of_selection(input, dim, index)?;
    let has_dtype = call.given(0).is_none_or(|out| out.dtype() == input.dtype());
    ensure!(has_dtype, "index_select(): self and result must have the same scalar type");
    check_given(call, [input, index])?;
    let out = call.contiguous(0, &sizes, input.dtype(), Strides::Any)?;
    match Addressing::each_slice(input, dim, index)? {
        Some(addressing) => addressing.load(call, out, input),
        None => Ok(()),
    }
}

fn check_take(call: &Call<'_>, input: Tensor<'_>, index: Tensor<'_>) -> Outcome {
    let (own, out) = (input.dtype(), call.given(0).unwrap_or(input));
    ensure!(index.dtype() == DType::Long, "take(): Expected a long tensor for index, but got {:?}", index.dtype());
    let text = "take(): self and out expected to have the same dtype, but got self.dtype =";
    ensure!(out.dtype() == own, "{text} {own:?} and out.dtype = {:?}", out.dtype());
    let [of_input, of_index, of_out] = [input, index, out].map(Tensor::device);
    ensure!(
        of_index == of_input && of_out == of_input,
        "take(): self, index and out expected to be in the same device, but got self.device = {}, index.device = {}, and out.device = {}",
        DeviceName(of_input),
        DeviceName(of_index),
        DeviceName(of_out)
    );
    check_index(input.numel() != 0 || index.numel() == 0, "take(): tried to take from an empty tensor")
}

/// `take`: indices into the flattened tensor.
pub fn take(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, index] = arguments.all()?;
    let (input, index) = (input.tensor()?, index.tensor()?);
    check_take(call, input, index)?;
    check_given(call, [input, index])?;
    let out = call.contiguous(0, index.sizes(), input.dtype(), Strides::Any)?;
    let dense = call.dense(input, Format::Contiguous)?;
    match Addressing::flat(dense, index) {
        Some(addressing) => addressing.load(call, out, dense),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: DType, sizes: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    #[test]
    fn an_index_is_no_larger_than_the_tensor_beside_its_dimension() {
        let is_usual =
            |sizes: &[i64], dim, index: &[i64]| has_usual_index(tensor(DType::Float, sizes), dim, tensor(DType::Long, index));
        assert!(is_usual(&[2, 3], 1, &[2, 9]) && is_usual(&[2, 3], -2, &[9, 3]) && is_usual(&[2, 3], 0, &[1, 1]));
        assert!(!is_usual(&[2, 3], 0, &[2, 4]) && !is_usual(&[2, 3], 2, &[2, 3]) && !is_usual(&[2, 3], 0, &[2]));
        assert!(!is_usual(&[2, 3], 0, &[0, 3]) && !is_usual(&[], 0, &[]) && !is_usual(&[0], 0, &[0]));
        assert!(!has_usual_index(tensor(DType::Float, &[2]), 0, tensor(DType::Float, &[2])));
    }

    #[test]
    fn a_selection_has_the_sizes_of_the_tensor_but_one() {
        let sizes = |sizes: &[i64], dim, index: &[i64]| {
            sizes_of_selection(tensor(DType::Float, sizes), dim, tensor(DType::Int, index)).map(|sizes| sizes.to_vec())
        };
        assert_eq!((sizes(&[2, 3], 1, &[5]), sizes(&[2, 3], 0, &[])), (Ok(vec![2, 5]), Ok(vec![1, 3])));
        assert_eq!((sizes(&[], 0, &[1]), sizes(&[0, 3], 0, &[0])), (Ok(vec![]), Ok(vec![0, 3])));
        assert!(matches!(sizes(&[0], 0, &[1]), Err(Refusal::Index(_))));
        assert!(matches!(sizes(&[0, 3], 0, &[1]), Err(Refusal::Invalid(_))));
        assert!(matches!(sizes(&[2, 3], 1, &[1, 1]), Err(Refusal::Index(_))));
    }
}
