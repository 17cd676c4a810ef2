//! Loops without arithmetic: copies, casts and fills.

use std::hint::black_box;

use super::elementwise::{self, Map};
use super::index_space::{Patch, Space, Steps};
use super::staging::{Stage, check_dtypes};
use super::strided::{self, StridedPtr};
use super::{Buffer, cast, parallel};
use crate::simd::leaf;
use crate::simd::nontemporal::Stores;
use crate::tensor::launch::{self, Launch, Layout};
use crate::tensor::{Error, Flags, Number, View, dispatch};
use crate::tuning::caches::TRANSPOSE_TILE;
use crate::tuning::sharing::{COPY_PIECE_BYTES, GRAIN};

/// Nanoseconds of one thread per element cast.
const CAST_COST: f64 = 0.3;

/// Nanoseconds of one thread per byte moved.
const BYTE_COST: f64 = 0.05;

/// Copies operand 1 to operand 0, cast to its dtype; honours the conjugate and negative flags of both.
pub fn copy(launch: &Launch<'_>) -> Result<(), Error> {
    let (output, input) = (launch.view(0), launch.view(1));
    let differs = |flag| output.flags().has(flag) != input.flags().has(flag);
    let sign = Sign { conj: differs(Flags::CONJ) && input.dtype().is_complex(), neg: differs(Flags::NEG) };
    if sign.conj || sign.neg {
        copy_signed(launch, sign)
    } else if output.dtype() == input.dtype() {
        copy_same(launch);
        Ok(())
    } else {
        copy_cast(launch)
    }
}

/// Copies `input` to `output`, views of the same sizes, as [`copy`].
pub fn copy_view(output: View<'_>, input: View<'_>) -> Result<(), Error> {
    if output.numel() == 0 {
        return Ok(());
    }
    launch::of_views(Layout::Elementwise, &[output, input], 1, &[], None, copy)
}

/// Copies `input` to the indices from `begin` on of a dimension of `output`, if both are contiguous memory of one dtype and fewer
/// than `limit` bytes. Returns whether it has copied.
pub fn copy_dense(output: &View<'_>, input: &View<'_>, dim: usize, begin: usize, limit: usize) -> bool {
    let size = input.dtype().size();
    let mut step = size as i64;
    let is_run = input.dtype() == output.dtype()
        && input.flags() == output.flags()
        && input.ndim() == output.ndim()
        && (0..input.ndim()).rev().all(|at| {
            let dense = |view: &View<'_>| view.sizes()[at] == 1 || view.strides()[at] == step;
            let fits = if at == dim { begin + input.size(at) <= output.size(at) } else { input.size(at) == output.size(at) };
            let is_dense = dense(input) && (dense(output) || at < dim) && (at >= dim || input.sizes()[at] == 1);
            step *= input.sizes()[at];
            fits && is_dense
        });
    if !is_run || dim >= input.ndim() || input.numel() * size >= limit {
        return false;
    }
    let to = output.data().wrapping_offset(begin as isize * output.stride(dim));
    let steps = Steps { col: size as isize, row: 0 };
    if input.numel() > 0 {
        // SAFETY: the elements of the input are contiguous, and so are as many of the output from that index on.
        unsafe { strided::copy(StridedPtr { data: input.data(), steps }, StridedPtr { data: to, steps }, size, input.numel(), 1) };
    }
    true
}

/// Negates or conjugates a value.
#[derive(Clone, Copy)]
struct Sign {
    conj: bool,
    neg: bool,
}

impl<T: Number> Map<T, 1> for Sign {
    type Output = T;

    #[inline(always)]
    fn apply(self, [value]: [T; 1]) -> T {
        let value = if self.conj { value.conj() } else { value };
        if self.neg { value.neg() } else { value }
    }
}

fn copy_signed(launch: &Launch<'_>, sign: Sign) -> Result<(), Error> {
    let dtype = launch.view(1).dtype();
    dispatch!(dtype in SIGNED, T => elementwise::run::<T, T, _, 1>(launch, sign))
}

fn copy_same(launch: &Launch<'_>) {
    let (output, input) = (launch.view(0), launch.view(1));
    let size = output.dtype().size();
    if output.is_dense_1d() && input.is_dense_1d() {
        let stores = Stores::of(output.data(), output.size(0) * size);
        parallel(output.size(0) * size, COPY_PIECE_BYTES, BYTE_COST, &|begin, end| {
            let (from, to) = (input.data().wrapping_add(begin), output.data().wrapping_add(begin));
            // SAFETY: both operands are dense runs of that many bytes, identical or disjoint.
            unsafe { strided::copy_run(from, to, end - begin, stores) };
        });
        return;
    }
    let space = Space::uncut(launch).cut_tiles(TRANSPOSE_TILE * TRANSPOSE_TILE, TRANSPOSE_TILE);
    space.for_each_piece(0.1 + size as f64 * BYTE_COST, &|begin, end| {
        space.walk(begin, end, &mut |patch| {
            let [to, from] = ptrs(&space, patch);
            // SAFETY: the launch's operands are readable and writable, and overlap at most element for element.
            unsafe { strided::copy(from, to, size, patch.cols, patch.rows) };
        });
    });
}

fn ptrs(space: &Space<'_>, patch: &Patch) -> [StridedPtr; 2] {
    [0, 1].map(|operand| StridedPtr { data: patch.data(operand), steps: space.steps(operand) })
}

fn copy_cast(launch: &Launch<'_>) -> Result<(), Error> {
    check_dtypes(launch)?;
    let (output, input) = (launch.view(0), launch.view(1));
    let (target, source) = (output.dtype(), input.dtype());
    if output.is_dense_1d() && input.is_dense_1d() && !output.overlaps(&input) {
        parallel(output.size(0), GRAIN, CAST_COST, &|begin, end| {
            let (from, to) = (input.data().wrapping_add(begin * source.size()), output.data().wrapping_add(begin * target.size()));
            // SAFETY: both operands are dense runs of that many elements, which do not overlap.
            let cast = unsafe { cast::cast(from, source, to, target, end - begin) };
            debug_assert!(cast.is_ok(), "check_dtypes found both convertible");
        });
        return Ok(());
    }
    let space = Space::of(launch);
    space.for_each_piece(CAST_COST, &|begin, end| {
        let (mut block, mut raw) = (Buffer::new(), Buffer::new());
        space.walk(begin, end, &mut |patch| {
            let [to, from] = ptrs(&space, patch);
            let (stage, mut raw) = (Stage::rows(patch.cols, patch.rows), || raw.data());
            let is_dense = to.is_dense(target.size(), patch.cols, patch.rows);
            let dense = if is_dense { to.data } else { block.data() };
            // SAFETY: the launch's operands are readable and writable, and `check_dtypes` found both convertible; a block buffer
            // holds any patch.
            unsafe { stage.gather(from, source, dense, target, &mut raw) };
            if !is_dense {
                // SAFETY: as above.
                unsafe { stage.scatter(dense, target, to, target, &mut raw) };
            }
        });
    });
    Ok(())
}

/// Fills operand 0 with the value of operand 1, cast to its dtype.
pub fn fill(launch: &Launch<'_>) -> Result<(), Error> {
    let (output, value) = (launch.view(0), launch.view(1));
    if output.numel() == 0 {
        return Ok(());
    }
    let mut element = 0u128;
    // SAFETY: the value is one readable element of its dtype, and no element is larger than `element`.
    unsafe { cast::cast(value.data(), value.dtype(), (&raw mut element).cast(), output.dtype(), 1) }?;
    fill_with(launch, element);
    Ok(())
}

/// Fills operand 0 with zeros.
pub fn zero(launch: &Launch<'_>) {
    fill_with(launch, 0);
}

/// Fills operand 0 with the element in the first bytes of `element`.
fn fill_with(launch: &Launch<'_>, mut element: u128) {
    let output = launch.view(0);
    let size = output.dtype().size();
    if output.is_dense_1d() {
        let stores = Stores::of(output.data(), output.size(0) * size);
        parallel(output.size(0), COPY_PIECE_BYTES / size, BYTE_COST * size as f64, &|begin, end| {
            fill_run(output.data().wrapping_add(begin * size), size, element, (end - begin) * size, stores);
        });
        return;
    }
    let space = Space::of(launch);
    let value = (&raw mut element).cast::<u8>() as usize;
    space.for_each_piece(0.1 + size as f64 * BYTE_COST, &|begin, end| {
        let from = StridedPtr { data: value as *mut u8, steps: super::index_space::Steps::default() };
        space.walk(begin, end, &mut |patch| {
            let to = StridedPtr { data: patch.data(0), steps: space.steps(0) };
            // SAFETY: `element` lives until all pieces have ended; the launch may write its output.
            unsafe { strided::copy(from, to, size, patch.cols, patch.rows) };
        });
    });
}

/// Fills `bytes` bytes with elements of `size` bytes, each of them the first bytes of `element`.
fn fill_run(to: *mut u8, size: usize, element: u128, bytes: usize, stores: Stores) {
    // No element is larger than the pattern, and every size divides the pattern's.
    let pattern = (0..size_of::<u128>() / size).fold(0, |pattern, copy| pattern | (element & mask(size)) << (8 * size * copy));
    fill_bytes(to, pattern, bytes, stores);
}

/// A mask of the lowest `size` bytes.
fn mask(size: usize) -> u128 {
    u128::MAX >> (u128::BITS as usize - 8 * size)
}

leaf! {
    /// Fills bytes with a repeated pattern.
    /// Writes blocks of the widest stores: Zen 4 writes whole cache lines without reading them first, but not those that are
    /// written in single words (4 MiB on one thread: 41 µs instead of 71).
    fn fill_bytes(to: *mut u8, pattern: u128, bytes: usize, stores: Stores) {
        const WORDS: usize = 32;
        const BLOCK: usize = WORDS * size_of::<u64>();
        let mut block = [0u64; WORDS];
        for (index, word) in block.iter_mut().enumerate() {
            *word = (pattern >> (64 * (index % 2))) as u64;
        }
        // The block is opaque to the compiler, which would store two known words as single words.
        let block = black_box(block);
        let whole = bytes / BLOCK * BLOCK;
        for first in (0..whole).step_by(BLOCK) {
            // SAFETY: `fill_with` passes runs of that many bytes of the launch's output, stored non-temporally only if it is
            // aligned, as blocks are.
            unsafe { stores.write(to.wrapping_add(first).cast(), block) };
        }
        let words = bytes / size_of::<u128>() * size_of::<u128>();
        for first in (whole..words).step_by(size_of::<u128>()) {
            // SAFETY: as above.
            unsafe { to.wrapping_add(first).cast::<u128>().write_unaligned(pattern) };
        }
        let repeated = pattern.to_ne_bytes();
        for at in words..bytes {
            // SAFETY: as above.
            unsafe { to.wrapping_add(at).write(repeated[at % size_of::<u128>()]) };
        }
        stores.finish();
    }
}
