//! `cat`, `flip` and `roll`: copies between parts of the operands, in one task.

use crate::tensor::Part;
use crate::tensor::loops::copy_fill::{copy_dense, copy_view};
use crate::tensor::prelude::*;
use crate::tuning::sharing::{CAT_PIECE_NS, SHARED_INPUT_BYTES};

signature! {
    cat(out; ..inputs)[dim] in ANY;
    /// `aten::flip`: reverses the order of some dimensions. Both operands have one dtype and size; the scalar is a bit mask of the
    /// dimensions.
    flip(out; input)[dims] in ANY => |launch| {
        let flip::Operands { out: output, input } = flip::Operands::of(launch)?;
        let flipped: i64 = flip::Scalars::of(launch)?.dims.to();
        let mut reversed = Part::of(&input);
        (0..input.ndim()).filter(|dim| flipped >> dim & 1 != 0).for_each(|dim| reversed.flip(dim));
        copy_view(*output, reversed.view())
    };
    roll(out; input)[..moves] in ANY;
}

/// `aten::cat`: the inputs one after the other along a dimension, cast to the output's dtype. Operands [out, inputs...], whose
/// sizes differ in that dimension alone; scalars [dim].
pub fn cat(launch: &Launch<'_>) -> Result<(), Error> {
    let (cat::Operands { out: output, inputs }, dim) = (cat::Operands::of(launch)?, cat::Scalars::of(launch)?.dim.count()?);
    let mut begins = Vec::with_capacity(inputs.len());
    let mut end = 0;
    for input in &inputs {
        begins.push(end as usize);
        end += input.sizes().get(dim).copied().unwrap_or(0);
    }
    if output.sizes().get(dim) != Some(&end) {
        return Err(Error::new(format!("sizes that add up to {end} beside {:?} in dimension {dim}", output.sizes())));
    }
    let copy_input = |number: usize| -> Result<(), Error> {
        let input = inputs[number];
        if copy_dense(&output, &input, dim, begins[number], SHARED_INPUT_BYTES) {
            return Ok(());
        }
        let mut part = Part::of(&output);
        part.narrow(dim, begins[number], begins[number] + input.size(dim));
        copy_view(part.view(), input)
    };
    let bytes = output.numel() * output.dtype().size() / begins.len().max(1);
    if bytes >= SHARED_INPUT_BYTES {
        return (0..begins.len()).try_for_each(copy_input);
    }
    let failure = Failure::default();
    let cost = 100.0 + bytes as f64 * 0.02;
    parallel(begins.len(), (CAT_PIECE_NS / cost) as usize, cost, &|begin, end| {
        failure.note((begin..end).try_for_each(copy_input));
    });
    failure.result()
}

/// `aten::roll`: shifts elements along some dimensions; those shifted beyond the end reappear at the beginning. Operands [out,
/// input] of one dtype and the same sizes; scalars [dim, shift (below the size), dim, shift, ...].
pub fn roll(launch: &Launch<'_>) -> Result<(), Error> {
    let roll::Operands { out: output, input } = roll::Operands::of(launch)?;
    let mut moves = Vec::new();
    for &[dim, shift] in launch.scalars().as_chunks().0 {
        let (dim, shift) = (dim.count()?, shift.count()?);
        if dim >= input.ndim() || shift > input.size(dim) || output.sizes() != input.sizes() {
            return Err(Error::new(format!("a shift of {shift} in dimension {dim} of {:?}", input.sizes())));
        }
        moves.push((dim, shift));
    }
    // Each dimension splits into the part that is only shifted and the part that wraps.
    for part in 0..1usize << moves.len() {
        let (mut to, mut from) = (Part::of(&output), Part::of(&input));
        for (number, &(dim, shift)) in moves.iter().enumerate() {
            let (size, inside) = (input.size(dim), input.size(dim) - shift);
            if part >> number & 1 == 0 {
                to.narrow(dim, shift, size);
                from.narrow(dim, 0, inside);
            } else {
                to.narrow(dim, 0, shift);
                from.narrow(dim, inside, size);
            }
        }
        copy_view(to.view(), from.view())?;
    }
    Ok(())
}
