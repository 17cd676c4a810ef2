//! Triangles of matrices, the indices of their elements, and identity matrices.

use super::{check, count};
use crate::kernels::signature::signature;
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::row::Row;
use crate::tensor::loops::rows;
use crate::tensor::number::Number;

signature! {
    eye(out)[] in EVERY;
    tril(out, input)[diagonal] in ANY;
    triu(out, input)[diagonal] in ANY;
    tril_indices(out)[rows, cols, diagonal] in REAL;
    triu_indices(out)[rows, cols, diagonal] in REAL;
}

/// `aten::tril`: the elements on and below a diagonal, zeros above. Operands [out, input] of one dtype and the same sizes; scalars
/// [diagonal].
pub fn tril(launch: &Launch<'_>) -> Result<(), Error> {
    triangle::<false>(launch)
}

/// `aten::triu`: the elements on and above a diagonal, zeros below. Operands and scalars as for [`tril`].
pub fn triu(launch: &Launch<'_>) -> Result<(), Error> {
    triangle::<true>(launch)
}

/// `aten::eye`: ones on the diagonal of a matrix, zeros elsewhere. Operands [out].
pub fn eye(launch: &Launch<'_>) -> Result<(), Error> {
    let output = launch.view(0);
    let (dtype, &[_, cols]) = (output.dtype(), output.sizes()) else {
        return Err(Error::operands(format!("no matrix: {:?}", output.sizes())));
    };
    dispatch!(dtype in EVERY, T => {
        let one = T::store(<T as Element>::Acc::from_i64(1));
        rows::for_each(launch.output(0)?, 0.05 * dtype.size() as f64, &|index, mut row| {
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
    check(launch, 2)?;
    let (output, input, diagonal) = (launch.view(0), launch.view(1), tril::Scalars::of(launch)?.diagonal.to::<i64>());
    if output.sizes() != input.sizes() || output.ndim() < 2 || output.dtype() != input.dtype() {
        return Err(Error::operands(format!("{:?} of {:?}", output.sizes(), input.sizes())));
    }
    let cols = output.size(output.ndim() - 1);
    rows::for_each(launch.output(0)?, 0.05 * output.dtype().size() as f64, &|index, mut row| {
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

/// `aten::tril_indices`: rows and columns of the elements on and below a diagonal, row by row. Operands [out (2, elements)];
/// scalars [rows, cols, diagonal].
pub fn tril_indices(launch: &Launch<'_>) -> Result<(), Error> {
    indices::<false>(launch)
}

/// `aten::triu_indices`: rows and columns of the elements on and above a diagonal. Operands and scalars as for [`tril_indices`].
pub fn triu_indices(launch: &Launch<'_>) -> Result<(), Error> {
    indices::<true>(launch)
}

fn indices<const UPPER: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    let tril_indices::Scalars { rows, cols, diagonal } = tril_indices::Scalars::of(launch)?;
    let (output, rows, cols, diagonal) = (launch.view(0), count(rows)?, count(cols)?, diagonal.to::<i64>());
    let mut target = launch.output(0)?;
    let [mut of_rows, mut of_cols] = target.rows_mut([&[0], &[1]]);
    let dtype = output.dtype();
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
        if position == output.size(1) { Ok(()) } else { Err(Error::operands(format!("{position} indices for {:?}", output.sizes()))) }
    })
}
