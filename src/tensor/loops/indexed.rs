//! Loops of gathers and scatters: indices address the elements of one operand.
//!
//! The operands of such an elementwise launch are the target, the source, and one integer operand for each indexed dimension. One
//! of target and source is the *addressed* operand, which has stride 0 in the indexed dimensions. The launch's scalars give for
//! each index the number of slots that it chooses from and the distance between slots in bytes. One loop thus serves gathers along
//! a dimension (the index has the shape of the result), selections of rows (the index has stride 0 along a row), flat indices (all
//! strides of the addressed operand are 0) and several indices at once. If the indices do not change along a row, rows are moved as
//! slices.
//!
//! Moves depend on the size of an element and not on its dtype. An index out of bounds fails the launch and causes no access; some
//! of the other elements may already have been moved.

mod indexed_fold;
mod indexed_update;
mod position;
mod single_index;

use super::buffer::with_zeros;
use super::failure::Failure;
use super::index_space::{MAX_OPERANDS, Patch, Space, Steps};
use super::strided::{self, StridedPtr};
use crate::simd::leaf;
use crate::tensor::{DType, Error, Launch, dispatch_size};
use crate::tuning::caches::BLOCK;
use crate::tuning::sharing::GRAIN;
pub use indexed_fold::Folding;
pub use indexed_update::{Update, store};
use position::{Positions, Slots};

/// The position of the first index operand.
const FIRST_INDEX: usize = 2;
/// The maximum number of indexed dimensions of a launch.
const MAX_INDICES: usize = MAX_OPERANDS - FIRST_INDEX;

/// How the values of an index are interpreted.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// True if negative values count from the end.
    pub wraps: bool,
    /// Elements with this index are skipped.
    pub skipped: Option<i64>,
}

impl Rules {
    /// No negative values; no element is skipped.
    pub const PLAIN: Self = Self { wraps: false, skipped: None };
    /// Negative values count from the end; no element is skipped.
    pub const WRAPPED: Self = Self { wraps: true, skipped: None };
}

/// An index operand: its position, its dtype, and the slots that it chooses from.
#[derive(Clone, Copy)]
struct Index {
    operand: usize,
    dtype: DType,
    slots: Slots,
}

/// A launch with index operands.
pub struct Indexed<'a> {
    launch: &'a Launch<'a>,
    indices: [Index; MAX_INDICES],
    count: usize,
    failure: Failure,
}

impl<'a> Indexed<'a> {
    /// Operands [target, source, indices...]. From `first_scalar` on, each index has the scalars [slots, bytes from one slot to the
    /// next].
    pub fn new(launch: &'a Launch<'a>, first_scalar: usize, rules: Rules) -> Result<Self, Error> {
        let count = launch.num_operands().saturating_sub(FIRST_INDEX);
        if count == 0 || count > MAX_INDICES {
            return Err(Error::new(format!("{count} index operands")));
        }
        let (pairs, _) = launch.scalars().get(first_scalar..).unwrap_or_default().as_chunks::<2>();
        let none = Slots { count: 0, step: 0, rules };
        let mut indices = [Index { operand: 0, dtype: DType::Long, slots: none }; MAX_INDICES];
        for (number, index) in indices.iter_mut().enumerate().take(count) {
            let operand = FIRST_INDEX + number;
            let dtype = launch.view(operand).dtype();
            if !matches!(dtype, DType::Int | DType::Long) {
                return Err(Error::new(format!("indices of dtype {dtype:?}")));
            }
            let &[slots, step] = pairs.get(number).ok_or_else(|| Error::new("an index without slots"))?;
            *index = Index { operand, dtype, slots: Slots { count: slots.to::<i64>().max(0), step: step.to(), rules } };
        }
        Ok(Self { launch, indices, count, failure: Failure::default() })
    }

    fn indices(&self) -> &[Index] {
        &self.indices[..self.count]
    }

    /// Copies to each element of the target the element of the source that the indices name.
    pub fn load(&self) -> Result<(), Error> {
        let (target, source) = (self.launch.view(0), self.launch.view(1));
        if target.dtype() != source.dtype() {
            return Err(Error::new(format!("{:?} from {:?}", target.dtype(), source.dtype())));
        }
        if target.numel() > 0 {
            let size = target.dtype().size();
            let space = self.space_to_load();
            space.for_each_piece(self.launch.cost(), &|begin, end| {
                with_zeros(space.patch_len(), |positions| {
                    space.walk(begin, end, &mut |patch| self.load_patch(&space, patch, size, positions));
                });
            });
        }
        self.failure.result()
    }

    /// The space in patches with at most [`BLOCK`] positions. If indices name rows, a position stands for a row: such patches are
    /// larger, and have more rows to prefetch.
    fn space_to_load(&self) -> Space<'a> {
        let by_row = self.indices().iter().all(|index| self.launch.view(index.operand).stride(0) == 0);
        let is_wide = self.launch.view(0).size(0) >= GRAIN / BLOCK;
        Space::uncut(self.launch).cut(if by_row && is_wide { GRAIN } else { BLOCK })
    }

    fn load_patch(&self, space: &Space<'_>, patch: &Patch, size: usize, positions: &mut [i64]) {
        let by_row = self.is_by_row(space);
        if !self.locate(space, patch, by_row, positions) {
            return;
        }
        let [to, from] = [0, 1].map(|operand| StridedPtr { data: patch.data(operand), steps: space.steps(operand) });
        if by_row {
            load_rows(to, from, &positions[..patch.rows], patch.cols, size);
            return;
        }
        dispatch_size!(size, E => pick::<E>(to, from, &positions[..patch.len()], patch.cols));
    }

    /// True if no index changes along the rows of patches.
    fn is_by_row(&self, space: &Space<'_>) -> bool {
        self.indices().iter().all(|index| space.steps(index.operand).col == 0)
    }

    /// Computes positions from the indices, in bytes from the addressed operand's element at the same index: one for each row of a
    /// patch (`by_row`), or one for each element. Negative positions are skipped elements. Returns false if an index is out of
    /// bounds, which fails the launch.
    fn locate(&self, space: &Space<'_>, patch: &Patch, by_row: bool, positions: &mut [i64]) -> bool {
        for (number, index) in self.indices().iter().enumerate() {
            let steps = space.steps(index.operand);
            let (steps, cols, rows) =
                if by_row { (Steps { col: steps.row, row: 0 }, patch.rows, 1) } else { (steps, patch.cols, patch.rows) };
            let slot = StridedPtr { data: patch.data(index.operand), steps };
            let positions = &mut positions[..cols * rows];
            let work = Positions { index: slot, cols, rows, slots: index.slots, is_first: number == 0, found: positions };
            if let Err(found) = work.fill(index.dtype) {
                self.failure.note(out_of_bounds(found, index.slots.count));
                return false;
            }
        }
        true
    }
}

/// Copies rows of `cols` elements, each from its position in the source.
fn load_rows(to: StridedPtr, from: StridedPtr, positions: &[i64], cols: usize, size: usize) {
    let source = |row: usize| from.data.wrapping_offset(row as isize * from.steps.row + positions[row] as isize);
    for row in 0..positions.len() {
        let target = to.data.wrapping_offset(row as isize * to.steps.row);
        // SAFETY: `locate` has found the row inside the source, and the launch may write the target's elements.
        unsafe { strided::copy(StridedPtr { data: source(row), ..from }, StridedPtr { data: target, ..to }, size, cols, 1) };
    }
}

/// The error of an index that is out of bounds.
#[cold]
fn out_of_bounds(index: i64, slots: i64) -> Result<(), Error> {
    let text = format!("index {index} is out of bounds for dimension with size {slots}");
    Err(Error::new(text))
}

leaf! {
    /// Copies a patch element by element.
    fn pick<E: Copy>(to: StridedPtr, from: StridedPtr, positions: &[i64], cols: usize) {
        for (row, positions) in positions.chunks_exact(cols).enumerate() {
            let target = to.data.wrapping_offset(row as isize * to.steps.row);
            let source = from.data.wrapping_offset(row as isize * from.steps.row);
            for (col, &position) in positions.iter().enumerate() {
                let from = source.wrapping_offset(col as isize * from.steps.col + position as isize).cast::<E>();
                let to = target.wrapping_offset(col as isize * to.steps.col).cast::<E>();
                // SAFETY: `locate` has found every position inside the source.
                let value = unsafe { from.read_unaligned() };
                // SAFETY: the launch may write the target's elements.
                unsafe { to.write_unaligned(value) };
            }
        }
    }
}
