//! Scatters along a dimension: all variants of scatter, index_add, index_copy, index_reduce, index_fill_. Calls that are
//! clearly valid skip PyTorch's meta function. All others use it, because it raises the errors.

use super::addressing::{Addressing, Operation, Update};
use super::call::{Arguments, Call, Input, Outcome, Refusal, Strides, StructuredCall, Value, check_index, ensure, wrap_dim};
use super::gathers::has_usual_index;
use super::names;
use super::tensors::{Dims, Format, Tensor};
use crate::tensor::dtype::{COMPLEX, DType, FLOATING};
use crate::tensor::launch::Scalar;

/// What an index addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Single elements.
    Element,
    /// Slices along the dimension.
    Slice,
}

struct Scatter<'a> {
    by: By,
    target: Tensor<'a>,
    dim: i64,
    index: Tensor<'a>,
    source: Input<'a>,
    update: Update,
    /// True if sums are divided by the number of their terms.
    is_mean: bool,
}

impl From<&str> for Operation {
    /// The operation of a reduction's name, which the meta function has checked.
    fn from(reduce: &str) -> Self {
        match reduce {
            "amax" => Self::Maximum,
            "amin" => Self::Minimum,
            "prod" | "multiply" => Self::Multiply,
            _ => Self::Add,
        }
    }
}

/// The sizes without that of one dimension.
fn sizes_beside(sizes: &[i64], dim: usize) -> Dims {
    let skipped = dim.min(sizes.len().saturating_sub(1));
    sizes.iter().enumerate().filter(|&(other, _)| other != skipped).map(|(_, &size)| size).collect()
}

impl<'a> Scatter<'a> {
    /// A scatter with an operation.
    fn new(by: By, [target, dim, index, source]: [&'a Value<'a>; 4], operation: impl Into<Operation>) -> Result<Self, Refusal> {
        let (target, dim, index, source) = (target.tensor()?, dim.integer()?, index.tensor()?, source.input()?);
        Ok(Self { by, target, dim, index, source, update: operation.into().into(), is_mean: false })
    }

    /// A scatter with a named reduction, from which the old values may be excluded.
    fn reduced(by: By, arguments: &'a [Value<'a>; 6]) -> Result<Self, Refusal> {
        let [target, dim, index, source, reduce, include_self] = arguments;
        let reduce = reduce.text()?;
        let mut scatter = Self::new(by, [target, dim, index, source], reduce)?;
        scatter.update.excludes_self = !include_self.flag()?;
        scatter.is_mean = reduce == "mean";
        Ok(scatter)
    }

    fn source_tensor(&self) -> Option<Tensor<'a>> {
        if let Input::Tensor(source) = self.source { Some(source) } else { None }
    }

    /// True if the source has an element for each index, and the dtype of the target.
    fn has_usual_elements(&self) -> bool {
        let (own, index) = (self.target.dtype(), self.index.sizes());
        let is_usual = |source: Tensor<'_>| {
            let sizes = source.sizes();
            source.dtype() == own && sizes.len() == index.len() && index.iter().zip(sizes).all(|(index, size)| index <= size)
        };
        has_usual_index(self.target, self.dim, self.index) && self.source_tensor().is_none_or(is_usual)
    }

    /// True if the source has a slice for each index, and dtypes, devices and other sizes fit.
    fn has_usual_slices(&self) -> bool {
        let (target, index, Some(source)) = (self.target, self.index, self.source_tensor()) else { return false };
        let (sizes, wanted) = (target.sizes(), source.sizes());
        let is_like_target = source.dtype() == target.dtype() && wanted.len() == sizes.len() && !sizes.is_empty();
        let is_index = index.dtype() == DType::Long && index.ndim() == 1;
        let are_here = [index.device(), source.device()] == [target.device(); 2];
        let Ok(dim) = wrap_dim(self.dim, sizes.len()) else { return false };
        let fits = |other: usize| wanted[other] == if other == dim { index.numel() } else { sizes[other] };
        is_like_target && is_index && are_here && (0..sizes.len()).all(fits)
    }

    /// True if there is no `out=` tensor, or if it is the target and shares no memory with index and source.
    fn writes_apart(&self, call: &Call<'_>) -> bool {
        call.given(0).is_none_or(|out| {
            let is_apart = |other: Tensor<'_>| !out.may_share_memory(other);
            let is_target = out.is_identical(self.target) && out.check_no_internal_overlap().is_ok();
            is_target && is_apart(self.index) && self.source_tensor().is_none_or(is_apart)
        })
    }

    /// True if the meta function would accept the call; names of reductions are checked elsewhere.
    fn is_usual(&self, call: &Call<'_>) -> bool {
        let fits = if self.by == By::Element { self.has_usual_elements() } else { self.has_usual_slices() };
        fits && self.writes_apart(call)
    }

    fn check(&self, call: &Call<'_>) -> Outcome {
        match self.source {
            Input::Number(number) => call.check_number(number, self.target.dtype()),
            Input::Tensor(source) if self.by == By::Slice => self.check_slices(source),
            Input::Tensor(_) | Input::Immediate(_) => Ok(()),
        }
    }

    fn check_slices(&self, source: Tensor<'_>) -> Outcome {
        let (own, others) = (self.target.sizes(), source.sizes());
        let dim = wrap_dim(self.dim, own.len())?;
        ensure!(
            sizes_beside(own, dim) == sizes_beside(others, dim),
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {own:?} source.shape = \
             {others:?}"
        );
        Ok(())
    }

    /// The output, initialised with the target's elements.
    fn started<'c>(&self, call: &Call<'c>) -> Result<Tensor<'c>, Refusal> {
        let target = self.target;
        let out = call.contiguous(0, target.sizes(), target.dtype(), Strides::Any)?;
        if call.given(0).is_none() && out.numel() != 0 {
            call.with_kernel(&names::COPY_ELEMENTS).launch(&[out], &[target], &[])?;
        } else if out.handle() != target.handle() {
            call.copy(out, target)?;
        }
        Ok(out)
    }

    /// Addresses a tensor of the target's sizes; `None` if there is nothing to update.
    fn addressing(&self, tensor: Tensor<'_>) -> Result<Option<Addressing<'a>>, Refusal> {
        match self.by {
            By::Element => Addressing::each_element(tensor, self.dim, self.index),
            By::Slice if self.index.numel() == 0 => Ok(None),
            By::Slice => Addressing::each_slice(tensor, self.dim, self.index),
        }
    }

    /// Runs the call, which the meta function has checked if necessary.
    fn run(&self, call: &Call<'_>) -> Outcome {
        self.check(call)?;
        let out = self.started(call)?;
        if !self.is_mean {
            return self.update(call, out, self.source);
        }
        let wide = out.dtype().opmath();
        if wide == out.dtype() {
            self.update(call, out, self.source)?;
            return self.divide_by_counts(call, out);
        }
        // Only the mean is rounded, not the sum or the count.
        let sums = call.cast(out, wide)?;
        let source = if let Input::Tensor(source) = self.source { Input::Tensor(call.cast(source, wide)?) } else { self.source };
        self.update(call, sums, source)?;
        self.divide_by_counts(call, sums)?;
        call.copy(out, sums)
    }

    fn update(&self, call: &Call<'_>, target: Tensor<'_>, source: Input<'_>) -> Outcome {
        match self.addressing(target)? {
            Some(addressing) => addressing.update(call, target, source, self.update),
            None => Ok(()),
        }
    }

    fn run_usual(&self, call: &StructuredCall<'_>) -> Outcome {
        if !self.is_usual(call) {
            call.meta()?;
        }
        self.run(call)
    }

    fn divide_by_counts(&self, call: &Call<'_>, out: Tensor<'_>) -> Outcome {
        let counts = call.empty(out.sizes(), out.dtype().real())?;
        let (one, includes_self) = (Scalar::Long(1), !self.update.excludes_self);
        call.fill(counts, Scalar::Long(includes_self.into()))?;
        if let Some(addressing) = self.addressing(counts)? {
            addressing.update(call, counts, Input::Number(one), Operation::Add.into())?;
        }
        call.operator(&names::CLAMP_MIN_IN_PLACE, &[Value::Tensor(counts), one.into()])?;
        let operands = [Value::Tensor(out), Value::Tensor(counts), Value::Text("floor")];
        if FLOATING.and(COMPLEX).contains(out.dtype()) {
            call.operator(&names::DIV_IN_PLACE, &operands[..2]).map(drop)
        } else {
            call.operator(&names::DIV_ROUNDED_IN_PLACE, &operands).map(drop)
        }
    }
}

/// `scatter` of a tensor or a number.
pub fn scatter(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    Scatter::new(By::Element, arguments.all()?.each_ref(), Operation::Store)?.run_usual(call)
}

/// `scatter` with a reduction.
pub fn scatter_reduced(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [target, dim, index, source, reduce] = arguments.all()?;
    call.meta()?;
    Scatter::new(By::Element, [target, dim, index, source], reduce.text()?)?.run(call)
}

/// `scatter_add`.
pub fn scatter_add(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    Scatter::new(By::Element, arguments.all()?.each_ref(), Operation::Add)?.run_usual(call)
}

/// `scatter_reduce`.
pub fn scatter_reduce(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let arguments = arguments.all()?;
    let scatter = Scatter::reduced(By::Element, arguments)?;
    if ["sum", "prod", "mean", "amax", "amin"].contains(&arguments[4].text()?) {
        return scatter.run_usual(call);
    }
    call.meta()?;
    scatter.run(call)
}

/// `index_add`.
pub fn index_add(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let [target, dim, index, source, alpha] = arguments.all()?;
    let mut scatter = Scatter::new(By::Slice, [target, dim, index, source], Operation::Add)?;
    scatter.update.factor = alpha.number()?;
    if !scatter.is_usual(call) {
        call.meta()?;
    }
    call.check_number(scatter.update.factor, source.tensor()?.dtype())?;
    scatter.run(call)
}

/// `index_copy`.
pub fn index_copy(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    Scatter::new(By::Slice, arguments.all()?.each_ref(), Operation::Store)?.run_usual(call)
}

/// `index_reduce`.
pub fn index_reduce(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome {
    let scatter = Scatter::reduced(By::Slice, arguments.all()?)?;
    call.meta()?;
    scatter.run(call)
}

// ---- index_fill_ ----

fn check_fill(call: &Call<'_>, target: Tensor<'_>, index: Tensor<'_>) -> Outcome {
    check_index(index.dtype() == DType::Long, "index_fill_(): Expected dtype int64 for index.")?;
    target.check_no_overlap(index)?;
    if target.check_no_internal_overlap().is_err() {
        call.warn(
            "Use of index_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also \
              applies to advanced indexing e.g. tensor[mask] = scalar",
        )?;
    }
    check_index(index.ndim() <= 1, "Index has to be a vector/scalar")
}

fn fill(call: &Call<'_>, target: Tensor<'_>, dim: i64, index: Tensor<'_>, number: Scalar) -> Outcome {
    let is_complex = matches!(number, Scalar::Complex(..));
    let text = "index_fill_(): Converting complex Scalar to non-complex type is not supported";
    ensure!(target.dtype().is_complex() || !is_complex, "{text}");
    check_fill(call, target, index)?;
    call.check_number(number, target.dtype())?;
    store(call, target, dim, index, Input::Number(number))
}

/// Stores a number, or the only element of a tensor.
fn store(call: &Call<'_>, target: Tensor<'_>, dim: i64, index: Tensor<'_>, source: Input<'_>) -> Outcome {
    if index.numel() == 0 {
        return Ok(());
    }
    match Addressing::each_slice(target, dim, index)? {
        Some(addressing) => addressing.update(call, target, source, Operation::Store.into()),
        None => Ok(()),
    }
}

/// `index_fill_` with a number.
pub fn index_fill(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [target, dim, index, value] = arguments.all()?;
    fill(call, target.tensor()?, dim.integer()?, index.tensor()?, value.number()?)
}

/// `index_fill_` with a 0-dim tensor. A value on another device or of another dtype is read on the host, so that it can be
/// checked during the call.
pub fn index_fill_tensor(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [target, dim, index, value] = arguments.all()?;
    let (target, dim, index, value) = (target.tensor()?, dim.integer()?, index.tensor()?, value.tensor()?);
    let ndim = value.ndim();
    let text = "index_fill_ only supports a 0-dimensional value tensor, but got tensor with";
    ensure!(ndim == 0, "{text} {ndim} dimension(s).");
    if value.device() != target.device() || value.dtype() != target.dtype() {
        return fill(call, target, dim, index, call.item(value)?);
    }
    check_fill(call, target, index)?;
    let is_shared = value.may_share_memory(target);
    let contiguous = Value::Number(Scalar::Long(Format::Contiguous as i64));
    let value = if is_shared { call.operator(&names::CLONE, &[Value::Tensor(value), contiguous])? } else { value };
    store(call, target, dim, index, Input::Tensor(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: DType, sizes: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    fn scatter(by: By, sizes: &[i64], index: &[i64], source: &[i64]) -> Scatter<'static> {
        let (target, index) = (tensor(DType::Float, sizes), tensor(DType::Long, index));
        let source = Input::Tensor(tensor(DType::Float, source));
        Scatter { by, target, dim: 1, index, source, update: Operation::Store.into(), is_mean: false }
    }

    #[test]
    fn each_element_has_a_source() {
        let is_usual = |index: &[i64], source: &[i64]| scatter(By::Element, &[2, 3], index, source).has_usual_elements();
        assert!(is_usual(&[2, 5], &[2, 5]) && is_usual(&[1, 5], &[2, 6]));
        assert!(!is_usual(&[2, 5], &[2, 4]) && !is_usual(&[2, 5], &[10]) && !is_usual(&[3, 5], &[3, 5]));
    }

    #[test]
    fn each_index_has_a_slice() {
        let is_usual = |index: &[i64], source: &[i64]| scatter(By::Slice, &[2, 3], index, source).has_usual_slices();
        assert!(is_usual(&[5], &[2, 5]) && is_usual(&[0], &[2, 0]));
        assert!(!is_usual(&[5], &[2, 4]) && !is_usual(&[5], &[1, 5]) && !is_usual(&[1, 5], &[2, 5]) && !is_usual(&[5], &[5]));
    }

    #[test]
    fn slices_are_compared_beside_their_dimension() {
        assert_eq!(sizes_beside(&[2, 3, 4], 1)[..], [2, 4]);
        assert_eq!((sizes_beside(&[5], 1).len(), sizes_beside(&[], 0).len()), (0, 0));
    }
}
