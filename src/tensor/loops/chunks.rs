//! Loops over chunks, for kernels that depend on the number of an element's chunk (random numbers).
//!
//! The index space of an elementwise launch is divided into patches of limited size. The kernel gets each patch's elements as
//! contiguous slices of its types: the operand's own memory if possible, else scratch memory. The number of a patch depends on
//! sizes and strides alone.

use super::Buffer;
use super::elementwise::{check_dtypes, gather, scatter};
use super::index_space::{MAX_OPERANDS, Patch, Space};
use super::strided::StridedPtr;
use crate::tensor::dtype::{DType, Element};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
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
        return Err(Error::operands(format!("{} operands where {count} are needed", launch.num_operands())));
    }
    check_dtypes(launch)?;
    if launch.view(0).numel() == 0 {
        return Ok(());
    }
    let dtypes: [DType; MAX_OPERANDS] =
        std::array::from_fn(|operand| if (O..O + P).contains(&operand) { U::DTYPE } else { T::DTYPE });
    let space = Space::uncut(launch).cut(limit.min(BLOCK));
    space.for_each_piece(launch.cost(), &|begin, end| {
        let mut worker = ChunkBuffers::new(launch, &space, dtypes, O + P);
        let mut number = begin as u64;
        space.walk(begin, end, &mut |patch| {
            worker.patch(patch, count, &mut |chunks, len| {
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

/// One thread's block buffers.
struct ChunkBuffers<'a> {
    launch: &'a Launch<'a>,
    space: &'a Space<'a>,
    /// The dtypes of the chunks.
    dtypes: [DType; MAX_OPERANDS],
    outputs: usize,
    blocks: [Buffer; MAX_OPERANDS],
}

impl<'a> ChunkBuffers<'a> {
    fn new(launch: &'a Launch<'a>, space: &'a Space<'a>, dtypes: [DType; MAX_OPERANDS], outputs: usize) -> Self {
        Self { launch, space, dtypes, outputs, blocks: [const { Buffer::new() }; MAX_OPERANDS] }
    }

    fn patch(&mut self, patch: &Patch, count: usize, body: &mut dyn FnMut(&[*mut u8], usize)) {
        let mut chunks = [std::ptr::null_mut(); MAX_OPERANDS];
        let mut raw = Buffer::new();
        for (operand, chunk) in chunks.iter_mut().enumerate().take(count) {
            let (ptr, dtype) = (self.ptr(operand, patch), self.launch.view(operand).dtype());
            *chunk = if self.is_direct(operand, &ptr, patch) { ptr.data } else { self.blocks[operand].data() };
            if operand >= self.outputs && *chunk != ptr.data {
                // SAFETY: the launch's operand is readable; a block buffer holds a patch of any dtype.
                unsafe { gather(ptr, dtype, *chunk, self.dtypes[operand], &mut raw, patch) };
            }
        }
        body(&chunks[..count], patch.len());
        for (operand, &chunk) in chunks.iter().enumerate().take(self.outputs) {
            let (ptr, dtype) = (self.ptr(operand, patch), self.launch.view(operand).dtype());
            if chunk != ptr.data {
                // SAFETY: the block buffer holds the patch's elements; the launch may write the output's.
                unsafe { scatter(chunk, self.dtypes[operand], ptr, dtype, &mut raw, patch) };
            }
        }
    }

    fn ptr(&self, operand: usize, patch: &Patch) -> StridedPtr {
        StridedPtr { data: patch.data(operand), steps: self.space.steps(operand) }
    }

    /// True if the operand's memory can be used for the patch. Inputs that an output overlaps are copied.
    fn is_direct(&self, operand: usize, ptr: &StridedPtr, patch: &Patch) -> bool {
        let (view, dtype) = (self.launch.view(operand), self.dtypes[operand]);
        let aligned = (ptr.data as usize).is_multiple_of(dtype.size().min(8));
        let overwritten = operand >= self.outputs && (0..self.outputs).any(|output| self.launch.view(output).overlaps(&view));
        view.dtype() == dtype && aligned && !overwritten && ptr.is_dense(dtype.size(), patch.cols, patch.rows)
    }
}
