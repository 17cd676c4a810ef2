//! Loops over lists of tensors: one pointwise function over every element of many tensors, as one parallel loop.
//!
//! The operands of such a launch are lists of equal length, one list after the other. The tensors of an entry (at the same index of
//! each list) have the same number of elements, contiguous in memory, and the same dtype. The elements of all tensors are divided
//! between threads together, so that many small tensors cost no more than a large one.
//!
//! The results of a block are computed before the first is stored, so that a result may replace an input. If tensors of different
//! entries share memory, the entries are computed one after the other.

use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::Failure;
use super::parallel;
use super::words::{from_bits, is_paired, to_bits};
use crate::runtime::parallel_for;
use crate::runtime::task::Span;
use crate::simd::{Leaf, vectorize};
use crate::tensor::launch::{self, Launch, Layout, Record, Scalar};
use crate::tensor::{DType, Element, Error, Flags, Number};
use crate::tuning::caches::LIST_BLOCK;
use crate::tuning::sharing::{GRAIN, SHARED_REDUCTION};

/// A function of the values at one index: from `I` inputs to `O` results.
pub trait Step<T: Number, const I: usize, const O: usize>: Copy + Send + Sync {
    /// True if the last result is a flag instead of an element: [`run`] returns whether any flag is not 0.
    const FINDS: bool = false;

    /// Computes the results; mark it `#[inline(always)]`.
    fn apply(self, inputs: [T; I]) -> [T; O];
}

/// Which operands of a launch are the lists.
#[derive(Clone, Copy)]
pub struct Lists {
    /// Tensors of each list.
    pub tensors: usize,
    /// The first list that is read. The inputs are this list and those after it.
    pub first_input: usize,
    /// The number of lists that are written, from the first list of the launch on. At most the number of the step's results.
    pub written: usize,
}

/// Runs `step(entry)` over the tensors of every entry of the lists. Returns whether any flag was set.
#[inline]
pub fn run<E, S, const I: usize, const O: usize>(
    launch: &Launch<'_>,
    lists: Lists,
    step: &(dyn Fn(usize) -> S + Sync),
) -> Result<bool, Error>
where
    E: Element,
    S: Step<E::Acc, I, O>,
{
    if lists.written > O - S::FINDS as usize {
        return Err(Error::new(format!("{} lists are written from {O} results", lists.written)));
    }
    let found = AtomicBool::new(false);
    drive(launch, lists, Some(E::DTYPE), I, &|entry, begin, count| {
        let data = |list: usize| launch.view(list * lists.tensors + entry).data().cast::<E>().wrapping_add(begin);
        let mut inputs = [std::ptr::null(); I];
        for (index, input) in inputs.iter_mut().enumerate() {
            *input = data(lists.first_input + index).cast_const();
        }
        let mut outputs = [std::ptr::null_mut(); O];
        for (list, output) in outputs.iter_mut().enumerate().take(lists.written) {
            *output = data(list);
        }
        if vectorize(Piece { inputs, outputs, written: lists.written, count, step: step(entry) }) {
            // The flag is read after the loop has joined its threads.
            found.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(found.into_inner())
}

pub type Kernel = fn(&Launch<'_>) -> Result<(), Error>;

/// Runs an elementwise kernel over the tensors of every entry of the lists: operands [out, `inputs` inputs], and the scalar of the
/// entry if it has one. The lists may differ in their dtypes, if the kernel casts.
pub fn each(
    launch: &Launch<'_>,
    lists: Lists,
    inputs: usize,
    scalar: &(dyn Fn(usize) -> Option<Scalar> + Sync),
    kernel: Kernel,
) -> Result<(), Error> {
    let failure = Failure::default();
    drive(launch, lists, None, inputs, &|entry, begin, count| {
        if count == 0 {
            return;
        }
        let mut record = Record::dense(count as i64, 1, launch.compute());
        let read = lists.first_input..lists.first_input + inputs;
        for list in std::iter::once(0).chain(read) {
            let view = launch.view(list * lists.tensors + entry);
            // SAFETY: the operand is no immediate.
            unsafe { record.push_dense(view.data().wrapping_add(begin * view.dtype().size()), view.dtype(), Flags::default()) };
        }
        if let Some(scalar) = scalar(entry) {
            record.push_scalar(scalar);
        }
        // SAFETY: the operands are elements `begin..begin + count` of this launch's, which `drive` passes to this call alone.
        let part = unsafe { record.launch() };
        failure.note(kernel(&part));
    })?;
    failure.result()
}

/// The overhead of a reduction in nanoseconds.
const REDUCTION: u64 = 200;

/// Runs a reduction over every tensor of a list: operands [results of one element each, tensors], none of them empty.
pub fn reduce_each(launch: &Launch<'_>, tensors: usize, scalars: &[Scalar], kernel: Kernel) -> Result<(), Error> {
    if launch.num_outputs() != tensors || launch.num_operands() != 2 * tensors {
        return Err(Error::new(format!("{} operands where two lists of {tensors} tensors are needed", launch.num_operands())));
    }
    let reduce = |entry: usize| {
        let (output, input) = (launch.view(entry), launch.view(tensors + entry));
        let result = output.broadcast(input.sizes(), &[0])?;
        launch::of_views(Layout::Elementwise, &[result, input], 1, scalars, Some(launch.compute()), kernel)
    };
    let numel = |entry: usize| launch.view(tensors + entry).numel();
    let (large, small): (Vec<_>, Vec<_>) = (0..tensors).partition(|&entry| numel(entry) >= SHARED_REDUCTION);
    large.into_iter().try_for_each(reduce)?;
    let elements: usize = small.iter().map(|&entry| numel(entry)).sum();
    let cost = (elements as f64 * launch.cost()) as u64 + REDUCTION * small.len() as u64;
    let failure = Failure::default();
    parallel_for::parallel_for(small.len(), cost, &|index| failure.note(reduce(small[index])));
    failure.result()
}

/// Some elements of the tensors of one entry.
struct Piece<E, S, const I: usize, const O: usize> {
    inputs: [*const E; I],
    outputs: [*mut E; O],
    written: usize,
    count: usize,
    step: S,
}

impl<E, S, const I: usize, const O: usize> Leaf for Piece<E, S, I, O>
where
    E: Element,
    S: Step<E::Acc, I, O>,
{
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let whole = self.count / LIST_BLOCK * LIST_BLOCK;
        let mut found = false;
        for first in (0..whole).step_by(LIST_BLOCK) {
            found |= if const { Self::PAIRED } { self.paired_block(first) } else { self.block(first) };
        }
        for index in whole..self.count {
            let results = self.results(index);
            found |= S::FINDS && results[O - 1].load() != E::Acc::ZERO;
            for (output, result) in self.outputs.iter().zip(results).take(self.written) {
                // SAFETY: `drive` passes pieces inside the operands, and the launch may write its outputs.
                unsafe { output.wrapping_add(index).write_unaligned(result) };
            }
        }
        found
    }
}

impl<E, S, const I: usize, const O: usize> Piece<E, S, I, O>
where
    E: Element,
    S: Step<E::Acc, I, O>,
{
    /// True if elements have 16 bits and are computed in 32.
    const PAIRED: bool = is_paired::<E>();

    #[inline(always)]
    fn results(&self, index: usize) -> [E; O] {
        let mut values = [E::Acc::ZERO; I];
        for (value, input) in values.iter_mut().zip(&self.inputs) {
            // SAFETY: `drive` passes pieces inside the operands.
            *value = unsafe { input.wrapping_add(index).read_unaligned() }.load();
        }
        self.step.apply(values).map(E::store)
    }

    /// Computes a block: all results before the first is written.
    #[inline(always)]
    fn block(&self, first: usize) -> bool {
        let mut blocks = [[E::default(); LIST_BLOCK]; O];
        for lane in 0..LIST_BLOCK {
            for (block, result) in blocks.iter_mut().zip(self.results(first + lane)) {
                block[lane] = result;
            }
        }
        self.write(first, &blocks);
        S::FINDS && blocks[O - 1].iter().fold(false, |found, result| found | (result.load() != E::Acc::ZERO))
    }

    /// Computes a block of 16 bit elements in words of two: see [`words`](super::words).
    #[inline(always)]
    fn paired_block(&self, first: usize) -> bool {
        let mut blocks = [[0u32; LIST_BLOCK / 2]; O];
        for entry in 0..LIST_BLOCK / 2 {
            let (mut low, mut high) = ([E::Acc::ZERO; I], [E::Acc::ZERO; I]);
            for (index, input) in self.inputs.iter().enumerate() {
                // SAFETY: as in `results`: a word is two elements of the block.
                let word = unsafe { input.wrapping_add(first).cast::<u32>().wrapping_add(entry).read_unaligned() };
                (low[index], high[index]) = (from_bits::<E>(word as u16).load(), from_bits::<E>((word >> 16) as u16).load());
            }
            let results = self.step.apply(low).into_iter().zip(self.step.apply(high));
            for (block, (low, high)) in blocks.iter_mut().zip(results) {
                block[entry] = to_bits(E::store(low)) as u32 | (to_bits(E::store(high)) as u32) << 16;
            }
        }
        self.write(first, &blocks);
        // Both zeros count as 0: the mask removes the sign bits.
        S::FINDS && blocks[O - 1].iter().fold(0, |all, word| all | word) & 0x7fff_7fff != 0
    }

    /// Writes the blocks of the lists that are written.
    #[inline(always)]
    fn write<B: Copy>(&self, first: usize, blocks: &[B; O]) {
        for (output, &block) in self.outputs.iter().zip(blocks).take(self.written) {
            // SAFETY: as in `run`; a block has `LIST_BLOCK` elements.
            unsafe { output.wrapping_add(first).cast::<B>().write_unaligned(block) };
        }
    }
}

/// Called with some elements of an entry: the entry, the first element, the number of elements.
type ListBody<'a> = &'a (dyn Fn(usize, usize, usize) + Sync);

fn drive(launch: &Launch<'_>, lists: Lists, dtype: Option<DType>, inputs: usize, body: ListBody<'_>) -> Result<(), Error> {
    let used = lists.written.max(lists.first_input + inputs);
    if used * lists.tensors > launch.num_operands() || lists.written * lists.tensors > launch.num_outputs() {
        return Err(Error::new(format!(
            "{} operands are too few for {used} lists of {} tensors",
            launch.num_operands(),
            lists.tensors
        )));
    }
    if let Some(piece) = launch.piece() {
        walk(piece.ends, piece.begin, piece.end, body);
        return Ok(());
    }
    let ends = ends(launch, lists.tensors, used, dtype)?;
    if apart(launch, lists, used) {
        let total = ends.last().copied().unwrap_or(0);
        parallel(total, GRAIN, launch.cost(), &|begin, end| walk(&ends, begin, end, body));
    } else {
        for (entry, &end) in ends.iter().enumerate() {
            let begin = if entry == 0 { 0 } else { ends[entry - 1] };
            parallel(end - begin, GRAIN, launch.cost(), &|first, last| body(entry, first, last - first));
        }
    }
    Ok(())
}

/// The number of tensors of each list: the first scalar of a launch.
fn tensors(launch: &Launch<'_>) -> usize {
    launch.scalar_or(0, Scalar::Long(0)).to::<i64>() as usize
}

/// The end of each entry in the concatenation of all entries' elements, for pieces of a launch. `None` if operands differ in dtype
/// or do not fit together. One more operand may follow the lists.
pub fn row(launch: &Launch<'_>) -> Option<Vec<usize>> {
    let tensors = tensors(launch);
    match launch.num_operands().checked_div(tensors)? {
        0 => None,
        lists => ends(launch, tensors, lists, Some(launch.compute())).ok(),
    }
}

/// Visits the memory of a launch that [`row`] accepts.
pub fn spans(launch: &Launch<'_>, visit: &mut dyn FnMut(Span)) {
    let tensors = tensors(launch);
    let in_lists = launch.num_operands() / tensors * tensors;
    for index in 0..launch.num_operands() {
        let view = launch.view(index);
        if let Some((begin, end)) = view.extent() {
            let entry = (index < in_lists).then_some(index % tensors);
            visit(Span { begin, end, entry, size: view.dtype().size(), write: index < launch.num_outputs() });
        }
    }
}

/// The end of each entry in the concatenation of all entries' elements. Without `dtype`, each tensor may have its own dtype.
fn ends(launch: &Launch<'_>, tensors: usize, used: usize, dtype: Option<DType>) -> Result<Vec<usize>, Error> {
    let mut total = 0;
    let mut ends = Vec::with_capacity(tensors);
    for entry in 0..tensors {
        let count = launch.view(entry).numel();
        for list in 0..used {
            let view = launch.view(list * tensors + entry);
            if dtype.is_some_and(|dtype| view.dtype() != dtype) || !view.is_dense_1d() || view.numel() != count {
                return Err(Error::new(format!("tensor {entry} of list {list} does not fit the others")));
            }
        }
        total += count;
        ends.push(total);
    }
    Ok(ends)
}

/// True if no entry reads or writes what another one writes.
fn apart(launch: &Launch<'_>, lists: Lists, used: usize) -> bool {
    let mut ranges = Vec::with_capacity(used * lists.tensors);
    for index in 0..used * lists.tensors {
        if let Some((begin, end)) = launch.view(index).extent() {
            ranges.push((begin, end, index % lists.tensors, index / lists.tensors < lists.written));
        }
    }
    ranges.sort_unstable();
    // The current group of overlapping ranges: its end, the entry of its first range, and whether it contains ranges of several
    // entries and written ones.
    let (mut reach, mut first, mut is_mixed, mut is_written) = (0, 0, false, false);
    for (begin, end, entry, writes) in ranges {
        if begin >= reach {
            (first, is_mixed, is_written) = (entry, false, false);
        }
        is_mixed |= entry != first;
        is_written |= writes;
        if is_mixed && is_written {
            return false;
        }
        reach = end.max(reach);
    }
    true
}

/// Calls `body` for the parts of entries inside `begin..end` of the concatenation of all elements.
fn walk(ends: &[usize], begin: usize, end: usize, body: ListBody<'_>) {
    let mut at = begin;
    let mut entry = ends.partition_point(|&last| last <= begin);
    while at < end {
        let last = ends[entry].min(end);
        let first = if entry == 0 { 0 } else { ends[entry - 1] };
        if at < last {
            body(entry, at - first, last - at);
        }
        at = last;
        entry += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::View;

    /// True if two lists of two tensors of four floats at these addresses are disjoint; the first list is written.
    fn are_apart(addresses: [usize; 4]) -> bool {
        // SAFETY: nothing reads the elements.
        let view = |address: usize| unsafe { View::new(address as *mut u8, DType::Float, Flags::default(), &[4], &[4]) }.unwrap();
        let lists = Lists { tensors: 2, first_input: 0, written: 1 };
        launch::of_views(Layout::Shaped, &addresses.map(view), 2, &[], None, |launch| Ok(apart(launch, lists, 2))).unwrap()
    }

    #[test]
    fn only_what_is_written_has_to_be_apart() {
        assert!(are_apart([64, 80, 96, 112]));
        assert!(are_apart([64, 80, 96, 96]), "two entries read the same");
        assert!(are_apart([64, 80, 64, 80]), "a entry is read where it is written");
        assert!(!are_apart([64, 64, 96, 112]), "two entries write the same");
        assert!(!are_apart([64, 80, 80, 64]), "a entry reads what the other writes");
        assert!(!are_apart([64, 80, 96, 76]), "in part");
    }

    #[test]
    fn pieces_cross_the_borders_of_tensors() {
        let seen = std::sync::Mutex::new(Vec::new());
        walk(&[3, 3, 5, 9], 1, 8, &|entry, begin, count| seen.lock().unwrap().push((entry, begin, count)));
        assert_eq!(seen.into_inner().unwrap(), [(0, 1, 2), (2, 0, 2), (3, 0, 3)]);
        walk(&[0, 0], 0, 0, &|entry, _, _| panic!("entry {entry} has no elements"));
    }
}
