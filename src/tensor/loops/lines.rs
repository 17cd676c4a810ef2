//! Loops over lines: kernels for which all elements along one dimension belong together (softmax, scans, normalisations).
//!
//! The operands that a kernel sees as lines have the same sizes. The kernel gets each line as a slice of its computing type: the operand's
//! own memory where that is possible, else scratch memory, to and from which several neighbouring lines are gathered and cast at once.

use std::marker::PhantomData;

use super::space::Steps;
use super::strided::{self, Place};
use super::{GRAIN, cast, parallel};
use crate::tensor::dtype::{DType, Element, dispatch};
use crate::tensor::number::{Hub, Number};
use crate::tensor::view::{MAX_DIMS, View};

/// Bytes of scratch memory that lines are gathered into together, and the most lines.
const SCRATCH: usize = 32 * 1024;
const LINES: usize = 64;
/// Lines that are gathered together even where they are long: what a cache line brings of each.
const FEW_LINES: usize = 16;

/// What is done with one line: its number, its inputs, its outputs.
pub type Body<'a, T, const I: usize, const O: usize> = &'a (dyn Fn(usize, [&[T]; I], [&mut [T]; O]) + Sync);

/// As [`Body`], with one input, one output, and places in the line as a second output.
pub type BodyWithPlaces<'a, T> = &'a (dyn Fn(&[T], &mut [T], &mut [i64]) + Sync);

/// Runs `body` over the lines along `dim` of operands of the same sizes. `cost`: nanoseconds of one thread per element. The number of a line
/// counts the other dimensions, the last one fastest, where the first input is contiguous.
///
/// # Errors
/// Operands of different sizes, or dtypes without conversions.
pub fn run<T, const I: usize, const O: usize>(
    inputs: [View<'_>; I],
    outputs: [View<'_>; O],
    dim: usize,
    cost: f64,
    body: Body<'_, T, I, O>,
) -> Result<(), String>
where
    T: Element<Acc = T>,
{
    let operands: Vec<Operand<'_>> = inputs
        .iter()
        .map(|&view| Operand { view, dtype: T::DTYPE, is_output: false })
        .chain(outputs.iter().map(|&view| Operand { view, dtype: T::DTYPE, is_output: true }))
        .collect();
    drive(&operands, dim, cost, &|number, lines, len| {
        // SAFETY: `drive` gives lines of `len` aligned elements of each operand's dtype, for this call alone.
        let inputs = std::array::from_fn(|input| unsafe { std::slice::from_raw_parts(lines[input].cast::<T>().cast_const(), len) });
        // SAFETY: as above; the lines of outputs overlap no other line.
        let outputs = std::array::from_fn(|output| unsafe { std::slice::from_raw_parts_mut(lines[I + output].cast::<T>(), len) });
        body(number, inputs, outputs);
    })
}

/// As [`run`], for an input, an output and places, of dtype Long.
///
/// # Errors
/// As [`run`].
pub fn run_with_places<T: Element>(
    input: View<'_>,
    output: View<'_>,
    places: View<'_>,
    dim: usize,
    cost: f64,
    body: BodyWithPlaces<'_, T>,
) -> Result<(), String> {
    let operands = [
        Operand { view: input, dtype: T::DTYPE, is_output: false },
        Operand { view: output, dtype: T::DTYPE, is_output: true },
        Operand { view: places, dtype: DType::Long, is_output: true },
    ];
    drive(&operands, dim, cost, &|_, lines, len| {
        // SAFETY: `drive` gives lines of `len` aligned elements of each operand's dtype, for this call alone.
        let input = unsafe { std::slice::from_raw_parts(lines[0].cast::<T>().cast_const(), len) };
        // SAFETY: as above; the lines of outputs overlap no other line.
        let output = unsafe { std::slice::from_raw_parts_mut(lines[1].cast::<T>(), len) };
        // SAFETY: as above.
        let places = unsafe { std::slice::from_raw_parts_mut(lines[2].cast::<i64>(), len) };
        body(input, output, places);
    })
}

/// An operand and the dtype that its lines have.
#[derive(Clone, Copy)]
struct Operand<'a> {
    view: View<'a>,
    dtype: DType,
    is_output: bool,
}

impl Operand<'_> {
    /// Whether lines can be slices of the operand's memory.
    fn is_direct(&self, dim: Option<usize>) -> bool {
        let size = self.dtype.size();
        let dense = dim.is_none_or(|dim| self.view.size(dim) == 1 || self.view.stride(dim) == size as isize);
        let aligned = |address: usize| address.is_multiple_of(size.min(8));
        let strides = self.view.strides().iter().all(|&stride| aligned(stride as usize));
        self.view.dtype() == self.dtype && dense && strides && aligned(self.view.data() as usize)
    }

    /// Where the element of that index is.
    fn element(&self, index: &[usize; MAX_DIMS]) -> *mut u8 {
        let steps = self.view.strides().iter().zip(index);
        self.view.data().wrapping_offset(steps.map(|(&stride, &at)| stride as isize * at as isize).sum())
    }
}

/// What is done with one line: its number, where it begins in each operand or its scratch memory, its length.
type RawBody<'a> = &'a (dyn Fn(usize, &[*mut u8], usize) + Sync);

fn drive(operands: &[Operand<'_>], dim: usize, cost: f64, body: RawBody<'_>) -> Result<(), String> {
    let sizes = operands[0].view.sizes();
    for Operand { view, dtype, .. } in operands {
        if view.sizes() != sizes {
            return Err(format!("sizes {:?} beside {sizes:?}", view.sizes()));
        }
        if view.dtype() != *dtype && !view.dtype().is_convertible() {
            return Err(format!("{:?} has no conversions", view.dtype()));
        }
    }
    if operands[0].view.numel() == 0 {
        return Ok(());
    }
    let plan = Plan::new(operands, dim);
    let batch_len = plan.batch * plan.len;
    parallel(plan.batches(), GRAIN.div_ceil(batch_len), cost * batch_len as f64, &|begin, end| {
        let mut worker = Worker::new(&plan, operands);
        for number in begin..end {
            worker.batch(number, body);
        }
    });
    Ok(())
}

/// How the lines are taken.
struct Plan {
    dim: Option<usize>,
    len: usize,
    /// The dimensions across lines that have more than one index, the nearest one last.
    outer: Vec<usize>,
    sizes: Vec<usize>,
    /// Lines that are taken together: they are neighbours in the nearest dimension.
    batch: usize,
    batches_per_row: usize,
}

impl Plan {
    fn new(operands: &[Operand<'_>], dim: usize) -> Self {
        let first = operands[0].view;
        let sizes: Vec<usize> = first.sizes().iter().map(|&size| size as usize).collect();
        let dim = (dim < sizes.len()).then_some(dim);
        let len = dim.map_or(1, |dim| sizes[dim]);
        let mut outer: Vec<usize> = (0..sizes.len()).filter(|&other| Some(other) != dim && sizes[other] > 1).collect();
        outer.sort_by_key(|&other| std::cmp::Reverse(first.stride(other).unsigned_abs()));
        let is_direct = operands.iter().all(|operand| operand.is_direct(dim));
        let size = operands.iter().map(|operand| operand.dtype.size()).max().unwrap_or(1);
        let row = outer.last().map_or(1, |&last| sizes[last]);
        let fitting = (SCRATCH / (len * size)).clamp(FEW_LINES, LINES);
        let batch = if is_direct { 1 } else { fitting.min(row) };
        Self { dim, len, outer, sizes, batch, batches_per_row: row.div_ceil(batch) }
    }

    fn batches(&self) -> usize {
        let others = &self.outer[..self.outer.len().max(1) - 1];
        others.iter().map(|&dim| self.sizes[dim]).product::<usize>() * self.batches_per_row
    }

    /// The lines of a batch: the number of the first, how many, and where they begin in the index space.
    fn lines(&self, number: usize) -> (usize, usize, [usize; MAX_DIMS]) {
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

    /// A batch in an operand's memory, its lines as columns.
    fn place(&self, operand: &Operand<'_>, index: &[usize; MAX_DIMS]) -> Place {
        let step = |dim: Option<usize>| dim.map_or(0, |dim| operand.view.stride(dim));
        Place { data: operand.element(index), steps: Steps { col: step(self.outer.last().copied()), row: step(self.dim) } }
    }

    /// A batch line after line.
    fn dense(&self, data: *mut u8, size: usize) -> Place {
        Place { data, steps: Steps { col: (self.len * size) as isize, row: size as isize } }
    }
}

/// One thread's scratch memory.
struct Worker<'a> {
    plan: &'a Plan,
    operands: &'a [Operand<'a>],
    /// A batch of each operand that is not taken where it is.
    scratch: Vec<Option<Vec<u128>>>,
    /// A batch in an operand's own dtype.
    raw: Vec<u128>,
    lines: Vec<*mut u8>,
}

impl<'a> Worker<'a> {
    fn new(plan: &'a Plan, operands: &'a [Operand<'a>]) -> Self {
        let words = |size: usize| (plan.batch * plan.len * size).div_ceil(16);
        let is_overwritten = |input: &Operand<'_>| {
            operands.iter().any(|output| output.is_output && !input.is_output && output.view.overlaps(&input.view))
        };
        let scratch = |operand: &Operand<'_>| {
            (!operand.is_direct(plan.dim) || is_overwritten(operand)).then(|| vec![0; words(operand.dtype.size())])
        };
        let cast =
            operands.iter().filter(|operand| operand.view.dtype() != operand.dtype).map(|operand| operand.view.dtype().size());
        Self {
            plan,
            operands,
            scratch: operands.iter().map(scratch).collect(),
            raw: vec![0; words(cast.max().unwrap_or(0))],
            lines: vec![std::ptr::null_mut(); operands.len()],
        }
    }

    fn batch(&mut self, number: usize, body: RawBody<'_>) {
        let (first, count, index) = self.plan.lines(number);
        for (operand, scratch) in self.operands.iter().zip(&mut self.scratch).filter(|(operand, _)| !operand.is_output) {
            if let Some(scratch) = scratch {
                gather(self.plan, operand, &index, count, scratch.as_mut_ptr().cast(), self.raw.as_mut_ptr().cast());
            }
        }
        for line in 0..count {
            let mut at = index;
            if let Some(&last) = self.plan.outer.last() {
                at[last] += line;
            }
            for ((place, operand), scratch) in self.lines.iter_mut().zip(self.operands).zip(&mut self.scratch) {
                *place = match scratch {
                    Some(scratch) => scratch.as_mut_ptr().cast::<u8>().wrapping_add(line * self.plan.len * operand.dtype.size()),
                    None => operand.element(&at),
                };
            }
            body(first + line, &self.lines, self.plan.len);
        }
        for (operand, scratch) in self.operands.iter().zip(&mut self.scratch).filter(|(operand, _)| operand.is_output) {
            if let Some(scratch) = scratch {
                scatter(self.plan, operand, &index, count, scratch.as_mut_ptr().cast(), self.raw.as_mut_ptr().cast());
            }
        }
    }
}

/// Brings `lines` lines into scratch memory at `to`; `raw` has room for as many.
fn gather(plan: &Plan, operand: &Operand<'_>, index: &[usize; MAX_DIMS], lines: usize, to: *mut u8, raw: *mut u8) {
    let source = operand.view.dtype();
    let same = source == operand.dtype;
    let target = if same { to } else { raw };
    // SAFETY: the operand's elements may be read; scratch and raw memory hold a batch.
    unsafe { strided::copy(plan.place(operand, index), plan.dense(target, source.size()), source.size(), lines, plan.len) };
    if !same {
        // SAFETY: the elements lie side by side in raw memory; scratch memory holds a batch.
        let cast = unsafe { cast::cast(raw, source, to, operand.dtype, lines * plan.len) };
        debug_assert!(cast.is_ok(), "drive checks that the dtypes are convertible");
    }
}

/// Brings `lines` lines from scratch memory at `from` to their places; `raw` has room for as many.
fn scatter(plan: &Plan, operand: &Operand<'_>, index: &[usize; MAX_DIMS], lines: usize, from: *mut u8, raw: *mut u8) {
    let target = operand.view.dtype();
    let mut source = from;
    if target != operand.dtype {
        source = raw;
        // SAFETY: scratch and raw memory hold a batch.
        let cast = unsafe { cast::cast(from, operand.dtype, raw, target, lines * plan.len) };
        debug_assert!(cast.is_ok(), "drive checks that the dtypes are convertible");
    }
    // SAFETY: the output's elements are the launch's to write; the batch lies side by side at `source`.
    unsafe { strided::copy(plan.dense(source, target.size()), plan.place(operand, index), target.size(), lines, plan.len) };
}

/// A vector operand with elements of any dtype, read and written by index from the threads of a loop.
pub struct Values<'a, T> {
    view: View<'a>,
    count: usize,
    value: PhantomData<fn(T) -> T>,
}

impl<'a, T: Number> Values<'a, T> {
    /// The elements of a contiguous operand.
    ///
    /// # Errors
    /// The operand is not contiguous, or of a dtype without conversions.
    pub fn new(view: View<'a>) -> Result<Self, String> {
        let mut expected = view.dtype().size() as i64;
        for (&size, &stride) in view.sizes().iter().zip(view.strides()).rev() {
            if size != 1 && stride != expected {
                return Err("an operand is not contiguous".into());
            }
            expected *= size;
        }
        if !view.dtype().is_convertible() {
            return Err(format!("{:?} has no conversions", view.dtype()));
        }
        Ok(Self { count: view.numel(), view, value: PhantomData })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn address(&self, index: usize) -> *mut u8 {
        assert!(index < self.count, "element {index} of {}", self.count);
        self.view.data().wrapping_add(index * self.view.dtype().size())
    }

    /// An element.
    ///
    /// # Panics
    /// There are not so many.
    pub fn get(&self, index: usize) -> T {
        let (dtype, address) = (self.view.dtype(), self.address(index));
        let value: Result<T, String> = dispatch!(dtype in EVERY, E => {
            // SAFETY: `address` checks the index, and the launch promises the operand's memory.
            let element = unsafe { address.cast::<E>().read_unaligned() };
            Ok(element.load().hub().to())
        });
        value.unwrap_or_default()
    }

    /// Every element.
    pub fn to_vec(&self) -> Vec<T>
    where
        T: Element,
    {
        let mut values = vec![T::default(); self.count];
        // SAFETY: the operand is contiguous and has as many elements; `values` is new memory.
        let cast = unsafe { cast::cast(self.view.data(), self.view.dtype(), values.as_mut_ptr().cast(), T::DTYPE, self.count) };
        debug_assert!(cast.is_ok(), "new checks that the dtype is convertible");
        values
    }

    /// Writes an element. Lines write different ones.
    ///
    /// # Panics
    /// There are not so many.
    pub fn set(&self, index: usize, value: T) {
        let (dtype, address) = (self.view.dtype(), self.address(index));
        let stored: Result<(), String> = dispatch!(dtype in EVERY, E => {
            // SAFETY: as in `get`; an output operand is the launch's to write.
            unsafe { address.cast::<E>().write_unaligned(E::store(value.hub().to())) };
            Ok(())
        });
        debug_assert!(stored.is_ok(), "new checks that the dtype is convertible");
    }
}
