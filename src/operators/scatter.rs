//! Scatters along a dimension: all variants of scatter, index_add, index_copy, index_reduce, index_fill_.

use super::addressing::{Addressing, Operation, Update, warn_of_shared_elements};
use super::call::{Arguments, Call, CallError, Input, Outcome, Strides, Value, ensure};
use super::callees;
use super::tensors::{Format, Tensor};
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

impl<'a> Scatter<'a> {
    /// The output, initialised with the target's elements.
    fn started<'c>(&self, call: &Call<'c>) -> Result<Tensor<'c>, CallError> {
        let target = self.target;
        let out = call.contiguous(0, target.sizes(), target.dtype(), Strides::Any)?;
        if call.given(0).is_none() && out.numel() != 0 {
            call.with_kernel(callees::COPY_ELEMENTS).launch(&[out], &[target], &[])?;
        } else if out.handle() != target.handle() {
            call.copy(out, target)?;
        }
        Ok(out)
    }

    /// Addresses a tensor of the target's sizes.
    fn addressing(&self, tensor: Tensor<'_>) -> Result<Addressing<'a>, CallError> {
        match self.by {
            By::Element => Addressing::each_element(tensor, self.dim, self.index),
            By::Slice => Addressing::each_slice(tensor, self.dim, self.index),
        }
    }

    /// Runs the call, which PyTorch's meta function checks.
    fn run(&self, call: &Call<'_>) -> Outcome {
        call.meta()?;
        if let Input::Number(number) = self.source {
            call.check_number(number, self.target.dtype())?;
        }
        let out = self.started(call)?;
        // Only a mean is rounded, not its sum or its count.
        let wide = if self.is_mean { out.dtype().opmath() } else { out.dtype() };
        let sums = call.cast(out, wide)?;
        let source = if let Input::Tensor(source) = self.source { Input::Tensor(call.cast(source, wide)?) } else { self.source };
        self.addressing(sums)?.update(call, sums, source, self.update)?;
        if self.is_mean {
            self.divide_by_counts(call, sums)?;
        }
        if wide == out.dtype() { Ok(()) } else { call.copy(out, sums) }
    }

    fn divide_by_counts(&self, call: &Call<'_>, out: Tensor<'_>) -> Outcome {
        let counts = call.empty(out.sizes(), out.dtype().real())?;
        let (one, includes_self) = (Scalar::Long(1), !self.update.excludes_self);
        call.fill(counts, Scalar::Long(includes_self.into()))?;
        self.addressing(counts)?.update(call, counts, Input::Number(one), Operation::Add.into())?;
        call.operator(&callees::CLAMP_MIN_IN_PLACE, &[Value::Tensor(counts), one.into()])?;
        let operands = [Value::Tensor(out), Value::Tensor(counts), Value::Text("floor")];
        if FLOATING.and(COMPLEX).contains(out.dtype()) {
            call.operator(&callees::DIV_IN_PLACE, &operands[..2]).map(drop)
        } else {
            call.operator(&callees::DIV_ROUNDED_IN_PLACE, &operands).map(drop)
        }
    }
}

/// An operator that updates elements, or slices, by an operation.
macro_rules! updates {
    ($($name:ident: $by:ident $operation:expr;)*) => {$(
        pub fn $name(call: &Call<'_>, target: Tensor<'_>, dim: i64, index: Tensor<'_>, source: Input<'_>) -> Outcome {
            Scatter { by: By::$by, target, dim, index, source, update: $operation.into(), is_mean: false }.run(call)
        }
    )*};
}

updates! {
    scatter: Element Operation::Store;
    scatter_add: Element Operation::Add;
    index_copy: Slice Operation::Store;
}

/// `scatter` with a reduction.
pub fn scatter_reduced(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (target, dim, index, source, reduce): (_, _, _, _, &str) = arguments.typed()?;
    let update = Operation::from(reduce).into();
    Scatter { by: By::Element, target, dim, index, source, update, is_mean: false }.run(call)
}

pub fn index_add(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (target, dim, index, source, factor): (_, _, _, Tensor<'_>, _) = arguments.typed()?;
    call.check_number(factor, source.dtype())?;
    let update = Update { factor, ..Operation::Add.into() };
    Scatter { by: By::Slice, target, dim, index, source: Input::Tensor(source), update, is_mean: false }.run(call)
}

/// `scatter_reduce` and `index_reduce`: a named reduction, from which the old values may be excluded.
pub fn reduced(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (target, dim, index, source, reduce, include_self): (_, _, _, _, &str, bool) = arguments.typed()?;
    let by = if call.kernel_name() == "index_reduce" { By::Slice } else { By::Element };
    let update = Update { excludes_self: !include_self, ..Operation::from(reduce).into() };
    Scatter { by, target, dim, index, source, update, is_mean: reduce == "mean" }.run(call)
}

// ---- index_fill_ ----

/// Stores a number, or the only element of a tensor.
fn fill(call: &Call<'_>, [target, index]: [Tensor<'_>; 2], dim: i64, source: Input<'_>) -> Outcome {
    if let Input::Number(number) = source {
        ensure!(target.dtype().is_complex() || !matches!(number, Scalar::Complex(..)));
        call.check_number(number, target.dtype())?;
    }
    ensure!(index.dtype() == DType::Long && index.ndim() <= 1);
    target.check_no_overlap(index)?;
    warn_of_shared_elements(call, target, "index_fill_", "tensor[mask] = scalar")?;
    Addressing::each_slice(target, dim, index)?.update(call, target, source, Operation::Store.into())
}

/// `index_fill_` with a number.
pub fn index_fill(call: &Call<'_>, target: Tensor<'_>, dim: i64, index: Tensor<'_>, value: Scalar) -> Outcome {
    fill(call, [target, index], dim, Input::Number(value))
}

/// `index_fill_` with a 0-dim tensor. A value on another device or of another dtype is read on the host, so that it can be
/// checked during the call.
pub fn index_fill_tensor(call: &Call<'_>, target: Tensor<'_>, dim: i64, index: Tensor<'_>, value: Tensor<'_>) -> Outcome {
    ensure!(value.ndim() == 0);
    if value.device() != target.device() || value.dtype() != target.dtype() {
        return fill(call, [target, index], dim, Input::Number(call.item(value)?));
    }
    let is_shared = value.may_share_memory(target);
    let format = (Format::Contiguous as i64).into();
    let value = if is_shared { call.operator(&callees::CLONE, &[value.into(), format])? } else { value };
    fill(call, [target, index], dim, Input::Tensor(value))
}
