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

use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, Value, ensure};
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
fn results(call: &mut Call<'_>, shapes: &[Shape]) -> Outcome {
    shapes.iter().enumerate().try_for_each(|(index, shape)| call.output(index, shape, Strides::Given).map(drop))
}

/// Makes the only result.
fn result(call: &mut Call<'_>, shape: Shape) -> Outcome {
    results(call, &[shape])
}

/// A contiguous tensor of these sizes and the dtype of an operand.
fn contiguous(sizes: &[i64], operand: &Tensor) -> Shape {
    Shape::new(sizes, operand.dtype(), Format::Contiguous)
}

/// Sizes that both are expanded to.
fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, Refusal> {
    let ndim = a.len().max(b.len());
    let size = |sizes: &[i64], dim: usize| (dim + sizes.len()).checked_sub(ndim).map_or(1, |dim| sizes[dim]);
    let pairs = (0..ndim).map(|dim| (dim, size(a, dim), size(b, dim)));
    pairs
        .map(|(dim, a, b)| {
            ensure!(
                a == b || a == 1 || b == 1,
                "The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"
            );
            Ok(if a == 1 { b } else { a })
        })
        .collect()
}

/// Results of PyTorch's meta.
pub fn of_meta(_arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
    let shapes = call.meta()?;
    results(call, &shapes)
}

/// The same, but with errors that are asked for by the last argument, `check_errors`: they are the fallback's, which sees values.
pub fn of_meta_unchecked(arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
    take_if(!arguments.last().unwrap_or(&Value::None).flag()?)?;
    of_meta(arguments, call)
}

/// A contiguous result of the sizes and dtype of argument number `INDEX`.
pub fn like<const INDEX: usize>(arguments: &Arguments<'_>, call: &mut Call<'_>) -> Outcome {
    let operand = arguments.tensor(INDEX)?;
    result(call, contiguous(operand.sizes(), operand))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_broadcast_as_pytorch_does() {
        assert_eq!(broadcast(&[3, 1], &[2, 1, 4]), Ok(vec![2, 3, 4]));
        assert_eq!(broadcast(&[], &[0]), Ok(vec![0]));
        assert_eq!(broadcast(&[1], &[0]), Ok(vec![0]));
        let text = "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1";
        assert_eq!(broadcast(&[2, 3], &[4]), Err(Refusal::Invalid(text.into())));
    }
}
