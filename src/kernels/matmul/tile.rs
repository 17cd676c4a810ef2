//! Cutting a product into tiles, and computing one tile: where its operands are, or by way of packed panels.

use std::cell::RefCell;

use super::product::{Multiply, Operand, product};
use super::{Element, Matrices, Number, Problem};
use crate::runtime::threads;
use crate::tensor::loops::{Buffer, cast, strided};

/// Multiplications and additions that a tile should have, at least.
const TILE_WORK: f64 = 2.0 * 1024.0 * 1024.0;
/// Rows and columns of a tile are not cut below this.
const TILE_EDGE: usize = 64;
/// Tiles of one matrix, at most; with more elements than `LARGE`, more of them.
const MAX_TILES: usize = 16;
const MAX_TILES_LARGE: usize = 64;
const LARGE: usize = 1 << 22;
/// Inner dimension of a packed panel.
const DEPTH: usize = 1024;
/// Rows and columns of a tile that is packed, at most.
const PACKED_EDGE: usize = 512;

/// How an output matrix is cut.
struct Grid {
    rows: usize,
    cols: usize,
}

impl Grid {
    /// Halves the longer edge until there are enough tiles, by sizes alone.
    fn new(problem: &Problem, packed: bool) -> Self {
        let (mut rows, mut cols) = (problem.m, problem.n);
        let work = 2.0 * problem.m as f64 * problem.n as f64 * problem.k as f64;
        let most = if problem.m * problem.n > LARGE { MAX_TILES_LARGE } else { MAX_TILES };
        let wanted = ((work / TILE_WORK) as usize).min(most);
        let mut tiles = problem.batch;
        while tiles < wanted && rows.max(cols) >= 2 * TILE_EDGE {
            let edge = if rows >= cols { &mut rows } else { &mut cols };
            *edge = edge.div_ceil(2).next_multiple_of(16);
            tiles *= 2;
        }
        if packed {
            (rows, cols) = (rows.min(PACKED_EDGE), cols.min(PACKED_EDGE));
        }
        Self { rows, cols }
    }
}

/// One tile: which matrix, its first row and column, and how many of each.
#[derive(Clone, Copy)]
struct Tile {
    batch: usize,
    row: usize,
    col: usize,
    rows: usize,
    cols: usize,
}

/// Computes the whole problem with elements `E`.
pub fn run<E>(problem: &Problem)
where
    E: Element,
    E::Acc: Multiply,
{
    let size = size_of::<E::Acc>() as isize;
    let direct = |matrix: &Matrices| matrix.dtype == E::Acc::DTYPE && matrix.row % size == 0 && matrix.col % size == 0;
    let is_direct = E::Acc::IN_PLACE && direct(&problem.out) && direct(&problem.lhs) && direct(&problem.rhs);
    let grid = Grid::new(problem, !is_direct);
    let (down, across) = (problem.m.div_ceil(grid.rows), problem.n.div_ceil(grid.cols));
    let body = |index: usize| {
        let (batch, place) = (index / (down * across), index % (down * across));
        let (row, col) = (place / across * grid.rows, place % across * grid.cols);
        let (rows, cols) = (grid.rows.min(problem.m - row), grid.cols.min(problem.n - col));
        let tile = Tile { batch, row, col, rows, cols };
        if is_direct { in_place::<E::Acc>(problem, tile) } else { packed::<E>(problem, tile) }
    };
    let tiles = problem.batch * down * across;
    let cost = problem.batch as f64 * problem.m as f64 * problem.n as f64 * (0.5 + 0.04 * problem.k as f64);
    match tiles {
        1 => body(0),
        _ => threads::parallel_for(tiles, cost as u64, &body),
    }
}

fn operand<T>(matrix: &Matrices, batch: usize, row: usize, col: usize) -> Operand<T> {
    let size = size_of::<T>() as isize;
    Operand { data: matrix.at(batch, row, col).cast(), row: matrix.row / size, col: matrix.col / size }
}

fn in_place<T: Multiply>(problem: &Problem, tile: Tile) {
    let out = operand::<T>(&problem.out, tile.batch, tile.row, tile.col);
    if let Some(addend) = &problem.addend {
        copy_addend(addend, &problem.out, tile);
    }
    let scale = if problem.addend.is_some() { Some(problem.beta.to()) } else { None };
    let lhs = operand(&problem.lhs, tile.batch, tile.row, 0);
    let rhs = operand(&problem.rhs, tile.batch, 0, tile.col);
    // SAFETY: the tile's rows and columns are inside the problem's matrices, whose memory the launch promises.
    unsafe { product(tile.rows, tile.cols, problem.k, out, scale, lhs, rhs, problem.alpha.to()) };
}

/// Writes the tile of `addend` to the output, where it is not there already.
fn copy_addend(addend: &Matrices, out: &Matrices, tile: Tile) {
    let (from, to) = (addend.at(tile.batch, tile.row, tile.col), out.at(tile.batch, tile.row, tile.col));
    if from == to && (addend.row, addend.col) == (out.row, out.col) {
        return;
    }
    for row in 0..tile.rows {
        let line = |matrix: &Matrices| Line {
            data: matrix.at(tile.batch, tile.row + row, tile.col),
            step: matrix.col,
            dtype: matrix.dtype,
        };
        move_line(line(addend), line(out), tile.cols);
    }
}

thread_local! {
    /// Memory of the packed panels; kept from one product to the next.
    static PANELS: RefCell<Vec<u128>> = const { RefCell::new(Vec::new()) };
}

/// Multiplies panels that are packed as `E::Acc`, and stores the result as the output's dtype.
fn packed<E>(problem: &Problem, tile: Tile)
where
    E: Element,
    E::Acc: Multiply,
{
    let depth = DEPTH.min(problem.k).max(1);
    let words = |count: usize| (count * size_of::<E::Acc>()).div_ceil(64) * 4;
    let (lhs_words, rhs_words, out_words) = (words(tile.rows * depth), words(depth * tile.cols), words(tile.rows * tile.cols));
    PANELS.with_borrow_mut(|panels| {
        if panels.len() < lhs_words + rhs_words + out_words {
            panels.resize(lhs_words + rhs_words + out_words, 0);
        }
        let (lhs_panel, rest) = panels.split_at_mut(lhs_words);
        let (rhs_panel, out_panel) = rest.split_at_mut(rhs_words);
        let out = Operand { data: out_panel.as_mut_ptr().cast::<E::Acc>(), row: tile.cols as isize, col: 1 };
        let mut start = 0;
        loop {
            let steps = depth.min(problem.k - start);
            let lhs = pack::<E>(&problem.lhs, [tile.batch, tile.row, start], [tile.rows, steps], lhs_panel);
            let rhs = pack::<E>(&problem.rhs, [tile.batch, start, tile.col], [steps, tile.cols], rhs_panel);
            let scale = (start > 0).then_some(E::Acc::ONE);
            // SAFETY: the panels have room for these rows and columns.
            unsafe { product(tile.rows, tile.cols, steps, out, scale, lhs, rhs, E::Acc::ONE) };
            start += steps;
            if start >= problem.k {
                break;
            }
        }
        finish::<E>(problem, tile, out.data, lhs_panel);
    });
}

/// out = beta * addend + alpha * `result`, row by row; `scratch` holds a row of the addend.
fn finish<E>(problem: &Problem, tile: Tile, result: *mut E::Acc, scratch: &mut [u128])
where
    E: Element,
    E::Acc: Multiply,
{
    let (alpha, beta): (E::Acc, E::Acc) = (problem.alpha.to(), problem.beta.to());
    let chunk = (size_of_val(scratch) / size_of::<E::Acc>()).min(tile.cols);
    for row in 0..tile.rows {
        for start in (0..tile.cols).step_by(chunk) {
            let cols = chunk.min(tile.cols - start);
            let line = |matrix: &Matrices| Line {
                data: matrix.at(tile.batch, tile.row + row, tile.col + start),
                step: matrix.col,
                dtype: matrix.dtype,
            };
            let values = result.wrapping_add(row * tile.cols + start);
            let addend = scratch.as_mut_ptr().cast::<E::Acc>();
            if let Some(matrix) = &problem.addend {
                move_line(line(matrix), Line::dense(addend), cols);
            }
            for col in 0..cols {
                let value = values.wrapping_add(col);
                // SAFETY: `result` has the tile's values.
                let scaled = alpha.mul(unsafe { value.read() });
                let sum = match problem.addend {
                    // SAFETY: `scratch` has `chunk` values, the first `cols` of which were just written.
                    Some(_) => beta.mul(unsafe { addend.wrapping_add(col).read() }).add(scaled),
                    None => scaled,
                };
                // SAFETY: as for the read.
                unsafe { value.write(sum) };
            }
            move_line(Line::dense(values), line(&problem.out), cols);
        }
    }
}

/// Elements of a dtype at even steps (bytes).
#[derive(Clone, Copy)]
struct Line {
    data: *mut u8,
    step: isize,
    dtype: crate::tensor::dtype::DType,
}

impl Line {
    fn dense<T: Element>(data: *mut T) -> Self {
        Self { data: data.cast(), step: size_of::<T>() as isize, dtype: T::DTYPE }
    }

    fn is_dense(&self) -> bool {
        self.step == self.dtype.size() as isize
    }
}

/// Copies `count` elements, cast to the target's dtype.
fn move_line(from: Line, to: Line, count: usize) {
    let mut raw = [Buffer::new(), Buffer::new()];
    let [near, far] = &mut raw;
    for start in (0..count).step_by(crate::tensor::loops::BLOCK) {
        let count = crate::tensor::loops::BLOCK.min(count - start);
        let source = from.data.wrapping_offset(start as isize * from.step);
        let target = to.data.wrapping_offset(start as isize * to.step);
        let gathered = if from.is_dense() { source } else { near.data() };
        let converted = if to.is_dense() { target } else { far.data() };
        let place = |data, step| strided::Place { data, steps: crate::tensor::loops::space::Steps { col: step, row: 0 } };
        if !from.is_dense() {
            // SAFETY: the caller gives lines of the launch's matrices or of its own panels; a buffer holds a block.
            unsafe {
                strided::copy(place(source, from.step), place(gathered, from.dtype.size() as isize), from.dtype.size(), count, 1)
            };
        }
        // SAFETY: as above; a line of an operand and a panel or a buffer do not overlap.
        let cast = unsafe { cast::cast(gathered, from.dtype, converted, to.dtype, count) };
        debug_assert!(cast.is_ok(), "the table lists dtypes that can be cast");
        if !to.is_dense() {
            // SAFETY: as above.
            unsafe { strided::copy(place(converted, to.dtype.size() as isize), place(target, to.step), to.dtype.size(), count, 1) };
        }
    }
}

/// Packs `sizes` (rows, columns) elements from a place (batch, row, column) on, along the source's closer dimension.
fn pack<E>(from: &Matrices, [batch, row, col]: [usize; 3], [rows, cols]: [usize; 2], panel: &mut [u128]) -> Operand<E::Acc>
where
    E: Element,
    E::Acc: Multiply,
{
    let data = panel.as_mut_ptr().cast::<E::Acc>();
    let by_rows = from.col.abs() <= from.row.abs();
    let (lines, length, step) = if by_rows { (rows, cols, from.col) } else { (cols, rows, from.row) };
    for line in 0..lines {
        let source = if by_rows { from.at(batch, row + line, col) } else { from.at(batch, row, col + line) };
        let source = Line { data: source, step, dtype: from.dtype };
        move_line(source, Line::dense(data.wrapping_add(line * length)), length);
    }
    let length = length as isize;
    if by_rows { Operand { data, row: length, col: 1 } } else { Operand { data, row: 1, col: length } }
}
