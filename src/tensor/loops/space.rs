//! [`Space`]: the index space of an elementwise launch, cut into patches.

use super::{BLOCK, GRAIN, parallel};
use crate::tensor::launch::Launch;
use crate::tensor::view::MAX_DIMS;

/// Operands that a loop over patches can take.
pub const MAX_OPERANDS: usize = 8;

/// The steps of one operand inside a patch, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// From one element to the next.
    pub col: isize,
    /// From one row to the next.
    pub row: isize,
}

/// A rectangle of the index space: `rows` × `cols` elements, with each operand's first one.
#[derive(Clone, Copy)]
pub struct Patch {
    pub cols: usize,
    pub rows: usize,
    data: [*mut u8; MAX_OPERANDS],
}

impl Patch {
    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.cols * self.rows
    }

    /// Whether there are no elements; never true for a patch that [`Space::for_each`] hands out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first element of an operand.
    #[inline(always)]
    pub fn data(&self, operand: usize) -> *mut u8 {
        self.data[operand]
    }
}

/// The index space of a launch and how it is cut.
pub struct Space<'a> {
    launch: Launch<'a>,
    sizes: &'a [i64],
    /// The dimension along which a patch has its rows; 0 if there is one dimension.
    row_dim: usize,
    cols: usize,
    rows: usize,
    /// Patches per dimension.
    counts: [usize; MAX_DIMS],
}

impl<'a> Space<'a> {
    /// Cuts the space of `launch` into patches of at most [`BLOCK`] elements.
    pub fn new(launch: &Launch<'a>) -> Self {
        Self::with_tile(launch, 32)
    }

    /// As [`Space::new`]; where operands disagree about the innermost dimension, a patch has up to `tile` rows.
    pub fn with_tile(launch: &Launch<'a>, tile: usize) -> Self {
        debug_assert!(launch.num_operands() <= MAX_OPERANDS);
        let sizes = launch.view(0).sizes();
        let crossing = crossing_dim(launch);
        let row_dim = crossing.unwrap_or(usize::from(sizes.len() > 1));
        let (cols, rows) = if row_dim == 0 {
            ((sizes[0] as usize).min(BLOCK), 1)
        } else if crossing.is_some() {
            let rows = (sizes[row_dim] as usize).min(tile);
            let cols = (sizes[0] as usize).min((BLOCK / rows.max(1)).max(tile));
            (cols, rows)
        } else {
            let cols = (sizes[0] as usize).min(BLOCK);
            (cols, (sizes[row_dim] as usize).min(BLOCK / cols.max(1)))
        };
        let (cols, rows) = (cols.max(1), rows.max(1));
        let mut counts = [1; MAX_DIMS];
        for (dim, &size) in sizes.iter().enumerate() {
            let step = if dim == 0 {
                cols
            } else if dim == row_dim {
                rows
            } else {
                1
            };
            counts[dim] = (size as usize).div_ceil(step);
        }
        Self { launch: *launch, sizes, row_dim, cols, rows, counts }
    }

    /// The steps of an operand inside a patch.
    pub fn steps(&self, operand: usize) -> Steps {
        let strides = self.launch.view(operand).strides();
        let row = if self.row_dim == 0 { 0 } else { strides[self.row_dim] as isize };
        Steps { col: strides[0] as isize, row }
    }

    /// The most elements that a patch has.
    pub fn patch_len(&self) -> usize {
        self.cols * self.rows
    }

    /// Runs `body` over pieces of the patches, in parallel where it is worth it; each walks its piece with [`Space::walk`].
    /// `cost`: nanoseconds of one thread per element.
    pub fn for_each_piece(&self, cost: f64, body: &(dyn Fn(usize, usize) + Sync)) {
        let patches = self.counts[..self.sizes.len()].iter().product();
        let len = self.patch_len();
        parallel(patches, GRAIN.div_ceil(len), cost * len as f64, body);
    }

    /// Visits the patches `begin..end`.
    #[inline]
    pub fn walk(&self, begin: usize, end: usize, visit: &mut dyn FnMut(&Patch)) {
        let ndim = self.sizes.len();
        let mut index = [0usize; MAX_DIMS];
        let mut rest = begin;
        for (position, &count) in index.iter_mut().zip(&self.counts[..ndim]) {
            *position = rest % count.max(1);
            rest /= count.max(1);
        }
        for _ in begin..end {
            visit(&self.patch(&index));
            for (position, &count) in index.iter_mut().zip(&self.counts[..ndim]) {
                *position += 1;
                if *position < count {
                    break;
                }
                *position = 0;
            }
        }
    }

    fn patch(&self, index: &[usize; MAX_DIMS]) -> Patch {
        let col = index[0] * self.cols;
        let cols = self.cols.min(self.sizes[0] as usize - col);
        let rows = match self.row_dim {
            0 => 1,
            dim => self.rows.min(self.sizes[dim] as usize - index[dim] * self.rows),
        };
        let mut data = [std::ptr::null_mut(); MAX_OPERANDS];
        for (operand, data) in data.iter_mut().enumerate().take(self.launch.num_operands()) {
            let view = self.launch.view(operand);
            let mut offset = col as isize * view.stride(0);
            for (dim, &position) in index.iter().enumerate().take(self.sizes.len()).skip(1) {
                let position = if dim == self.row_dim { position * self.rows } else { position };
                offset += position as isize * view.stride(dim);
            }
            *data = view.data().wrapping_offset(offset);
        }
        Patch { cols, rows, data }
    }
}

/// The dimension, other than the innermost, along which some operand's elements lie closest: a transposed operand.
fn crossing_dim(launch: &Launch<'_>) -> Option<usize> {
    for operand in 0..launch.num_operands() {
        let view = launch.view(operand);
        let strides = view.strides();
        let inner = strides[0].abs();
        let nearest = (1..strides.len()).filter(|&dim| strides[dim] != 0).min_by_key(|&dim| strides[dim].abs());
        if let Some(dim) = nearest.filter(|&dim| inner != 0 && strides[dim].abs() < inner) {
            return Some(dim);
        }
    }
    None
}
