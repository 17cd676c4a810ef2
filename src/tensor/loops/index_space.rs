//! [`Space`]: the index space of several operands, divided into patches.

use super::{grain, parallel};
use crate::tensor::{Launch, MAX_DIMS};
use crate::tuning::caches::{BLOCK, PATCH_ROWS};

/// The maximum number of operands of a loop over patches.
pub const MAX_OPERANDS: usize = 8;

/// The number of dimensions that covers most spaces.
const FEW_DIMS: usize = 6;

/// The steps of one operand inside a patch, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// From one element to the next.
    pub col: isize,
    /// From one row to the next.
    pub row: isize,
}

/// A rectangle of the index space: `rows` × `cols` elements, with the address of each operand's first one.
#[derive(Clone, Copy)]
pub struct Patch {
    pub cols: usize,
    pub rows: usize,
    data: [*mut u8; MAX_OPERANDS],
}

impl Patch {
    /// The number of elements; never 0 for patches from [`Space::walk`].
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "no patch is empty")]
    pub fn len(&self) -> usize {
        self.cols * self.rows
    }

    /// The address of an operand's first element.
    #[inline(always)]
    pub fn data(&self, operand: usize) -> *mut u8 {
        self.data[operand]
    }
}

/// An index space (innermost dimension first), the operands in it, and its division into patches.
pub struct Space<'a> {
    sizes: &'a [i64],
    addresses: [usize; MAX_OPERANDS],
    strides: [&'a [i64]; MAX_OPERANDS],
    operands: usize,
    /// The dimension of a patch's rows; 0 if a patch has one row.
    row_dim: usize,
    cols: usize,
    rows: usize,
}

impl<'a> Space<'a> {
    /// The space of an elementwise launch, in patches of at most [`BLOCK`] elements.
    pub fn of(launch: &Launch<'a>) -> Self {
        Self::uncut(launch).cut(BLOCK)
    }

    /// The space of an elementwise launch, undivided.
    pub fn uncut(launch: &Launch<'a>) -> Self {
        let mut space = Self::empty(launch.view(0).sizes());
        for index in 0..launch.num_operands() {
            let view = launch.view(index);
            space.add(view.data(), view.strides());
        }
        space
    }

    /// A space without operands, undivided. `sizes` must not be empty.
    #[inline]
    pub fn empty(sizes: &'a [i64]) -> Self {
        let (addresses, strides) = ([0; MAX_OPERANDS], [&[][..]; MAX_OPERANDS]);
        Self { sizes, addresses, strides, operands: 0, row_dim: 0, cols: 1, rows: 1 }
    }

    /// Adds an operand: the address of its first element, and its strides in bytes.
    #[inline]
    pub fn add(&mut self, data: *mut u8, strides: &'a [i64]) {
        self.addresses[self.operands] = data as usize;
        self.strides[self.operands] = strides;
        self.operands += 1;
    }

    /// Divides the space into patches of at most `limit` elements (<= [`BLOCK`] if they go through block buffers).
    pub fn cut(self, limit: usize) -> Self {
        self.cut_tiles(limit, PATCH_ROWS)
    }

    /// [`Space::cut`] with up to `tile` rows where operands disagree about the innermost dimension.
    pub fn cut_tiles(mut self, limit: usize, tile: usize) -> Self {
        let crossing = self.crossing_dim();
        let size = |dim: usize| (self.sizes[dim] as usize).max(1);
        (self.row_dim, self.cols, self.rows) = match crossing {
            Some(dim) => {
                let rows = size(dim).min(tile).min(limit);
                (dim, size(0).min((limit / rows).max(1)), rows)
            }
            None if self.sizes.len() > 1 => {
                let cols = size(0).min(limit);
                (1, cols, size(1).min((limit / cols).max(1)))
            }
            None => (0, size(0).min(limit), 1),
        };
        self
    }

    /// Divides the space into patches of up to [`BLOCK`] whole rows, or of at most [`BLOCK`] elements of a row where operands
    /// disagree about the innermost dimension.
    pub fn cut_rows(mut self) -> Self {
        if self.crossing_dim().is_some() {
            return self.cut_tiles(BLOCK, 1);
        }
        let size = |dim: usize| (self.sizes[dim] as usize).max(1);
        let rows = if self.sizes.len() > 1 { size(1).min(BLOCK) } else { 1 };
        (self.row_dim, self.cols, self.rows) = (usize::from(self.sizes.len() > 1), size(0), rows);
        self
    }

    /// The maximum of a patch's elements along a dimension.
    fn step(&self, dim: usize) -> usize {
        match dim {
            0 => self.cols,
            dim if dim == self.row_dim => self.rows,
            _ => 1,
        }
    }

    /// The number of patches along each dimension.
    fn counts(&self) -> impl Iterator<Item = usize> {
        self.sizes.iter().enumerate().map(|(dim, &size)| match self.step(dim) {
            1 => size as usize,
            step => (size as usize).div_ceil(step),
        })
    }

    /// The dimension, other than the innermost, along which some (transposed) operand has its smallest stride.
    fn crossing_dim(&self) -> Option<usize> {
        self.strides[..self.operands].iter().find_map(|strides| {
            let nearest = (1..strides.len()).filter(|&dim| strides[dim] != 0).min_by_key(|&dim| strides[dim].abs());
            nearest.filter(|&dim| strides[0] != 0 && strides[dim].abs() < strides[0].abs())
        })
    }

    /// The steps of an operand inside a patch.
    pub fn steps(&self, operand: usize) -> Steps {
        let strides = self.strides[operand];
        Steps { col: strides[0] as isize, row: if self.row_dim == 0 { 0 } else { strides[self.row_dim] as isize } }
    }

    /// The maximum of a patch's elements.
    pub fn patch_len(&self) -> usize {
        self.cols * self.rows
    }

    /// The maximum of a patch's rows.
    pub fn patch_rows(&self) -> usize {
        self.rows
    }

    pub fn patches(&self) -> usize {
        self.counts().product()
    }

    /// Runs `body` over ranges of patches, in parallel where it is worth it; each call visits its range with [`Space::walk`].
    /// `cost`: nanoseconds of one thread per element.
    pub fn for_each_piece(&self, cost: f64, body: &(dyn Fn(usize, usize) + Sync)) {
        let len = self.patch_len();
        parallel(self.patches(), grain(cost).div_ceil(len), cost * len as f64, body);
    }

    #[inline]
    pub fn walk(&self, begin: usize, end: usize, visit: &mut dyn FnMut(&Patch)) {
        if self.sizes.len() <= FEW_DIMS {
            self.walk_within::<FEW_DIMS>(begin, end, visit);
        } else {
            self.walk_within::<MAX_DIMS>(begin, end, visit);
        }
    }

    /// [`Space::walk`] for a space of at most `DIMS` dimensions.
    fn walk_within<const DIMS: usize>(&self, begin: usize, end: usize, visit: &mut dyn FnMut(&Patch)) {
        let (mut index, mut counts) = ([0usize; DIMS], [0usize; DIMS]);
        let mut rest = begin;
        for ((position, target), count) in index.iter_mut().zip(&mut counts).zip(self.counts()) {
            *target = count;
            if rest != 0 {
                *position = rest % count.max(1);
                rest /= count.max(1);
            }
        }
        for _ in begin..end {
            visit(&self.patch(&index));
            for (position, &count) in index.iter_mut().zip(&counts[..self.sizes.len()]) {
                *position += 1;
                if *position < count {
                    break;
                }
                *position = 0;
            }
        }
    }

    fn patch(&self, index: &[usize]) -> Patch {
        let left = |dim: usize, step: usize| step.min(self.sizes[dim] as usize - index[dim] * step);
        let rows = if self.row_dim == 0 { 1 } else { left(self.row_dim, self.rows) };
        let mut data = [std::ptr::null_mut(); MAX_OPERANDS];
        for (operand, data) in data.iter_mut().enumerate().take(self.operands) {
            let strides = self.strides[operand];
            let mut offset = (index[0] * self.cols) as i64 * strides[0];
            for (dim, &stride) in strides.iter().enumerate().skip(1) {
                offset += (index[dim] * self.step(dim)) as i64 * stride;
            }
            *data = self.addresses[operand].wrapping_add_signed(offset as isize) as *mut u8;
        }
        Patch { cols: left(0, self.cols), rows, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space<'a>(sizes: &'a [i64], strides: &[&'a [i64]]) -> Space<'a> {
        let mut space = Space::empty(sizes);
        for strides in strides {
            space.add(std::ptr::null_mut(), strides);
        }
        space
    }

    /// Every element's offset, in the order of the patches.
    fn offsets(space: &Space<'_>, operand: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let steps = space.steps(operand);
        space.walk(0, space.patches(), &mut |patch| {
            for row in 0..patch.rows as isize {
                for col in 0..patch.cols as isize {
                    found.push(patch.data(operand).wrapping_offset(row * steps.row + col * steps.col) as usize);
                }
            }
        });
        found
    }

    #[test]
    fn patches_cover_the_space_once() {
        for sizes in [vec![1], vec![5000], vec![3, 70, 11], vec![100, 90], vec![2, 2, 2, 2, 300], vec![0, 4]] {
            let count: i64 = sizes.iter().product();
            let dense: Vec<i64> = sizes.iter().scan(1, |step, &size| Some(std::mem::replace(step, *step * size))).collect();
            let crossed: Vec<i64> = dense.iter().rev().copied().collect();
            for limit in [1, 64, BLOCK] {
                let space = space(&sizes, &[&dense, &crossed]).cut(limit);
                assert!(space.patch_len() <= limit);
                let mut found = offsets(&space, 0);
                found.sort_unstable();
                assert!(found.into_iter().eq(0..count as usize), "{sizes:?}");
            }
        }
    }

    #[test]
    fn a_transposed_operand_makes_tiles() {
        let space = space(&[500, 500], &[&[4, 2000], &[2000, 4]]).cut(BLOCK);
        assert_eq!((space.cols, space.rows), (BLOCK / PATCH_ROWS, PATCH_ROWS));
        assert_eq!(space.steps(1), Steps { col: 2000, row: 4 });
    }
}
