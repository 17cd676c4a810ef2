//! Which calls run PyTorch's CPU kernels as tasks, and the shapes of their results.
//!
//! All other calls go to the fallback, which waits and whose kernels raise their own errors. Calls with empty operands do so,
//! too, unless PyTorch has a meta function.
//!
//! Variants with `out=` stay with the fallback, and so do operators that report to the caller whether they converged: eigenvalues,
//! singular values, least squares, `cholesky_inverse`.

use std::ffi::CStr;

use super::guards::Guard;
use super::operator::{Batch, Implementation, Operator, Task, structured};
use super::tensors::{Format, Tensor};
use super::{Arguments, Call, CallError, Cut, Outcome, Parameters, Shape, Strides, Tensors, Value, take_if};
use crate::tensor::{DType, DTypeSet, FLOATING, HALVES, WIDE};
use crate::tuning::tasks::LIBRARY_THREADS_NS;

/// The dtypes of PyTorch's kernels of normalisation.
pub const NORMED: DTypeSet = WIDE.and(DTypeSet::of(&[DType::BFloat16]));

/// The overload that a task runs, if it is not the functional one.
macro_rules! out {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}
pub(crate) use out;

/// Lines of operators that PyTorch's CPU kernels compute: the functional overload, the overload that the task runs if it is
/// another one, the dtypes of the first operand, the kind of batch, the function of a call, and the fields of [`Task`] that are
/// true.
macro_rules! tasks {
    ($($name:literal $(=> $out:literal)?: $dtypes:expr, $batch:ident, $prepare:expr $(, $fact:ident)*;)*) => {
        /// Operators that PyTorch's CPU kernels compute.
        pub static TASKS: [$crate::call::operator::Operator; [$($name),*].len()] = [$($crate::call::operator::Operator {
            names: &[$name],
            kernel: $crate::call::operator::Kernel::Task($crate::call::operator::Task {
                $($fact: true,)*
                ..$crate::call::tasks::task($crate::call::tasks::out!($($out)?), $dtypes, $crate::call::operator::Batch::$batch)
            }),
            prepare: $prepare,
        }),*];
    };
}
pub(crate) use tasks;

/// A task without facts.
pub const fn task(out: Option<&'static CStr>, dtypes: DTypeSet, batch: Batch) -> Task {
    Task { out, dtypes, batch, widens: false, guarded: false }
}

/// Makes the outputs of a call and lets PyTorch's kernel compute them as a task.
pub fn run(operator: &Operator, task: &Task, arguments: &Arguments<'_>, call: Call<'_>, guard: Option<&Guard>) -> Outcome {
    // The guard comes first: meta functions may rely on its checks.
    if let Some(guard) = guard {
        guard.check(arguments, None)?;
    }
    operator.prepare_call(arguments, call)?;
    let inputs: Tensors<'_> = arguments.tensors().collect();
    call.leave_to_task(cut(task.batch, &inputs, &call.outputs()))
}

/// The dtype of the first tensor, if these are 16 bit floats that the kernel lacks and the task computes in `Float`.
pub fn rounded_dtype(task: &Task, arguments: &Arguments<'_>) -> Option<DType> {
    let dtype = arguments.tensors().next()?.dtype();
    (task.widens && HALVES.contains(dtype) && !task.dtypes.contains(dtype)).then_some(dtype)
}

/// Computes 16 bit floats in `Float` and rounds the results to `dtype`. Operands of several floating-point dtypes go to the
/// fallback.
pub fn run_widened(dtype: DType, arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_if(arguments.tensors().all(|tensor| tensor.dtype() == dtype || !FLOATING.contains(tensor.dtype())))?;
    let mut wide = call.widened(arguments)?;
    // All results are computed: one that is not wanted would be missing from the list of results.
    let wanted = arguments.iter().find_map(|value| value.get::<&[bool]>().ok());
    for value in &mut wide {
        if let Value::Flags(flags) = value {
            *value = Value::Flags(&ALL_WANTED[..flags.len()]);
        }
    }
    let results = call.repeat(&wide)?.into_iter().enumerate();
    for (index, result) in results.filter(|&(index, _)| wanted.is_none_or(|wanted| wanted[index])) {
        let is_floating = FLOATING.contains(result.dtype());
        call.give(index, if is_floating { call.cast(result, dtype)? } else { result })?;
    }
    Ok(())
}

const ALL_WANTED: [bool; 4] = [true; 4];

/// How a task is cut into parts: along the first dimension, if it is the same batch in all tensors.
fn cut(batch: Batch, inputs: &[Tensor<'_>], outputs: &[Tensor<'_>]) -> Cut {
    let size = size_of_batch(batch, inputs, outputs);
    let whole = Cut::new(0, size, 1, cost_of(batch, inputs) + cost_of(batch, outputs));
    // The rounding errors of Fourier transforms depend on the number of threads.
    Cut { takes_threads: whole.parts == 1 && (whole.cost >= LIBRARY_THREADS_NS || batch == Batch::None), ..whole }
}

/// Nanoseconds on one thread: a constant per element; for matrices, proportional to the row length per element.
fn cost_of(batch: Batch, operands: &[Tensor<'_>]) -> u64 {
    let cost_of_element = |operand: &Tensor<'_>| {
        let has_rows = batch == Batch::Matrices && operand.ndim() >= 2;
        if has_rows { 0.2 * operand.size_from_end(0) as f64 } else { 1.0 }
    };
    operands.iter().fold(1000.0, |cost, operand| cost + operand.numel() as f64 * cost_of_element(operand)) as u64
}

/// The size of the first dimension if it is the same batch in all tensors, else 1.
fn size_of_batch(batch: Batch, inputs: &[Tensor<'_>], outputs: &[Tensor<'_>]) -> i64 {
    let inner = if batch == Batch::Matrices { 2 } else { 1 };
    let Some(first) = inputs.first().filter(|first| batch != Batch::None && first.ndim() > inner) else { return 1 };
    let size = first.sizes()[0];
    // A matrix that the whole batch shares has fewer dimensions. Pivots are batched, too, though they have one dimension less.
    let is_batched = |input: &Tensor<'_>| {
        let is_pivots = batch == Batch::Matrices && input.dtype() == DType::Int;
        input.ndim() == first.ndim() - usize::from(is_pivots) && input.sizes()[0] == size
    };
    let has_batch = |output: &Tensor<'_>| output.ndim() >= first.ndim() - inner && output.sizes()[0] == size;
    if inputs.iter().all(is_batched) && outputs.iter().all(has_batch) { size } else { 1 }
}

/// Leaves calls with empty tensors to the fallback.
pub fn take_filled(arguments: &Arguments<'_>) -> Outcome {
    take_if(arguments.tensors().all(|tensor| tensor.numel() != 0))
}

/// All arguments of a call; the fallback gets calls with empty tensors.
pub fn with_elements<'a, P: Parameters<'a>>(arguments: &Arguments<'a>) -> Result<P, CallError> {
    take_filled(arguments)?;
    arguments.typed()
}

pub fn results(call: &Call<'_>, shapes: &[Shape]) -> Outcome {
    shapes.iter().enumerate().try_for_each(|(index, shape)| call.output(index, shape, Strides::Given).map(drop))
}

/// Makes the only result.
pub fn result(call: &Call<'_>, shape: Shape) -> Outcome {
    results(call, &[shape])
}

/// A contiguous tensor of these sizes and the dtype of an operand.
pub fn contiguous(sizes: &[i64], operand: Tensor<'_>) -> Shape {
    Shape::new(sizes, operand.dtype(), Format::Contiguous)
}

/// Makes the results that PyTorch's meta function describes.
pub const OF_META: Implementation = structured(of_meta);

pub fn of_meta(_arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let shapes = call.meta()?;
    results(call, &shapes)
}

/// Like `OF_META`. Calls with `check_errors`, the last argument, go to the fallback, which can read values.
pub const OF_META_UNCHECKED: Implementation = structured(of_meta_unchecked);

fn of_meta_unchecked(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_if(!arguments.last().unwrap_or(&Value::None).get::<bool>()?)?;
    of_meta(arguments, call)
}

/// Makes a contiguous result with the sizes and dtype of argument number `INDEX`.
pub fn like<const INDEX: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let operand = arguments.tensor(INDEX)?;
    result(call, contiguous(operand.sizes(), operand))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: DType, sizes: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    fn floats(sizes: &[i64]) -> Tensor<'static> {
        tensor(DType::Float, sizes)
    }

    #[test]
    fn what_is_not_cut_takes_the_threads_of_libraries_where_it_is_large() {
        let (small, large) = (floats(&[2, 2]), floats(&[500, 500]));
        assert!(!cut(Batch::Matrices, &[small], &[small]).takes_threads);
        let whole = cut(Batch::Matrices, &[large], &[large]);
        assert_eq!((whole.size, whole.parts, whole.cost, whole.takes_threads), (1, 1, 2 * 25_001_000, true));
        let images = cut(Batch::Images, &[floats(&[8, 100_000])], &[floats(&[8, 100_000])]);
        assert_eq!((images.size, images.parts, images.takes_threads), (8, 8, false));
        assert!(cut(Batch::None, &[small], &[small]).takes_threads);
    }
}
