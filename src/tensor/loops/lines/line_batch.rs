//! Batches of lines, in their operands' memory or in a thread's scratch memory.

use super::line_plan::{Operand, Plan};
use crate::tensor::loops::index_space::MAX_OPERANDS;
use crate::tensor::loops::strided::StridedPtr;
use crate::tensor::loops::{Memory, cast, strided};

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
        let mut ptrs = [StridedPtr::dense(std::ptr::null_mut(), 0, 0); MAX_OPERANDS];
        for ((operand, scratch), target) in self.operands.iter().zip(&mut self.scratch).zip(&mut ptrs) {
            *target = plan.ptr(operand, &index);
            let Some(scratch) = scratch else {
                continue;
            };
            let dense = plan.dense(scratch.data(), operand.dtype.size());
            if !operand.is_output {
                gather(plan, operand, *target, count, dense.data, self.raw.data());
            }
            *target = dense;
        }
        let Plan { len, in_strips, .. } = *plan;
        body(&Batch { first, count, len, rows: plan.rows(), in_strips, ptrs: &ptrs, kept: self.kept.data() });
        for (operand, scratch) in self.operands.iter().zip(&mut self.scratch).filter(|(operand, _)| operand.is_output) {
            if let Some(scratch) = scratch {
                scatter(plan, operand, plan.ptr(operand, &index), count, scratch.data(), self.raw.data());
            }
        }
    }
}

/// The number of elements of a batch in scratch memory, including columns that only pad strips.
fn elements(plan: &Plan, lines: usize) -> usize {
    plan.len * if plan.in_strips { plan.batch } else { lines }
}

/// Copies `lines` lines into scratch memory at `to`; `raw` has room for as many.
fn gather(plan: &Plan, operand: &Operand<'_>, ptr: StridedPtr, lines: usize, to: *mut u8, raw: *mut u8) {
    let source = operand.view.dtype();
    let mut from = ptr.data;
    if source == operand.dtype || !plan.is_dense(&ptr, source.size(), lines) {
        from = if source == operand.dtype { to } else { raw };
        // SAFETY: the operand's elements are readable; scratch and raw memory hold a batch.
        unsafe { strided::copy(ptr, plan.dense(from, source.size()), source.size(), lines, plan.len) };
    }
    if source != operand.dtype {
        // SAFETY: the elements are contiguous in raw memory or in the operand's; scratch memory holds a batch.
        let cast = unsafe { cast::cast(from, source, to, operand.dtype, elements(plan, lines)) };
        debug_assert!(cast.is_ok(), "drive checks that the dtypes are convertible");
    }
}

/// Copies `lines` lines from scratch memory at `from` to the operand; `raw` has room for as many.
fn scatter(plan: &Plan, operand: &Operand<'_>, ptr: StridedPtr, lines: usize, from: *mut u8, raw: *mut u8) {
    let target = operand.view.dtype();
    let is_dense = plan.is_dense(&ptr, target.size(), lines);
    let mut source = from;
    if target != operand.dtype {
        source = if is_dense { ptr.data } else { raw };
        // SAFETY: scratch and raw memory hold a batch; a dense pointer points into the operand, which may be written.
        let cast = unsafe { cast::cast(from, operand.dtype, source, target, elements(plan, lines)) };
        debug_assert!(cast.is_ok(), "drive checks that the dtypes are convertible");
    }
    if target == operand.dtype || !is_dense {
        // SAFETY: the launch may write the output's elements; the batch at `source` has the layout of scratch memory.
        unsafe { strided::copy(plan.dense(source, target.size()), ptr, target.size(), lines, plan.len) };
    }
}
