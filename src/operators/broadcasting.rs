//! Calls of elementwise kernels over operands that are broadcast, by the rules of PyTorch's TensorIterator.

use smallvec::SmallVec;

use super::call::{Call, Input, Outcome, Refusal, Shape, broadcast, device_name, ensure};
use super::descriptor::{Dims, Tensor, dense_strides, joint_strides};
use crate::tensor::launch::Scalar;

/// Inputs of one dtype, which the output has too.
pub struct Elementwise<'a> {
    inputs: SmallVec<[Tensor<'a>; 3]>,
    sizes: Dims,
}

impl<'a> Elementwise<'a> {
    /// Of inputs and the caller's tensor for the output, if there is one.
    ///
    /// # Errors
    /// They do not go together.
    pub fn new(inputs: &[Tensor<'a>], given: Option<Tensor<'_>>) -> Result<Self, Refusal> {
        if let Some(out) = given {
            out.check_no_internal_overlap()?;
            inputs.iter().try_for_each(|&input| out.check_no_partial_overlap(input))?;
        }
        let sizes = common_sizes(inputs)?;
        let expected = inputs[0].dtype();
        for dtype in given.iter().chain(inputs).map(|tensor| tensor.dtype()) {
            ensure!(dtype == expected, "Found dtype {dtype:?} but expected {expected:?}");
        }
        check_devices(given.into_iter().chain(inputs.iter().copied()))?;
        Ok(Self { inputs: inputs.into(), sizes })
    }

    /// Of a new output: in the order of the inputs.
    pub fn shape(&self) -> Shape {
        Shape { sizes: self.sizes.clone(), strides: self.strides(), dtype: self.inputs[0].dtype() }
    }

    /// The same in the order of one tensor, where that has all elements.
    pub fn shape_like(&self, tensor: Tensor<'_>) -> Shape {
        if tensor.sizes() != &self.sizes[..] {
            return self.shape();
        }
        Shape { sizes: self.sizes.clone(), strides: tensor.like_strides(), dtype: tensor.dtype() }
    }

    fn strides(&self) -> Dims {
        let inputs = &self.inputs;
        if inputs.iter().all(|input| input.sizes() == &self.sizes[..]) {
            return joint_strides(inputs);
        }
        let expanded: SmallVec<[Tensor<'_>; 3]> = inputs.iter().filter_map(|input| input.expand(&self.sizes)).collect();
        dense_strides(&expanded)
    }

    /// Launches into an output of these sizes.
    ///
    /// # Errors
    /// The kernel does not take the dtype.
    pub fn launch(&self, call: &Call<'_>, out: Tensor<'_>, scalars: &[Scalar]) -> Outcome {
        let inputs: SmallVec<[Input<'_>; 4]> = self.inputs.iter().map(|&input| Input::Tensor(input)).collect();
        launch(call, out, &inputs, scalars)
    }
}

/// The sizes that all are broadcast to.
fn common_sizes(tensors: &[Tensor<'_>]) -> Result<Dims, Refusal> {
    let mut sizes = Dims::from(tensors[0].sizes());
    for tensor in &tensors[1..] {
        if tensor.sizes() != &sizes[..] {
            sizes = broadcast(&sizes, tensor.sizes())?.into();
        }
    }
    Ok(sizes)
}

/// Refuses tensors of several devices, as an iterator does.
///
/// # Errors
/// There are some.
pub fn check_devices<'t>(tensors: impl Iterator<Item = Tensor<'t>> + Clone) -> Outcome {
    let mut devices = tensors.map(Tensor::device);
    let common = devices.clone().find(|&device| device >= 0).unwrap_or(-1);
    let Some(other) = devices.find(|&device| device != common) else { return Ok(()) };
    let [common, other] = [common, other].map(device_name);
    let found = format!("found at least two devices, {common} and {other}!");
    Err(Refusal::Invalid(format!("Expected all tensors to be on the same device, but {found}")))
}

/// Launches the call's kernel into a tensor, over inputs that are broadcast to its sizes; it computes in the output's dtype. Nothing
/// is launched where there is no element.
///
/// # Errors
/// It does not take the dtype, or an input does not fit the output.
pub fn launch(call: &Call<'_>, out: Tensor<'_>, inputs: &[Input<'_>], scalars: &[Scalar]) -> Outcome {
    if out.numel() == 0 && call.takes(out.dtype()) {
        return Ok(());
    }
    let mut operands: SmallVec<[Input<'_>; 4]> = SmallVec::new();
    for input in inputs {
        operands.push(match *input {
            Input::Tensor(tensor) if tensor.sizes() != out.sizes() => tensor.expanded(out.sizes())?.into(),
            other => other,
        });
    }
    call.launch_with(out.dtype(), &[out], &operands, scalars)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dtype::DType;

    fn tensor(sizes: &[i64], strides: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, DType::Float, 0, sizes, strides)
    }

    fn strides_of(inputs: &[(&[i64], &[i64])]) -> Vec<i64> {
        let inputs: Vec<_> = inputs.iter().map(|(sizes, strides)| tensor(sizes, strides)).collect();
        Elementwise::new(&inputs, None).unwrap().shape().strides.to_vec()
    }

    #[test]
    fn outputs_have_the_order_of_inputs() {
        assert_eq!(strides_of(&[(&[2, 3], &[3, 1]), (&[2, 3], &[1, 2])]), [3, 1]);
        assert_eq!(strides_of(&[(&[2, 3], &[1, 2]), (&[2, 3], &[3, 1])]), [1, 2]);
        assert_eq!(strides_of(&[(&[2, 3], &[1, 2]), (&[2, 3], &[1, 2])]), [1, 2]);
        assert_eq!(strides_of(&[(&[2, 3, 4, 5], &[60, 1, 15, 3]), (&[2, 3, 4, 5], &[60, 1, 15, 3])]), [60, 1, 15, 3]);
        assert_eq!(strides_of(&[(&[2, 3, 4, 5], &[60, 1, 15, 3]), (&[3, 1, 1], &[1, 1, 1])]), [60, 1, 15, 3]);
        assert_eq!(strides_of(&[(&[3, 1], &[1, 9])]), [1, 1]);
        assert_eq!(strides_of(&[(&[1, 3], &[9, 1])]), [3, 1]);
        assert_eq!(strides_of(&[(&[2, 3], &[1, 4])]), [1, 2]);
        assert_eq!(strides_of(&[(&[3], &[1]), (&[2, 1], &[1, 1])]), [3, 1]);
        assert_eq!(strides_of(&[(&[2, 1], &[1, 1]), (&[1, 3], &[3, 1])]), [3, 1]);
        assert_eq!(strides_of(&[(&[4, 1, 3], &[3, 3, 1]), (&[1, 5, 1], &[1, 1, 1])]), [15, 3, 1]);
        assert_eq!(strides_of(&[(&[2, 3, 4], &[1, 2, 6]), (&[4], &[1])]), [1, 2, 6]);
        assert_eq!(strides_of(&[(&[2, 3, 4], &[24, 2, 6])]), [12, 1, 3]);
        assert_eq!(strides_of(&[(&[2, 3, 4], &[0, 4, 1]), (&[2, 3, 4], &[1, 2, 6])]), [1, 8, 2]);
        assert_eq!(strides_of(&[(&[1, 1, 4, 5], &[20, 1, 5, 1]), (&[1, 1, 4, 5], &[20, 20, 5, 1])]), [20, 20, 5, 1]);
        assert_eq!(strides_of(&[(&[2, 3, 4, 5], &[60, 1, 15, 3]), (&[2, 3, 4, 5], &[60, 20, 5, 1])]), [60, 1, 15, 3]);
        assert_eq!(strides_of(&[(&[], &[]), (&[2, 3], &[1, 2])]), [1, 2]);
        assert_eq!(strides_of(&[(&[1, 3, 1], &[1, 5, 7])]), [1, 1, 3]);
    }

    #[test]
    fn operands_that_do_not_go_together_are_refused() {
        let (floats, doubles) = (tensor(&[2], &[1]), Tensor::leaked(1, DType::Double, 0, &[2], &[2]));
        let refused = |inputs: &[Tensor<'static>], given| Elementwise::new(inputs, given).err();
        let text = |text: &str| Some(Refusal::Invalid(text.into()));
        assert_eq!(refused(&[floats, doubles], None), text("Found dtype Double but expected Float"));
        assert_eq!(refused(&[floats], Some(doubles)), text("Found dtype Double but expected Float"));
        let host = Tensor::leaked(1, DType::Float, -1, &[2], &[1]);
        let devices = "Expected all tensors to be on the same device, but found at least two devices, rustdev:0 and cpu!";
        assert_eq!(refused(&[host, floats], None), text(devices));
        assert!(refused(&[floats, tensor(&[3], &[1])], None).is_some() && refused(&[floats, floats], Some(floats)).is_none());
    }
}
