//! Reductions: outputs that each depend on many elements of one input.
//!
//! The operands are [outputs..., input] over the input's sizes; the outputs have stride 0 in the reduced dimensions. The index
//! space is divided into *tiles* of adjacent outputs, and each tile into *blocks* of the elements that go into those outputs.
//! Folding a block gives one *state* for each output, and states are merged in a balanced binary tree. Blocks and tree depend on
//! sizes, strides and dtypes alone, and a parallel run takes whole subtrees, so the bits depend on neither threads nor instruction
//! sets. Rounding errors grow with the logarithm of the extent, as in pairwise summation (Higham, Accuracy and Stability of
//! Numerical Algorithms, 4.2).
//!
//! [`BlockFold`] is the fold of a block; only that is compiled for each operator and dtype. [`fold`] makes one from a function of
//! two values.

pub mod argminmax;
pub mod fold;
pub mod minmax_fold;
mod reduction_plan;
mod tree;
pub mod variance;

use reduction_plan::Plan;

use crate::tensor::{DType, Element, Error, Launch};

/// The maximum number of outputs of a reduction.
pub const MAX_OUTPUTS: usize = 2;

/// A rectangle of elements: `rows` elements go into each of `cols` outputs. Its runs or its rows (`by_runs`) are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct FoldBlock {
    data: *const u8,
    pub cols: usize,
    pub rows: usize,
    /// Bytes from an element of one output to that of the next output.
    col_step: isize,
    /// Bytes from one element of an output to its next element.
    row_step: isize,
    /// The index of the first row in the reduced dimension, if there is only one reduced dimension.
    pub first: usize,
    /// True if an output's elements are closer in memory than adjacent outputs.
    pub by_runs: bool,
}

impl FoldBlock {
    /// The address of a column's first element.
    #[inline(always)]
    fn col(&self, col: usize) -> *const u8 {
        self.data.wrapping_offset(col as isize * self.col_step)
    }

    /// The address of a row's first element.
    #[inline(always)]
    fn row(&self, row: usize) -> *const u8 {
        self.data.wrapping_offset(row as isize * self.row_step)
    }
}

/// The element at an index of contiguous ones that begin at `data`, widened. Only leaves call it, with elements of their block.
#[inline(always)]
fn load<E: Element>(data: *const u8, index: usize) -> E::Acc {
    // SAFETY: a block's elements are those of the input, which the launch may read, or of a worker's scratch memory, and of dtype
    // `E`: `tree` makes blocks of nothing else.
    unsafe { data.cast::<E>().wrapping_add(index).read_unaligned() }.load()
}

/// The addresses of a tile's results.
#[derive(Clone, Copy, Debug)]
pub struct Targets {
    data: [*mut u8; MAX_OUTPUTS],
    steps: [isize; MAX_OUTPUTS],
    sizes: [usize; MAX_OUTPUTS],
}

impl Targets {
    /// Writes the result of an output operand for one of the tile's columns. Panics if the operand's elements are not of `O`'s
    /// size.
    #[inline]
    pub fn write<O: Element>(&self, output: usize, col: usize, value: O) {
        assert_eq!(self.sizes[output], size_of::<O>(), "an output of another dtype");
        let target = self.data[output].wrapping_offset(col as isize * self.steps[output]);
        // SAFETY: `tree` makes targets of a tile's own outputs, which the launch may write; the size is checked.
        unsafe { target.cast::<O>().write_unaligned(value) };
    }
}

/// The fold of a reduction. `S`: the state of one output.
pub trait BlockFold<S>: Sync {
    /// The dtype that elements are cast to first.
    fn element(&self) -> DType;

    /// True if elements of another dtype are not cast: their bits are read as elements of that size.
    fn takes_bits(&self) -> bool {
        false
    }

    /// True if the index of an element matters, so that blocks must keep the order of the reduced dimension.
    fn is_ordered(&self) -> bool {
        false
    }

    /// True if a block's elements are read twice and should stay in the first-level cache.
    fn looks_twice(&self) -> bool {
        true
    }

    /// Computes the states of a block's columns.
    fn fold(&self, block: &FoldBlock, states: &mut [S]);

    /// Merges the states of later elements into those of earlier ones.
    fn merge(&self, states: &mut [S], later: &[S]);

    /// Writes the results of a tile's states; `count` elements went into each.
    fn finish(&self, states: &[S], count: usize, targets: &Targets);
}

/// Reduces the launch's input into its outputs.
pub fn drive<S: Copy + Default + Send + Sync>(launch: &Launch<'_>, blocks: &dyn BlockFold<S>) -> Result<(), Error> {
    let outputs = launch.num_outputs();
    if outputs > MAX_OUTPUTS || launch.num_operands() != outputs + 1 {
        return Err(Error::new(format!("{} operands where {} are needed", launch.num_operands(), outputs + 1)));
    }
    let input = launch.view(outputs);
    if !blocks.takes_bits() && input.dtype() != blocks.element() && !input.dtype().is_convertible() {
        return Err(Error::new(format!("cannot reduce {:?}", input.dtype())));
    }
    if input.numel() > 0 {
        let plan = Plan::new(launch, blocks);
        tree::run(&plan, blocks, launch.cost());
    }
    Ok(())
}
