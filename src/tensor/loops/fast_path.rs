//! Functions with a fast path for most arguments, which vectorises, and a slow path for the others.
//!
//! The path of an element depends on the element alone, and so do the bits of its result. Blocks whose elements all take the fast path run
//! without a branch.

use super::elementwise::{Types, drive, has_wider_number};
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::Element;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::number::Number;
use crate::tuning::caches::FAST_PATH_BLOCK;

/// A function of `N` numbers with a fast and a slow path. Mark the methods `#[inline(always)]`.
pub trait FastPath<T: Number, const N: usize>: Copy + Send + Sync {
    /// As [`Map::PRECISE_NUMBERS`](super::elementwise::Map::PRECISE_NUMBERS).
    const PRECISE_NUMBERS: bool = false;

    /// Whether the inputs take the fast path.
    fn takes_fast_path(self, inputs: [T; N]) -> bool;
    /// The fast path.
    fn fast(self, inputs: [T; N]) -> T;
    /// The slow path, for all inputs.
    fn slow(self, inputs: [T; N]) -> T;
}

/// Runs `op` over the launch's operands [out, inputs...], as [`pointwise::run`](super::elementwise::run) does.
///
/// # Errors
/// The wrong number of operands, or a dtype without conversions.
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
    drive(launch, types, &|output, inputs, count, _| {
        let inputs = std::array::from_fn(|input| inputs[input].cast());
        vectorize(Apply::<E, Op, N> { output: output.cast(), inputs, count, op });
    })
}

struct Apply<E, Op, const N: usize> {
    output: *mut E,
    inputs: [*const E; N],
    count: usize,
    op: Op,
}

impl<E, Op, const N: usize> Apply<E, Op, N>
where
    E: Element,
    Op: FastPath<E::Acc, N>,
{
    #[inline(always)]
    fn load(&self, index: usize) -> [E::Acc; N] {
        let mut values = [E::Acc::ZERO; N];
        for (value, input) in values.iter_mut().zip(&self.inputs) {
            // SAFETY: `drive` gives inputs of at least `count` elements, and `run` asks for no others.
            *value = unsafe { input.wrapping_add(index).read_unaligned() }.load();
        }
        values
    }

    #[inline(always)]
    fn store(&self, index: usize, result: E) {
        // SAFETY: as in `load`, for the output.
        unsafe { self.output.wrapping_add(index).write_unaligned(result) };
    }
}

impl<E, Op, const N: usize> Leaf for Apply<E, Op, N>
where
    E: Element,
    Op: FastPath<E::Acc, N>,
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut begin = 0;
        while begin < self.count {
            let end = self.count.min(begin + FAST_PATH_BLOCK);
            let mut all_fast = true;
            for index in begin..end {
                all_fast &= self.op.takes_fast_path(self.load(index));
            }
            if all_fast {
                // All results before the first is written: the output may be one of the inputs.
                let mut results = [E::store(E::Acc::ZERO); FAST_PATH_BLOCK];
                for (result, index) in results.iter_mut().zip(begin..end) {
                    *result = E::store(self.op.fast(self.load(index)));
                }
                for (&result, index) in results.iter().zip(begin..end) {
                    self.store(index, result);
                }
            }
            for index in (if all_fast { end } else { begin })..end {
                let inputs = self.load(index);
                self.store(
                    index,
                    E::store(if self.op.takes_fast_path(inputs) { self.op.fast(inputs) } else { self.op.slow(inputs) }),
                );
            }
            begin = end;
        }
    }
}
