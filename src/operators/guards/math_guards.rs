//! Guards of Fourier transforms, distances, linear algebra and indices of sparse matrices.

use smallvec::{SmallVec, smallvec};

use super::named_arguments::{NamedArguments, check, minmax, size};
use crate::operators::call::{Outcome, Refusal, broadcast, ensure};

// ---- Fourier transforms ----

/// Below `torch.fft`, nothing wraps negative dimensions.
pub fn transform(arguments: &mut NamedArguments<'_>) -> Outcome {
    let ndim = arguments.given("self")?.ndim();
    let mut seen: SmallVec<[bool; 8]> = smallvec![false; ndim];
    for &dim in arguments.integers("dim") {
        let Some(is_seen) = usize::try_from(dim).ok().and_then(|dim| seen.get_mut(dim)) else {
            let range = format!("expected to be in range of [0, {}], but got {dim}", ndim as i64 - 1);
            return Err(Refusal::Index(format!("{}: Dimension out of range ({range})", arguments.operator())));
        };
        check!(arguments, !*is_seen, "dim {dim} appears multiple times in the list of dims");
        *is_seen = true;
    }
    Ok(())
}

pub fn inverse_transform(arguments: &mut NamedArguments<'_>) -> Outcome {
    transform(arguments)?;
    let count = arguments.integer("last_dim_size").unwrap_or(0);
    check!(arguments, count >= 1, "Invalid number of data points ({count}) specified");
    let (sizes, half) = (arguments.given("self")?.sizes(), count / 2 + 1);
    let fits = arguments.integers("dim").last().is_none_or(|&dim| sizes[dim as usize] == half);
    let text = "elements in the last dimension that is transformed";
    check!(arguments, fits, "expected self to have {half} {text}, but got {sizes:?}");
    Ok(())
}

// ---- distances ----

pub fn distances_of_rows_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (one, two) = (arguments.given("x1")?.sizes(), arguments.given("x2")?.sizes());
    let fits = matches!((one, two), ([_, .., columns], [_, .., others]) if columns == others);
    check!(arguments, fits, "expected rows of the same number of columns, but got {one:?} and {two:?}");
    let (rows, others) = (one.len() - 2, two.len() - 2);
    let mut sizes = broadcast(&one[..rows], &two[..others])?;
    sizes.extend([one[rows], two[others]]);
    arguments.check_sizes("grad_output", &sizes)?;
    arguments.check_sizes("cdist", &sizes)
}

pub fn distances_of_pairs_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    let points = arguments.given("self")?;
    arguments.check_dim("self", 2)?;
    let rows = points.sizes()[0];
    check!(arguments, rows > 0, "expected self to have rows");
    let pairs = rows.saturating_mul(rows - 1) / 2;
    arguments.check_sizes("grad_output", &[pairs])?;
    arguments.check_sizes("pdist", &[pairs])
}

// ---- linear algebra ----

/// LAPACK's eigenvalue search may hang or crash for NaN or infinity; the message is that of `torch.linalg.eigvals`.
pub fn eigenvalues(arguments: &mut NamedArguments<'_>) -> Outcome {
    let matrices = arguments.given("self")?;
    let is_finite = arguments.reader().is_none_or(|reader| reader.is_finite(matrices));
    ensure!(is_finite, "torch.linalg.eigvals: input tensor should not contain infs or NaNs.");
    Ok(())
}

pub fn cholesky_solve(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (rhs, factor) = (arguments.given("self")?.sizes(), arguments.given("A")?.sizes());
    let is_square = matches!(factor, [.., rows, columns] if rows == columns);
    check!(arguments, is_square, "A must be batches of square matrices, but they are of size {factor:?}");
    arguments.check_dim("self", factor.len())?;
    let last = factor.len() - 1;
    check!(arguments, rhs[..last] == factor[..last], "self of size {rhs:?} does not fit A of size {factor:?}");
    Ok(())
}

/// Pivots are row numbers, counted from 1. Pivots of 2x2 blocks are negative and come in pairs.
pub fn pivots(arguments: &mut NamedArguments<'_>) -> Outcome {
    let pivots = arguments.given("pivots")?;
    let Some(reader) = arguments.reader().filter(|_| pivots.numel() != 0) else { return Ok(()) };
    let rows = size(pivots, -1)?;
    for matrix in reader.integers(pivots).chunks(rows as usize) {
        let mut left = matrix.iter().copied();
        while let Some(pivot) = left.next() {
            check_pivot(arguments, pivot, rows)?;
            if pivot < 0 {
                let second = left.next().unwrap_or(0);
                check!(arguments, second < 0, "a negative pivot is not one of a pair");
                check_pivot(arguments, second, rows)?;
            }
        }
    }
    Ok(())
}

fn check_pivot(arguments: &NamedArguments<'_>, pivot: i64, rows: i64) -> Outcome {
    let is_row = pivot != 0 && (-rows..=rows).contains(&pivot);
    check!(arguments, is_row, "expected pivots between 1 and {rows}, but got {pivot}");
    Ok(())
}

/// LAPACK's driver `gelss` needs a non-empty right-hand side.
pub fn least_squares(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (matrices, rhs) = (arguments.given("self")?, arguments.given("b")?);
    let takes = arguments.text("driver") != "gelss" || rhs.numel() != 0 || matrices.numel() == 0;
    check!(arguments, takes, "the driver gelss takes no b without elements");
    Ok(())
}

pub fn combination(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (input, coefficients) = (arguments.given("input")?.sizes(), arguments.given("coefficients")?.sizes());
    arguments.check_dim("coefficients", 2)?;
    arguments.check_same_dtype("coefficients", "input")?;
    let fits = input.first() == Some(&coefficients[1]);
    check!(arguments, fits, "input of size {input:?} does not fit coefficients of size {coefficients:?}");
    Ok(())
}

// ---- indices of sparse matrices ----

pub fn rows(arguments: &mut NamedArguments<'_>) -> Outcome {
    let count = arguments.integer("size").unwrap_or(0);
    check!(arguments, count >= 0, "expected size to be at least 0, but got {count}");
    arguments.check_dim("self", 1)?;
    arguments.contiguous("self")?;
    arguments.check_range("self", 0, count)
}

pub fn compressed_rows(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (compressed, columns) = (arguments.contiguous("crow_indices")?, arguments.contiguous("col_indices")?);
    let (ends, of) = (compressed.sizes(), columns.sizes());
    let fits = matches!((ends, of), ([batch @ .., length], [others @ .., _]) if *length >= 1 && batch == others);
    check!(arguments, fits, "crow_indices of size {ends:?} does not fit col_indices of size {of:?}");
    let (length, count) = (ends[ends.len() - 1] as usize, of[of.len() - 1]);
    arguments.check_range("crow_indices", 0, count + 1)?;
    let values = arguments.elements(compressed);
    let matrices = || values.chunks(length);
    arguments.check_in_range("the first of crow_indices", minmax(matrices().map(|rows| rows[0])), 0, 1)?;
    arguments.check_in_range("the last of crow_indices", minmax(matrices().map(|rows| rows[length - 1])), count, count + 1)?;
    let steps = matrices().flat_map(|rows| rows.windows(2)).map(|pair| pair[1] - pair[0]);
    arguments.check_in_range("a step of crow_indices", minmax(steps), 0, count + 1)
}

pub fn plain_indices(arguments: &mut NamedArguments<'_>) -> Outcome {
    arguments.contiguous("compressed_idx")?;
    arguments.contiguous("plain_idx").map(drop)
}

/// The indices that the forward of "amax" or "amin" found: for each result the index of a matrix element, or the number of
/// elements.
pub fn reduced_product_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (matrix, grad, weight) = (arguments.given("self")?, arguments.given("grad_out")?, arguments.given("weight")?);
    let [rows, columns, count] = *matrix.sizes() else {
        check!(arguments, false, "expected a matrix, but got {} dimensions", matrix.ndim().saturating_sub(1));
        return Ok(());
    };
    arguments.check_dim("weight", 2)?;
    arguments.check_sizes("weight", &[columns, weight.sizes()[1]])?;
    arguments.check_sizes("grad_out", &[rows, weight.sizes()[1]])?;
    if matches!(arguments.text("reduce"), "amax" | "amin") {
        arguments.contiguous("arg_out")?;
        arguments.check_sizes("arg_out", grad.sizes())?;
        arguments.check_range("arg_out", 0, count + 1)?;
    }
    Ok(())
}

pub fn diagonals(arguments: &mut NamedArguments<'_>) -> Outcome {
    for size in arguments.integers("shape") {
        check!(arguments, *size >= 0, "expected a shape of sizes of at least 0, but got {size}");
    }
    Ok(())
}
