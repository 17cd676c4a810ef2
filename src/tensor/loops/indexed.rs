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

use std::sync::atomic::{AtomicBool, Ordering};

use super::buffer::with_zeros;
use super::index_space::{MAX_OPERANDS, Patch, Space, Steps};
use super::strided::{self, StridedPtr};
use crate::runtime::sync::Mutex;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::DType;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
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
    fault: Fault,
}

impl<'a> Indexed<'a> {
    /// Operands [target, source, indices...]. From `first_scalar` on, each index has the scalars [slots, bytes from one slot to the
    /// next].
    pub fn new(launch: &'a Launch<'a>, first_scalar: usize, rules: Rules) -> Result<Self, Error> {
        let count = launch.num_operands().saturating_sub(FIRST_INDEX);
        if count == 0 || count > MAX_INDICES {
            return Err(Error::operands(format!("{count} index operands")));
        }
        let none = Slots { count: 0, step: 0, rules };
        let mut indices = [Index { operand: 0, dtype: DType::Long, slots: none }; MAX_INDICES];
        for (number, index) in indices.iter_mut().enumerate().take(count) {
            let operand = FIRST_INDEX + number;
            let dtype = launch.view(operand).dtype();
            if !matches!(dtype, DType::Int | DType::Long) {
                return Err(Error::dtype(dtype, format!("indices of dtype {dtype:?}")));
            }
            let slots = launch.scalar(first_scalar + 2 * number)?.to::<i64>().max(0);
            let step = launch.scalar(first_scalar + 2 * number + 1)?.to::<i64>();
            *index = Index { operand, dtype, slots: Slots { count: slots, step, rules } };
        }
        Ok(Self { launch, indices, count, fault: Fault::default() })
    }

    fn indices(&self) -> &[Index] {
        &self.indices[..self.count]
    }

    /// Copies to each element of the target the element of the source that the indices name.
    pub fn load(&self) -> Result<(), Error> {
        let (target, source) = (self.launch.view(0), self.launch.view(1));
        if target.dtype() != source.dtype() {
            return Err(Error::operands(format!("{:?} from {:?}", target.dtype(), source.dtype())));
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
        self.fault.result()
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
        let positions = &positions[..];
        let (cols, rows) = (patch.cols, patch.rows);
        match size {
            1 => vectorize(Pick::<u8> { to, from, positions, cols, rows, element: std::marker::PhantomData }),
            2 => vectorize(Pick::<u16> { to, from, positions, cols, rows, element: std::marker::PhantomData }),
            4 => vectorize(Pick::<u32> { to, from, positions, cols, rows, element: std::marker::PhantomData }),
            8 => vectorize(Pick::<u64> { to, from, positions, cols, rows, element: std::marker::PhantomData }),
            _ => vectorize(Pick::<u128> { to, from, positions, cols, rows, element: std::marker::PhantomData }),
        }
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
                self.fault.set(found, index.slots.count);
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

/// The first index that was found out of bounds.
#[derive(Default)]
struct Fault {
    is_set: AtomicBool,
    what: Mutex<Option<(i64, i64)>>,
}

impl Fault {
    #[cold]
    fn set(&self, index: i64, slots: i64) {
        self.what.lock().get_or_insert((index, slots));
        // The flag is read after the loop has joined its threads.
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn result(&self) -> Result<(), Error> {
        if !self.is_set.load(Ordering::Relaxed) {
            return Ok(());
        }
        match *self.what.lock() {
            Some((index, slots)) => {
                let text = format!("index {index} is out of bounds for dimension with size {slots}");
                Err(Error::index(index, slots as usize, text))
            }
            None => Ok(()),
        }
    }
}

/// Copies a patch element by element.
struct Pick<'a, E> {
    to: StridedPtr,
    from: StridedPtr,
    positions: &'a [i64],
    cols: usize,
    rows: usize,
    element: std::marker::PhantomData<E>,
}

impl<E: Copy> Leaf for Pick<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (row, positions) in self.positions[..self.cols * self.rows].chunks_exact(self.cols).enumerate() {
            let to = self.to.data.wrapping_offset(row as isize * self.to.steps.row);
            let from = self.from.data.wrapping_offset(row as isize * self.from.steps.row);
            for (col, &position) in positions.iter().enumerate() {
                let from = from.wrapping_offset(col as isize * self.from.steps.col + position as isize).cast::<E>();
                let to = to.wrapping_offset(col as isize * self.to.steps.col).cast::<E>();
                // SAFETY: `locate` has found every position inside the source.
                let value = unsafe { from.read_unaligned() };
                // SAFETY: the launch may write the target's elements.
                unsafe { to.write_unaligned(value) };
            }
        }
    }
}
