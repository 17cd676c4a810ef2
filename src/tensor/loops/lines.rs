//! Loops over lines, for kernels along one dimension (softmax, scans, normalisations).
//!
//! The operands of a kernel over lines have the same sizes. The kernel gets each line as a slice of its computing type: the
//! operand's own memory if possible, else scratch memory, to and from which several adjacent lines are gathered and cast at once.
//!
//! If adjacent lines are closer in memory than the elements of a line, gathering (transposing) them costs more than many kernels. A
//! kernel that implements [`Columns`] gets such lines as the columns of a [`Strip`], [`LANES`] at a time. `line_plan` decides which
//! lines are such, and which operands are read in place.
//!
//! [`passes`] has loops for kernels that widen elements on every read, so that 16 bit floats need no copy in `f32`.

mod line_batch;
mod line_plan;
pub mod passes;
mod values;

use line_batch::{Batch, LineBuffers};
use line_plan::{Operand, Plan};

use super::{grain, parallel};
use crate::simd::leaf;
use crate::tensor::{DType, Element, Error, Output, View};
use crate::tuning::sharing::{GRAIN, LONG_PIECES_FROM};

pub use values::{Statistics, Values, ValuesMut};

/// The columns of a strip.
pub const LANES: usize = 32;

/// A kernel over the lines of `I` inputs and `O` outputs. The method is compiled for each instruction set: mark it and everything
/// that it calls `#[inline(always)]`.
pub trait Lines<T, const I: usize, const O: usize>: Sync {
    /// Computes a line's outputs from its inputs. `number` counts the lines over the other dimensions, the last one fastest, if the
    /// first input is contiguous.
    fn line(&self, number: usize, inputs: [&[T]; I], outputs: [&mut [T]; O]);
}

/// [`Lines`] that can also be computed as the columns of a strip.
pub trait Columns<T, const I: usize, const O: usize>: Lines<T, I, O> {
    /// [`Lines::line`] for every column of a strip.
    fn columns(&self, strip: Strip<T, I, O>);
}

/// Runs `kernel` over the lines along `dim` of operands of the same sizes, cast to `T`. `cost`: nanoseconds of one thread per
/// element.
///
/// ```
/// use rustdev::tensor::{loops::lines::{self, Lines}, output::Output, view::View};
/// fn each(input: View<'_>, outputs: [Output<'_>; 2], kernel: &impl Lines<f32, 1, 2>) {
///     lines::run([input], outputs, 0, 1.0, kernel).unwrap();
/// }
/// ```
///
/// No output is given twice:
///
/// ```compile_fail
/// use rustdev::tensor::{loops::lines::{self, Lines}, output::Output, view::View};
/// fn each(input: View<'_>, output: Output<'_>, kernel: &impl Lines<f32, 1, 2>) {
///     lines::run([input], [output, output], 0, 1.0, kernel).unwrap();
/// }
/// ```
///
/// No input is given as an output:
///
/// ```compile_fail
/// use rustdev::tensor::{loops::lines::{self, Lines}, view::View};
/// fn each(input: View<'_>, kernel: &impl Lines<f32, 1, 1>) {
///     lines::run([input], [input], 0, 1.0, kernel).unwrap();
/// }
/// ```
#[inline]
pub fn run<T, const I: usize, const O: usize>(
    inputs: [View<'_>; I],
    outputs: [Output<'_>; O],
    dim: usize,
    cost: f64,
    kernel: &impl Lines<T, I, O>,
) -> Result<(), Error>
where
    T: Element,
{
    let operands = operands::<T, I, O>(inputs, outputs);
    drive(&operands, dim, cost, None, &|_| 0, &|batch| {
        each_line::<T, _, I, O>(batch, kernel);
    })
}

/// [`run`] with lines as columns of strips if that matches the memory layout.
#[inline]
pub fn run_either<T, const I: usize, const O: usize>(
    inputs: [View<'_>; I],
    outputs: [Output<'_>; O],
    dim: usize,
    cost: f64,
    kernel: &impl Columns<T, I, O>,
) -> Result<(), Error>
where
    T: Element<Acc = T>,
{
    let operands = operands::<T, I, O>(inputs, outputs);
    drive(&operands, dim, cost, Some(LANES), &|_| 0, &|batch| {
        if batch.in_strips {
            each_strip::<T, _, I, O>(batch, kernel);
        } else {
            each_line::<T, _, I, O>(batch, kernel);
        }
    })
}

/// Called with a line, its output and its indices.
pub type IndexedLineBody<'a, T> = &'a (dyn Fn(&[T], &mut [T], &mut [i64]) + Sync);

/// Runs `body` over the lines of an input, an output, and indices of dtype Long.
pub fn run_with_indices<T: Element>(
    input: View<'_>,
    output: Output<'_>,
    indices: Output<'_>,
    dim: usize,
    cost: f64,
    body: IndexedLineBody<'_, T>,
) -> Result<(), Error> {
    let operands = [
        Operand::new(input, T::DTYPE, false),
        Operand::new(output.into_view(), T::DTYPE, true),
        Operand::new(indices.into_view(), DType::Long, true),
    ];
    drive(&operands, dim, cost, None, &|_| 0, &|batch| {
        for line in 0..batch.count {
            // SAFETY: `drive` provides lines of `len` aligned elements of each operand's dtype, for this call alone.
            let input = unsafe { std::slice::from_raw_parts(batch.line(0, line).cast::<T>().cast_const(), batch.len) };
            // SAFETY: as above; the lines of outputs overlap no other line.
            let output = unsafe { std::slice::from_raw_parts_mut(batch.line(1, line).cast::<T>(), batch.len) };
            // SAFETY: as above.
            let indices = unsafe { std::slice::from_raw_parts_mut(batch.line(2, line).cast::<i64>(), batch.len) };
            body(input, output, indices);
        }
    })
}

fn operands<'a, T: Element, const I: usize, const O: usize>(inputs: [View<'a>; I], outputs: [Output<'a>; O]) -> Vec<Operand<'a>> {
    let inputs = inputs.into_iter().map(|view| Operand::new(view, T::DTYPE, false));
    inputs.chain(outputs.into_iter().map(|output| Operand::new(output.into_view(), T::DTYPE, true))).collect()
}

/// Passes all batches of lines to `body`; with `lanes`, as columns of strips of that width if that matches the memory layout.
/// `kept`: bytes that the kernel needs for values between passes, by the plan.
fn drive(
    operands: &[Operand<'_>],
    dim: usize,
    cost: f64,
    lanes: Option<usize>,
    kept: &dyn Fn(&Plan) -> usize,
    body: &(dyn Fn(&Batch<'_>) + Sync),
) -> Result<(), Error> {
    let sizes = operands[0].view.sizes();
    for Operand { view, dtype, is_output } in operands {
        if view.is_output() && !is_output {
            return Err(Error::new("an output is read as an input"));
        }
        if view.sizes() != sizes {
            return Err(Error::new(format!("sizes {:?} beside {sizes:?}", view.sizes())));
        }
        if view.dtype() != *dtype && !view.dtype().is_convertible() {
            return Err(Error::new(format!("{:?} has no conversions", view.dtype())));
        }
    }
    if operands[0].view.numel() == 0 {
        return Ok(());
    }
    let grain = if operands[0].view.numel() < LONG_PIECES_FROM { grain(cost) } else { GRAIN };
    let plan = Plan::new(operands, dim, grain, lanes);
    let batch_len = plan.batch * plan.len;
    let kept = kept(&plan);
    parallel(plan.batches(), grain.div_ceil(batch_len), cost * batch_len as f64, &|begin, end| {
        let mut worker = LineBuffers::new(&plan, operands, lanes, kept);
        for number in begin..end {
            worker.batch(number, body);
        }
    });
    Ok(())
}

leaf! {
    /// Runs a kernel over the lines of a batch, one after the other.
    fn each_line<T: Element, K: Lines<T, I, O>; I: usize, O: usize>(batch: &Batch<'_>, kernel: &K) {
        let len = batch.len;
        for line in 0..batch.count {
            let ptr = |operand: usize| batch.line(operand, line).cast::<T>();
            // SAFETY: `drive` provides lines of `len` aligned elements of each operand's dtype, for this call alone.
            let inputs = std::array::from_fn(|input| unsafe { std::slice::from_raw_parts(ptr(input).cast_const(), len) });
            // SAFETY: as above; the lines of outputs overlap no other line.
            let outputs = std::array::from_fn(|output| unsafe { std::slice::from_raw_parts_mut(ptr(I + output), len) });
            kernel.line(batch.first + line, inputs, outputs);
        }
    }

    /// Runs a kernel over the strips of a batch.
    fn each_strip<T: Element, K: Columns<T, I, O>; I: usize, O: usize>(batch: &Batch<'_>, kernel: &K) {
        for col in (0..batch.count).step_by(LANES) {
            kernel.columns(Strip::of(batch, col));
        }
    }
}

/// [`LANES`] columns of every operand, as rows of that many contiguous elements. Columns beyond those of the operands may be among
/// them, with unspecified values.
pub struct Strip<T, const I: usize, const O: usize> {
    inputs: [(*const T, isize); I],
    outputs: [(*mut T, isize); O],
    len: usize,
}

impl<T, const I: usize, const O: usize> Strip<T, I, O> {
    /// The strip that begins at a column.
    #[inline(always)]
    fn of(batch: &Batch<'_>, col: usize) -> Self {
        Self {
            inputs: std::array::from_fn(|input| (batch.column::<T>(input, col).cast_const(), batch.step(input))),
            outputs: std::array::from_fn(|output| (batch.column(I + output, col), batch.step(I + output))),
            len: batch.len,
        }
    }

    /// The rows. Each has one element of every line.
    #[inline(always)]
    pub fn rows(&self) -> std::ops::Range<usize> {
        0..self.len
    }

    #[inline(always)]
    pub fn input(&self, which: usize, row: usize) -> &[T; LANES] {
        debug_assert!(row < self.len);
        let (data, step) = self.inputs[which];
        // SAFETY: a batch in strips has whole strips of aligned elements, which nobody writes during the strip's lifetime.
        unsafe { &*data.wrapping_byte_offset(row as isize * step).cast::<[T; LANES]>() }
    }

    #[inline(always)]
    pub fn output(&mut self, which: usize, row: usize) -> &mut [T; LANES] {
        debug_assert!(row < self.len);
        let (data, step) = self.outputs[which];
        // SAFETY: as above; outputs do not overlap inputs of the batch, and the strip is borrowed for as long as the row.
        unsafe { &mut *data.wrapping_byte_offset(row as isize * step).cast::<[T; LANES]>() }
    }

    /// A row of the first output, for reading.
    #[inline(always)]
    pub fn written(&self, row: usize) -> &[T; LANES] {
        debug_assert!(row < self.len);
        let (data, step) = self.outputs[0];
        // SAFETY: as in `input`; writing an output borrows the strip mutably.
        unsafe { &*data.wrapping_byte_offset(row as isize * step).cast::<[T; LANES]>() }
    }

    /// A row of every input, and one of the first output.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> ([&[T; LANES]; I], &mut [T; LANES]) {
        debug_assert!(row < self.len);
        let (data, step) = self.outputs[0];
        // SAFETY: as in `output`.
        let output = unsafe { &mut *data.wrapping_byte_offset(row as isize * step).cast::<[T; LANES]>() };
        (std::array::from_fn(|which| self.input(which, row)), output)
    }
}
