//! Batches of lines, in their operands' memory or in a thread's scratch memory.

use super::line_plan::{Operand, Plan};
use crate::tensor::loops::Memory;
use crate::tensor::loops::index_space::MAX_OPERANDS;
use crate::tensor::loops::strided::StridedPtr;

/// A batch: some lines of every operand.
pub struct Batch<'a> {
    /// The number of the first line.
    pub first: usize,
    pub count: usize,
    /// The number of elements of a line.
    pub len: usize,
    /// Rows of [`LANES`](super::LANES) elements: those of a strip, or as many as a line fills.
    pub rows: usize,
    /// True if the lines are the columns of whole strips, instead of following one another.
    pub in_strips: bool,
    /// The lines of each operand; steps in bytes from one line to the next (`col`), and from one row of columns to the next
    /// (`row`).
    ptrs: &'a [StridedPtr],
    /// Scratch memory for values that the kernel keeps between passes.
    pub kept: *mut u8,
}

impl Batch<'_> {
    /// The address of a line's first element.
    #[inline(always)]
    pub fn line(&self, operand: usize, line: usize) -> *mut u8 {
        let ptr = &self.ptrs[operand];
        ptr.data.wrapping_offset(line as isize * ptr.steps.col)
    }

    /// The address of the first element of a column, for a batch in strips.
    #[inline(always)]
    pub fn column<T>(&self, operand: usize, col: usize) -> *mut T {
        self.ptrs[operand].data.cast::<T>().wrapping_add(col)
    }

    /// Bytes from one row of columns to the next.
    #[inline(always)]
    pub fn step(&self, operand: usize) -> isize {
        self.ptrs[operand].steps.row
    }
}

/// One thread's scratch memory.
pub struct LineBuffers<'a> {
    plan: &'a Plan,
    operands: &'a [Operand<'a>],
    /// A batch of each operand whose memory cannot be used directly.
    scratch: [Option<Memory>; MAX_OPERANDS],
    /// A batch in an operand's own dtype.
    raw: Memory,
    /// The values that a kernel keeps between passes.
    kept: Memory,
}

impl<'a> LineBuffers<'a> {
    /// `kept`: bytes that the kernel keeps between passes. There may be at most [`MAX_OPERANDS`] operands.
    pub fn new(plan: &'a Plan, operands: &'a [Operand<'a>], lanes: Option<usize>, kept: usize) -> Self {
        debug_assert!(operands.len() <= MAX_OPERANDS, "{} operands", operands.len());
        let memory = |size: usize| Memory::of(plan.batch * plan.len * size);
        let is_overwritten = |input: &Operand<'_>| {
            operands.iter().any(|output| output.is_output && !input.is_output && output.view.overlaps(&input.view))
        };
        let scratch = |operand: &Operand<'_>| {
            (!plan.is_direct(operand, lanes) || is_overwritten(operand)).then(|| memory(operand.dtype.size()))
        };
        let cast =
            operands.iter().filter(|operand| operand.view.dtype() != operand.dtype).map(|operand| operand.view.dtype().size());
        Self {
            plan,
            operands,
            scratch: std::array::from_fn(|operand| operands.get(operand).and_then(scratch)),
            raw: memory(cast.max().unwrap_or(0)),
            kept: Memory::of(kept),
        }
    }

    pub fn batch(&mut self, number: usize, body: &(dyn Fn(&Batch<'_>) + Sync)) {
        let plan = self.plan;
        let (first, count, index) = plan.lines(number);
        let stage = plan.stage(count);
        let mut ptrs = [StridedPtr::dense(std::ptr::null_mut(), 0, 0); MAX_OPERANDS];
        for ((operand, scratch), target) in self.operands.iter().zip(&mut self.scratch).zip(&mut ptrs) {
            *target = plan.ptr(operand, &index);
            let Some(scratch) = scratch else {
                continue;
            };
            let dense = plan.dense(scratch.data(), operand.dtype.size());
            if !operand.is_output {
                // SAFETY: the operand's elements are readable, and `drive` has checked its dtype; scratch and raw memory hold a
                // batch.
                unsafe { stage.gather(*target, operand.view.dtype(), dense.data, operand.dtype, &mut || self.raw.data()) };
            }
            *target = dense;
        }
        let Plan { len, in_strips, .. } = *plan;
        body(&Batch { first, count, len, rows: plan.rows(), in_strips, ptrs: &ptrs, kept: self.kept.data() });
        for (operand, scratch) in self.operands.iter().zip(&mut self.scratch).filter(|(operand, _)| operand.is_output) {
            if let Some(scratch) = scratch {
                let (to, dtype) = (plan.ptr(operand, &index), operand.view.dtype());
                // SAFETY: scratch memory holds the lines, and the launch may write the output's elements; else as above.
                unsafe { stage.scatter(scratch.data(), operand.dtype, to, dtype, &mut || self.raw.data()) };
            }
        }
    }
}
