//! `rustdev::_launch`: launches of kernels of the operator table by name, for operators in Python (`python/rustdev/_ops/`).

use std::ffi::CStr;

use crate::call::operator::{any_device, operators, plain};
use crate::call::{Call, CallError, Outcome, Tensor, typed};
use crate::tensor::{Op, Scalar};

operators! {
    _: any_device(plain(typed!(launch))) => c"rustdev::_launch";
}

/// The name and the rest of the schema.
pub static DEFINITION: (&CStr, &CStr) =
    (c"rustdev::_launch", c"(str kernel, Tensor(a!)[] outputs, Tensor[] inputs, Scalar[] scalars) -> ()");

/// Launches a kernel, which computes in the dtype of the first input. Operands keep their sizes and strides. Nothing is launched if
/// all outputs are empty.
pub fn launch<'a>(
    call: &Call<'a>,
    kernel: &'a str,
    outputs: &'a [Tensor<'a>],
    inputs: &'a [Tensor<'a>],
    scalars: &'a [Scalar],
) -> Outcome {
    let refused = |text: String| Err(CallError::Value(text));
    let Some(kernel) = Op::find(kernel.as_bytes()) else { return refused(format!("the operator table has no kernel {kernel}")) };
    let name = kernel.text();
    if outputs.is_empty() || inputs.is_empty() {
        return refused(format!("{name}: got {} outputs and {} inputs", outputs.len(), inputs.len()));
    }
    if outputs.iter().chain(inputs).any(|operand| operand.device() < 0) {
        return refused(format!("{name}: expected dense tensors of the device"));
    }
    for output in outputs {
        output.check_no_internal_overlap()?;
        inputs.iter().try_for_each(|input| output.check_no_partial_overlap(input.distinct()))?;
    }
    call.with_kernel(kernel).launch_in(inputs[0].dtype(), outputs, inputs, scalars)
}
