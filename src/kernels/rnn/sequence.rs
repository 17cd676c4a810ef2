//! The common code of recurrent layers over whole sequences. A layer's kernel computes the part that depends on the previous step,
//! forward or backward. The caller computes the products of all inputs, and the gradients of weights and inputs, as matrix
//! products.
//!
//! The batch is divided into parts, and a thread takes a part through the whole sequence, so that threads do not wait for each
//! other after each step. The parts depend on the shapes alone, so that results do not depend on the number of threads.

#![forbid(unsafe_code)]

use crate::kernels::failure::Failure;
use crate::kernels::matmul::{self, packed};
use crate::simd::{self, Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::row::{Row, RowMut};
use crate::tensor::loops::{Memory, strided};
use crate::tensor::output::Output;
use crate::tensor::view::View;
use crate::tuning::algorithms::SEQUENCE_ROWS_16_BIT;
use crate::tuning::sharing::{MAX_SEQUENCE_PARTS, SEQUENCE_PART_ROWS};

/// Called with a part of the batch (begin, end) and that part of the outputs.
pub type PartBody<'a, const N: usize> = &'a (dyn Fn(usize, usize, [Output<'_>; N]) -> Result<(), Error> + Sync);

/// The sizes of a layer: operand `of_steps` is [steps, batch, size].
#[derive(Clone, Copy)]
pub struct Layer {
    pub steps: usize,
    pub batch: usize,
    pub size: usize,
    pub reverse: bool,
}

impl Layer {
    pub fn new(launch: &Launch<'_>, of_steps: usize) -> Result<Self, Error> {
        let view = launch.view(of_steps);
        let [steps, batch, size] = <[i64; 3]>::try_from(view.sizes())
            .map_err(|_| Error::operands("a sequence has three dimensions"))?
            .map(|size| size as usize);
        if (0..launch.num_operands()).any(|operand| !launch.view(operand).is_contiguous()) {
            return Err(Error::operands("an operand of a layer has gaps"));
        }
        Ok(Self { steps, batch, size, reverse: launch.scalar(0)?.to::<i64>() != 0 })
    }

    /// The number of rows of a part of the batch.
    fn rows_of_part(&self) -> usize {
        let parts = 1 << (self.batch / SEQUENCE_PART_ROWS).clamp(1, MAX_SEQUENCE_PARTS).ilog2();
        self.batch.div_ceil(parts).max(1)
    }

    /// The position in the sequence of the step that is computed as number `number`.
    pub fn position(&self, number: usize) -> usize {
        if self.reverse { self.steps - 1 - number } else { number }
    }

    /// Whether products are computed in `E::Acc` instead of `E`.
    pub fn widens<E: Element>(&self) -> bool {
        matches!(E::DTYPE, DType::Half | DType::BFloat16) && (self.rows_of_part() < SEQUENCE_ROWS_16_BIT || !simd::is_intel())
    }

    /// Runs `body(begin, end, outputs)` for the parts of the batch. The number beside each output is its batch dimension.
    pub fn for_parts<const N: usize>(
        &self,
        outputs: [(Output<'_>, usize); N],
        cost: u64,
        body: PartBody<'_, N>,
    ) -> Result<(), Error> {
        let failure = Failure::default();
        let cost = cost as f64 / self.batch.max(1) as f64;
        Output::in_parts(outputs, self.rows_of_part(), cost, &|begin, end, parts| failure.note(body(begin, end, parts)));
        failure.result()
    }
}

/// Nanoseconds of one thread for a layer, forward or backward.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let gates = (0..launch.num_outputs()).map(|output| launch.view(output).numel()).max().unwrap_or(0);
    let size = launch.view(1).sizes().last().copied().unwrap_or(1);
    (gates as f64 * (size as f64 * 0.02 + 1.0)) as u64
}

/// The elements of the row at `index`.
pub fn row<'a, E: Element>(view: &View<'a>, index: &[usize]) -> Result<&'a [E], Error> {
    elements(Row::of(view, index))
}

fn elements<E: Element>(row: Row<'_>) -> Result<&[E], Error> {
    row.as_slice().ok_or_else(|| Error::operands("a row of a layer has gaps"))
}

/// The elements of an output's row.
pub fn target<E: Element>(row: RowMut<'_>) -> Result<&mut [E], Error> {
    row.into_slice().ok_or_else(|| Error::operands("a row of a layer has gaps"))
}

/// `to = from`, rounded to `P`.
struct Convert<'a, E, P> {
    from: &'a [E],
    to: &'a mut [P],
}

impl<E: Element, P: Element<Acc = E::Acc>> Leaf for Convert<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = P::store(from.load());
        }
    }
}

/// Loads the rows from `begin` on of an operand [batch, size], converted to `P`.
pub fn load<E: Element, P: Element<Acc = E::Acc>>(view: &View<'_>, begin: usize, to: &mut [P], size: usize) -> Result<(), Error> {
    for (number, to) in to.chunks_exact_mut(size).enumerate() {
        vectorize(Convert { from: row::<E>(view, &[begin + number])?, to });
    }
    Ok(())
}

/// Loads all rows of an output, as [`load`].
pub fn load_back<E: Element, P: Element<Acc = E::Acc>>(output: &Output<'_>, to: &mut [P], size: usize) -> Result<(), Error> {
    for (number, to) in to.chunks_exact_mut(size).enumerate() {
        vectorize(Convert { from: elements::<E>(output.row(&[number]))?, to });
    }
    Ok(())
}

/// Stores all rows of an output: the inverse of [`load_back`].
pub fn store<E: Element, P: Element<Acc = E::Acc>>(output: &mut Output<'_>, from: &[P], size: usize) -> Result<(), Error> {
    for (number, from) in from.chunks_exact(size).enumerate() {
        vectorize(Convert { from, to: target::<E>(output.row_mut(&[number]))? });
    }
    Ok(())
}

/// A dtype of the products with a recurrent weight.
pub trait Factor: Element {
    /// The number of elements of a prepared weight (k, n).
    fn prepared_len(sizes: [usize; 2]) -> usize;

    /// Prepares a weight (k, n) of contiguous rows for [`multiply`](Factor::multiply).
    fn prepare(weight: Memory, sizes: [usize; 2]) -> Memory;

    /// `out = a @ weight` with out (m, n), a (m, k), and a prepared weight (k, n).
    fn multiply(sizes: [usize; 3], out: &mut [Self], a: &[Self], weight: &[Self]) -> Result<(), Error>;
}

macro_rules! packed {
    ($($type:ty)*) => {$(
        impl Factor for $type {
            fn prepared_len(sizes: [usize; 2]) -> usize {
                packed::len::<Self>(sizes)
            }

            fn prepare(mut weight: Memory, [k, n]: [usize; 2]) -> Memory {
                packed::pack::<Self>(weight.numbers(k * n), [k, n])
            }

            fn multiply(sizes: [usize; 3], out: &mut [Self], a: &[Self], weight: &[Self]) -> Result<(), Error> {
                packed::multiply(sizes, out, a, weight);
                Ok(())
            }
        }
    )*};
}

packed!(f32 f64);

macro_rules! unpacked {
    ($($type:ty)*) => {$(
        impl Factor for $type {
            fn prepared_len([k, n]: [usize; 2]) -> usize {
                k * n
            }

            fn prepare(weight: Memory, _sizes: [usize; 2]) -> Memory {
                weight
            }

            fn multiply(sizes: [usize; 3], out: &mut [Self], a: &[Self], weight: &[Self]) -> Result<(), Error> {
                matmul::multiply(sizes, out, a, weight)
            }
        }
    )*};
}

unpacked!(half::f16 half::bf16);

/// A weight (`wide`, `size`) as `P`, prepared for products that give the gates.
pub fn weight<E: Element, P: Factor<Acc = E::Acc>>(view: &View<'_>, wide: usize, size: usize) -> Result<Memory, Error> {
    Ok(P::prepare(rows_of::<E, P>(view, wide, size)?, [wide, size]))
}

/// The transpose of such a weight, prepared for products with the gradients of the gates.
pub fn transposed_weight<E: Element, P: Factor<Acc = E::Acc>>(view: &View<'_>, wide: usize, size: usize) -> Result<Memory, Error> {
    let mut memory = Memory::of(wide * size * size_of::<P>());
    strided::transpose(rows_of::<E, P>(view, wide, size)?.numbers::<P>(wide * size), memory.numbers::<P>(wide * size), size);
    Ok(P::prepare(memory, [size, wide]))
}

/// Memory with the elements of a weight (`wide`, `size`) as `P`.
fn rows_of<E: Element, P: Element<Acc = E::Acc>>(view: &View<'_>, wide: usize, size: usize) -> Result<Memory, Error> {
    let mut memory = Memory::of(wide * size * size_of::<P>());
    load::<E, P>(view, 0, memory.numbers::<P>(wide * size), size)?;
    Ok(memory)
}

/// Kernels of layers: `name, operand [steps, batch, size], body;`. The body is called with the launch and the layer, generic over
/// the dtype and that of the products.
macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident, $of_steps:literal, $body:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(launch: &Launch<'_>) -> Result<(), Error> {
            let layer = Layer::new(launch, $of_steps)?;
            let dtype = launch.compute();
            dispatch!(dtype in FLOATING, E => {
                if layer.widens::<E>() { $body::<E, <E as Element>::Acc>(launch, layer) } else { $body::<E, E>(launch, layer) }
            })
        }
    )*};
}

pub(super) use layers;
