//! What calls of PyTorch's CPU kernels as tasks are taken, and what their results are like.
//!
//! Calls that are not taken are the fallback's, which waits, and whose kernels refuse in their own words. So are operands without elements
//! where PyTorch has no meta.

pub mod aten_pooling;
pub mod distances;
pub mod fourier;
pub mod images;
pub mod margins;
pub mod matrices;
pub mod sequences;
pub mod weight_norm;

use super::bindings::{Prepare, structured};
use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, StructuredCall, Value};
use super::descriptor::{Format, Tensor};

/// Leaves a call to the fallback unless this is so.
fn take_if(condition: bool) -> Outcome {
    if condition { Ok(()) } else { Err(Refusal::Fallback) }
}

/// All arguments of a call whose tensors have elements.
fn with_elements<'c, 'a, const N: usize>(arguments: &'c Arguments<'a>) -> Result<&'c [Value<'a>; N], Refusal> {
    take_if(arguments.tensors().all(|tensor| tensor.numel() != 0))?;
    arguments.all()
}

/// Makes the results.
fn results(call: &Call<'_>, shapes: &[Shape]) -> Outcome {
    shapes.iter().enumerate().try_for_each(|(index, shape)| call.output(index, shape, Strides::Given).map(drop))
}

/// Makes the only result.
fn result(call: &Call<'_>, shape: Shape) -> Outcome {
    results(call, &[shape])
}

/// A contiguous tensor of these sizes and the dtype of an operand.
fn contiguous(sizes: &[i64], operand: Tensor<'_>) -> Shape {
    Shape::new(sizes, operand.dtype(), Format::Contiguous)
}

/// Results of PyTorch's meta.
pub const OF_META: Prepare = structured(of_meta);

fn of_meta(_arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let shapes = call.meta()?;
    results(call, &shapes)
}

/// The same, but with errors that are asked for by the last argument, `check_errors`: they are the fallback's, which sees values.
pub const OF_META_UNCHECKED: Prepare = structured(of_meta_unchecked);

fn of_meta_unchecked(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    take_if(!arguments.last().unwrap_or(&Value::None).flag()?)?;
    of_meta(arguments, call)
}

/// A contiguous result of the sizes and dtype of argument number `INDEX`.
pub fn like<const INDEX: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let operand = arguments.tensor(INDEX)?;
    result(call, contiguous(operand.sizes(), operand))
}
