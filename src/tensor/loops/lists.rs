//! Loops over lists of tensors: one function of values over every element of many tensors, as one piece of work.
//!
//! The operands of such a launch are lists of equally many tensors, one list after the other; tensors at the same place of each
//! list have the same number of elements, side by side in memory, and the same dtype. The work is divided over the elements of all
//! tensors together, so that many small tensors cost no more than a large one.
//!
//! Values go through block buffers: a result may be stored where an input was, and the loop between load and store knows that no
//! two of its arrays overlap. Where a tensor shares memory with a tensor at another place, the places are computed one after the
//! other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{GRAIN, parallel};
use crate::runtime::threads;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::launch::{Launch, Layout, Record, Scalar};
use crate::tensor::number::Number;
use crate::tensor::view::{Flags, View};

/// Elements that are loaded, computed and stored at a time: some vectors. With blocks of kilobytes the memory rests while a block is
/// computed, and steps of large models take twice as long.
const LANES: usize = 32;

/// What is done with the values at one index: `I` inputs give `O` results.
pub trait Step<T: Number, const I: usize, const O: usize>: Copy + Send + Sync {
    /// Whether the last result is a finding instead of an element: [`run`] tells whether one of them is not 0.
    const FINDS: bool = false;

    /// The results; mark it `#[inline(always)]`.
    fn apply(self, inputs: [T; I]) -> [T; O];
}

/// Which operands of a launch are the lists.
#[derive(Clone, Copy)]
pub struct Lists {
    /// Tensors of each list.
    pub tensors: usize,
    /// The first list that is read; the inputs are that one and those after it.
    pub first_input: usize,
    /// Lists that are written, from the first list of the launch on. At most as many as the step has results.
    pub written: usize,
}

/// Runs `step(place)` over the tensors at every place of the lists. Tells whether a step found something.
///
/// # Errors
/// Too few operands, or tensors that do not fit together.
#[inline]
pub fn run<E, S, const I: usize, const O: usize>(
    launch: &Launch<'_>,
    lists: Lists,
    step: &(dyn Fn(usize) -> S + Sync),
) -> Result<bool, String>
where
    E: Element,
    S: Step<E::Acc, I, O>,
{
    if lists.written > O - S::FINDS as usize {
        return Err(format!("{} lists are written from {O} results", lists.written));
    }
    let found = AtomicBool::new(false);
    drive(launch, lists, Some(E::DTYPE), I, &|place, begin, count| {
        let data = |list: usize| launch.view(list * lists.tensors + place).data().cast::<E>().wrapping_add(begin);
        let mut inputs = [std::ptr::null(); I];
        for (index, input) in inputs.iter_mut().enumerate() {
            *input = data(lists.first_input + index).cast_const();
        }
        let mut outputs = [std::ptr::null_mut(); O];
        for (list, output) in outputs.iter_mut().enumerate().take(lists.written) {
            *output = data(list);
        }
        if vectorize(Piece { inputs, outputs, written: lists.written, count, step: step(place) }) {
            // Read after the loop has joined its threads.
            found.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(found.into_inner())
}

/// A kernel of launches of one tensor.
pub type Kernel = fn(&Launch<'_>) -> Result<(), String>;

/// Runs an elementwise kernel over the tensors at every place of the lists: operands [out, so many inputs], and the scalar of the place
/// where there is one. The lists may differ in their dtypes, if the kernel casts.
///
/// # Errors
/// As [`run`], and the kernel's own.
pub fn each(
    launch: &Launch<'_>,
    lists: Lists,
    inputs: usize,
    scalar: &(dyn Fn(usize) -> Option<Scalar> + Sync),
    kernel: Kernel,
) -> Result<(), String> {
    let failure = OnceLock::new();
    drive(launch, lists, None, inputs, &|place, begin, count| {
        if count == 0 {
            return;
        }
        let mut record = Record::dense(count as i64, 1, launch.compute());
        let read = lists.first_input..lists.first_input + inputs;
        for list in std::iter::once(0).chain(read) {
            let view = launch.view(list * lists.tensors + place);
            record.push_dense(view.data().wrapping_add(begin * view.dtype().size()), view.dtype(), Flags::default());
        }
        if let Some(scalar) = scalar(place) {
            record.push_scalar(scalar);
        }
        if let Err(text) = kernel(&record.launch()) {
            // The first failure is the one that is told.
            let _ = failure.set(text);
        }
    })?;
    failure.into_inner().map_or(Ok(()), Err)
}

/// Elements from which on a tensor is reduced by all threads together.
const LARGE: usize = 8 * GRAIN;

/// Nanoseconds that a reduction takes beside its elements.
const REDUCTION: u64 = 200;

/// Runs a reduction over every tensor of a list: operands [the results of one element each, the tensors], none of them empty.
///
/// # Errors
/// Too few operands, or the kernel's own.
pub fn reduce_each(launch: &Launch<'_>, tensors: usize, scalars: &[Scalar], kernel: Kernel) -> Result<(), String> {
    if launch.num_outputs() != tensors || launch.num_operands() != 2 * tensors {
        return Err(format!("{} operands where two lists of {tensors} tensors are needed", launch.num_operands()));
    }
    let reduce = |place: usize| {
        let (output, input) = (launch.view(place), launch.view(tensors + place));
        let result = View::new(output.data(), output.dtype(), Flags::default(), input.sizes(), &[0])?;
        kernel(&Record::new(Layout::Elementwise, &[result, input], 1, scalars, Some(launch.compute()))?.launch())
    };
    let numel = |place: usize| launch.view(tensors + place).numel();
    let (large, small): (Vec<_>, Vec<_>) = (0..tensors).partition(|&place| numel(place) >= LARGE);
    large.into_iter().try_for_each(reduce)?;
    let elements: usize = small.iter().map(|&place| numel(place)).sum();
    let cost = (elements as f64 * launch.cost()) as u64 + REDUCTION * small.len() as u64;
    let failure = OnceLock::new();
    threads::parallel_for(small.len(), cost, &|index| {
        if let Err(text) = reduce(small[index]) {
            let _ = failure.set(text);
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// Some elements of the tensors at one place.
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
        let mut values = [[E::default(); LANES]; I];
        let mut results = [[E::default(); LANES]; O];
        let mut found = false;
        for begin in (0..self.count).step_by(LANES) {
            let count = LANES.min(self.count - begin);
            for (block, input) in values.iter_mut().zip(&self.inputs) {
                // SAFETY: `drive` gives pieces inside the operands; the block is memory of this call.
                unsafe { move_elements(input.wrapping_add(begin), block.as_mut_ptr(), count) };
            }
            self.compute(&values, &mut results);
            if S::FINDS {
                found |= results[O - 1].iter().take(count).any(|result| result.load() != E::Acc::ZERO);
            }
            for (block, output) in results.iter().zip(&self.outputs).take(self.written) {
                // SAFETY: as above; the launch may write its outputs.
                unsafe { move_elements(block.as_ptr(), output.wrapping_add(begin), count) };
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
    /// All lanes, those behind the end of a tensor with whatever they hold: a fixed number of turns is what the compiler does best.
    #[inline(always)]
    fn compute(&self, values: &[[E; LANES]; I], results: &mut [[E; LANES]; O]) {
        for lane in 0..LANES {
            let mut inputs = [E::Acc::ZERO; I];
            for (input, block) in inputs.iter_mut().zip(values) {
                *input = block[lane].load();
            }
            for (result, block) in self.step.apply(inputs).into_iter().zip(results.iter_mut()) {
                block[lane] = E::store(result);
            }
        }
    }
}

/// Copies up to [`LANES`] elements; a whole block without a loop.
///
/// # Safety
/// `from` has `count` readable and `to` as many writable elements, and they do not overlap.
#[inline(always)]
unsafe fn move_elements<E: Element>(from: *const E, to: *mut E, count: usize) {
    if count == LANES {
        // SAFETY: the caller's promise.
        let block = unsafe { from.cast::<[E; LANES]>().read_unaligned() };
        // SAFETY: as above.
        unsafe { to.cast::<[E; LANES]>().write_unaligned(block) };
    } else {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), count * size_of::<E>()) };
    }
}

/// What is done with some elements at one place: the place, the first element, how many.
type Body<'a> = &'a (dyn Fn(usize, usize, usize) + Sync);

fn drive(launch: &Launch<'_>, lists: Lists, dtype: Option<DType>, inputs: usize, body: Body<'_>) -> Result<(), String> {
    let used = lists.written.max(lists.first_input + inputs);
    if used * lists.tensors > launch.num_operands() || lists.written * lists.tensors > launch.num_outputs() {
        return Err(format!("{} operands are too few for {used} lists of {} tensors", launch.num_operands(), lists.tensors));
    }
    let ends = ends(launch, lists.tensors, used, dtype)?;
    if apart(launch, lists, used) {
        let total = ends.last().copied().unwrap_or(0);
        parallel(total, GRAIN, launch.cost(), &|begin, end| walk(&ends, begin, end, body));
    } else {
        for (place, &end) in ends.iter().enumerate() {
            let begin = if place == 0 { 0 } else { ends[place - 1] };
            parallel(end - begin, GRAIN, launch.cost(), &|first, last| body(place, first, last - first));
        }
    }
    Ok(())
}

/// Where the elements of each place end in the row of all. Without a dtype, each tensor may have its own.
fn ends(launch: &Launch<'_>, tensors: usize, used: usize, dtype: Option<DType>) -> Result<Vec<usize>, String> {
    let mut total = 0;
    let mut ends = Vec::with_capacity(tensors);
    for place in 0..tensors {
        let count = launch.view(place).numel();
        for list in 0..used {
            let view = launch.view(list * tensors + place);
            if dtype.is_some_and(|dtype| view.dtype() != dtype) || !view.is_dense_1d() || view.numel() != count {
                return Err(format!("tensor {place} of list {list} does not fit the others"));
            }
        }
        total += count;
        ends.push(total);
    }
    Ok(ends)
}

/// Whether what is written at a place is read and written at no other place.
fn apart(launch: &Launch<'_>, lists: Lists, used: usize) -> bool {
    let mut ranges = Vec::with_capacity(used * lists.tensors);
    for index in 0..used * lists.tensors {
        if let Some((begin, end)) = launch.view(index).extent() {
            ranges.push((begin, end, index % lists.tensors, index / lists.tensors < lists.written));
        }
    }
    ranges.sort_unstable();
    // The ranges that have bytes in common with one another so far: where they end, the place of the first, and whether there are
    // ranges of several places and written ones among them.
    let (mut reach, mut first, mut is_mixed, mut is_written) = (0, 0, false, false);
    for (begin, end, place, writes) in ranges {
        if begin >= reach {
            (first, is_mixed, is_written) = (place, false, false);
        }
        is_mixed |= place != first;
        is_written |= writes;
        if is_mixed && is_written {
            return false;
        }
        reach = end.max(reach);
    }
    true
}

/// Calls `body` for the parts of places in `begin..end` of the row of all elements.
fn walk(ends: &[usize], begin: usize, end: usize, body: Body<'_>) {
    let mut at = begin;
    let mut place = ends.partition_point(|&last| last <= begin);
    while at < end {
        let last = ends[place].min(end);
        let first = if place == 0 { 0 } else { ends[place - 1] };
        if at < last {
            body(place, at - first, last - at);
        }
        at = last;
        place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::launch::{Layout, Record};
    use crate::tensor::view::{Flags, View};

    /// Whether two lists of two tensors of four floats at these addresses are apart, the first list written.
    fn are_apart(addresses: [usize; 4]) -> bool {
        let view = |address: usize| View::new(address as *mut u8, DType::Float, Flags::default(), &[4], &[4]).unwrap();
        let record = Record::new(Layout::Shaped, &addresses.map(view), 2, &[], None).unwrap();
        apart(&record.launch(), Lists { tensors: 2, first_input: 0, written: 1 }, 2)
    }

    #[test]
    fn only_what_is_written_has_to_be_apart() {
        assert!(are_apart([64, 80, 96, 112]));
        assert!(are_apart([64, 80, 96, 96]), "two places read the same");
        assert!(are_apart([64, 80, 64, 80]), "a place is read where it is written");
        assert!(!are_apart([64, 64, 96, 112]), "two places write the same");
        assert!(!are_apart([64, 80, 80, 64]), "a place reads what the other writes");
        assert!(!are_apart([64, 80, 96, 76]), "in part");
    }

    #[test]
    fn pieces_cross_the_borders_of_tensors() {
        let seen = std::sync::Mutex::new(Vec::new());
        walk(&[3, 3, 5, 9], 1, 8, &|place, begin, count| seen.lock().unwrap().push((place, begin, count)));
        assert_eq!(seen.into_inner().unwrap(), [(0, 1, 2), (2, 0, 2), (3, 0, 3)]);
        walk(&[0, 0], 0, 0, &|place, _, _| panic!("place {place} has no elements"));
    }
}
