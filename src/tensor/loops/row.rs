//! Rows of operands: [`Row`] to read one, [`RowMut`] to write one of an output.
//!
//! A row is the elements along the last dimension of an operand. Accesses are checked against its length.

use std::marker::PhantomData;

use super::index_space::Steps;
use super::strided::{self, StridedPtr};
use super::{Memory, parallel};
use crate::simd::leaf;
use crate::tensor::{Element, Error, Output, View};

/// A row of an operand, for reading.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    data: *mut u8,
    /// Bytes from one element to the next.
    step: isize,
    len: usize,
    /// Bytes of an element.
    size: usize,
    /// True if nothing writes the elements while the row is used.
    is_constant: bool,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: a row by itself accesses nothing; `View::new` guarantees that the threads that run the kernel may use the memory.
unsafe impl Send for Row<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Row<'_> {}

impl<'a> Row<'a> {
    /// The row of a view at an index of all dimensions but the last one, or but the last few if [`is_line`] holds for them. An
    /// operand without dimensions is a row of one element. Panics if the index is outside the view, or has too few dimensions.
    #[inline]
    pub fn of(view: &View<'a>, index: &[usize]) -> Self {
        let (size, is_constant, memory) = (view.dtype().size(), !view.is_output(), PhantomData);
        let Some(last) = view.ndim().checked_sub(1) else {
            return Self { data: view.data(), step: 0, len: 1, size, is_constant, memory };
        };
        assert!(index.len() <= last && is_line(view, index.len()), "the index of a row has {} dimensions of {last}", index.len());
        let mut offset = 0;
        for (dim, &at) in index.iter().enumerate() {
            assert!(at < view.size(dim), "row {at} of {}", view.size(dim));
            offset += at as isize * view.stride(dim);
        }
        let len = (index.len()..=last).map(|dim| view.size(dim)).product();
        Self { data: view.data().wrapping_offset(offset), step: view.stride(last), len, size, is_constant, memory }
    }

    /// All elements of a contiguous operand, as one row.
    pub fn flat(view: &View<'a>) -> Result<Self, Error> {
        let (size, is_constant) = (view.dtype().size(), !view.is_output());
        let row = Self { data: view.data(), step: size as isize, len: view.numel(), size, is_constant, memory: PhantomData };
        view.is_contiguous()
            .then_some(row)
            .ok_or_else(|| Error::new(format!("gaps in an operand with strides {:?}", view.strides())))
    }

    /// The elements `begin..end`. Panics if the range is outside the row.
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

    fn is_dense<T: Element>(&self) -> bool {
        let aligned = (self.data as usize).is_multiple_of(align_of::<T>());
        self.size == size_of::<T>() && aligned && (self.len <= 1 || self.step == self.size as isize)
    }

    /// The elements of dtype `T`, if they are contiguous. `None` for an output, whose rows must be borrowed from [`Output`].
    #[inline]
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        if self.len == 0 {
            // A row without elements need not have memory.
            return Some(&[]);
        }
        // SAFETY: the elements are aligned, contiguous and not written; every bit pattern is an element. `View::new` guarantees
        // their memory.
        (self.is_constant && self.is_dense::<T>()).then(|| unsafe { std::slice::from_raw_parts(self.data.cast::<T>(), self.len) })
    }

    /// The elements of dtype `E` in the computing type, widened into `memory` if necessary, if they are contiguous.
    #[inline]
    pub fn widened<'m, E: Element>(&self, memory: &'m mut Memory) -> Option<&'m [E::Acc]>
    where
        'a: 'm,
    {
        if let Some(own) = self.as_slice() {
            return Some(own);
        }
        let elements = self.as_slice::<E>()?;
        *memory = Memory::of(elements.len() * size_of::<E::Acc>());
        let numbers = memory.numbers(elements.len());
        widen(elements, numbers);
        Some(numbers)
    }

    /// The value of an element of dtype `T`. Panics if the element is outside the row, or has another size.
    #[inline(always)]
    pub fn load<T: Element>(&self, at: usize) -> T {
        assert!(at < self.len && self.size == size_of::<T>());
        // SAFETY: the element is inside the row, whose memory `View::new` guarantees.
        unsafe { self.data.wrapping_offset(at as isize * self.step).cast::<T>().read_unaligned() }
    }
}

/// A row of an output, for writing. Only one can be used at a time:
///
/// ```compile_fail
/// use rustdev::tensor::output::Output;
/// fn twice(mut output: Output<'_>) {
///     let mut rows = [output.row_mut(&[0]), output.row_mut(&[0])];
///     rows[0].zero(0, 1);
/// }
/// ```
///
/// The same holds for its slices:
///
/// ```compile_fail
/// use rustdev::tensor::loops::row::RowMut;
/// fn twice(row: &mut RowMut<'_>) -> Option<f32> {
///     let (one, other) = (row.as_slice_mut::<f32>()?, row.as_slice_mut::<f32>()?);
///     one[0] = 1.0;
///     Some(other[0])
/// }
/// ```
///
/// Two rows can be used in sequence:
///
/// ```
/// use rustdev::tensor::output::Output;
/// fn twice(mut output: Output<'_>) -> Option<f32> {
///     output.row_mut(&[0]).as_slice_mut::<f32>()?[0] = 1.0;
///     Some(output.row_mut(&[0]).as_slice_mut::<f32>()?[0])
/// }
/// ```
pub struct RowMut<'a>(Row<'a>);

impl<'a> RowMut<'a> {
    /// A row of an output.
    ///
    /// # Safety
    /// The caller must own the output, or have borrowed it, for as long as the row lives, and no other row in use may contain one
    /// of its elements.
    #[inline]
    pub(super) unsafe fn new(row: Row<'a>) -> Self {
        Self(Row { is_constant: true, ..row })
    }

    /// The number of elements.
    #[allow(clippy::len_without_is_empty, reason = "nothing asks whether a row that is written is empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// True if both rows are the same elements.
    #[inline]
    pub fn is_same(&self, other: &Row<'_>) -> bool {
        self.0.data == other.data && (self.0.step == other.step || self.0.len <= 1)
    }

    /// The elements `begin..end`. Panics if the range is outside the row.
    #[inline]
    pub fn part(&mut self, begin: usize, end: usize) -> RowMut<'_> {
        RowMut(self.0.part(begin, end))
    }

    /// Copies `count` elements of `from`, each `every` elements after the one before, from its element `start` on, to the elements
    /// from `at` on. Panics if elements are outside the rows, or the rows' elements differ in size.
    #[inline]
    pub fn copy(&mut self, at: usize, from: &Row<'_>, start: usize, every: usize, count: usize) {
        if count == 0 {
            return;
        }
        let to = &self.0;
        assert!(to.size == from.size && at + count <= to.len && start + (count - 1) * every < from.len);
        // SAFETY: the elements are inside the rows; a launch's outputs overlap its inputs at most element for element.
        unsafe { strided::copy(from.strided(start, every), to.strided(at, 1), to.size, count, 1) };
    }

    /// Copies `lines` runs of `count` elements. In `from` they begin at element `start` and are `from_every` elements apart; here
    /// they begin at element `at` and are `every` elements apart.
    #[inline]
    pub fn copy_lines(
        &mut self,
        (at, every): (usize, usize),
        from: &Row<'_>,
        (start, from_every): (usize, usize),
        (count, lines): (usize, usize),
    ) {
        if count == 0 || lines == 0 {
            return;
        }
        let to = &self.0;
        let fits = |row: &Row<'_>, first: usize, every: usize| first + (lines - 1) * every + count <= row.len;
        assert!(to.size == from.size && fits(to, at, every) && fits(from, start, from_every));
        let strided = |row: &Row<'_>, first: usize, every: usize| {
            let StridedPtr { data, .. } = row.strided(first, 1);
            StridedPtr { data, steps: Steps { col: row.step, row: row.step * every as isize } }
        };
        // SAFETY: as in `copy`.
        unsafe { strided::copy(strided(from, start, from_every), strided(to, at, every), to.size, count, lines) };
    }

    /// Sets the elements `begin..end` to zero bytes. Panics if the range is outside the row.
    #[inline]
    pub fn zero(&mut self, begin: usize, end: usize) {
        if begin >= end {
            return;
        }
        assert!(end <= self.0.len);
        let mut zero = 0u128;
        let from = StridedPtr { data: (&raw mut zero).cast(), steps: Steps::default() };
        // SAFETY: the elements are inside the row, which may write them; `zero` is as large as any element.
        unsafe { strided::copy(from, self.0.strided(begin, 1), self.0.size, end - begin, 1) };
    }

    /// The elements of dtype `T`, if they are contiguous.
    #[inline]
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        RowMut(self.0).into_slice()
    }

    /// [`RowMut::as_slice_mut`] for the lifetime of the output's memory.
    #[inline]
    pub fn into_slice<T: Element>(self) -> Option<&'a mut [T]> {
        let Row { data, len, .. } = self.0;
        if len == 0 {
            return Some(&mut []);
        }
        // SAFETY: the elements are aligned and contiguous, and only this row accesses them; every bit pattern is an element.
        // `View::new` guarantees their memory.
        self.0.is_dense::<T>().then(|| unsafe { std::slice::from_raw_parts_mut(data.cast::<T>(), len) })
    }

    /// The first bytes of a contiguous row, as equally many elements of a dtype `T` that is not larger.
    #[inline]
    pub fn as_narrower_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let row = self.0;
        let is_dense = row.step == row.size as isize && (row.data as usize).is_multiple_of(align_of::<T>());
        if row.len == 0 || row.size < size_of::<T>() || !is_dense {
            return None;
        }
        // SAFETY: as in `into_slice`; the row has as many elements, none of which is smaller.
        Some(unsafe { std::slice::from_raw_parts_mut(row.data.cast::<T>(), row.len) })
    }

    /// One of the elements of [`RowMut::as_narrower_mut`]. Panics if the element is outside the row, or the row has smaller
    /// elements or gaps.
    #[inline(always)]
    pub fn load_narrower<T: Element>(&self, at: usize) -> T {
        let Row { data, step, len, size, .. } = self.0;
        assert!(at < len && size >= size_of::<T>() && step == size as isize);
        // SAFETY: the element lies within the first `at + 1` elements of the row, whose memory `View::new` guarantees.
        unsafe { data.cast::<T>().wrapping_add(at).read_unaligned() }
    }

    /// The value of an element of dtype `T`.
    #[cfg(test)]
    pub fn load<T: Element>(&self, at: usize) -> T {
        self.0.load(at)
    }

    /// Sets an element of dtype `T`. Panics if the element is outside the row, or has another size.
    #[inline(always)]
    pub fn store<T: Element>(&mut self, at: usize, value: T) {
        assert!(at < self.0.len && self.0.size == size_of::<T>());
        // SAFETY: as in `Row::load`, and this row may write the element.
        unsafe { self.0.data.wrapping_offset(at as isize * self.0.step).cast::<T>().write_unaligned(value) };
    }

    /// Runs `body(begin, part)` over parts of the row, in parallel where it is worth it. `grain` and `cost` are those of
    /// [`parallel`].
    #[inline]
    pub fn in_parts(&mut self, grain: usize, cost: f64, body: &(dyn Fn(usize, RowMut<'_>) + Sync)) {
        in_parts([self.part(0, self.len())], 1, grain, cost, &|begin, _, [part]| body(begin, part));
    }
}

/// Runs `body(begin, end, parts)` over pieces of groups of `len` elements, in parallel where it is worth it; the parts are the
/// groups `begin..end` of each row. `grain`, in groups, and `cost` are those of [`parallel`]. Panics if the rows have different
/// lengths.
pub fn in_parts<const N: usize>(
    rows: [RowMut<'_>; N],
    len: usize,
    grain: usize,
    cost: f64,
    body: &(dyn Fn(usize, usize, [RowMut<'_>; N]) + Sync),
) {
    let whole = rows.first().map_or(0, RowMut::len);
    assert!(rows.iter().all(|row| row.len() == whole), "rows of different lengths");
    let rows = rows.map(|RowMut(row)| row);
    parallel(whole / len.max(1), grain, cost, &|begin, end| {
        // SAFETY: this call owns the rows, and the loop visits each group once, so that no two parts have an element in common.
        body(begin, end, rows.map(|row| unsafe { RowMut::new(row.part(begin * len, end * len)) }));
    });
}

leaf! {
    /// Loads as many elements as both slices have.
    pub fn widen<E: Element>(elements: &[E], numbers: &mut [E::Acc]) {
        E::load_run(elements, numbers);
    }
}

impl<'a> View<'a> {
    /// The elements of a contiguous operand. Fails for elements of another dtype, or that are not aligned.
    #[inline]
    pub fn elements<T: Element>(&self) -> Result<&'a [T], Error> {
        Row::flat(self)?.as_slice().filter(|_| self.dtype() == T::DTYPE).ok_or_else(|| unlike::<T>(self))
    }
}

#[cold]
fn unlike<T: Element>(view: &View<'_>) -> Error {
    Error::new(format!("an operand of {:?} at {:?} where aligned {:?} is needed", view.dtype(), view.data(), T::DTYPE))
}

impl<'a> Output<'a> {
    /// The elements of a contiguous output, as [`View::elements`].
    #[inline]
    pub fn into_elements<T: Element>(self) -> Result<&'a mut [T], Error> {
        let view = self.written();
        self.into_flat()?.into_slice().filter(|_| view.dtype() == T::DTYPE).ok_or_else(|| unlike::<T>(&view))
    }

    /// The row at an index, as [`Row::of`].
    #[inline]
    pub fn row(&self, index: &[usize]) -> Row<'_> {
        Row::of(&self.read(), index)
    }

    /// The row at an index, for writing.
    #[inline]
    pub fn row_mut(&mut self, index: &[usize]) -> RowMut<'_> {
        // SAFETY: the output is borrowed while the row lives.
        unsafe { RowMut::new(Row::of(&self.written(), index)) }
    }

    /// Several rows, for writing. Panics as [`Row::of`] does, and if two indices are equal or have different lengths.
    pub fn rows_mut<const N: usize>(&mut self, indices: [&[usize]; N]) -> [RowMut<'_>; N] {
        let differ = |one: &[usize], other: &[usize]| one.len() == other.len() && one != other;
        let others = |at: usize| &indices[at + 1..];
        assert!((0..N).all(|at| others(at).iter().all(|other| differ(indices[at], other))), "one row twice in {indices:?}");
        let view = self.written();
        // SAFETY: the output is borrowed while the rows live. They have different indices, and so no element in common.
        indices.map(|index| unsafe { RowMut::new(Row::of(&view, index)) })
    }

    /// The only row, for writing. Panics if there are several dimensions that are not one line ([`is_line`]).
    pub fn into_row(self) -> RowMut<'a> {
        // SAFETY: the output becomes the row.
        unsafe { RowMut::new(Row::of(&self.written(), &[])) }
    }

    /// All elements of a contiguous output, as one row.
    pub fn into_flat(self) -> Result<RowMut<'a>, Error> {
        let row = Row::flat(&self.written())?;
        // SAFETY: the output becomes the row.
        Ok(unsafe { RowMut::new(row) })
    }
}

/// True if the dimensions from `first` on are one line of elements at the stride of the last dimension.
#[inline]
pub fn is_line(view: &View<'_>, first: usize) -> bool {
    (first + 1..view.ndim()).all(|dim| view.stride(dim - 1) == view.size(dim) as isize * view.stride(dim))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tensor::dtype::DType;
    use crate::tensor::view::Flags;

    /// An output over `values`.
    pub fn output<'a, T: Element>(values: &'a mut [T], sizes: &'a [i64], strides: &'a [i64]) -> Output<'a> {
        // SAFETY: the tests' sizes and strides name each value at most once, and the values are borrowed.
        let view = unsafe { View::new(values.as_mut_ptr().cast(), T::DTYPE, Flags(0), sizes, strides) }.unwrap();
        // SAFETY: as above; nothing else uses the view.
        unsafe { Output::new(view) }
    }

    #[test]
    fn rows_without_elements_need_no_memory() {
        // SAFETY: there are no elements.
        let view = unsafe { View::new(std::ptr::null_mut(), DType::Long, Flags(0), &[0], &[8]) }.unwrap();
        assert_eq!(Row::of(&view, &[]).as_slice::<i64>(), Some(&[][..]));
        // SAFETY: as above.
        assert_eq!(unsafe { Output::new(view) }.into_row().as_slice_mut::<i64>(), Some(&mut [][..]));
    }

    #[test]
    fn what_lies_outside_a_row_is_refused() {
        let mut values = [1i16, 2, 3, 4];
        let refused = |body: &dyn Fn(&mut RowMut<'_>)| {
            let mut values = [1i16, 2, 3, 4];
            let mut row = output(&mut values, &[2], &[4]).into_row();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&mut row))).is_err()
        };
        assert!(refused(&|row| row.zero(0, 3)));
        assert!(refused(&|row| _ = row.load::<i32>(0)));
        assert!(refused(&|row| row.store(2, 1i16)));
        assert!(refused(&|row| _ = row.part(1, 3)));
        let mut others = [5i16];
        let other = output(&mut others, &[1], &[2]);
        assert!(refused(&|row| row.copy(1, &other.row(&[]), 0, 1, 2)));
        let mut row = output(&mut values, &[2], &[4]).into_row();
        assert!(row.as_slice_mut::<i16>().is_none(), "it has gaps");
        row.zero(1, 2);
        assert_eq!(values, [1, 2, 0, 4]);
    }

    #[test]
    fn an_output_is_read_by_its_own_rows() {
        let mut values = [1i16, 2, 3, 4];
        let mut output = output(&mut values, &[2, 2], &[4, 2]);
        assert!(Row::of(&output, &[1]).as_slice::<i16>().is_none());
        assert_eq!(output.row(&[1]).as_slice::<i16>(), Some(&[3, 4][..]));
        let [mut one, mut other] = output.rows_mut([&[0], &[1]]);
        one.store(0, other.load::<i16>(1));
        other.store(0, 7i16);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| _ = output.rows_mut([&[1], &[1]]))).is_err());
        assert_eq!(output.into_flat().unwrap().into_slice::<i16>(), Some(&mut [4, 2, 7, 4][..]));
    }

    #[test]
    fn narrower_elements_are_the_first_bytes() {
        let mut values = [1i64, 2, 3];
        let mut row = output(&mut values, &[3], &[8]).into_row();
        assert_eq!(row.as_narrower_mut::<i32>().unwrap(), [1, 0, 2]);
        assert!(row.part(0, 0).as_narrower_mut::<i32>().is_none());
        let mut short = [1i16, 2];
        assert!(output(&mut short, &[2], &[2]).into_row().as_narrower_mut::<i32>().is_none());
    }
}
