//! Functions with a fast path for most arguments, which vectorises, and a slow path for all.
//!
//! The path of an element depends on the element alone, and so do the bits of its result. Blocks whose elements all take the fast
//! path run without branches.

use super::blocks::{BlockFunction, Blocks};
use super::elementwise::{Inputs, Types, drive, drive_in_runs, has_wider_number};
use super::words::is_paired;
use crate::simd::leaf;
use crate::simd::nontemporal::Stores;
use crate::tensor::{Element, Error, Launch, Number};
use crate::tuning::caches::{ELEMENTWISE_BLOCK, FAST_PATH_BLOCK};

/// A function of `N` numbers with a fast and a slow path. Mark the methods `#[inline(always)]`.
pub trait FastPath<T: Number, const N: usize>: Copy + Send + Sync {
    /// [`Map::PRECISE_NUMBERS`](super::elementwise::Map::PRECISE_NUMBERS).
    const PRECISE_NUMBERS: bool = false;

    /// True if the inputs take the fast path.
    fn takes_fast_path(self, inputs: [T; N]) -> bool;
    fn fast(self, inputs: [T; N]) -> T;
    fn slow(self, inputs: [T; N]) -> T;
}

/// Runs `op` over the launch's operands [out, inputs...], as [`elementwise::run`](super::elementwise::run) does.
#[inline]
pub fn run<E, Op, const N: usize>(launch: &Launch<'_>, op: Op) -> Result<(), Error>
where
    E: Element,
    Op: FastPath<E::Acc, N>,
{
    if Op::PRECISE_NUMBERS && has_wider_number::<E>(launch) {
        return run::<E::Acc, Op, N>(launch, op);
    }
    let types = Types { input: E::DTYPE, output: E::DTYPE, inputs: N };
    if const { E::IS_CONVERTED_IN_RUNS } {
        let of_values = Types { input: E::Acc::DTYPE, output: E::Acc::DTYPE, inputs: N };
        drive_in_runs(launch, [types, of_values], &|output, inputs, count, _| apply::<E::Acc, Op, N>(op, output, inputs, count))
    } else {
        drive(launch, types, &|output, inputs, count, _| apply::<E, Op, N>(op, output, inputs, count))
    }
}

fn apply<E, Op, const N: usize>(op: Op, output: *mut u8, inputs: &Inputs, count: usize)
where
    E: Element,
    Op: FastPath<E::Acc, N>,
{
    let inputs = std::array::from_fn(|input| inputs[input].cast());
    let blocks = Blocks { inputs, output: output.cast(), count, stores: Stores::Cached };
    apply_blocks::<E, Op, N>(blocks, op);
}

leaf! {
    fn apply_blocks<E: Element, Op: FastPath<E::Acc, N>; N: usize>(blocks: Blocks<E, E, N>, op: Op) {
        for begin in (0..blocks.count).step_by(FAST_PATH_BLOCK) {
            let part = blocks.part(begin, FAST_PATH_BLOCK);
            // SAFETY: `drive` provides operands of at least `count` elements.
            let takes_fast_path = |index| op.takes_fast_path(unsafe { part.load(index) }.map(E::load));
            if (0..part.count).fold(true, |all, index| all & takes_fast_path(index)) {
                // SAFETY: as above; an output does not overlap the inputs, or is one of them.
                unsafe { part.run::<_, { ELEMENTWISE_BLOCK / 2 }>(Fast(op)) };
            } else {
                // SAFETY: as above.
                unsafe { part.rest(0, Either(op)) };
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Fast<Op>(Op);

impl<E: Element, Op: FastPath<E::Acc, N>, const N: usize> BlockFunction<E, E, N> for Fast<Op> {
    const PAIRED: bool = is_paired::<E>();

    #[inline(always)]
    fn apply(self, inputs: [E; N]) -> E {
        E::store(self.0.fast(inputs.map(E::load)))
    }
}

/// The fast or the slow path, by the inputs.
#[derive(Clone, Copy)]
struct Either<Op>(Op);

impl<E: Element, Op: FastPath<E::Acc, N>, const N: usize> BlockFunction<E, E, N> for Either<Op> {
    const PAIRED: bool = false;

    #[inline(always)]
    fn apply(self, inputs: [E; N]) -> E {
        let inputs = inputs.map(E::load);
        E::store(if self.0.takes_fast_path(inputs) { self.0.fast(inputs) } else { self.0.slow(inputs) })
    }
}
