//! [`Addressing`]: the operands of gathers and updates through indices. The addressed tensor has stride 0 in the indexed
//! dimensions, and each index has two scalars, the number of slots that it chooses from and their distance in bytes.

use smallvec::{SmallVec, smallvec};

use super::call::{Call, Input, Outcome, Refusal, ensure, wrap_dim};
use super::descriptor::{Dims, Tensor};
use crate::tensor::launch::Scalar;

/// What becomes of the elements that indices name; the numbers are the kernel's.
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
    /// The old values do not take part.
    pub excludes_self: bool,
    /// Of the source, in a sum.
    pub factor: Scalar,
    /// The index that is left out.
    pub skipped: i64,
}

impl From<Operation> for Update {
    fn from(operation: Operation) -> Self {
        Self { operation, excludes_self: false, factor: Scalar::Long(1), skipped: -1 }
    }
}

/// Operands that loops over elements take at most.
const MAX_OPERANDS: usize = 8;

/// An index, over the space of a launch.
pub struct Index<'a> {
    pub tensor: Tensor<'a>,
    pub slots: i64,
    /// In bytes.
    pub step: i64,
}

/// The space of a launch, and the addressed tensor and its indices in it.
pub struct Addressing<'a> {
    pub sizes: Dims,
    /// Of the addressed tensor, in elements.
    pub strides: Dims,
    pub indices: SmallVec<[Index<'a>; 1]>,
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

impl<'a> Index<'a> {
    /// Into a dimension.
    pub fn along(addressed: Tensor<'_>, dim: usize, tensor: Tensor<'a>) -> Self {
        let item = addressed.dtype().size() as i64;
        let (slots, step) = if addressed.ndim() == 0 { (1, 0) } else { (addressed.sizes()[dim], addressed.strides()[dim] * item) };
        Self { tensor, slots, step }
    }
}

impl<'a> Addressing<'a> {
    fn along(addressed: Tensor<'_>, dim: usize, sizes: Dims, index: Tensor<'a>) -> Self {
        let mut strides = strides_over(addressed, sizes.len());
        strides[dim] = 0;
        Self { sizes, strides, indices: smallvec![Index::along(addressed, dim, index)] }
    }

    /// One index for each element of the space, which has the index's sizes: gather and scatter. Nothing for an empty index.
    ///
    /// # Errors
    /// There is no such dimension.
    pub fn each_element(addressed: Tensor<'_>, dim: i64, index: Tensor<'a>) -> Result<Option<Self>, Refusal> {
        let dim = wrap_dim(dim, addressed.ndim())?;
        if index.numel() == 0 {
            return Ok(None);
        }
        let sizes = sizes_of(index);
        let index = if index.ndim() == 0 { index.unsqueeze(0) } else { index };
        Ok(Some(Self::along(addressed, dim, sizes, index)))
    }

    /// One index for each slice across `dim`: index_select and its kin. The index has one dimension or none. Nothing where the
    /// space is empty.
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
        let mut over: Dims = smallvec![0; sizes.len()];
        over[dim] = index.strides().first().copied().unwrap_or(0);
        let index = index.within(&sizes, &over);
        Ok(Some(Self::along(addressed, dim, sizes, index)))
    }

    /// Indices into all elements of a contiguous tensor, counted in their order: take and put. Nothing for an empty index.
    pub fn flat(addressed: Tensor<'_>, index: Tensor<'a>) -> Option<Self> {
        let (sizes, step) = (Dims::from(index.sizes()), addressed.dtype().size() as i64);
        let strides = smallvec![0; sizes.len()];
        let indices = || smallvec![Index { tensor: index, slots: addressed.numel(), step }];
        (index.numel() > 0).then(|| Self { sizes, strides, indices: indices() })
    }

    /// Whether a launch is within what kernels take.
    pub fn fits(&self) -> bool {
        self.indices.len() + 2 <= MAX_OPERANDS
    }

    /// The addressed tensor. An index into nothing has no value that is in bounds, so it is refused without a look at its values.
    fn addressed<'t>(&self, tensor: Tensor<'t>) -> Result<Tensor<'t>, Refusal> {
        let has_slots = self.indices.iter().all(|index| index.slots != 0);
        ensure!(has_slots, "index is out of bounds for dimension with size 0");
        Ok(tensor.within(&self.sizes, &self.strides))
    }

    /// A tensor over the space.
    fn over<'t>(&self, tensor: Tensor<'t>) -> Tensor<'t> {
        tensor.within(&self.sizes, &strides_over(tensor, self.sizes.len()))
    }

    /// The inputs of a launch: one tensor or number, then the indices.
    fn inputs<'t>(&self, first: Input<'t>) -> SmallVec<[Input<'t>; 3]>
    where
        'a: 't,
    {
        let indices = self.indices.iter().map(|index| Input::Tensor(index.tensor));
        std::iter::once(first).chain(indices).collect()
    }

    fn slots(&self) -> impl Iterator<Item = Scalar> {
        self.indices.iter().flat_map(|index| [index.slots.into(), index.step.into()])
    }

    /// out = source at the indices.
    ///
    /// # Errors
    /// An index into nothing, or a launch that fails.
    pub fn load(&self, call: &Call<'_>, out: Tensor<'_>, source: Tensor<'_>) -> Outcome {
        let source = self.addressed(source)?;
        let scalars: SmallVec<[Scalar; 4]> = self.slots().collect();
        call.launch_with(out.dtype(), &[self.over(out)], &self.inputs(Input::Tensor(source)), &scalars)
    }

    /// target at the indices = itself and the source.
    ///
    /// # Errors
    /// An index into nothing, or a launch that fails.
    pub fn update(&self, call: &Call<'_>, target: Tensor<'_>, source: Input<'_>, update: Update) -> Outcome {
        let target = self.addressed(target)?;
        let Update { operation, excludes_self, factor, skipped } = update;
        let first = [Scalar::Long(operation as i64), excludes_self.into(), factor, skipped.into()];
        let scalars: SmallVec<[Scalar; 8]> = first.into_iter().chain(self.slots()).collect();
        let source = if let Input::Tensor(tensor) = source { Input::Tensor(self.over(tensor)) } else { source };
        call.launch_with(target.dtype(), &[target], &self.inputs(source), &scalars)
    }
}
