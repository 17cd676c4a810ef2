//! Functions of one number with a short way for most arguments, which vectorises, and a long one for the rest.
//!
//! Which way an element goes depends on itself alone, and so do the bits of its result. Blocks whose elements all go the short way run
//! without a branch.

use super::pointwise::{Inputs, Types, drive};
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::Element;
use crate::tensor::launch::Launch;
use crate::tensor::number::Number;

/// A function with two ways. Mark the methods `#[inline(always)]`.
pub trait TwoWays<T: Number>: Copy + Send + Sync {
    /// Whether `x` goes the short way.
    fn is_near(self, x: T) -> bool;
    /// The short way.
    fn near(self, x: T) -> T;
    /// The long way, for every `x`.
    fn far(self, x: T) -> T;
}

/// Elements that are looked at together.
const TOGETHER: usize = 256;

/// Runs `op` over the launch's operands [out, x], as [`pointwise::run`](super::pointwise::run) does.
///
/// # Errors
/// The wrong number of operands, or a dtype without conversions.
#[inline]
pub fn run<E, Op>(launch: &Launch<'_>, op: Op) -> Result<(), String>
where
    E: Element,
    Op: TwoWays<E::Acc>,
{
    let types = Types { input: E::DTYPE, output: E::DTYPE, inputs: 1 };
    drive(launch, types, &|output, inputs, count| apply::<E, Op>(op, output, inputs, count))
}

#[inline]
fn apply<E, Op>(op: Op, output: *mut u8, inputs: &Inputs, count: usize)
where
    E: Element,
    Op: TwoWays<E::Acc>,
{
    vectorize(Apply::<E, Op> { output: output.cast(), input: inputs[0].cast(), count, op });
}

struct Apply<E, Op> {
    output: *mut E,
    input: *const E,
    count: usize,
    op: Op,
}

impl<E, Op> Leaf for Apply<E, Op>
where
    E: Element,
    Op: TwoWays<E::Acc>,
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut begin = 0;
        while begin < self.count {
            let end = self.count.min(begin + TOGETHER);
            let mut all_near = true;
            for index in begin..end {
                // SAFETY: `drive` gives an input of at least `count` elements.
                all_near &= self.op.is_near(unsafe { self.input.wrapping_add(index).read_unaligned() }.load());
            }
            for index in begin..(if all_near { end } else { begin }) {
                // SAFETY: as above.
                let x = unsafe { self.input.wrapping_add(index).read_unaligned() }.load();
                // SAFETY: as above, for the output.
                unsafe { self.output.wrapping_add(index).write_unaligned(E::store(self.op.near(x))) };
            }
            for index in (if all_near { end } else { begin })..end {
                // SAFETY: as above.
                let x = unsafe { self.input.wrapping_add(index).read_unaligned() }.load();
                let result = if self.op.is_near(x) { self.op.near(x) } else { self.op.far(x) };
                // SAFETY: as above, for the output.
                unsafe { self.output.wrapping_add(index).write_unaligned(E::store(result)) };
            }
            begin = end;
        }
    }
}
