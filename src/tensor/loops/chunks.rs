//! Loops over chunks, for kernels that depend on the number of an element's chunk (random numbers).
//!
//! The index space of an elementwise launch is divided into patches of limited size. The kernel gets each patch's elements as
//! contiguous slices of its types: the operand's own memory if possible, else scratch memory. The number of a patch depends on
//! sizes and strides alone.

use super::index_space::{MAX_OPERANDS, Space};
use super::staging::{Patches, check_dtypes};
use crate::tensor::{DType, Element, Error, Launch};
use crate::tuning::caches::BLOCK;

/// Called with one chunk: its number, inputs and outputs of type `T`, outputs of type `U`.
pub type ChunkBody<'a, T, U, const I: usize, const O: usize, const P: usize> =
    &'a (dyn Fn(u64, [&[T]; I], [&mut [T]; O], [&mut [U]; P]) + Sync);

/// Runs `body` over chunks of at most `limit` (<= [`BLOCK`]) elements. Operands: [outputs of `T`, outputs of `U`, inputs of `T`],
/// cast from and to their own dtypes.
pub fn run<T, U, const I: usize, const O: usize, const P: usize>(
    launch: &Launch<'_>,
    limit: usize,
    body: ChunkBody<'_, T, U, I, O, P>,
) -> Result<(), Error>
where
    T: Element<Acc = T>,
    U: Element<Acc = U>,
{
    let count = O + P + I;
    if launch.num_operands() != count || count > MAX_OPERANDS {
        return Err(Error::new(format!("{} operands where {count} are needed", launch.num_operands())));
    }
    check_dtypes(launch)?;
    if launch.view(0).numel() == 0 {
        return Ok(());
    }
    let dtypes: [DType; MAX_OPERANDS] =
        std::array::from_fn(|operand| if (O..O + P).contains(&operand) { U::DTYPE } else { T::DTYPE });
    let space = Space::uncut(launch).cut(limit.min(BLOCK));
    space.for_each_piece(launch.cost(), &|begin, end| {
        let mut patches = Patches::new(launch, &space, &dtypes, [O + P, count], false);
        let mut number = begin as u64;
        space.walk(begin, end, &mut |patch| {
            patches.patch(patch, &mut |chunks, len| {
                // SAFETY: `patch` provides `len` aligned elements of `T` for every input, for this call alone.
                let inputs =
                    std::array::from_fn(|input| unsafe { std::slice::from_raw_parts(chunks[O + P + input].cast::<T>(), len) });
                // SAFETY: as above for outputs of `T`, which overlap no other chunk.
                let outputs =
                    std::array::from_fn(|output| unsafe { std::slice::from_raw_parts_mut(chunks[output].cast::<T>(), len) });
                // SAFETY: as above for outputs of `U`.
                let others =
                    std::array::from_fn(|output| unsafe { std::slice::from_raw_parts_mut(chunks[O + output].cast::<U>(), len) });
                body(number, inputs, outputs, others);
            });
            number += 1;
        });
    });
    Ok(())
}
