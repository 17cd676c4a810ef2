//! Products of few rows with a right operand that is packed once and used many times, as a recurrent layer's weight is at every
//! step.
//!
//! The right operand is packed into panels of a few columns, row after row, so that the widest tile reads a panel sequentially.
//! Each element of the result is the sum of its terms in order, whichever tile computes it.

use super::register_tile::{AVX2_ROWS, ROWS, tile};
use super::skinny::Entry;
use crate::tensor::prelude::*;

/// Bytes of a panel's row, and of a tile's row with AVX-512: its sums fill half of the registers.
const WIDE: usize = 256;
/// Bytes of a tile's row with other instruction sets: with AVX2 its sums fill half of the registers as well.
const NARROW: usize = 64;

/// Columns of a panel.
const fn width<T>() -> usize {
    WIDE / size_of::<T>()
}

/// The number of elements of the panels of a matrix (k, n).
pub fn len<T>([k, n]: [usize; 2]) -> usize {
    n.next_multiple_of(width::<T>()) * k
}

/// Packs a matrix (k, n) of contiguous rows into panels of [`len`] elements. Panics if the matrix has another size.
pub fn pack<T: Entry<Acc = T> + Number>(matrix: &[T], [k, n]: [usize; 2]) -> Memory {
    assert_eq!(matrix.len(), k * n, "a matrix of another size");
    let (width, len) = (width::<T>(), len::<T>([k, n]));
    let mut memory = Memory::of(len * size_of::<T>());
    for (number, panel) in memory.numbers::<T>(len).chunks_exact_mut(width * k.max(1)).enumerate() {
        let (begin, end) = (number * width, n.min((number + 1) * width));
        for (to, from) in panel.chunks_exact_mut(width).zip(matrix.chunks_exact(n)) {
            to[..end - begin].copy_from_slice(&from[begin..end]);
            to[end - begin..].fill(<T as Number>::ZERO);
        }
    }
    memory
}

/// `out = a @ b` with out (m, n), a (m, k), both contiguous, and the panels of b (k, n). Panics if a slice has another length.
pub fn multiply<T: Entry<Acc = T> + Number>([m, n, k]: [usize; 3], out: &mut [T], a: &[T], panels: &[T]) {
    assert_eq!([out.len(), a.len(), panels.len()], [m * n, m * k, len::<T>([k, n])], "matrices of other sizes");
    let bytes = if simd::isa() == Isa::Avx512 { WIDE } else { NARROW };
    match bytes / size_of::<T>() {
        64 => vectorize(Product::<T, 64> { panels, out, a, n, k }),
        32 => vectorize(Product::<T, 32> { panels, out, a, n, k }),
        16 => vectorize(Product::<T, 16> { panels, out, a, n, k }),
        _ => vectorize(Product::<T, 8> { panels, out, a, n, k }),
    }
}

/// A product by tiles of `W` columns.
struct Product<'a, T, const W: usize> {
    panels: &'a [T],
    out: &'a mut [T],
    a: &'a [T],
    n: usize,
    k: usize,
}

impl<T: Entry<Acc = T> + Number, const W: usize> Leaf for Product<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { panels, out, a, n, k } = self;
        let rows = out.len().checked_div(n).unwrap_or(0);
        for begin in (0..n).step_by(W) {
            let panel = &panels[begin / width::<T>() * width::<T>() * k..][..width::<T>() * k];
            let columns = [begin % width::<T>(), W.min(n - begin)];
            let mut row = 0;
            while row < rows {
                let (a, out) = (&a[row * k..], &mut out[row * n + begin..]);
                row += match rows - row {
                    AVX2_ROWS.. if simd::isa() == Isa::Avx2 => few_rows::<T, AVX2_ROWS, W>(panel, columns, a, k, out, n),
                    ROWS.. => few_rows::<T, ROWS, W>(panel, columns, a, k, out, n),
                    2.. => few_rows::<T, 2, W>(panel, columns, a, k, out, n),
                    _ => few_rows::<T, 1, W>(panel, columns, a, k, out, n),
                };
            }
        }
    }
}

/// Computes `R` rows of the result and `cols` columns of a panel, from row `first` on; returns `R`.
#[inline(always)]
fn few_rows<T: Entry<Acc = T> + Number, const R: usize, const W: usize>(
    panel: &[T],
    [first, cols]: [usize; 2],
    a: &[T],
    k: usize,
    out: &mut [T],
    n: usize,
) -> usize {
    assert!(panel.len() == width::<T>() * k && first + W <= width::<T>());
    assert!(a.len() >= R * k && out.len() >= (R - 1) * n + cols);
    let (a, b) = ((a.as_ptr(), [k, 1]), (panel.as_ptr().wrapping_add(first), width::<T>()));
    if cols == W {
        // SAFETY: the assertions have checked that the slices have these elements.
        unsafe { tile::<T, R, W>(a, b, k, (out.as_mut_ptr(), n), false) };
    } else {
        let mut edge = [[<T as Number>::ZERO; W]; R];
        // SAFETY: as above, and `edge` has R x W elements.
        unsafe { tile::<T, R, W>(a, b, k, (edge.as_mut_ptr().cast(), W), false) };
        for (row, edge) in edge.iter().enumerate() {
            out[row * n..][..cols].copy_from_slice(&edge[..cols]);
        }
    }
    R
}
