//! [`Addressing`]: the operands of updates through indices. The addressed tensor has stride 0 in the indexed dimensions, and each index has two
//! scalars, the number of slots that it chooses from and their distance in bytes.

use smallvec::smallvec;

use super::call::{Call, Input, Outcome, Refusal, ensure, wrap_dim};
use super::descriptor::{Dims, Tensor};
use crate::tensor::launch::Scalar;

/// What becomes of the elements that indices name; the numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Store = 0,
    Add = 1,
}

/// How elements are updated.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    pub operation: Operation,
    /// The index that is left out.
    pub skipped: i64,
}

impl From<Operation> for Update {
    fn from(operation: Operation) -> Self {
        Self { operation, skipped: -1 }
    }
}

/// The space of a launch, and the addressed tensor and its index in it.
pub struct Addressing<'a> {
    sizes: Dims,
    /// Of the addressed tensor, in elements.
    strides: Dims,
    index: Tensor<'a>,
    slots: i64,
    /// In bytes.
    step: i64,
}

/// Strides over `ndim` dimensions; a tensor of no dimension is the same everywhere.
fn strides_over(tensor: Tensor<'_>, ndim: usize) -> Dims {
    let mut strides: Dims = tensor.strides().into();
    strides.resize(ndim, 0);
    strides
}

/// A tensor's sizes; a number has one of 1.
fn sizes_of(tensor: Tensor<'_>) -> Dims {
    if tensor.ndim() == 0 { smallvec![1] } else { tensor.sizes().into() }
}

/// The slots along a dimension, and their distance in bytes.
fn slots_along(tensor: Tensor<'_>, dim: usize) -> (i64, i64) {
    let item = tensor.dtype().size() as i64;
    if tensor.ndim() == 0 { (1, 0) } else { (tensor.sizes()[dim], tensor.strides()[dim] * item) }
}

impl<'a> Addressing<'a> {
    /// One index for each slice across `dim`: index_select and its kin. The index has one dimension or none. Nothing where the space is
    /// empty.
    ///
    /// # Errors
    /// There is no such dimension.
    pub fn each_slice(addressed: Tensor<'_>, dim: i64, index: Tensor<'a>) -> Result<Option<Self>, Refusal> {
        let dim = wrap_dim(dim, addressed.ndim())?;
        let mut sizes = sizes_of(addressed);
        sizes[dim] = index.numel();
        if sizes.contains(&0) {
            return Ok(None);
        }
        let mut strides = strides_over(addressed, sizes.len());
        strides[dim] = 0;
        let mut over: Dims = smallvec![0; sizes.len()];
        over[dim] = index.strides().first().copied().unwrap_or(0);
        let (slots, step) = slots_along(addressed, dim);
        let index = index.within(&sizes, &over);
        Ok(Some(Self { sizes, strides, index, slots, step }))
    }

    /// Indices into all elements of a contiguous tensor, counted in their order: take and put. Nothing for an empty index.
    pub fn flat(addressed: Tensor<'_>, index: Tensor<'a>) -> Option<Self> {
        let (sizes, step) = (Dims::from(index.sizes()), addressed.dtype().size() as i64);
        let strides = smallvec![0; sizes.len()];
        (index.numel() > 0).then(|| Self { sizes, strides, index, slots: addressed.numel(), step })
    }

    /// The addressed tensor. An index into nothing has no value that is in bounds, so it is refused without a look at its values.
    fn addressed<'t>(&self, tensor: Tensor<'t>) -> Result<Tensor<'t>, Refusal> {
        ensure!(self.slots != 0, "index is out of bounds for dimension with size 0");
        Ok(tensor.within(&self.sizes, &self.strides))
    }

    /// A tensor over the space.
    fn over<'t>(&self, tensor: Tensor<'t>) -> Tensor<'t> {
        tensor.within(&self.sizes, &strides_over(tensor, self.sizes.len()))
    }

    fn slots(&self) -> [Scalar; 2] {
        [self.slots.into(), self.step.into()]
    }

    /// target at the indices = itself and the source.
    ///
    /// # Errors
    /// An index into nothing, or a launch that fails.
    pub fn update(&self, call: &Call<'_>, target: Tensor<'_>, source: Input<'_>, update: Update) -> Outcome {
        let target = self.addressed(target)?;
        let Update { operation, skipped } = update;
        let [slots, step] = self.slots();
        // The old values take part, and the source as it is.
        let (excludes_self, factor) = (Scalar::Bool(false), Scalar::Long(1));
        let scalars = [Scalar::Long(operation as i64), excludes_self, factor, skipped.into(), slots, step];
        let index = Input::Tensor(self.index);
        let dtype = target.dtype();
        match source {
            Input::Tensor(tensor) => call.launch_with(dtype, &[target], &[Input::Tensor(self.over(tensor)), index], &scalars),
            Input::Number(_) => call.launch_with(dtype, &[target], &[source, index], &scalars),
        }
    }
}
