//! Functions with a short way for most arguments, which vectorises, and a long one for the rest.
//!
//! Which way an element goes depends on itself alone, and so do the bits of its result. Blocks whose elements all go the short way run
//! without a branch.

use super::pointwise::{Types, drive, has_wider_number};
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::Element;
use crate::tensor::launch::Launch;
use crate::tensor::number::Number;

/// A function of `N` numbers with two ways. Mark the methods `#[inline(always)]`.
pub trait TwoWays<T: Number, const N: usize>: Copy + Send + Sync {
    /// As [`Map::PRECISE_NUMBERS`](super::pointwise::Map::PRECISE_NUMBERS).
    const PRECISE_NUMBERS: bool = false;

    /// Whether the inputs go the short way.
    fn is_near(self, inputs: [T; N]) -> bool;
    /// The short way.
    fn near(self, inputs: [T; N]) -> T;
    /// The long way, for all inputs.
    fn far(self, inputs: [T; N]) -> T;
}

/// Elements that are looked at together.
const TOGETHER: usize = 256;

/// Runs `op` over the launch's operands [out, inputs...], as [`pointwise::run`](super::pointwise::run) does.
///
/// # Errors
/// The wrong number of operands, or a dtype without conversions.
#[inline]
pub fn run<E, Op, const N: usize>(launch: &Launch<'_>, op: Op) -> Result<(), String>
where
    E: Element,
    Op: TwoWays<E::Acc, N>,
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
    Op: TwoWays<E::Acc, N>,
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
    Op: TwoWays<E::Acc, N>,
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut begin = 0;
        while begin < self.count {
            let end = self.count.min(begin + TOGETHER);
            let mut all_near = true;
            for index in begin..end {
                all_near &= self.op.is_near(self.load(index));
            }
            if all_near {
                // All results before the first is written: the output may be one of the inputs.
                let mut results = [E::store(E::Acc::ZERO); TOGETHER];
                for (result, index) in results.iter_mut().zip(begin..end) {
                    *result = E::store(self.op.near(self.load(index)));
                }
                for (&result, index) in results.iter().zip(begin..end) {
                    self.store(index, result);
                }
            }
            for index in (if all_near { end } else { begin })..end {
                let inputs = self.load(index);
                self.store(index, E::store(if self.op.is_near(inputs) { self.op.near(inputs) } else { self.op.far(inputs) }));
            }
            begin = end;
        }
    }
}
