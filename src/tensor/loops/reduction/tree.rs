//! Runs a reduction's plan: blocks are folded, and their states are merged as a binary counter carries, which gives a balanced
//! tree.

use super::super::disjoint::DisjointSlice;
use super::super::index_space::Steps;
use super::super::staging::Stage;
use super::super::strided::StridedPtr;
use super::super::{Buffer, parallel};
use super::reduction_plan::{Plan, Tile};
use super::{BlockFold, FoldBlock};
use crate::simd::Aligned;
use crate::tuning::caches::BLOCK;
use crate::tuning::reductions::{FEW_TILES, MANY_SUBTREES, WIDE_TILE_COLS};
use crate::tuning::sharing::GRAIN;

/// Runs the plan. `cost`: nanoseconds of one thread per element.
pub(super) fn run<S: Copy + Default + Send + Sync>(plan: &Plan<'_>, blocks: &dyn BlockFold<S>, cost: f64) {
    let (tiles, count, tile_len) = (plan.tiles(), plan.blocks(), plan.tile_len());
    if tiles < FEW_TILES && tile_len >= 2 * GRAIN && count > 1 {
        return run_subtrees(plan, blocks, cost);
    }
    parallel(tiles, GRAIN.div_ceil(tile_len), cost * tile_len as f64, &|begin, end| {
        let mut worker = TreeFold::new(plan, blocks, count);
        for number in begin..end {
            let tile = plan.tile(number);
            let states = worker.subtree(&tile, 0, count);
            blocks.finish(states, plan.extent(), &tile.targets);
        }
    });
}

/// Reduces few outputs of long extents: subtrees in parallel, then the tree above them.
fn run_subtrees<S: Copy + Default + Send + Sync>(plan: &Plan<'_>, blocks: &dyn BlockFold<S>, cost: f64) {
    let (tiles, count, width) = (plan.tiles(), plan.blocks(), plan.width);
    let per_subtree = GRAIN.div_ceil(plan.block_len()).max(tiles * count / MANY_SUBTREES).next_power_of_two();
    let subtrees = count.div_ceil(per_subtree);
    let mut folds = vec![S::default(); tiles * subtrees * width];
    let slots = DisjointSlice::new(&mut folds);
    parallel(tiles * subtrees, 1, cost * (per_subtree * plan.block_len()) as f64, &|begin, end| {
        let mut worker = TreeFold::new(plan, blocks, per_subtree);
        for number in begin..end {
            let (tile, first) = (plan.tile(number / subtrees), number % subtrees * per_subtree);
            let states = worker.subtree(&tile, first, count.min(first + per_subtree));
            // SAFETY: `folds` has `width` states at this number, which only this iteration uses.
            (number * width..).zip(states).for_each(|(at, &state)| unsafe { slots.set(at, state) });
        }
    });
    for (number, folds) in folds.chunks_mut(subtrees * width).enumerate() {
        let tile = plan.tile(number);
        let mut counter = Counter { width, cols: tile.cols, depth: 0 };
        for subtree in 0..subtrees {
            folds.copy_within(subtree * width..(subtree + 1) * width, counter.depth * width);
            counter.count(blocks, folds, subtree);
        }
        counter.collapse(blocks, folds);
        blocks.finish(&folds[..tile.cols], plan.extent(), &tile.targets);
    }
}

/// The depth of a stack of states of `width` columns, which are merged as a binary counter carries.
struct Counter {
    width: usize,
    cols: usize,
    depth: usize,
}

impl Counter {
    /// Counts the states of leaf `number`, which are at the top of the stack, and merges completed subtrees.
    fn count<S>(&mut self, blocks: &dyn BlockFold<S>, stack: &mut [S], number: usize) {
        self.depth += 1;
        for _ in 0..(number + 1).trailing_zeros() {
            self.merge(blocks, stack);
        }
    }

    /// Merges the remaining states into the bottom of the stack.
    fn collapse<S>(&mut self, blocks: &dyn BlockFold<S>, stack: &mut [S]) {
        while self.depth > 1 {
            self.merge(blocks, stack);
        }
    }

    fn merge<S>(&mut self, blocks: &dyn BlockFold<S>, stack: &mut [S]) {
        self.depth -= 1;
        let (earlier, later) = stack.split_at_mut(self.depth * self.width);
        blocks.merge(&mut earlier[(self.depth - 1) * self.width..][..self.cols], &later[..self.cols]);
    }
}

/// The maximum number of states that are held without a heap allocation.
const HELD: usize = 16;

/// States that begin at a cache line if their size allows it.
enum States<S> {
    Few(Aligned<[S; HELD]>),
    Many { memory: Vec<S>, first: usize },
}

impl<S: Copy + Default> States<S> {
    fn new(count: usize) -> Self {
        const LINE: usize = 64;
        if count <= HELD {
            return Self::Few(Aligned([S::default(); HELD]));
        }
        let memory = vec![S::default(); count + LINE / size_of::<S>().clamp(1, LINE)];
        let first = memory.as_ptr().align_offset(LINE);
        let first = if first.saturating_add(count) <= memory.len() { first } else { 0 };
        Self::Many { memory, first }
    }

    fn get(&mut self) -> &mut [S] {
        match self {
            Self::Few(Aligned(states)) => states,
            Self::Many { memory, first } => &mut memory[*first..],
        }
    }
}

/// The scratch memory of one thread.
struct TreeFold<'a, S> {
    plan: &'a Plan<'a>,
    blocks: &'a dyn BlockFold<S>,
    stack: States<S>,
    /// The states of several rows that are folded together.
    wide: States<S>,
    /// A block's elements, packed.
    scratch: Vec<u128>,
}

impl<'a, S: Copy + Default> TreeFold<'a, S> {
    /// A worker for subtrees of up to `count` blocks.
    fn new(plan: &'a Plan<'a>, blocks: &'a dyn BlockFold<S>, count: usize) -> Self {
        let depth = count.ilog2() as usize + 2;
        let scratch = if plan.is_packed { (plan.block_len() * plan.element.size()).div_ceil(16) } else { 0 };
        let wide = if plan.is_wide { plan.wide_len() + plan.width } else { 0 };
        Self { plan, blocks, stack: States::new(depth * plan.width), wide: States::new(wide), scratch: vec![0; scratch] }
    }

    /// Computes the states of a tile over the blocks `begin..end`.
    fn subtree(&mut self, tile: &Tile, begin: usize, end: usize) -> &[S] {
        let mut counter = Counter { width: self.plan.width, cols: tile.cols, depth: 0 };
        for (leaf, number) in (begin..end).enumerate() {
            let block = self.plan.block(tile, number);
            let block = if self.plan.is_packed { self.pack(&block) } else { block };
            let offset = counter.depth * counter.width;
            if self.plan.is_wide && 2 * tile.cols <= WIDE_TILE_COLS && block.rows > 1 {
                self.fold_wide(&block, offset);
            } else {
                self.blocks.fold(&block, &mut self.stack.get()[offset..][..tile.cols]);
            }
            counter.count(self.blocks, self.stack.get(), leaf);
        }
        counter.collapse(self.blocks, self.stack.get());
        &self.stack.get()[..tile.cols]
    }

    /// Folds a block of contiguous rows as a block of fewer and longer rows, then merges the parts of the long rows.
    fn fold_wide(&mut self, block: &FoldBlock, offset: usize) {
        let cols = block.cols;
        let together = (WIDE_TILE_COLS / cols).min(block.rows);
        let rows = block.rows / together;
        let (wide, rest) = self.wide.get().split_at_mut(self.plan.wide_len());
        let length = block.row_step * together as isize;
        self.blocks.fold(&FoldBlock { cols: cols * together, rows, row_step: length, ..*block }, &mut wide[..cols * together]);
        // Halving keeps the tree balanced.
        let mut parts = together;
        while parts > 1 {
            let kept = parts.div_ceil(2);
            let (low, high) = wide.split_at_mut(kept * cols);
            self.blocks.merge(&mut low[..(parts - kept) * cols], &high[..(parts - kept) * cols]);
            parts = kept;
        }
        let left = block.rows - rows * together;
        if left > 0 {
            let data = block.row(rows * together);
            self.blocks.fold(&FoldBlock { data, rows: left, ..*block }, &mut rest[..cols]);
            self.blocks.merge(&mut wide[..cols], &rest[..cols]);
        }
        self.stack.get()[offset..][..cols].copy_from_slice(&wide[..cols]);
    }

    /// The block packed in scratch memory, its elements cast.
    fn pack(&mut self, block: &FoldBlock) -> FoldBlock {
        let (source, size) = (self.plan.source().size() as isize, self.plan.element.size() as isize);
        let (mut lines, mut count, mut step, line_step) = if block.by_runs {
            (block.cols, block.rows, block.row_step, block.col_step)
        } else {
            (block.rows, block.cols, block.col_step, block.row_step)
        };
        let dense = if block.by_runs { (count as isize * size, size) } else { (size, count as isize * size) };
        if lines == 1 || step == source && line_step == count as isize * source {
            (lines, count, step) = (1, lines * count, if lines * count == 1 { source } else { step });
        }
        let target = self.scratch.as_mut_ptr().cast::<u8>();
        for line in 0..lines {
            let from = block.data.wrapping_offset(line as isize * line_step);
            self.pack_line(from, step, count, target.wrapping_offset((line * count) as isize * size));
        }
        FoldBlock { data: target, col_step: dense.0, row_step: dense.1, ..*block }
    }

    /// Casts `count` elements that are `step` bytes apart into scratch memory at `to`.
    fn pack_line(&self, from: *const u8, step: isize, count: usize, to: *mut u8) {
        let ((source, target), mut raw) = ((self.plan.source(), self.plan.element), Buffer::new());
        for first in (0..count).step_by(BLOCK) {
            let data = from.wrapping_offset(first as isize * step).cast_mut();
            let (from, to) = (StridedPtr { data, steps: Steps { col: step, row: 0 } }, to.wrapping_add(first * target.size()));
            let stage = Stage::rows(BLOCK.min(count - first), 1);
            // SAFETY: the block's elements are the input's, which may be read and whose dtype `drive` has checked; a buffer holds a
            // block of any dtype, and scratch memory the elements of the whole block.
            unsafe { stage.gather(from, source, to, target, &mut || raw.data()) };
        }
    }
}
