//! Triangles of matrices, the indices of their elements, and identity matrices.

use crate::tensor::prelude::*;

signature! {
    eye(out)[] in EVERY;
    /// `aten::tril`: the elements on and below a diagonal, zeros above. Operands [out, input] of one dtype and the same sizes;
    /// scalars [diagonal].
    tril(out; input)[diagonal] in ANY => |launch| triangle::<false>(launch);
    /// `aten::triu`: the elements on and above a diagonal, zeros below. Operands and scalars as for [`tril`].
    triu(out; input)[diagonal] in ANY => |launch| triangle::<true>(launch);
    /// `aten::tril_indices`: rows and columns of the elements on and below a diagonal, row by row. Operands [out (2, elements)];
    /// scalars [rows, cols, diagonal].
    tril_indices(out)[rows, cols, diagonal] in REAL => |launch| indices::<false>(launch);
    /// `aten::triu_indices`: rows and columns of the elements on and above a diagonal. Operands and scalars as for
    /// [`tril_indices`].
    triu_indices(out)[rows, cols, diagonal] in REAL => |launch| indices::<true>(launch);
}

/// `aten::eye`: ones on the diagonal of a matrix, zeros elsewhere. Operands [out].
pub fn eye(launch: &Launch<'_>) -> Result<(), Error> {
    let eye::Operands { out: output } = eye::Operands::of(launch)?;
    let (dtype, &[_, cols]) = (output.dtype(), output.sizes()) else {
        return Err(Error::new(format!("no matrix: {:?}", output.sizes())));
    };
    dispatch!(dtype in EVERY, T => {
        let one = T::store(<T as Element>::Acc::from_i64(1));
        rows::for_each(output, 0.05 * dtype.size() as f64, &|index, mut row| {
            row.zero(0, cols as usize);
            if index[0] < cols as usize {
                row.store::<T>(index[0], one);
            }
        });
        Ok(())
    })
}

/// How many columns of a row lie before the diagonal (`UPPER`), or up to and including it.
fn border<const UPPER: bool>(row: usize, diagonal: i64, cols: usize) -> usize {
    let column = (row as i64).saturating_add(diagonal).saturating_add(i64::from(!UPPER));
    column.clamp(0, cols as i64) as usize
}

fn triangle<const UPPER: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    let (tril::Operands { out: output, input }, diagonal) = (tril::Operands::of(launch)?, tril::Scalars::of(launch)?.diagonal.to());
    if output.sizes() != input.sizes() || output.ndim() < 2 || output.dtype() != input.dtype() {
        return Err(Error::new(format!("{:?} of {:?}", output.sizes(), input.sizes())));
    }
    let cols = output.size(output.ndim() - 1);
    let cost = 0.05 * output.dtype().size() as f64;
    rows::for_each(output, cost, &|index, mut row| {
        let border = border::<UPPER>(index[index.len() - 1], diagonal, cols);
        let from = Row::of(&input, index);
        let (kept, cleared) = if UPPER { (border..cols, 0..border) } else { (0..border, border..cols) };
        if !row.is_same(&from) {
            row.copy(kept.start, &from, kept.start, 1, kept.len());
        }
        row.zero(cleared.start, cleared.end);
    });
    Ok(())
}

fn indices<const UPPER: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    let tril_indices::Scalars { rows, cols, diagonal } = tril_indices::Scalars::of(launch)?;
    let (rows, cols, diagonal) = (rows.count()?, cols.count()?, diagonal.to::<i64>());
    let tril_indices::Operands { out: mut output } = tril_indices::Operands::of(launch)?;
    let (dtype, elements) = (output.dtype(), output.size(1));
    let [mut of_rows, mut of_cols] = output.rows_mut([&[0], &[1]]);
    dispatch!(dtype in REAL, T => {
        let as_element = |value: usize| T::store(<T as Element>::Acc::from_i64(value as i64));
        let mut position = 0;
        for row in 0..rows {
            let border = border::<UPPER>(row, diagonal, cols);
            for col in if UPPER { border..cols } else { 0..border } {
                of_rows.store::<T>(position, as_element(row));
                of_cols.store::<T>(position, as_element(col));
                position += 1;
            }
        }
        if position == elements { Ok(()) } else { Err(Error::new(format!("{position} indices for {elements}"))) }
    })
}
