//! Lines so long that a kernel divides each among the threads, one after the other, with memory to work in.

use crate::tensor::dtype::Element;
use crate::tensor::loops::rows::Row;
use crate::tensor::view::{MAX_DIMS, View};

/// What is done with one line: input, output, places, memory to work in.
pub type Body<'a, T> = &'a mut dyn FnMut(&[T], &mut [T], &mut [i64], &mut [u128]);

/// Calls `body` for every line along the last dimension, whose elements lie side by side in all operands; the outputs overlap nothing else.
///
/// # Errors
/// Operands of different sizes or of other dtypes, or lines with gaps.
pub fn run<T: Element>(
    input: View<'_>,
    output: View<'_>,
    places: View<'_>,
    workspace: View<'_>,
    body: Body<'_, T>,
) -> Result<(), String> {
    if output.sizes() != input.sizes() || places.sizes() != input.sizes() || input.ndim() == 0 {
        return Err(format!("sizes {:?} and {:?} of {:?}", output.sizes(), places.sizes(), input.sizes()));
    }
    if [input, output, places].iter().any(|operand| workspace.overlaps(operand))
        || output.overlaps(&input)
        || places.overlaps(&input)
    {
        return Err("operands that overlap".into());
    }
    let last = input.ndim() - 1;
    let lines = input.sizes()[..last].iter().product::<i64>();
    let bytes = Row::of(&workspace, &[]).as_slice_mut::<u8>().ok_or("a workspace with gaps")?;
    // SAFETY: any bytes are a `u128`.
    let (_, memory, _) = unsafe { bytes.align_to_mut::<u128>() };
    let mut index = [0usize; MAX_DIMS];
    for _ in 0..lines {
        let row = |view: &View<'_>| Row::of(view, &index[..last]);
        let line = row(&input).as_slice::<T>().ok_or("an input with gaps")?;
        let values = row(&output).as_slice_mut::<T>().ok_or("an output with gaps")?;
        body(line, values, row(&places).as_slice_mut::<i64>().ok_or("places with gaps")?, memory);
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
