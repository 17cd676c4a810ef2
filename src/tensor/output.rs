//! [`Output`]: the right to write an output of a launch through references.
//!
//! A [`View`] can be copied; an output cannot. A kernel takes its outputs from the launch, each once. Rows, and parts for the
//! threads of a loop, are borrowed from the output, so that no two of them have an element in common. Loops over lines consume the
//! outputs that they write. Elementwise loops and reductions write the outputs of a launch that takes none of them, by raw
//! pointers.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::loops::parallel;
use super::{Part, View};

/// An output of a launch. It cannot be copied:
///
/// ```compile_fail
/// use rustdev::tensor::output::Output;
/// fn both(output: Output<'_>) -> [Output<'_>; 2] {
///     [output, output]
/// }
/// ```
///
/// While a row of it is written, no other row is read:
///
/// ```compile_fail
/// use rustdev::tensor::output::Output;
/// fn beside(mut output: Output<'_>) -> bool {
///     let written = output.row_mut(&[0]);
///     written.is_same(&output.row(&[0]))
/// }
/// ```
#[derive(Debug)]
pub struct Output<'a>(View<'a>);

impl<'a> Output<'a> {
    /// The right to write the elements of the view.
    ///
    /// # Safety
    /// No two indices may name the same element. For its lifetime, the elements are accessed through this value alone, except by
    /// code that is called while nothing is borrowed from it.
    #[inline]
    pub unsafe fn new(view: View<'a>) -> Self {
        Self(view.as_output(true))
    }

    /// The view for a loop that reads the operand while nothing writes it.
    pub(super) fn read(&self) -> View<'_> {
        self.0.as_output(false)
    }

    /// The view from which rows for writing are made.
    pub(super) fn written(&self) -> View<'a> {
        self.0
    }

    /// The view, for a loop that passes each element to one call alone.
    pub(super) fn into_view(self) -> View<'a> {
        self.0
    }

    /// Runs `body(begin, end, parts)` over pieces of the indices of one dimension of each output, in parallel where it is worth it.
    /// A part has the indices `begin..end` alone, numbered from 0. `grain` and `cost` are those of [`parallel`]. Panics if the
    /// outputs' dimensions differ in size.
    pub fn in_parts<const N: usize>(
        outputs: [(Self, usize); N],
        grain: usize,
        cost: f64,
        body: &(dyn Fn(usize, usize, [Output<'_>; N]) + Sync),
    ) {
        let count = outputs.first().map_or(0, |(output, dim)| output.size(*dim));
        assert!(outputs.iter().all(|(output, dim)| output.size(*dim) == count), "outputs of different sizes");
        let views = outputs.map(|(output, dim)| (output.into_view(), dim));
        parallel(count, grain, cost, &|begin, end| {
            let parts = views.map(|(view, dim)| narrowed(&view, dim, begin, end));
            // SAFETY: this call owns the outputs, and the loop visits each index once, so that the parts have no element in common.
            body(begin, end, parts.each_ref().map(|part| unsafe { Output::new(part.view()) }));
        });
    }

    /// Runs `body(begin, end, block)` over blocks of `len` indices of a dimension, the last of which may be shorter, in parallel
    /// where it is worth it. `cost`: nanoseconds of one thread for an index.
    pub fn in_blocks(self, dim: usize, len: usize, cost: f64, body: &(dyn Fn(usize, usize, Output<'_>) + Sync)) {
        let (count, view) = (self.size(dim), self.into_view());
        parallel(count.div_ceil(len), 1, cost * len as f64, &|first, last| {
            for begin in (first..last).map(|block| block * len) {
                let end = count.min(begin + len);
                let block = narrowed(&view, dim, begin, end);
                // SAFETY: as in `in_parts`.
                body(begin, end, unsafe { Output::new(block.view()) });
            }
        });
    }
}

fn narrowed<'a>(view: &View<'a>, dim: usize, begin: usize, end: usize) -> Part<'a> {
    let mut part = Part::of(view);
    part.narrow(dim, begin, end);
    part
}

/// The view, for its sizes and for loops that write through views.
impl<'a> Deref for Output<'a> {
    type Target = View<'a>;

    #[inline]
    fn deref(&self) -> &View<'a> {
        &self.0
    }
}

/// A bit set of the outputs of a launch that are taken. The launch owns it, or borrows it from the launch that it was made from.
#[derive(Debug)]
pub(super) enum Taken<'a> {
    Own(AtomicU64),
    Of(&'a AtomicU64),
}

impl Taken<'_> {
    /// No output is taken.
    #[inline(always)]
    pub const fn none() -> Self {
        Self::Own(AtomicU64::new(0))
    }

    /// All outputs are taken.
    #[inline(always)]
    pub const fn all() -> Self {
        Self::Own(AtomicU64::new(u64::MAX))
    }

    #[inline]
    fn bits(&self) -> &AtomicU64 {
        match self {
            Self::Own(bits) => bits,
            Self::Of(bits) => bits,
        }
    }

    /// The same set, for a launch that is made from this one.
    #[inline(always)]
    pub fn share(&self) -> Taken<'_> {
        Taken::Of(self.bits())
    }

    /// Takes an output; false if it is already taken, or its index is beyond the set.
    #[inline]
    pub fn take(&self, index: usize) -> bool {
        // Relaxed: a kernel that uses a launch on several threads orders them itself.
        index < 64 && self.bits().fetch_or(1 << index, Ordering::Relaxed) >> index & 1 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn parts_are_all_of_an_output() {
        let mut words = vec![1u16; 40_000];
        let size = [40_000];
        let view = View::of_words(&mut words, DType::Short, &size).unwrap();
        // SAFETY: the view's elements are these words, and nothing else uses it.
        let output = unsafe { Output::new(view) };
        Output::in_parts([(output, 0)], 1000, 1e6, &|begin, end, [mut part]| {
            assert_eq!(part.size(0), end - begin);
            let row = &mut part.row_mut(&[]);
            row.as_slice_mut::<i16>().unwrap().iter_mut().zip(begin..).for_each(|(word, at)| *word = word.wrapping_add(at as i16));
        });
        assert!(words.iter().enumerate().all(|(at, &word)| word == (at as u16).wrapping_add(1)));
    }

    #[test]
    fn outputs_are_taken_once_each() {
        let taken = Taken::none();
        assert!(taken.take(0) && taken.share().take(63));
        assert!(!taken.take(63) && !taken.share().take(0) && !taken.take(64));
        assert!(!Taken::all().take(5));
    }
}
