//! Products by register tiles over packed blocks: f16 and bf16, which are widened as they are packed, and f32 with AVX2.
//!
//! Blocks of the right operand are packed into panels of a register tile's columns, so that a panel has few pages and stays in the
//! first-level cache. Blocks of the left operand are read in place if they have contiguous rows of `f32`, and packed otherwise. Sums
//! are f32 and are rounded once.

use super::problem::{Finish, Matrix, Problem};
use super::register_tile::{COLUMNS, multiply_at, widest};
use super::skinny::Entry;
use super::tile::{self, Tile, Tiling};
use crate::simd::{self, Isa, Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::loops::Memory;
use crate::tensor::loops::index_space::Steps;
use crate::tensor::loops::strided::{self, StridedPtr};
use crate::tensor::number::Number;
use crate::tuning::products::{TILED_DEPTH, TILED_MULTIPLY_ADDS, TILED_SIDE};

/// True if a product of f32 is faster by register tiles than by the `gemm` crate.
pub fn takes(problem: &Problem) -> bool {
    problem.dtype == DType::Float && simd::isa() == Isa::Avx2 && problem.m * problem.n * problem.k >= TILED_MULTIPLY_ADDS
}

/// Runs a product of `T`.
pub fn run<T: Entry<Acc = f32>>(problem: &Problem) {
    let [beta, alpha] = problem.scalars::<f32>();
    tile::for_each(problem, Tiling { side: TILED_SIDE, ..Tiling::GEMM }, &|tile| {
        one::<T>(problem, Finish { beta, alpha }, tile);
    });
}

fn one<T: Entry<Acc = f32>>(problem: &Problem, finish: Finish<T>, tile: Tile) {
    let pitch = tile.cols.next_multiple_of(COLUMNS);
    let sizes = [tile.rows * pitch, tile.rows * TILED_DEPTH, TILED_DEPTH * pitch, TILED_DEPTH * tile.rows.max(pitch)];
    let mut memory = Memory::of(sizes.iter().sum::<usize>() * size_of::<f32>());
    let (sums, rest) = memory.numbers::<f32>(sizes.iter().sum()).split_at_mut(sizes[0]);
    let (left, rest) = rest.split_at_mut(sizes[1]);
    let (right, lines) = rest.split_at_mut(sizes[2]);
    if problem.k == 0 {
        sums.fill(0.0);
    }
    for start in (0..problem.k).step_by(TILED_DEPTH) {
        let depth = TILED_DEPTH.min(problem.k - start);
        let (a, b) = (problem.a.at(tile.batch, tile.row, start), problem.b.at(tile.batch, start, tile.col));
        let a = in_place::<T>(a).unwrap_or_else(|| {
            pack::<T>(a, [tile.rows, depth], left, depth, lines);
            (left.as_ptr(), depth)
        });
        for col in (0..tile.cols).step_by(widest::<f32>()) {
            let cols = widest::<f32>().min(tile.cols - col);
            let width = cols.next_multiple_of(COLUMNS);
            let panel = &mut right[col * depth..][..width * depth];
            pack::<T>(b.at(0, 0, col), [depth, cols], panel, width, lines);
            let (out, panel) = ((sums[col..].as_mut_ptr(), pitch), (panel.as_ptr(), width));
            // SAFETY: the launch guarantees the left operand, of which the block is a part; otherwise `left` has its rows. The rows of
            // sums have `width` columns from `col` on, and the panel has `depth` rows of them.
            unsafe { multiply_at([tile.rows, width, depth], out, (a.0, [a.1, 1]), panel, start > 0) };
        }
    }
    let tile_of = |matrix: Matrix| matrix.at(tile.batch, tile.row, tile.col);
    let (out, addend) = (tile_of(problem.out), problem.addend.map(tile_of));
    vectorize(Store { out, addend, cols: tile.cols, pitch, sums, finish });
}

/// Packs a block into rows that are `pitch` numbers apart, widened. `lines`: memory for as many numbers.
fn pack<T: Element<Acc = f32>>(from: Matrix, [rows, cols]: [usize; 2], to: &mut [f32], pitch: usize, lines: &mut [f32]) {
    const SIZE: usize = size_of::<f32>();
    assert!(cols <= pitch && rows * pitch <= to.len() && rows * cols <= lines.len());
    let packed = StridedPtr { data: to.as_mut_ptr().cast(), steps: Steps { col: SIZE as isize, row: (pitch * SIZE) as isize } };
    let from = if T::DTYPE == DType::Float {
        from
    } else if from.col == size_of::<T>() as isize || from.row != size_of::<T>() as isize {
        vectorize(Widen::<T> { from, cols, pitch, to: &mut to[..rows * pitch], element: std::marker::PhantomData });
        return;
    } else {
        let lines = &mut lines[..rows * cols];
        vectorize(Widen::<T> {
            from: from.transposed(),
            cols: rows,
            pitch: rows,
            to: &mut *lines,
            element: std::marker::PhantomData,
        });
        Matrix::contiguous(lines.as_mut_ptr(), rows).transposed()
    };
    // SAFETY: the block is part of an operand that the launch guarantees, or `lines`; the assertion has checked the room in `to`.
    unsafe { strided::copy(from.strided(), packed, SIZE, cols, rows) };
}

/// The address of a left operand of contiguous rows of `f32` and the distance between them, in elements.
fn in_place<T: Element>(matrix: Matrix) -> Option<(*const f32, usize)> {
    let row = usize::try_from(matrix.row).ok().filter(|row| row.is_multiple_of(size_of::<f32>()))?;
    let data = matrix.data.cast::<f32>().cast_const();
    let is_dense = T::DTYPE == DType::Float && data.is_aligned() && matrix.col == size_of::<f32>() as isize;
    is_dense.then_some((data, row / size_of::<f32>()))
}

/// Widens rows of `cols` elements into rows that are `pitch` numbers apart.
struct Widen<'a, T> {
    from: Matrix,
    cols: usize,
    pitch: usize,
    to: &'a mut [f32],
    element: std::marker::PhantomData<T>,
}

impl<T: Element<Acc = f32>> Leaf for Widen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let dense = self.from.col == size_of::<T>() as isize;
        for (row, line) in self.to.chunks_exact_mut(self.pitch).enumerate() {
            let line = &mut line[..self.cols];
            let from = self.from.at(0, row, 0);
            let data = from.data.cast::<T>().cast_const();
            if dense && const { T::IS_CONVERTED_IN_RUNS } && data.is_aligned() {
                // SAFETY: the block lies inside an operand of the launch, which is readable.
                T::load_run(unsafe { std::slice::from_raw_parts(data, self.cols) }, line);
            } else if dense {
                for (col, value) in line.iter_mut().enumerate() {
                    // SAFETY: the block lies inside an operand of the launch, which is readable.
                    *value = unsafe { from.data.cast::<T>().wrapping_add(col).read_unaligned() }.load();
                }
            } else {
                for (col, value) in line.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *value = unsafe { from.at(0, 0, col).data.cast::<T>().read_unaligned() }.load();
                }
            }
        }
    }
}

/// Writes rows of sums to a tile of the output.
pub struct Store<'a, T: Element> {
    pub out: Matrix,
    pub addend: Option<Matrix>,
    pub cols: usize,
    /// The distance between rows of sums.
    pub pitch: usize,
    pub sums: &'a [T::Acc],
    pub finish: Finish<T>,
}

impl<T: Element> Store<'_, T> {
    /// True if the elements of a row are contiguous.
    #[inline(always)]
    fn is_dense(matrix: Matrix) -> bool {
        matrix.col == size_of::<T>() as isize
    }

    /// Writes contiguous rows, where the rows of the addend, if any, are contiguous too.
    #[inline(always)]
    fn dense_rows(&self) {
        let Finish { alpha, beta } = self.finish;
        for (row, line) in self.sums.chunks_exact(self.pitch).map(|line| &line[..self.cols]).enumerate() {
            let out = self.out.at(0, row, 0).data.cast::<T>();
            let Some(addend) = self.addend else {
                for (col, &sum) in line.iter().enumerate() {
                    // SAFETY: the tile lies inside the output, as the launch guarantees.
                    unsafe { out.wrapping_add(col).write_unaligned(T::store(alpha.mul(sum))) };
                }
                continue;
            };
            let addend = addend.at(0, row, 0).data.cast::<T>();
            for (col, &sum) in line.iter().enumerate() {
                // SAFETY: the tile lies inside the addend, as the launch guarantees.
                let own = unsafe { addend.wrapping_add(col).read_unaligned() }.load();
                // SAFETY: as above.
                unsafe { out.wrapping_add(col).write_unaligned(T::store(alpha.mul(sum).add(beta.mul(own)))) };
            }
        }
    }
}

impl<T: Element> Leaf for Store<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if Self::is_dense(self.out) && self.addend.is_none_or(Self::is_dense) {
            return self.dense_rows();
        }
        for (row, line) in self.sums.chunks_exact(self.pitch).map(|line| &line[..self.cols]).enumerate() {
            for (col, &sum) in line.iter().enumerate() {
                let addend = self.addend.map(|addend| addend.at(0, row, col));
                // SAFETY: the tile lies inside the output and the addend, as the launch guarantees.
                unsafe { self.finish.write(self.out.at(0, row, col), addend, sum) };
            }
        }
    }
}
