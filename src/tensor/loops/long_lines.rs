//! Loops over long lines: a kernel divides each line among the threads, one line after the other, with a workspace.

use crate::tensor::loops::row::Row;
use crate::tensor::{Element, Error, MAX_DIMS, Output, View};

/// Called with one line: input, output, indices, workspace.
pub type LineBody<'a, T> = &'a mut dyn FnMut(&[T], &mut [T], &mut [i64], &mut [u128]);

/// Calls `body` for every line along the last dimension, which is contiguous in all operands; the outputs must not overlap anything
/// else.
pub fn run<T: Element>(
    input: View<'_>,
    mut output: Output<'_>,
    mut indices: Output<'_>,
    workspace: Output<'_>,
    body: LineBody<'_, T>,
) -> Result<(), Error> {
    if output.sizes() != input.sizes() || indices.sizes() != input.sizes() || input.ndim() == 0 {
        return Err(Error::new(format!("sizes {:?} and {:?} of {:?}", output.sizes(), indices.sizes(), input.sizes())));
    }
    if [input, *output, *indices].iter().any(|operand| workspace.overlaps(operand))
        || output.overlaps(&input)
        || indices.overlaps(&input)
    {
        return Err(Error::new("operands that overlap"));
    }
    let last = input.ndim() - 1;
    let lines = input.sizes()[..last].iter().product::<i64>();
    let bytes = workspace.into_row().into_slice::<u8>().ok_or_else(|| Error::new("a workspace with gaps"))?;
    // SAFETY: every bit pattern is a `u128`.
    let (_, memory, _) = unsafe { bytes.align_to_mut::<u128>() };
    let mut index = [0usize; MAX_DIMS];
    for _ in 0..lines {
        let line = Row::of(&input, &index[..last]).as_slice::<T>().ok_or_else(|| Error::new("an input with gaps"))?;
        let values = output.row_mut(&index[..last]).into_slice::<T>().ok_or_else(|| Error::new("an output with gaps"))?;
        body(
            line,
            values,
            indices.row_mut(&index[..last]).into_slice::<i64>().ok_or_else(|| Error::new("indices with gaps"))?,
            memory,
        );
        for dim in (0..last).rev() {
            index[dim] += 1;
            if index[dim] < input.size(dim) {
                break;
            }
            index[dim] = 0;
        }
    }
    Ok(())
}
