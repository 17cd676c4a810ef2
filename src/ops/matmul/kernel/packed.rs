//! Products of few rows with a right operand that is packed once and used many times, as a recurrent layer's weight is at every
//! step.
//!
//! The right operand is packed into panels of a few columns, row after row, so that the widest tile reads a panel sequentially.
//! Each element of the result is the sum of its terms in order, whichever tile computes it.

#![forbid(unsafe_code)]

use super::register_tile::{self, COLUMNS, Left, RowMajor};
use super::skinny::Entry;
use crate::tensor::prelude::*;

/// Bytes of a panel's row: those of the widest tile, whose sums fill half of the registers of AVX-512.
const WIDE: usize = 256;

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
    if m == 0 {
        return;
    }
    let (width, a) = (width::<T>(), Left { data: a, rows: k, cols: 1 });
    for begin in (0..n).step_by(width) {
        let (count, panel) = (width.min(n - begin), &panels[begin * k..]);
        let whole = count / COLUMNS * COLUMNS;
        let b = RowMajor { data: panel, rows: width };
        register_tile::multiply([m, whole, k], RowMajor { data: &mut out[begin..], rows: n }, a, b, false);
        if whole < count {
            let mut memory = Memory::of(m * COLUMNS * size_of::<T>());
            let edge = memory.numbers::<T>(m * COLUMNS);
            let b = RowMajor { data: panel.get(whole..).unwrap_or_default(), rows: width };
            register_tile::multiply([m, COLUMNS, k], RowMajor { data: edge, rows: COLUMNS }, a, b, false);
            for (out, edge) in out[begin..].chunks_mut(n).zip(edge.chunks_exact(COLUMNS)) {
                out[whole..count].copy_from_slice(&edge[..count - whole]);
            }
        }
    }
}
