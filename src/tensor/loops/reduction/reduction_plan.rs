//! The plan of a reduction: tiles of outputs, and blocks of their elements.

#![forbid(unsafe_code)]

use smallvec::SmallVec;

use super::{BlockFold, FoldBlock, MAX_OUTPUTS, Targets};
use crate::tensor::{DType, Launch, View};
use crate::tuning::caches::BLOCK;
use crate::tuning::reductions::{
    MAX_FOLDED_ROWS, MIN_FOLDED_ROWS, MIN_RUN, NARROW_TILE_COLS, ONCE_READ_RUN, PACKED_TILE_COLS, PATCH_ELEMENTS, TILE_RUNS,
    TILE_STATES_BYTES, TWICE_READ_RUN, WIDE_TILE_COLS,
};
use crate::tuning::sharing::GRAIN;

/// A dimension: its size, and the strides of the operands in bytes.
#[derive(Clone, Copy)]
struct Dim {
    size: usize,
    input: isize,
    outputs: [isize; MAX_OUTPUTS],
}

/// A few dimensions, without an allocation.
type Dims = SmallVec<[Dim; 3]>;

impl Dim {
    const UNIT: Self = Self { size: 1, input: 0, outputs: [0; MAX_OUTPUTS] };

    /// Removes the dimension with the smallest input stride from `dims`.
    fn take_nearest(dims: &mut Dims) -> Self {
        let nearest = dims.iter().enumerate().min_by_key(|(_, dim)| dim.input.unsigned_abs()).map(|(number, _)| number);
        nearest.map_or(Self::UNIT, |number| dims.remove(number))
    }

    fn count(dims: &[Self]) -> usize {
        dims.iter().map(|dim| dim.size).product()
    }

    /// The byte offsets of the element with the given number, in the input and in the outputs.
    fn offsets(dims: &[Self], mut number: usize) -> (isize, [isize; MAX_OUTPUTS]) {
        let (mut input, mut outputs) = (0, [0; MAX_OUTPUTS]);
        for dim in dims {
            let position = (number % dim.size) as isize;
            number /= dim.size;
            input += position * dim.input;
            for (offset, stride) in outputs.iter_mut().zip(dim.outputs) {
                *offset += position * stride;
            }
        }
        (input, outputs)
    }
}

/// How a launch is divided.
pub(super) struct Plan<'a> {
    outputs: [View<'a>; MAX_OUTPUTS],
    input: View<'a>,
    /// The dtype that the elements are cast to.
    pub element: DType,
    /// True if blocks are packed in scratch memory: elements are cast, or those of a run or row are not contiguous.
    pub is_packed: bool,
    by_runs: bool,
    /// True if a tile's rows are contiguous and may be folded together.
    pub is_wide: bool,
    cols: Dim,
    rows: Dim,
    /// The other output dimensions, and the other reduced dimensions.
    kept: Dims,
    reduced: Dims,
    /// The maximum number of outputs of a tile.
    pub width: usize,
    /// The maximum number of rows of a block.
    pub height: usize,
    tiles_per_line: usize,
    blocks_per_line: usize,
}

/// Some adjacent outputs, and the address of the first element that goes into each.
pub(super) struct Tile {
    input: *mut u8,
    pub targets: Targets,
    pub cols: usize,
}

impl<'a> Plan<'a> {
    pub fn new<S>(launch: &Launch<'a>, blocks: &dyn BlockFold<S>) -> Self {
        let count = launch.num_outputs();
        let input = launch.view(count);
        let outputs = std::array::from_fn(|index| launch.view(index.min(count - 1)));
        let (mut kept, mut reduced) = (Dims::new(), Dims::new());
        for (dim, &size) in input.sizes().iter().enumerate().filter(|&(_, &size)| size != 1) {
            let strides = outputs.each_ref().map(|output: &View<'_>| output.stride(dim));
            let dim = Dim { size: size as usize, input: input.stride(dim), outputs: strides };
            if dim.outputs[0] == 0 { &mut reduced } else { &mut kept }.push(dim);
        }
        let rows = Dim::take_nearest(&mut reduced);
        let cols = Dim::take_nearest(&mut kept);
        let item = input.dtype().size() as isize;
        let is_dense = cols.input == item && rows.input == cols.size as isize * item;
        let is_wide = is_dense && !blocks.is_ordered() && cols.size <= WIDE_TILE_COLS / 2;
        let inner = rows.input.unsigned_abs() < cols.input.unsigned_abs() || cols.size < NARROW_TILE_COLS && !is_wide;
        let by_runs = cols.size == 1 || rows.size >= MIN_RUN && inner;
        let element = if blocks.takes_bits() { input.dtype() } else { blocks.element() };
        let near = if by_runs { rows } else { cols };
        let mut plan = Self {
            outputs,
            input,
            element,
            is_packed: input.dtype() != element || near.size > 1 && near.input != item,
            by_runs,
            is_wide: is_wide && !by_runs,
            cols,
            rows,
            kept,
            reduced,
            width: 1,
            height: 1,
            tiles_per_line: 1,
            blocks_per_line: 1,
        };
        plan.cut(size_of::<S>(), if blocks.looks_twice() { TWICE_READ_RUN } else { ONCE_READ_RUN });
        plan
    }

    fn cut(&mut self, state_size: usize, run: usize) {
        if self.by_runs {
            self.height = self.rows.size.min(if self.is_packed { BLOCK } else { run });
            let most = if self.is_packed { PATCH_ELEMENTS / self.height } else { TILE_RUNS };
            self.width = (GRAIN / self.extent()).min(self.cols.size).clamp(1, most);
        } else {
            let most = (TILE_STATES_BYTES / state_size).max(1);
            self.width = self.cols.size.min(if self.is_packed { most.min(PACKED_TILE_COLS) } else { most });
            let patch = PATCH_ELEMENTS / self.width;
            self.height = match (self.is_packed, self.is_wide) {
                (true, _) | (_, true) => patch.max(1),
                _ => patch.clamp(MIN_FOLDED_ROWS, MAX_FOLDED_ROWS),
            };
        }
        self.tiles_per_line = self.cols.size.div_ceil(self.width);
        self.blocks_per_line = self.rows.size.div_ceil(self.height);
    }

    /// The dtype that the elements have.
    pub fn source(&self) -> DType {
        self.input.dtype()
    }

    pub fn tiles(&self) -> usize {
        Dim::count(&self.kept) * self.tiles_per_line
    }

    pub fn blocks(&self) -> usize {
        Dim::count(&self.reduced) * self.blocks_per_line
    }

    /// The number of elements that go into one output.
    pub fn extent(&self) -> usize {
        Dim::count(&self.reduced) * self.rows.size
    }

    /// The maximum number of states of rows that are folded together.
    pub fn wide_len(&self) -> usize {
        WIDE_TILE_COLS.min(self.block_len())
    }

    /// The maximum numbers of elements of a tile and of a block.
    pub fn tile_len(&self) -> usize {
        self.width.min(self.cols.size) * self.extent()
    }

    pub fn block_len(&self) -> usize {
        self.width.min(self.cols.size) * self.height.min(self.rows.size)
    }

    pub fn tile(&self, number: usize) -> Tile {
        let (line, first) = (number / self.tiles_per_line, number % self.tiles_per_line * self.width);
        let (input, outputs) = Dim::offsets(&self.kept, line);
        let target = |output: usize| {
            let offset = outputs[output] + first as isize * self.cols.outputs[output];
            self.outputs[output].data().wrapping_offset(offset)
        };
        Tile {
            input: self.input.data().wrapping_offset(input + first as isize * self.cols.input),
            targets: Targets {
                data: std::array::from_fn(target),
                steps: self.cols.outputs,
                sizes: self.outputs.each_ref().map(|output| output.dtype().size()),
            },
            cols: self.width.min(self.cols.size - first),
        }
    }

    /// A block of a tile, in the input's memory.
    pub fn block(&self, tile: &Tile, number: usize) -> FoldBlock {
        let (line, first) = (number / self.blocks_per_line, number % self.blocks_per_line * self.height);
        let offset = if self.reduced.is_empty() { 0 } else { Dim::offsets(&self.reduced, line).0 };
        FoldBlock {
            data: tile.input.wrapping_offset(offset + first as isize * self.rows.input),
            cols: tile.cols,
            rows: self.height.min(self.rows.size - first),
            col_step: self.cols.input,
            row_step: self.rows.input,
            first,
            by_runs: self.by_runs,
        }
    }
}
