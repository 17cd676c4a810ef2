//! Reductions given as a function of two values: [`Fold`], run over a launch by [`run`].
//!
//! The operands are [out, input] over the input's sizes; the output has stride 0 in the dimensions that are reduced. The reduced index
//! space is cut into *blocks* and the results of the blocks are combined in a balanced binary tree. Both depend on sizes and strides
//! alone, and a parallel run combines whole subtrees, so the bits do not depend on threads or instruction sets. Rounding errors grow
//! with the logarithm of the extent, as in pairwise summation (Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
//!
//! Where the innermost dimension is reduced, a block is a run of elements, folded in fixed lanes; otherwise it is some rows of a tile of
//! outputs side by side, folded row by row.

use super::strided::{self, Place};
use super::{BLOCK, Buffer, GRAIN, cast, parallel};
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::launch::Launch;
use crate::tensor::number::Number;
use crate::tensor::view::View;

/// A reduction over values of type `T`. Its methods are to be marked `#[inline(always)]`.
pub trait Fold<T: Number>: Copy + Send + Sync {
    /// What a fold that comes to see `first` starts from: the neutral value, or `first` itself where seeing it twice does not matter.
    fn start(self, first: T) -> T;
    /// The fold of two folds, or of a fold and a value.
    fn merge(self, left: T, right: T) -> T;
    /// The result for the fold of `count` values.
    #[inline(always)]
    fn finish(self, folded: T, count: usize) -> T {
        let _ = count;
        folded
    }
}

/// Lanes of a run.
const LANES: usize = 64;
/// Outputs of a tile.
const WIDTH: usize = 256;
/// Rows of a tile that are folded one after the other.
const HEIGHT: usize = 32;
/// Extents below this are not worth a run of their own.
const SHORT: usize = 16;
/// Tiles narrower than this are folded output by output.
const NARROW: usize = 8;

/// Folds the launch's input, cast to `E`, into its output, whose dtype is `E`'s (or Byte, where `E` is Bool).
///
/// # Errors
/// The wrong operands.
pub fn run<E: Element, F: Fold<E::Acc>>(launch: &Launch<'_>, fold: F) -> Result<(), String> {
    if launch.num_operands() != 2 {
        return Err(format!("{} operands where 2 are needed", launch.num_operands()));
    }
    let (output, input) = (launch.view(0), launch.view(1));
    let truth = E::DTYPE == DType::Bool && output.dtype() == DType::Byte;
    if output.dtype() != E::DTYPE && !truth || !input.dtype().is_convertible() {
        return Err(format!("cannot reduce {:?} to {:?}", input.dtype(), output.dtype()));
    }
    if input.numel() == 0 {
        return Ok(());
    }
    let plan = Plan::new(output, input);
    if plan.by_runs {
        Folding::<E, F, 1> { plan, fold, element: std::marker::PhantomData }.run(launch.cost());
    } else {
        Folding::<E, F, WIDTH> { plan, fold, element: std::marker::PhantomData }.run(launch.cost());
    }
    Ok(())
}

/// A dimension: its size, and the strides of both operands in bytes.
#[derive(Clone, Copy)]
struct Dim {
    size: usize,
    input: isize,
    output: isize,
}

impl Dim {
    const UNIT: Self = Self { size: 1, input: 0, output: 0 };

    /// Takes the dimension with the shortest input stride out of `dims`.
    fn take_nearest(dims: &mut Vec<Self>) -> Self {
        let nearest = dims.iter().enumerate().min_by_key(|(_, dim)| dim.input.unsigned_abs()).map(|(place, _)| place);
        nearest.map_or(Self::UNIT, |place| dims.remove(place))
    }

    fn count(dims: &[Self]) -> usize {
        dims.iter().map(|dim| dim.size).product()
    }

    /// Where the element of that number is, in the input and in the output.
    fn offsets(dims: &[Self], mut number: usize) -> (isize, isize) {
        let (mut input, mut output) = (0, 0);
        for dim in dims {
            let position = (number % dim.size) as isize;
            number /= dim.size;
            input += position * dim.input;
            output += position * dim.output;
        }
        (input, output)
    }
}

/// How a launch is cut into tiles of outputs, and the extent of each into blocks.
struct Plan<'a> {
    output: View<'a>,
    input: View<'a>,
    /// Whether blocks are runs along `rows` (and tiles one output each) rather than tiles of `cols` by `rows`.
    by_runs: bool,
    cols: Dim,
    rows: Dim,
    /// The other dimensions.
    kept: Vec<Dim>,
    reduced: Vec<Dim>,
    tiles_per_line: usize,
    blocks_per_line: usize,
    /// Rows of a block.
    height: usize,
}

impl<'a> Plan<'a> {
    fn new(output: View<'a>, input: View<'a>) -> Self {
        let (mut kept, mut reduced) = (Vec::new(), Vec::new());
        for (dim, &size) in input.sizes().iter().enumerate().filter(|&(_, &size)| size != 1) {
            let dim = Dim { size: size as usize, input: input.stride(dim), output: output.stride(dim) };
            if dim.output == 0 { &mut reduced } else { &mut kept }.push(dim);
        }
        let rows = Dim::take_nearest(&mut reduced);
        let mut cols = Dim::take_nearest(&mut kept);
        let inner = rows.input.unsigned_abs() < cols.input.unsigned_abs() || cols.size < NARROW;
        let by_runs = cols.size == 1 || rows.size >= SHORT && inner;
        if by_runs && cols.size != 1 {
            kept.insert(0, std::mem::replace(&mut cols, Dim::UNIT));
        }
        let (width, height) = if by_runs { (1, BLOCK) } else { (WIDTH, HEIGHT) };
        let (tiles_per_line, blocks_per_line) = (cols.size.div_ceil(width), rows.size.div_ceil(height));
        Self { output, input, by_runs, cols, rows, kept, reduced, tiles_per_line, blocks_per_line, height }
    }

    fn tiles(&self) -> usize {
        Dim::count(&self.kept) * self.tiles_per_line
    }

    fn blocks(&self) -> usize {
        Dim::count(&self.reduced) * self.blocks_per_line
    }

    /// Elements that go into one output.
    fn extent(&self) -> usize {
        Dim::count(&self.reduced) * self.rows.size
    }

    fn tile(&self, number: usize, width: usize) -> Tile {
        let (line, first) = (number / self.tiles_per_line, number % self.tiles_per_line * width);
        let (input, output) = Dim::offsets(&self.kept, line);
        Tile {
            input: self.input.data().wrapping_offset(input + first as isize * self.cols.input),
            output: self.output.data().wrapping_offset(output + first as isize * self.cols.output),
            cols: width.min(self.cols.size - first),
        }
    }

    /// The first element of a tile's block, and the block's rows.
    fn block(&self, tile: &Tile, number: usize) -> (*mut u8, usize) {
        let (line, first) = (number / self.blocks_per_line, number % self.blocks_per_line * self.height);
        let offset = Dim::offsets(&self.reduced, line).0 + first as isize * self.rows.input;
        (tile.input.wrapping_offset(offset), self.height.min(self.rows.size - first))
    }
}

/// Some outputs side by side, and the first element that goes into each.
struct Tile {
    input: *mut u8,
    output: *mut u8,
    cols: usize,
}

/// Where the threads of a loop put their results, each at indices of its own.
struct Slots<T>(*mut T);

// SAFETY: no two threads use the same index.
unsafe impl<T: Send> Sync for Slots<T> {}

/// A fold over a plan, with tiles of `W` outputs.
struct Folding<'a, E: Element, F, const W: usize> {
    plan: Plan<'a>,
    fold: F,
    element: std::marker::PhantomData<E>,
}

impl<E: Element, F: Fold<E::Acc>, const W: usize> Folding<'_, E, F, W> {
    fn run(&self, cost: f64) {
        let (tiles, blocks) = (self.plan.tiles(), self.plan.blocks());
        let width = W.min(self.plan.cols.size);
        let tile_len = width * self.plan.extent();
        if tiles < 16 && tile_len >= 2 * GRAIN && blocks > 1 {
            return self.run_subtrees(tiles, blocks, cost);
        }
        parallel(tiles, GRAIN.div_ceil(tile_len), cost * tile_len as f64, &|begin, end| {
            for number in begin..end {
                let tile = self.plan.tile(number, W);
                let mut folded = [E::Acc::ZERO; W];
                self.tree(&tile, 0, blocks, &mut folded);
                self.store(&tile, &folded);
            }
        });
    }

    /// Few outputs of long extents: subtrees in parallel, then the tree above them.
    fn run_subtrees(&self, tiles: usize, blocks: usize, cost: f64) {
        let block_len = W.min(self.plan.cols.size) * self.plan.height.min(self.plan.rows.size);
        let per_subtree = GRAIN.div_ceil(block_len).next_power_of_two();
        let subtrees = blocks.div_ceil(per_subtree);
        let mut folds = vec![[E::Acc::ZERO; W]; tiles * subtrees];
        let slots = Slots(folds.as_mut_ptr());
        let slots = &slots;
        parallel(tiles * subtrees, 1, cost * (per_subtree * block_len) as f64, &|begin, end| {
            for number in begin..end {
                let (tile, first) = (self.plan.tile(number / subtrees, W), number % subtrees * per_subtree);
                // SAFETY: `folds` has this slot, outlives the loop, and only this turn of it uses the slot.
                let folded = unsafe { &mut *slots.0.wrapping_add(number) };
                self.tree(&tile, first, blocks.min(first + per_subtree), folded);
            }
        });
        for (number, folds) in folds.chunks_mut(subtrees).enumerate() {
            let tile = self.plan.tile(number, W);
            self.upper_tree(&tile, folds);
            self.store(&tile, &folds[0]);
        }
    }

    /// Folds the blocks `begin..end` of a tile.
    fn tree(&self, tile: &Tile, begin: usize, end: usize, folded: &mut [E::Acc; W]) {
        if end - begin == 1 {
            return self.block(tile, begin, folded);
        }
        let middle = begin + left_part(end - begin);
        self.tree(tile, begin, middle, folded);
        let mut right = [E::Acc::ZERO; W];
        self.tree(tile, middle, end, &mut right);
        self.merge(tile, folded, &right);
    }

    /// Folds subtrees into the first of them.
    fn upper_tree(&self, tile: &Tile, folds: &mut [[E::Acc; W]]) {
        if folds.len() > 1 {
            let (left, right) = folds.split_at_mut(left_part(folds.len()));
            self.upper_tree(tile, left);
            self.upper_tree(tile, right);
            self.merge(tile, &mut left[0], &right[0]);
        }
    }

    fn merge(&self, tile: &Tile, left: &mut [E::Acc; W], right: &[E::Acc; W]) {
        for (left, &right) in left.iter_mut().zip(right).take(tile.cols) {
            *left = self.fold.merge(*left, right);
        }
    }

    /// Folds one block.
    fn block(&self, tile: &Tile, number: usize, folded: &mut [E::Acc; W]) {
        let (data, rows) = self.plan.block(tile, number);
        let same = self.plan.input.dtype() == E::DTYPE;
        let step = self.plan.rows.input;
        if self.plan.by_runs {
            let mut buffer = Buffer::new();
            let (data, step) =
                if same { (data, step) } else { (self.cast(data, step, rows, &mut buffer), size_of::<E>() as isize) };
            folded[0] = vectorize(Run::<E, F> { data, step, count: rows, fold: self.fold, element: std::marker::PhantomData });
            return;
        }
        let folded = &mut folded[..tile.cols];
        if same {
            let steps = (self.plan.cols.input, step);
            vectorize(Rows::<E, F> { data, steps, count: rows, start: true, folded, fold: self.fold });
            return;
        }
        let mut buffer = Buffer::new();
        for row in 0..rows {
            let data = data.wrapping_offset(row as isize * step);
            let data = self.cast(data, self.plan.cols.input, tile.cols, &mut buffer);
            let steps = (size_of::<E>() as isize, 0);
            vectorize(Rows::<E, F> { data, steps, count: 1, start: row == 0, folded: &mut *folded, fold: self.fold });
        }
    }

    /// Brings `count` elements that are `step` bytes apart side by side into `buffer`, as `E`.
    fn cast(&self, data: *mut u8, step: isize, count: usize, buffer: &mut Buffer) -> *mut u8 {
        let dtype = self.plan.input.dtype();
        let size = dtype.size();
        let mut raw = Buffer::new();
        let mut source = data;
        if step != size as isize {
            source = raw.data();
            let from = Place { data, steps: super::space::Steps { col: step, row: 0 } };
            // SAFETY: the plan's elements are those of the input, which may be read; a buffer holds a block of any dtype.
            unsafe { strided::copy(from, Place::dense(source, size, count), size, count, 1) };
        }
        // SAFETY: the elements lie side by side at `source`; a buffer holds a block of any dtype.
        let cast = unsafe { cast::cast(source, dtype, buffer.data(), E::DTYPE, count) };
        debug_assert!(cast.is_ok(), "run checks that the dtype is convertible");
        buffer.data()
    }

    fn store(&self, tile: &Tile, folded: &[E::Acc; W]) {
        let count = self.plan.extent();
        for (col, &folded) in folded.iter().enumerate().take(tile.cols) {
            let target = tile.output.wrapping_offset(col as isize * self.plan.cols.output).cast::<E>();
            // SAFETY: the plan's outputs are the launch's to write, and of E's size (`run` checks the dtype).
            unsafe { target.write_unaligned(E::store(self.fold.finish(folded, count))) };
        }
    }
}

/// Leaves of a tree's left branch: as many as make it a full tree.
fn left_part(leaves: usize) -> usize {
    leaves.next_power_of_two() / 2
}

/// The value `offset` bytes after `data`.
#[inline(always)]
fn load<E: Element>(data: *const u8, offset: isize) -> E::Acc {
    // SAFETY: the leaves below read elements of the input, which the launch may read, or of a buffer.
    unsafe { data.wrapping_offset(offset).cast::<E>().read_unaligned() }.load()
}

/// Folds elements that are `step` bytes apart.
struct Run<E, F> {
    data: *const u8,
    step: isize,
    count: usize,
    fold: F,
    element: std::marker::PhantomData<E>,
}

impl<E: Element, F: Fold<E::Acc>> Run<E, F> {
    #[inline(always)]
    fn lanes(&self, step: isize) -> E::Acc {
        let mut lanes = [self.fold.start(load::<E>(self.data, 0)); LANES];
        let whole = self.count / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            for (lane, folded) in lanes.iter_mut().enumerate() {
                *folded = self.fold.merge(*folded, load::<E>(self.data, (first + lane) as isize * step));
            }
        }
        for (lane, folded) in lanes.iter_mut().enumerate().take(self.count - whole) {
            *folded = self.fold.merge(*folded, load::<E>(self.data, (whole + lane) as isize * step));
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] = self.fold.merge(lanes[lane], lanes[lane + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

impl<E: Element, F: Fold<E::Acc>> Leaf for Run<E, F> {
    type Output = E::Acc;

    #[inline(always)]
    fn run(self) -> E::Acc {
        let size = size_of::<E>() as isize;
        if self.step == size { self.lanes(size) } else { self.lanes(self.step) }
    }
}

/// Folds rows of elements into one value per column; `steps`: bytes from column to column and from row to row.
struct Rows<'a, E: Element, F> {
    data: *const u8,
    steps: (isize, isize),
    count: usize,
    /// Whether these are the first rows.
    start: bool,
    folded: &'a mut [E::Acc],
    fold: F,
}

impl<E: Element, F: Fold<E::Acc>> Rows<'_, E, F> {
    #[inline(always)]
    fn fold_rows(&mut self, step: isize) {
        if self.start {
            for (col, folded) in self.folded.iter_mut().enumerate() {
                *folded = self.fold.start(load::<E>(self.data, col as isize * step));
            }
        }
        for row in 0..self.count {
            let data = self.data.wrapping_offset(row as isize * self.steps.1);
            for (col, folded) in self.folded.iter_mut().enumerate() {
                *folded = self.fold.merge(*folded, load::<E>(data, col as isize * step));
            }
        }
    }
}

impl<E: Element, F: Fold<E::Acc>> Leaf for Rows<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let size = size_of::<E>() as isize;
        let step = self.steps.0;
        if step == size { self.fold_rows(size) } else { self.fold_rows(step) }
    }
}
