//! Selection by a mask: `masked_select`, `masked_scatter_`, `nonzero`. Masks and values are contiguous.

use crate::simd::leaf;
use crate::tensor::{DType, Error, Launch, View, dispatch_size, loops, signature};

signature! {
    /// Counts the elements that are not 0. Operands [count (one Long), self].
    nonzero_count(count; input)[] in EVERY => |launch| {
        let nonzero_count::Operands { count, input } = nonzero_count::Operands::of(launch)?;
        count.into_row().store(0, loops::nonzero::count(&input)? as i64);
        Ok(())
    };
    masked_select(out; input, mask)[] in ANY;
    masked_scatter(out; source, mask)[] in ANY;
    nonzero(out; input)[fill] in EVERY;
}

/// `aten::masked_select`: the values where the mask is not 0, in order.
pub fn masked_select(launch: &Launch<'_>) -> Result<(), Error> {
    let masked_select::Operands { out, input: values, mask } = masked_select::Operands::of(launch)?;
    let step = out.strides().first().copied().unwrap_or(0) as isize;
    check_moved(&out, &values, &mask)?;
    let room = out.numel();
    let found = loops::nonzero::run(&mask, launch.cost(), &|rank, base, positions| {
        let positions = &positions[..positions.len().min(room.saturating_sub(rank))];
        let size = values.dtype().size();
        let from = values.data().wrapping_add(base * size);
        move_positions(Side { data: out.data().wrapping_offset(rank as isize * step), step }, from, positions, size, true);
    })?;
    if found == room { Ok(()) } else { Err(Error::new(format!("{found} elements for an output of {room}"))) }
}

/// `aten::masked_scatter_`: replaces the elements where the mask is not 0 by those of the source, in order.
pub fn masked_scatter(launch: &Launch<'_>) -> Result<(), Error> {
    let masked_scatter::Operands { out, source, mask } = masked_scatter::Operands::of(launch)?;
    check_moved(&source, &out, &mask)?;
    let given = source.numel();
    let size = out.dtype().size();
    if !source.is_contiguous() {
        return Err(Error::new("a source is not contiguous"));
    }
    let found = loops::nonzero::run(&mask, launch.cost(), &|rank, base, positions| {
        let positions = &positions[..positions.len().min(given.saturating_sub(rank))];
        let from = Side { data: source.data().wrapping_add(rank * size), step: size as isize };
        move_positions(from, out.data().wrapping_add(base * size), positions, size, false);
    })?;
    if found <= given { Ok(()) } else { Err(Error::new("Number of elements of source < number of ones in mask")) }
}

/// Checks that `values` has an element for each one of the mask, that both are contiguous, and that `others` has the dtype of
/// `values`.
fn check_moved(others: &View<'_>, values: &View<'_>, mask: &View<'_>) -> Result<(), Error> {
    if others.dtype() != values.dtype() || values.numel() != mask.numel() || !values.is_contiguous() || others.ndim() > 1 {
        return Err(Error::new("a mask and values do not fit together"));
    }
    Ok(())
}

/// The packed side of a move: elements at a constant distance.
#[derive(Clone, Copy)]
struct Side {
    data: *mut u8,
    step: isize,
}

/// Moves elements between the given positions of a block and a packed row: from the block if `gathers`, else to it.
fn move_positions(row: Side, block: *mut u8, positions: &[u16], size: usize, gathers: bool) {
    dispatch_size!(size, E => move_elements::<E>(row, block.cast(), positions, gathers));
}

leaf! {
    fn move_elements<E: Copy>(row: Side, block: *mut E, positions: &[u16], gathers: bool) {
        for (rank, &position) in positions.iter().enumerate() {
            let in_row = row.data.wrapping_offset(rank as isize * row.step).cast::<E>();
            let in_block = block.wrapping_add(position as usize);
            let (from, to) = if gathers { (in_block, in_row) } else { (in_row, in_block) };
            // SAFETY: the loop gives positions of the mask, and the values have the same positions; the rank is below the row's
            // number of elements.
            let value = unsafe { from.read_unaligned() };
            // SAFETY: as above, of the output.
            unsafe { to.write_unaligned(value) };
        }
    }
}

/// `aten::nonzero`, `aten::nonzero_static`: a row with the indices of each element that is not 0. Operands [out, self]; scalars
/// [the value of unused rows]. Elements beyond the last row of the output are left out.
pub fn nonzero(launch: &Launch<'_>) -> Result<(), Error> {
    let nonzero::Operands { out, input: values } = nonzero::Operands::of(launch)?;
    let (rows, dims) = (out.size(0), values.ndim());
    if out.dtype() != DType::Long || out.ndim() != 2 || out.size(1) != dims {
        return Err(Error::new("an output has no column of Longs for each dimension"));
    }
    let found = loops::nonzero::run(&values, launch.cost(), &|rank, base, positions| {
        let positions = &positions[..positions.len().min(rows.saturating_sub(rank))];
        let mut inner = values.numel();
        for (dim, &size) in values.sizes().iter().enumerate() {
            inner /= size as usize;
            let column = out.data().wrapping_offset(dim as isize * out.stride(1) + rank as isize * out.stride(0));
            write_column(Side { data: column, step: out.stride(0) }, base, positions, inner, size as usize);
        }
    })?;
    let fill = nonzero::Scalars::of(launch)?.fill.to::<i64>();
    for dim in 0..dims {
        for row in found.min(rows)..rows {
            let at = out.data().wrapping_offset(row as isize * out.stride(0) + dim as isize * out.stride(1));
            // SAFETY: this is an element of the output, which the launch may write.
            unsafe { at.cast::<i64>().write_unaligned(fill) };
        }
    }
    Ok(())
}

leaf! {
    /// Writes one column of the result: the index in a dimension of `size` indices, with `inner` elements to an index.
    fn write_column(to: Side, base: usize, positions: &[u16], inner: usize, size: usize) {
        // Elements `begin..end` have the current index; in the last dimension they are the current line.
        let (mut begin, mut end, mut index) = (0, 0, 0);
        let is_last = inner == 1;
        for (rank, &position) in positions.iter().enumerate() {
            let element = base + position as usize;
            if element >= end {
                let len = if is_last { size } else { inner };
                let number = element / len;
                (begin, end) = (number * len, (number + 1) * len);
                index = number % size;
            }
            let index = if is_last { element - begin } else { index };
            let to = to.data.wrapping_offset(rank as isize * to.step);
            // SAFETY: the rank is below the output's number of rows.
            unsafe { to.cast::<i64>().write_unaligned(index as i64) };
        }
    }
}
