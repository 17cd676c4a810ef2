//! The plan of a loop over lines: which lines make a batch.

use super::LANES;
use crate::tensor::loops::index_space::Steps;
use crate::tensor::loops::staging::Stage;
use crate::tensor::loops::strided::StridedPtr;
use crate::tensor::{DType, MAX_DIMS, View};
use crate::tuning::caches::{CAST_LINES_SCRATCH_BYTES, LINES_SCRATCH_BYTES, MAX_LINES, MAX_STRIPS, MIN_GATHERED_LINES};

/// An operand, and the dtype of its lines.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    pub view: View<'a>,
    pub dtype: DType,
    pub is_output: bool,
}

impl<'a> Operand<'a> {
    pub fn new(view: View<'a>, dtype: DType, is_output: bool) -> Self {
        Self { view, dtype, is_output }
    }

    /// True if the operand's memory can be used directly for the elements along `dim`.
    fn is_direct(&self, dim: Option<usize>) -> bool {
        let size = self.dtype.size();
        let aligned = |address: usize| address.is_multiple_of(size.min(8));
        let strides = self.view.strides().iter().all(|&stride| aligned(stride as usize));
        self.view.dtype() == self.dtype && self.is_dense(dim) && strides && aligned(self.view.data() as usize)
    }

    /// True if `dim` is contiguous.
    fn is_dense(&self, dim: Option<usize>) -> bool {
        dim.is_none_or(|dim| self.view.size(dim) == 1 || self.view.stride(dim) == self.view.dtype().size() as isize)
    }

    /// The address of the element at an index.
    fn element(&self, index: &[usize; MAX_DIMS]) -> *mut u8 {
        let steps = self.view.strides().iter().zip(index);
        self.view.data().wrapping_offset(steps.map(|(&stride, &at)| stride as isize * at as isize).sum())
    }
}

/// How lines are divided into batches.
pub struct Plan {
    dim: Option<usize>,
    pub len: usize,
    /// The other dimensions that have more than one index, the one with the smallest stride (the nearest) last.
    outer: Vec<usize>,
    sizes: Vec<usize>,
    /// The number of lines of a batch, which are adjacent in the nearest dimension.
    pub batch: usize,
    batches_per_row: usize,
    /// True if the lines of a batch are the columns of strips, instead of following one another.
    pub in_strips: bool,
}

impl Plan {
    /// `grain`: elements that are worth a batch. `lanes`: the columns of a strip, if lines may be columns of strips.
    pub fn new(operands: &[Operand<'_>], dim: usize, grain: usize, lanes: Option<usize>) -> Self {
        let first = operands[0].view;
        let sizes: Vec<usize> = first.sizes().iter().map(|&size| size as usize).collect();
        let dim = (dim < sizes.len()).then_some(dim);
        let len = dim.map_or(1, |dim| sizes[dim]);
        let mut outer: Vec<usize> = (0..sizes.len()).filter(|&other| Some(other) != dim && sizes[other] > 1).collect();
        outer.sort_by_key(|&other| std::cmp::Reverse(first.stride(other).unsigned_abs()));
        let nearest = outer.last().copied();
        let row = nearest.map_or(1, |nearest| sizes[nearest]);
        let is_across = match (dim, nearest) {
            (Some(dim), Some(nearest)) => len > 1 && first.stride(nearest).unsigned_abs() < first.stride(dim).unsigned_abs(),
            _ => false,
        };
        let strip = lanes.filter(|&lanes| is_across && row >= lanes / 2);
        let mut plan = Self { dim, len, outer, sizes, batch: 1, batches_per_row: 1, in_strips: strip.is_some() };
        let is_direct = operands.iter().all(|operand| plan.is_direct(operand, lanes));
        let size = operands.iter().map(|operand| operand.dtype.size()).max().unwrap_or(1);
        let fitting = LINES_SCRATCH_BYTES / (len * size);
        plan.batch = match strip {
            Some(lanes) => (fitting / lanes).clamp(1, MAX_STRIPS).min(row.div_ceil(lanes)) * lanes,
            None if is_direct => (grain / len).clamp(1, MAX_LINES).min(row),
            None if operands.iter().all(|operand| operand.is_dense(dim)) => {
                (CAST_LINES_SCRATCH_BYTES / (len * size)).clamp(1, MAX_LINES).min(row)
            }
            None => fitting.clamp(MIN_GATHERED_LINES, MAX_LINES).min(row),
        };
        plan.batches_per_row = row.div_ceil(plan.batch);
        plan
    }

    /// True if the operand's memory can be used directly for lines, or for whole strips of them.
    pub fn is_direct(&self, operand: &Operand<'_>, lanes: Option<usize>) -> bool {
        match lanes {
            Some(lanes) if self.in_strips => {
                let nearest = self.outer.last().copied();
                operand.is_direct(nearest) && nearest.is_some_and(|nearest| self.sizes[nearest].is_multiple_of(lanes))
            }
            _ => operand.is_direct(self.dim),
        }
    }

    /// Rows of [`LANES`] elements: those of a strip, or as many as a line fills.
    pub fn rows(&self) -> usize {
        if self.in_strips { self.len } else { self.len.div_ceil(LANES) }
    }

    pub fn batches(&self) -> usize {
        let others = &self.outer[..self.outer.len().max(1) - 1];
        others.iter().map(|&dim| self.sizes[dim]).product::<usize>() * self.batches_per_row
    }

    /// The lines of a batch: the number of the first, their count, and the index of the first line's first element.
    pub fn lines(&self, number: usize) -> (usize, usize, [usize; MAX_DIMS]) {
        let (mut row, first) = (number / self.batches_per_row, number % self.batches_per_row * self.batch);
        let mut index = [0; MAX_DIMS];
        let Some((&last, others)) = self.outer.split_last() else {
            return (0, 1, index);
        };
        let in_row = self.sizes[last];
        let number = row * in_row + first;
        index[last] = first;
        for &dim in others.iter().rev() {
            index[dim] = row % self.sizes[dim];
            row /= self.sizes[dim];
        }
        (number, self.batch.min(in_row - first), index)
    }

    /// A batch in an operand's memory: `col` is the step between lines, `row` that between the elements of a line.
    pub fn ptr(&self, operand: &Operand<'_>, index: &[usize; MAX_DIMS]) -> StridedPtr {
        let step = |dim: Option<usize>| dim.map_or(0, |dim| operand.view.stride(dim));
        StridedPtr { data: operand.element(index), steps: Steps { col: step(self.outer.last().copied()), row: step(self.dim) } }
    }

    /// A batch in scratch memory, as [`Self::ptr`].
    pub fn dense(&self, data: *mut u8, size: usize) -> StridedPtr {
        let (line, element) = if self.in_strips { (1, self.batch) } else { (self.len, 1) };
        StridedPtr { data, steps: Steps { col: (line * size) as isize, row: (element * size) as isize } }
    }

    /// The way of `lines` lines of a batch to scratch memory. Columns that only pad strips are cast as well.
    pub fn stage(&self, lines: usize) -> Stage {
        let (steps, all) = if self.in_strips { ([1, self.batch], self.batch) } else { ([self.len, 1], lines) };
        Stage { cols: lines, rows: self.len, steps, count: self.len * all }
    }
}
