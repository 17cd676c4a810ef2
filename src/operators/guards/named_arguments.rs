//! [`NamedArguments`]: the arguments of a call by their schema names, and the building blocks of guards.

use smallvec::SmallVec;

use super::Argument;
use crate::operators::call::{Outcome, Refusal, Value, wrap_dim};
use crate::operators::{Format, Tensor};
use crate::tensor::dtype::{INTEGRAL, UNSIGNED};
use crate::tensor::launch::Scalar;

/// Returns a `RuntimeError` that names the operator unless the condition holds.
macro_rules! check {
    ($arguments:expr, $condition:expr, $($text:tt)+) => {
        $crate::operators::call::ensure!($condition, "{}: {}", $arguments.operator(), format_args!($($text)+))
    };
}
pub(super) use check;

/// Reads tensors in CPU memory.
pub trait Reader {
    /// The elements in row-major order, cast to integers as by PyTorch.
    fn integers(&self, tensor: Tensor<'_>) -> Vec<i64>;

    /// The least and the greatest element of an integer tensor; `None` if it is empty.
    fn minmax(&self, tensor: Tensor<'_>) -> Option<(i64, i64)>;

    /// True if no element is infinite or NaN.
    fn is_finite(&self, tensor: Tensor<'_>) -> bool;
}

/// A change to an argument before the kernel gets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The argument is replaced by a contiguous copy.
    Contiguous,
    /// The argument is replaced by a copy with these numbers in place of NaN, infinity and negative infinity.
    Finite([f64; 3]),
    /// The argument is resized to the sizes of the argument with this number, as an `out=` tensor is.
    Resized(usize),
}

/// Changes, each with the number of its argument.
pub type Changes = SmallVec<[(usize, Change); 4]>;

/// The arguments of one call, with the tensors that the kernel gets.
pub struct NamedArguments<'a> {
    operator: &'a str,
    schema: &'a [Argument],
    values: &'a [Value<'a>],
    reader: Option<&'a dyn Reader>,
    changes: Changes,
}

impl<'a> NamedArguments<'a> {
    pub fn new(operator: &'a str, schema: &'a [Argument], values: &'a [Value<'a>], reader: Option<&'a dyn Reader>) -> Self {
        Self { operator, schema, values, reader, changes: Changes::new() }
    }

    pub fn into_changes(self) -> Changes {
        self.changes
    }

    /// The operator's name, with its namespace.
    pub fn operator(&self) -> &'a str {
        self.operator
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.schema.iter().position(|argument| argument.name == name)
    }

    fn find(&self, name: &str) -> &'a Value<'a> {
        self.position(name).map_or(&Value::None, |position| &self.values[position])
    }

    /// A tensor argument; `None` if it is absent or not in the schema. For absent arguments, the other getters return empty
    /// values.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'a>> {
        self.find(name).tensor().ok()
    }

    /// A tensor argument; an error if it is absent.
    pub fn given(&self, name: &str) -> Result<Tensor<'a>, Refusal> {
        self.tensor(name).ok_or_else(|| Refusal::Invalid(format!("{}: expected {name} to be defined", self.operator)))
    }

    pub fn integers(&self, name: &str) -> &'a [i64] {
        self.find(name).integers().unwrap_or_default()
    }

    pub fn integer(&self, name: &str) -> Option<i64> {
        self.find(name).integer().ok()
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.find(name).double().ok()
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.find(name), Value::Number(Scalar::Bool(true)))
    }

    pub fn text(&self, name: &str) -> &'a str {
        if let Value::Text(text) = self.find(name) { text } else { "" }
    }

    /// The integers of a list, or of a tensor that serves as one; `None` if that has no values yet.
    pub fn lengths(&self, name: &str) -> Option<Vec<i64>> {
        match self.tensor(name) {
            Some(tensor) => Some(self.reader?.integers(tensor)),
            None => Some(self.integers(name).to_vec()),
        }
    }

    /// The reader of tensors; `None` while tensors have no values yet.
    pub fn reader(&self) -> Option<&'a dyn Reader> {
        self.reader
    }

    /// The elements of an integer tensor. Empty if there are no values yet or for other dtypes, which the kernels refuse as
    /// indices.
    pub fn elements(&self, tensor: Tensor<'_>) -> Vec<i64> {
        let reader = self.reader.filter(|_| INTEGRAL.and(UNSIGNED).contains(tensor.dtype()));
        reader.map(|reader| reader.integers(tensor)).unwrap_or_default()
    }

    /// A tensor argument, of which the kernel gets a contiguous copy if necessary, because it ignores strides.
    pub fn contiguous(&mut self, name: &str) -> Result<Tensor<'a>, Refusal> {
        let tensor = self.given(name)?;
        if !tensor.is_dense(Format::Contiguous) {
            self.change(name, Change::Contiguous);
        }
        Ok(tensor)
    }

    /// Requests a change to an argument before the kernel gets it.
    pub fn change(&mut self, name: &str, change: Change) {
        self.changes.extend(self.position(name).map(|position| (position, change)));
    }

    /// Requests that a written tensor, if it is given, is resized to the sizes of another argument.
    pub fn resize(&mut self, name: &str, like: &str) {
        let (Some(tensor), Some(model)) = (self.tensor(name), self.tensor(like)) else { return };
        if let Some(position) = self.position(like).filter(|_| tensor.sizes() != model.sizes()) {
            self.change(name, Change::Resized(position));
        }
    }

    /// An error if elements of a written argument share memory: the kernel would write more elements than fit in it. Arguments
    /// that are resized become contiguous.
    pub fn check_results_apart(&self) -> Outcome {
        for (position, argument) in self.schema.iter().enumerate().filter(|(_, argument)| argument.is_written) {
            let Some(result) = self.tensor(&argument.name) else { continue };
            let is_resized = self.changes.iter().any(|&(at, change)| at == position && matches!(change, Change::Resized(_)));
            check!(
                self,
                is_resized || memory_of(result) >= result.numel(),
                "more than one element of the written-to tensor refers to a single memory location"
            );
        }
        Ok(())
    }
}

/// Checks of one argument. An absent tensor passes.
impl NamedArguments<'_> {
    /// The argument has these sizes.
    pub fn check_sizes(&self, name: &str, expected: &[i64]) -> Outcome {
        let Some(given) = self.tensor(name) else { return Ok(()) };
        let sizes = given.sizes();
        check!(self, sizes == expected, "expected {name} to have size {expected:?}, but got {sizes:?}");
        Ok(())
    }

    /// The argument has this many dimensions.
    pub fn check_dim(&self, name: &str, expected: usize) -> Outcome {
        let Some(given) = self.tensor(name) else { return Ok(()) };
        let ndim = given.ndim();
        check!(self, ndim == expected, "expected {name} to have {expected} dimensions, but got {ndim}");
        Ok(())
    }

    /// The list has this length.
    pub fn check_length(&self, name: &str, expected: usize) -> Outcome {
        let given = self.integers(name).len();
        check!(self, given == expected, "expected {expected} integers in {name}, but got {given}");
        Ok(())
    }

    /// The tensor has this many elements.
    pub fn check_numel(&self, name: &str, expected: i64) -> Outcome {
        let Some(given) = self.tensor(name) else { return Ok(()) };
        let numel = given.numel();
        check!(self, numel == expected, "expected {name} to have {expected} elements, but got {numel}");
        Ok(())
    }

    /// Both have the same dtype.
    pub fn check_same_dtype(&self, name: &str, other: &str) -> Outcome {
        let (Some(one), Some(two)) = (self.tensor(name), self.tensor(other)) else { return Ok(()) };
        let (one, two) = (one.dtype(), two.dtype());
        check!(self, one == two, "expected {name} and {other} to have the same dtype, but got {one:?} and {two:?}");
        Ok(())
    }

    /// Every integer of a list is small enough for sums and products of sizes: at most `i32::MAX` in magnitude.
    pub fn check_small(&self, name: &str) -> Outcome {
        let limit = i64::from(i32::MAX);
        for value in self.integers(name) {
            check!(self, (-limit..=limit).contains(value), "{name} has {value}, which is too large");
        }
        Ok(())
    }

    /// Every integer of a tensor is at least `low` and below `high`: `IndexError`.
    pub fn check_range(&self, name: &str, low: i64, high: i64) -> Outcome {
        let minmax = |tensor: Tensor<'_>| self.reader?.minmax(tensor);
        self.check_in_range(name, self.tensor(name).and_then(minmax), low, high)
    }

    /// The least and the greatest value, if any, are at least `low` and below `high`: `IndexError`.
    pub fn check_in_range(&self, name: &str, ends: Option<(i64, i64)>, low: i64, high: i64) -> Outcome {
        let mut values = ends.into_iter().flat_map(|(least, greatest)| [least, greatest]);
        let Some(value) = values.find(|value| !(low..high).contains(value)) else { return Ok(()) };
        let text = format!("out of bounds: expected at least {low} and less than {high}");
        Err(Refusal::Index(format!("{}: {name} has the value {value}, which is {text}", self.operator)))
    }
}

/// The least and the greatest of some values.
pub fn minmax(values: impl Iterator<Item = i64>) -> Option<(i64, i64)> {
    let wider = |(least, greatest): (i64, i64), value: i64| (least.min(value), greatest.max(value));
    values.fold(None, |ends, value| Some(ends.map_or((value, value), |ends| wider(ends, value))))
}

/// The size of a dimension, counted from the start or from the end.
pub fn size(tensor: Tensor<'_>, dim: i64) -> Result<i64, Refusal> {
    if tensor.ndim() == 0 {
        return Err(Refusal::Index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    wrap_dim(dim, tensor.ndim()).map(|dim| tensor.sizes()[dim])
}

/// The number of elements from the first to the last one in memory, both included.
fn memory_of(tensor: Tensor<'_>) -> i64 {
    if tensor.sizes().contains(&0) {
        return 0;
    }
    1 + tensor.sizes().iter().zip(tensor.strides()).map(|(size, stride)| (size - 1) * stride).sum::<i64>()
}
