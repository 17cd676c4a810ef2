//! Loops over rows, for kernels that move or add elements by their index (triangles, padding, windows).
//!
//! A row is the elements along the last dimension of an operand. The loop visits the rows of an output; a kernel takes the rows of other
//! operands by their index. Accesses are checked against the row's length.

use super::index_space::Steps;
use super::strided::{self, StridedPtr};
use super::{GRAIN, cast, parallel};
use crate::tensor::dtype::Element;
use crate::tensor::view::{MAX_DIMS, View};

/// A row of an operand.
#[derive(Clone, Copy)]
pub struct Row {
    data: *mut u8,
    /// Bytes from one element to the next.
    step: isize,
    len: usize,
    /// Bytes of an element.
    size: usize,
}

// SAFETY: a row by itself accesses nothing; who launches promises that the memory may be used from the threads that run the kernel.
unsafe impl Send for Row {}
// SAFETY: as for `Send`.
unsafe impl Sync for Row {}

impl Row {
    /// The row of a view with that index in all dimensions but the last, or, where [`is_line`] says so, but the last few. An operand without
    /// dimensions is a row of one element.
    ///
    /// # Panics
    /// An index outside the view, or of too few dimensions.
    #[inline]
    pub fn of(view: &View<'_>, index: &[usize]) -> Self {
        let size = view.dtype().size();
        let Some(last) = view.ndim().checked_sub(1) else {
            return Self { data: view.data(), step: 0, len: 1, size };
        };
        assert!(index.len() <= last && is_line(view, index.len()), "the index of a row has {} dimensions of {last}", index.len());
        let mut offset = 0;
        for (dim, &at) in index.iter().enumerate() {
            assert!(at < view.size(dim), "row {at} of {}", view.size(dim));
            offset += at as isize * view.stride(dim);
        }
        let len = (index.len()..=last).map(|dim| view.size(dim)).product();
        Self { data: view.data().wrapping_offset(offset), step: view.stride(last), len, size }
    }

    /// Whether both are the same elements.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        self.data == other.data && (self.step == other.step || self.len <= 1)
    }

    /// The elements `begin..end`.
    ///
    /// # Panics
    /// Elements outside the row.
    #[inline]
    pub fn part(&self, begin: usize, end: usize) -> Self {
        assert!(begin <= end && end <= self.len);
        Self { data: self.data.wrapping_offset(begin as isize * self.step), len: end - begin, ..*self }
    }

    #[inline(always)]
    fn strided(&self, at: usize, every: usize) -> StridedPtr {
        let step = self.step * every as isize;
        StridedPtr { data: self.data.wrapping_offset(at as isize * self.step), steps: Steps { col: step, row: 0 } }
    }

    /// Copies `count` elements, one in `every` of `from` from its element `start` on, to the elements from `at` on.
    ///
    /// # Panics
    /// Elements outside the rows, or rows of elements of different sizes.
    #[inline]
    pub fn copy(&self, at: usize, from: &Self, start: usize, every: usize, count: usize) {
        if count == 0 {
            return;
        }
        assert!(self.size == from.size && at + count <= self.len && start + (count - 1) * every < from.len);
        // SAFETY: the elements are inside the rows; a launch's outputs overlap its inputs at most element for element.
        unsafe { strided::copy(from.strided(start, every), self.strided(at, 1), self.size, count, 1) };
    }

    /// Copies runs of `count` elements of `from`, `lines` of them, the first one at its element `start` and each `from_every` elements behind the
    /// one before, to the elements from `at` on, `every` elements from run to run.
    ///
    /// # Panics
    /// As [`Row::copy`].
    #[inline]
    pub fn copy_lines(
        &self,
        (at, every): (usize, usize),
        from: &Self,
        (start, from_every): (usize, usize),
        (count, lines): (usize, usize),
    ) {
        if count == 0 || lines == 0 {
            return;
        }
        let fits = |row: &Self, first: usize, every: usize| first + (lines - 1) * every + count <= row.len;
        assert!(self.size == from.size && fits(self, at, every) && fits(from, start, from_every));
        let strided = |row: &Self, first: usize, every: usize| {
            let StridedPtr { data, .. } = row.strided(first, 1);
            StridedPtr { data, steps: Steps { col: row.step, row: row.step * every as isize } }
        };
        // SAFETY: as in `copy`.
        unsafe { strided::copy(strided(from, start, from_every), strided(self, at, every), self.size, count, lines) };
    }

    /// Copies one element of `from`: [`Row::copy`] without its way in.
    ///
    /// # Panics
    /// As [`Row::copy`].
    #[inline]
    pub fn copy_one(&self, at: usize, from: &Self, start: usize) {
        match self.size {
            1 => self.store(at, from.load::<u8>(start)),
            2 => self.store(at, from.load::<u16>(start)),
            4 => self.store(at, from.load::<u32>(start)),
            8 => self.store(at, from.load::<u64>(start)),
            _ => self.copy(at, from, start, 1, 1),
        }
    }

    /// Sets the elements `begin..end` to zero bytes.
    ///
    /// # Panics
    /// Elements outside the row.
    #[inline]
    pub fn zero(&self, begin: usize, end: usize) {
        if begin >= end {
            return;
        }
        assert!(end <= self.len);
        let mut zero = 0u128;
        let from = StridedPtr { data: (&raw mut zero).cast(), steps: Steps::default() };
        // SAFETY: the elements are inside the row, which the launch writes; `zero` is as large as any element.
        unsafe { strided::copy(from, self.strided(begin, 1), self.size, end - begin, 1) };
    }

    fn is_dense<T: Element>(&self) -> bool {
        let aligned = (self.data as usize).is_multiple_of(align_of::<T>());
        self.size == size_of::<T>() && aligned && (self.len <= 1 || self.step == self.size as isize)
    }

    /// The elements of dtype `T`, if they are contiguous. Nobody may write them while the slice is in use.
    #[inline]
    pub fn as_slice<'a, T: Element>(&self) -> Option<&'a [T]> {
        if self.len == 0 {
            // Without elements there need not be memory.
            return Some(&[]);
        }
        // SAFETY: the row's elements are readable while the launch runs, aligned and contiguous; any bits are an element.
        self.is_dense::<T>().then(|| unsafe { std::slice::from_raw_parts(self.data.cast::<T>(), self.len) })
    }

    /// As [`Row::as_slice`], to write them. No other code may access them while the slice is in use.
    #[inline]
    pub fn as_slice_mut<'a, T: Element>(&self) -> Option<&'a mut [T]> {
        if self.len == 0 {
            return Some(&mut []);
        }
        // SAFETY: as in `as_slice`, for writing.
        self.is_dense::<T>().then(|| unsafe { std::slice::from_raw_parts_mut(self.data.cast::<T>(), self.len) })
    }

    /// The value of an element of dtype `T`.
    ///
    /// # Panics
    /// An element outside the row, or of another size.
    #[inline(always)]
    pub fn load<T: Element>(&self, at: usize) -> T {
        assert!(at < self.len && self.size == size_of::<T>());
        // SAFETY: the element is inside the row, whose memory the launch promises.
        unsafe { self.data.wrapping_offset(at as isize * self.step).cast::<T>().read_unaligned() }
    }

    /// Sets an element of dtype `T`.
    ///
    /// # Panics
    /// An element outside the row, or of another size.
    #[inline(always)]
    pub fn store<T: Element>(&self, at: usize, value: T) {
        assert!(at < self.len && self.size == size_of::<T>());
        // SAFETY: as in `load`, for writing.
        unsafe { self.data.wrapping_offset(at as isize * self.step).cast::<T>().write_unaligned(value) };
    }
}

/// Whether the dimensions from `first` on are one line of elements at the step of the last.
#[inline]
pub fn is_line(view: &View<'_>, first: usize) -> bool {
    (first + 1..view.ndim()).all(|dim| view.stride(dim - 1) == view.size(dim) as isize * view.stride(dim))
}

/// All elements of a contiguous operand, as one row.
///
/// # Errors
/// An operand with gaps.
pub fn flat(view: &View<'_>) -> Result<Row, String> {
    let size = view.dtype().size();
    let row = Row { data: view.data(), step: size as isize, len: view.numel(), size };
    view.is_contiguous().then_some(row).ok_or_else(|| format!("gaps in an operand with strides {:?}", view.strides()))
}

/// Sets every element of a contiguous operand.
///
/// # Errors
/// An operand with gaps, of another number of elements, or of a dtype without conversions.
pub fn assign<T: Element>(output: &View<'_>, values: &[T]) -> Result<(), String> {
    if !output.is_contiguous() || output.numel() != values.len() {
        return Err(format!("{} values for {:?} with strides {:?}", values.len(), output.sizes(), output.strides()));
    }
    // SAFETY: the operand is contiguous and has as many elements, which are the launch's to write; `values` is memory of its own.
    unsafe { cast::cast(values.as_ptr().cast(), T::DTYPE, output.data(), output.dtype(), values.len()) }
}

/// Calls `body` with the index and the row of every row of `output`, in parallel where it is worth it. `cost`: nanoseconds of one thread
/// per element.
pub fn for_each(output: View<'_>, cost: f64, body: &(dyn Fn(&[usize], Row) + Sync)) {
    for_each_line(output, output.ndim().saturating_sub(1), cost, body);
}

/// As [`for_each`], of the dimensions from `outer` on as one row: [`is_line`].
pub fn for_each_line(output: View<'_>, outer: usize, cost: f64, body: &(dyn Fn(&[usize], Row) + Sync)) {
    if output.numel() == 0 {
        return;
    }
    let len: usize = (outer..output.ndim()).map(|dim| output.size(dim)).product();
    let rows = output.numel() / len;
    parallel(rows, GRAIN.div_ceil(len), cost * len as f64 + 2.0, &|begin, end| {
        let mut index = [0usize; MAX_DIMS];
        let mut rest = begin;
        for dim in (0..outer).rev() {
            index[dim] = rest % output.size(dim);
            rest /= output.size(dim);
        }
        for _ in begin..end {
            body(&index[..outer], Row::of(&output, &index[..outer]));
            for dim in (0..outer).rev() {
                index[dim] += 1;
                if index[dim] < output.size(dim) {
                    break;
                }
                index[dim] = 0;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::tensor::dtype::DType;
    use crate::tensor::view::Flags;

    #[test]
    fn every_row_is_visited_once() {
        let mut values = vec![0i32; 70_000];
        let view = View::new(values.as_mut_ptr().cast(), DType::Int, Flags(0), &[7, 100, 100], &[40_000, 4, 400]).unwrap();
        let rows = AtomicUsize::new(0);
        for_each(view, 1.0, &|index, row| {
            rows.fetch_add(1, Ordering::Relaxed);
            (0..100).for_each(|at| row.store(at, row.load::<i32>(at) + (index[0] * 10_000 + at * 100 + index[1]) as i32 + 1));
        });
        assert_eq!(rows.into_inner(), 700);
        assert!(values.iter().enumerate().all(|(at, &value)| value == at as i32 + 1));
    }

    #[test]
    fn rows_without_elements_need_no_memory() {
        let view = View::new(std::ptr::null_mut(), DType::Long, Flags(0), &[0], &[8]).unwrap();
        let row = Row::of(&view, &[]);
        assert_eq!((row.as_slice::<i64>(), row.as_slice_mut::<i64>()), (Some(&[][..]), Some(&mut [][..])));
    }

    #[test]
    fn what_lies_outside_a_row_is_refused() {
        let mut values = [1i16, 2, 3, 4];
        let view = View::new(values.as_mut_ptr().cast(), DType::Short, Flags(0), &[2], &[4]).unwrap();
        let row = Row::of(&view, &[]);
        assert!(std::panic::catch_unwind(|| row.zero(0, 3)).is_err());
        assert!(std::panic::catch_unwind(|| row.copy(1, &row, 0, 1, 2)).is_err());
        assert!(std::panic::catch_unwind(|| row.load::<i32>(0)).is_err());
        row.zero(1, 2);
        assert_eq!(values, [1, 2, 0, 4]);
    }
}
