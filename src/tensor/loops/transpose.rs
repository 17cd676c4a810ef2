//! Copying where source and target disagree about which dimension lies side by side.
//!
//! Walking along either one would touch a cache line per element, and rows that are a power of two apart fall into the same few places of
//! the cache. So small squares are read by whole lines of the source into registers or the stack, turned there, and written by whole lines
//! of the target; neither side needs its lines to stay in the cache.

use super::strided::Line;
use crate::simd::{Leaf, prefetch};

/// Squares to fetch ahead.
const AHEAD: usize = 2;

/// `inner` × `outer` elements: side by side along `inner` in the target, along `outer` in the source.
#[derive(Clone, Copy)]
pub struct Turn {
    pub from: *const u8,
    /// Bytes from one element to the next along `inner` in the source.
    pub from_step: isize,
    pub to: *mut u8,
    /// Bytes from one element to the next along `outer` in the target.
    pub to_step: isize,
    pub inner: usize,
    pub outer: usize,
}

/// The turn of elements `T` in squares of `EDGE`.
pub struct Squares<T, const EDGE: usize> {
    turn: Turn,
    element: std::marker::PhantomData<T>,
}

impl<T, const EDGE: usize> Squares<T, EDGE> {
    /// # Safety
    /// All elements of both sides may be accessed, and the sides do not overlap.
    pub unsafe fn new(turn: Turn) -> Self {
        Self { turn, element: std::marker::PhantomData }
    }
}

impl<T: Copy + Default, const EDGE: usize> Leaf for Squares<T, EDGE> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (turn, size) = (self.turn, size_of::<T>());
        let [inner, outer] = [turn.inner, turn.outer].map(|count| count / EDGE * EDGE);
        for row in (0..inner).step_by(EDGE) {
            for col in (0..outer).step_by(EDGE) {
                let from = turn.from.wrapping_offset(row as isize * turn.from_step).wrapping_add(col * size);
                let to = turn.to.wrapping_offset(col as isize * turn.to_step).wrapping_add(row * size);
                for line in 0..EDGE as isize {
                    prefetch(from.wrapping_offset(line * turn.from_step).wrapping_add(AHEAD * EDGE * size));
                    prefetch(to.wrapping_offset((line + (AHEAD * EDGE) as isize) * turn.to_step));
                }
                square::<T, EDGE>(from, turn.from_step, to, turn.to_step);
            }
        }
        // What is left beside and below the squares.
        for col in 0..turn.outer {
            let start = if col < outer { inner } else { 0 };
            let line = Line {
                from: turn.from.wrapping_add(col * size).wrapping_offset(start as isize * turn.from_step),
                from_step: turn.from_step,
                to: turn.to.wrapping_offset(col as isize * turn.to_step).wrapping_add(start * size),
                to_step: size as isize,
            };
            line.copy::<T>(turn.inner - start);
        }
    }
}

#[inline(always)]
fn square<T: Copy + Default, const EDGE: usize>(from: *const u8, from_step: isize, to: *mut u8, to_step: isize) {
    let mut square = [[T::default(); EDGE]; EDGE];
    for (row, line) in square.iter_mut().enumerate() {
        // SAFETY: `Squares::new`'s caller promises the elements; the square is inside.
        *line = unsafe { from.wrapping_offset(row as isize * from_step).cast::<[T; EDGE]>().read_unaligned() };
    }
    for col in 0..EDGE {
        let mut line = [T::default(); EDGE];
        for (value, row) in line.iter_mut().zip(&square) {
            *value = row[col];
        }
        // SAFETY: as above.
        unsafe { to.wrapping_offset(col as isize * to_step).cast::<[T; EDGE]>().write_unaligned(line) };
    }
}
