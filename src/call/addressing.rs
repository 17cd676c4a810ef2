//! [`Addressing`]: the operands of gathers and updates through indices. The addressed tensor has stride 0 in the indexed
//! dimensions, and each index has two scalars, the number of slots that it chooses from and their distance in bytes.

use smallvec::{SmallVec, smallvec};

use super::tensors::Tensor;
use super::{Call, CallError, Input, Outcome, ensure, wrap_dim};
use crate::tensor::Scalar;
use crate::tuning::sharing::CAST_FOR_EACH;

/// How an element that an index addresses is updated; the numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Store = 0,
    Add = 1,
    Multiply = 2,
    Maximum = 3,
    Minimum = 4,
}

/// How elements are updated.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    pub operation: Operation,
    /// True if the old values do not take part.
    pub excludes_self: bool,
    /// The factor of the source in a sum.
    pub factor: Scalar,
    /// An index value whose updates are skipped.
    pub skipped: i64,
}

impl From<Operation> for Update {
    fn from(operation: Operation) -> Self {
        Self { operation, excludes_self: false, factor: Scalar::Long(1), skipped: -1 }
    }
}

/// Warns, as PyTorch does, of an update of a tensor whose elements share memory.
pub fn warn_of_shared_elements(call: &Call<'_>, target: Tensor<'_>, operator: &str, example: &str) -> Outcome {
    if target.check_no_internal_overlap().is_ok() {
        return Ok(());
    }
    call.warn(&format!(
        "Use of {operator} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also \
         applies to advanced indexing e.g. {example}"
    ))
}

/// The most operands of an elementwise loop.
const MAX_OPERANDS: usize = 8;

/// An index tensor, broadcast over the index space of a launch.
pub struct Index<'a> {
    pub tensor: Tensor<'a>,
    pub slots: i64,
    /// The distance of adjacent slots in bytes.
    pub step: i64,
}

/// The index space of a launch, with the addressed tensor and its indices over it.
pub struct Addressing<'a> {
    pub sizes: &'a [i64],
    /// The strides of the addressed tensor, in elements.
    pub strides: &'a [i64],
    pub indices: SmallVec<[Index<'a>; 1]>,
}

/// A tensor's sizes; a 0-dim tensor counts as 1-D of size 1.
fn sizes_of(tensor: Tensor<'_>) -> &[i64] {
    if tensor.ndim() == 0 { &[1] } else { tensor.sizes() }
}

/// A tensor's stride in a dimension, or 0 for a 0-dim tensor.
fn stride_of(tensor: Tensor<'_>, dim: usize) -> i64 {
    tensor.strides().get(dim).copied().unwrap_or(0)
}

impl<'a> Index<'a> {
    /// An index along dimension `dim` of the addressed tensor.
    pub fn along(addressed: Tensor<'_>, dim: usize, tensor: Tensor<'a>) -> Self {
        let item = addressed.dtype().size() as i64;
        let (slots, step) = if addressed.ndim() == 0 { (1, 0) } else { (addressed.sizes()[dim], addressed.strides()[dim] * item) };
        Self { tensor, slots, step }
    }
}

impl<'a> Addressing<'a> {
    fn along(addressed: Tensor<'_>, dim: usize, sizes: &'a [i64], index: Tensor<'a>) -> Self {
        let stride = |each: usize| if each == dim { 0 } else { stride_of(addressed, each) };
        let strides = index.arena().keep_all(sizes.len(), stride);
        Self { sizes, strides, indices: smallvec![Index::along(addressed, dim, index)] }
    }

    /// One index for each element of the index space, which has the index's sizes: gather and scatter.
    pub fn each_element(addressed: Tensor<'_>, dim: i64, index: Tensor<'a>) -> Result<Self, CallError> {
        let dim = wrap_dim(dim, addressed.ndim())?;
        let sizes = sizes_of(index);
        let index = if index.ndim() == 0 { index.unsqueeze(0) } else { index };
        Ok(Self::along(addressed, dim, sizes, index))
    }

    /// One index for each slice along `dim`: `index_select`, `index_add` and so on. The index is 0-dim or 1-D.
    pub fn each_slice(addressed: Tensor<'_>, dim: i64, index: Tensor<'a>) -> Result<Self, CallError> {
        let dim = wrap_dim(dim, addressed.ndim())?;
        let (own, arena) = (sizes_of(addressed), index.arena());
        let sizes = arena.keep_all(own.len(), |each| if each == dim { index.numel() } else { own[each] });
        let over = arena.keep_all(own.len(), |each| if each == dim { stride_of(index, 0) } else { 0 });
        Ok(Self::along(addressed, dim, sizes, index.within(sizes, over)))
    }

    /// Indices into a contiguous tensor that is treated as 1-D: `take` and `put`.
    pub fn flat(addressed: Tensor<'_>, index: Tensor<'a>) -> Self {
        let (sizes, step) = (index.sizes(), addressed.dtype().size() as i64);
        let strides = index.arena().keep_all(sizes.len(), |_| 0);
        Self { sizes, strides, indices: smallvec![Index { tensor: index, slots: addressed.numel(), step }] }
    }

    /// True if there is nothing to read or update.
    fn is_empty(&self) -> bool {
        self.sizes.contains(&0)
    }

    /// True if the number of operands is within the kernels' limit.
    pub fn fits(&self) -> bool {
        self.indices.len() + 2 <= MAX_OPERANDS
    }

    /// The addressed tensor over the index space. Without slots every index is out of bounds, so this is an error without a
    /// look at values.
    fn addressed<'t>(&self, tensor: Tensor<'t>) -> Result<Tensor<'t>, CallError> {
        let has_slots = self.indices.iter().all(|index| index.slots != 0);
        ensure!(has_slots, "index is out of bounds for dimension with size 0");
        Ok(tensor.within(self.sizes, self.strides))
    }

    /// A tensor broadcast over the index space.
    fn over<'t>(&self, tensor: Tensor<'t>) -> Tensor<'t> {
        tensor.within(self.sizes, tensor.arena().keep_all(self.sizes.len(), |dim| stride_of(tensor, dim)))
    }

    /// Launches the kernel. Its inputs are a tensor or number, then the indices. Its scalars are its own, then those of the
    /// indices.
    fn launch(&self, call: &Call<'_>, out: Tensor<'_>, input: Input<'_>, scalars: &[Scalar]) -> Outcome {
        let (arena, count) = (call.arena(), self.indices.len());
        let inputs = arena.keep_all(1 + count, |index| match index.checked_sub(1) {
            None => input,
            Some(index) => Input::Tensor(self.indices[index].tensor),
        });
        let scalars = arena.keep_all(scalars.len() + 2 * count, |number| match number.checked_sub(scalars.len()) {
            None => scalars[number],
            Some(number) => {
                let index = &self.indices[number / 2];
                if number.is_multiple_of(2) { index.slots.into() } else { index.step.into() }
            }
        });
        call.launch_with(out.dtype(), &[Some(out)], inputs, scalars)
    }

    /// `out = source[indices]`.
    pub fn load(&self, call: &Call<'_>, out: Tensor<'_>, source: Tensor<'_>) -> Outcome {
        if self.is_empty() {
            return Ok(());
        }
        self.launch(call, self.over(out), Input::Tensor(self.addressed(source)?), &[])
    }

    /// Combines the target's elements at the indices with the source. Sums and products are rounded once.
    pub fn update<'t>(&self, call: &Call<'t>, target: Tensor<'t>, source: Input<'t>, update: Update) -> Outcome {
        if self.is_empty() {
            return Ok(());
        }
        let wide = target.dtype().opmath();
        let folds = matches!(update.operation, Operation::Add | Operation::Multiply);
        if wide == target.dtype() || !folds || self.names_rows() || target.numel() / CAST_FOR_EACH > self.sizes.iter().product() {
            return self.update_directly(call, target, source, update);
        }
        // The kernel would sort the updates by their targets.
        let sums = call.cast(target, wide)?;
        if sums.strides() != target.strides() {
            return self.update_directly(call, target, source, update);
        }
        let source = if let Input::Tensor(tensor) = source { Input::Tensor(call.cast(tensor, wide)?) } else { source };
        let factor = (wide.size() / target.dtype().size()) as i64;
        let widened = |index: &Index<'a>| Index { step: index.step * factor, ..*index };
        let addressing = Addressing { indices: self.indices.iter().map(widened).collect(), ..*self };
        addressing.update_directly(call, sums, source, update)?;
        call.copy(target, sums)
    }

    /// True if each tuple of indices addresses several adjacent elements.
    fn names_rows(&self) -> bool {
        let is_whole = |dim: usize| self.indices.iter().all(|index| index.tensor.strides()[dim] == 0);
        (0..self.sizes.len()).any(|dim| self.sizes[dim] > 1 && self.strides[dim] == 1 && is_whole(dim))
    }

    fn update_directly(&self, call: &Call<'_>, target: Tensor<'_>, source: Input<'_>, update: Update) -> Outcome {
        let target = self.addressed(target)?;
        let Update { operation, excludes_self, factor, skipped } = update;
        let scalars = [Scalar::Long(operation as i64), excludes_self.into(), factor, skipped.into()];
        let source = if let Input::Tensor(tensor) = source { Input::Tensor(self.over(tensor)) } else { source };
        self.launch(call, target, source, &scalars)
    }
}
