//! Products of f32 and bf16 by packed panels, on AMD processors with AVX-512 and its products of bfloat16 (Zen 4 and later).
//!
//! The loops are those of K. Goto and R. van de Geijn (Anatomy of High-Performance Matrix Multiplication, ACM Transactions on
//! Mathematical Software 34-3, 2008): a packed panel of b with [`WIDTH`] columns and [`PANEL_LANES`] lanes stays in the first-level
//! cache during a loop over the rows of a, [`ROWS`] at a time. If rows of a are not contiguous, [`PANEL_LANES`] lanes of them are
//! copied first. A lane is one f32 or two adjacent bf16 along the summed dimension. Sums are f32, accumulate [`PANEL_LANES`] lanes
//! at a time, and are rounded once at the end.

use std::ops::Range;

use super::avx512_tile::{self, LANES, Lane, Operands, Pitched, ROWS, Target, WIDTH};
use super::problem::{Matrix, Problem};
use super::tile::{self, Tile, Tiling};
use crate::tensor::loops::index_space::Steps;
use crate::tensor::loops::strided::StridedPtr;
use crate::tensor::prelude::*;
use crate::tuning::products::{BLOCKED_TILE_MULTIPLY_ADDS, BLOCKED_TILE_SIDE, PANEL_LANES, UNBLOCKED_ROWS, UNPACKED_ROW_TILES};

/// Lanes from one row of a packed block of a to the next. A power of two would map all rows to the same cache sets.
const PITCH: usize = PANEL_LANES + LANES;
/// Tiles of whole panels and register tiles.
const TILING: Tiling = Tiling { side: BLOCKED_TILE_SIDE, worth: BLOCKED_TILE_MULTIPLY_ADDS, align: [ROWS, WIDTH] };
/// Multiply-adds from which on these loops are worth their overhead. From the same size on PyTorch's CPU device treats denormal
/// bfloat16 numbers as zero, as the processor's instruction does.
pub const LEAST: usize = 16 * 16 * 16;

/// True if this module can compute the product: rows of the output and of the addend, if any, are contiguous.
pub fn takes(problem: &Problem) -> bool {
    matches!(problem.dtype, DType::Float | DType::BFloat16)
        && is_available()
        && problem.m * problem.n * problem.k > LEAST
        && problem.m.min(problem.n) > UNBLOCKED_ROWS
        && has_contiguous_rows(&upright(problem))
}

/// True if a product that both [`takes`] and [`super::narrow`] accept is faster here: bf16 with rows of a that need no copy.
pub fn beats_narrow(problem: &Problem) -> bool {
    problem.dtype == DType::BFloat16 && problem.a.col == 2 && problem.k.is_multiple_of(2)
}

/// True if the processor has the instructions.
fn is_available() -> bool {
    simd::has_bfloat16_products() && !simd::is_intel()
}

fn has_contiguous_rows(problem: &Problem) -> bool {
    let size = problem.dtype.size() as isize;
    let has = |matrix: Matrix| matrix.col == size && matrix.row >= 0;
    has(problem.out) && problem.addend.is_none_or(has)
}

/// The product, transposed if necessary so that the rows of its output are contiguous.
fn upright(problem: &Problem) -> Problem {
    if has_contiguous_rows(problem) { *problem } else { problem.transposed() }
}

/// Nanoseconds of one thread for a multiply-add of bf16, if this module computes the dtype.
pub fn product_cost(dtype: DType) -> Option<f64> {
    (dtype == DType::BFloat16 && is_available()).then_some(0.01)
}

/// Runs a product that [`takes`] accepts.
pub fn run<T: Lane>(problem: &Problem) {
    let problem = &upright(problem);
    let [beta, alpha] = problem.scalars::<f32>();
    tile::for_each(problem, TILING, &|tile| {
        let rows_of = |matrix: Matrix| {
            let matrix = matrix.at(tile.batch, tile.row, tile.col);
            (matrix.data, matrix.row as usize)
        };
        let (data, step) = rows_of(problem.out);
        let addend = problem.addend.map(rows_of).map(|(data, step)| Pitched { data: data.cast_const().cast::<T>(), step });
        let target = Target { out: Pitched { data: data.cast::<T>(), step }, addend, alpha, beta };
        one(problem, tile, target);
    });
}

/// Computes one tile of the output.
fn one<T: Lane>(problem: &Problem, tile: Tile, target: Target<T>) {
    let lanes = problem.k.div_ceil(T::PER_LANE);
    let width = tile.cols.next_multiple_of(WIDTH);
    let (mut left, mut right) = (Memory::of(tile.rows * PITCH * 4), Memory::of(PANEL_LANES.min(lanes) * width * 4));
    let mut partial = Memory::of(if lanes > PANEL_LANES { tile.rows * width * 4 } else { 0 });
    for first in (0..lanes).step_by(PANEL_LANES) {
        let depth = PANEL_LANES.min(lanes - first);
        let a = rows::<T>(problem, tile, first, depth, &mut left);
        let b = columns::<T>(problem, tile, first, depth, &mut right);
        for col in (0..tile.cols).step_by(WIDTH) {
            let strip = Operands {
                a,
                b: Pitched { data: b.lanes.data.wrapping_add(col / WIDTH * b.panel), ..b.lanes },
                depth,
                sums: Pitched { data: partial.data().cast::<f32>().wrapping_add(col), step: width * 4 },
                adds: first > 0,
                target: (first + depth == lanes).then(|| Target {
                    out: Pitched { data: target.out.data.wrapping_add(col), ..target.out },
                    addend: target.addend.map(|addend| Pitched { data: addend.data.wrapping_add(col), ..addend }),
                    ..target
                }),
            };
            // SAFETY: `takes` has checked the processor's instructions. The blocks have `tile.rows` rows and `depth` lanes, the
            // panel has WIDTH columns, and the sums have `width`. The launch guarantees that the tile lies inside the output and
            // the addend; no two threads have the same tile.
            unsafe { avx512_tile::strip(strip, tile.rows, WIDTH.min(tile.cols - col)) };
        }
    }
}

/// `depth` lanes of a tile's rows of a, from lane `first` on: in place if contiguous, else copied to `memory`.
fn rows<T: Lane>(problem: &Problem, tile: Tile, first: usize, depth: usize, memory: &mut Memory) -> Pitched<*const u32> {
    let (size, begin) = (size_of::<T>(), first * T::PER_LANE);
    let a = problem.a.at(tile.batch, tile.row, begin);
    let elements = (depth * T::PER_LANE).min(problem.k - begin);
    if a.col == size as isize && a.row > 0 && elements == depth * T::PER_LANE && a.row % 4096 != 0 {
        return Pitched { data: a.data.cast_const().cast(), step: a.row as usize };
    }
    let step = PITCH * 4;
    let packed = memory.numbers::<f32>(tile.rows * PITCH).as_mut_ptr();
    if elements < depth * T::PER_LANE {
        for row in 0..tile.rows {
            // SAFETY: the memory has PITCH lanes for each row, more than `depth`.
            unsafe { packed.wrapping_add(row * PITCH + depth - 1).write(0.0) };
        }
    }
    let to = StridedPtr { data: packed.cast(), steps: Steps { col: size as isize, row: step as isize } };
    // SAFETY: the launch guarantees the operand, and the memory has PITCH lanes for each row.
    unsafe { strided::copy(a.strided(), to, size, elements, tile.rows) };
    Pitched { data: packed.cast_const().cast(), step }
}

/// Panels of b: rows of [`WIDTH`] lanes, and the distance between panels in lanes.
struct Panels {
    lanes: Pitched<*const u32>,
    panel: usize,
}

/// `depth` lanes of a tile's columns of b, from lane `first` on: in place if few rows of a use them, else packed into `memory`.
fn columns<T: Lane>(problem: &Problem, tile: Tile, first: usize, depth: usize, memory: &mut Memory) -> Panels {
    let b = problem.b;
    if T::PER_LANE == 1 && b.col == 4 && b.row >= 0 && tile.rows <= UNPACKED_ROW_TILES * ROWS && tile.cols.is_multiple_of(WIDTH) {
        let data = b.at(tile.batch, first, tile.col).data.cast_const().cast();
        return Panels { lanes: Pitched { data, step: b.row as usize }, panel: WIDTH };
    }
    let panels = memory.numbers::<f32>(depth * tile.cols.next_multiple_of(WIDTH));
    pack::<T>(problem, tile, [first, depth], panels);
    Panels { lanes: Pitched { data: panels.as_ptr().cast(), step: WIDTH * 4 }, panel: depth * WIDTH }
}

/// Packs `depth` lanes of a tile's columns of b, from lane `first` on, panel after panel. A panel has a row of [`WIDTH`] lanes for
/// each lane of the summed dimension, with zeros behind the last column and the end of the summed dimension.
fn pack<T: Lane>(problem: &Problem, tile: Tile, [first, depth]: [usize; 2], panels: &mut [f32]) {
    let (size, begin) = (size_of::<T>() as isize, first * T::PER_LANE);
    let b = problem.b.at(tile.batch, begin, tile.col);
    let whole = depth.min((problem.k - begin) / T::PER_LANE);
    let is_column_major = b.col != size && (b.row == size || T::PER_LANE == 1);
    if is_column_major {
        for (col, panel) in (0..tile.cols).step_by(WIDTH).zip(panels.chunks_exact_mut(depth * WIDTH)) {
            copy_columns::<T>(b.at(0, 0, col), panel, [whole, WIDTH.min(tile.cols - col)]);
        }
    }
    let rows = if is_column_major { whole..depth } else { 0..depth };
    pack_rows::<T>(b, rows, depth, whole, tile.cols, panels);
}

/// Copies whole lanes of a panel's columns, with zeros behind the last column.
fn copy_columns<T: Lane>(from: Matrix, panel: &mut [f32], [rows, cols]: [usize; 2]) {
    if cols < WIDTH {
        panel.fill(0.0);
    }
    let from = StridedPtr { data: from.data, steps: Steps { col: from.col, row: from.row * T::PER_LANE as isize } };
    let to = StridedPtr { data: panel.as_mut_ptr().cast(), steps: Steps { col: 4, row: WIDTH as isize * 4 } };
    // SAFETY: the launch guarantees the operand; the panel has WIDTH lanes for each row.
    unsafe { strided::copy(from, to, 4, cols, rows) };
}

leaf! {
    /// Packs rows of lanes, each row of b to all panels. Panels have `depth` rows, of which `whole` have all elements of a lane.
    fn pack_rows<T: Lane>(from: Matrix, rows: Range<usize>, depth: usize, whole: usize, cols: usize, panels: &mut [f32]) {
        let contiguous = Matrix { col: size_of::<T>() as isize, ..from };
        for row in rows {
            let (first, is_whole) = (row * T::PER_LANE, row < whole);
            for (number, begin) in (0..cols).step_by(WIDTH).enumerate() {
                let to = &mut panels[(number * depth + row) * WIDTH..][..WIDTH];
                if is_whole && begin + WIDTH <= cols && from.col == contiguous.col {
                    for (col, lane) in to.iter_mut().enumerate() {
                        // SAFETY: the elements lie inside b, as the launch guarantees.
                        *lane = f32::from_bits(unsafe { T::lane(contiguous.at(0, first, begin + col), true) });
                    }
                    continue;
                }
                for (col, lane) in (begin..).zip(to.iter_mut()) {
                    // SAFETY: as above.
                    *lane = if col < cols { f32::from_bits(unsafe { T::lane(from.at(0, first, col), is_whole) }) } else { 0.0 };
                }
            }
        }
    }
}
