//! The guard of sparse tensors: CPU kernels use their indices as addresses, and PyTorch checks indices only on request.

use super::Argument;
use super::rules::{Check, Reader, check};
use crate::call::{Outcome, Tensor, Value};

/// The members of a sparse tensor, in the order that [`check_members`] takes. COO tensors have no compressed indices.
const MEMBERS: [&str; 5] = ["layout", "size", "compressed indices", "indices", "values"];

/// Operators whose kernels read no indices: they return, replace, copy or make members unchanged.
const BLIND: [&str; 21] = [
    "_indices",
    "_nnz",
    "_values",
    "ccol_indices",
    "clone",
    "col_indices",
    "copy_",
    "crow_indices",
    "dense_dim",
    "empty",
    "empty_like",
    "indices",
    "is_pinned",
    "resize_",
    "resize_as_sparse_",
    "row_indices",
    "sparse_dim",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "values",
    "zero_",
];

/// True if the operator is one of [`BLIND`].
pub fn looks_at_no_index(operator: &str) -> bool {
    BLIND.contains(&operator.strip_prefix("aten::").unwrap_or(operator))
}

/// An error if an index of a sparse tensor, an argument or a result of a call, is out of bounds.
pub fn check_members(operator: &str, values: &[Value<'_>], reader: &dyn Reader) -> Outcome {
    let schema = MEMBERS.map(|name| Argument { name: name.into(), is_written: false });
    let members = Check::new(operator, &schema, values, Some(reader));
    if members.tensor("compressed indices").is_some() { check_compressed(&members) } else { check_coordinates(&members) }
}

/// COO: one row of indices for each sparse dimension.
fn check_coordinates(members: &Check<'_>) -> Outcome {
    let (sizes, indices, values) = (members.integers("size"), members.given("indices")?, members.given("values")?);
    let fits = match (indices.sizes(), values.sizes()) {
        ([dims, count], [length, ..]) => *dims as usize <= sizes.len() && count == length,
        _ => false,
    };
    let text = "of a sparse tensor do not fit each other";
    check!(members, fits, "indices of size {:?} and values of size {:?} {text}", indices.sizes(), values.sizes());
    for dim in 0..indices.sizes()[0] {
        check_below(members, "an index", ends_of(members, indices.row(dim)), sizes[dim as usize])?;
    }
    Ok(())
}

/// CSR, CSC, BSR and BSC: the start of each row, column or row of blocks, and the other index of each element.
fn check_compressed(members: &Check<'_>) -> Outcome {
    let (layout, sizes) = (members.find("layout").as_text().unwrap_or_default(), members.integers("size"));
    let [compressed, plain, values] = ["compressed indices", "indices", "values"].map(|name| members.given(name));
    let (compressed, plain, values) = (compressed?, plain?, values?);
    let batch = compressed.ndim().saturating_sub(1);
    let (is_blocked, is_by_column) = (layout.starts_with("SparseB"), layout.ends_with('c'));
    let fits = plain.ndim() == batch + 1
        && compressed.ndim() == batch + 1
        && values.ndim() > batch + 2 * usize::from(is_blocked)
        && sizes.len() >= batch + 2
        && compressed.sizes()[..batch] == plain.sizes()[..batch]
        && plain.sizes()[..=batch] == values.sizes()[..=batch];
    let (ends, of, all) = (compressed.sizes(), plain.sizes(), values.sizes());
    let text = "of a sparse tensor do not fit each other";
    check!(members, fits, "compressed indices of size {ends:?}, indices of size {of:?} and values of size {all:?} {text}");
    let count_of = |dim: usize| sizes[batch + dim] / if is_blocked { all[batch + 1 + dim].max(1) } else { 1 };
    let (lines, across, count) = (count_of(usize::from(is_by_column)), count_of(usize::from(!is_by_column)), of[batch]);
    check!(members, ends[batch] == lines + 1, "expected {} compressed indices, but got {}", lines + 1, ends[batch]);
    let found = members.reader.map(|reader| reader.integers(compressed)).unwrap_or_default();
    let matrices = || found.chunks((lines + 1) as usize);
    let starts = matrices().flat_map(|line| [line[0], line[line.len() - 1].saturating_sub(count)]);
    check_below(members, "an end of the compressed indices", starts, 1)?;
    let steps = matrices().flat_map(|line| line.windows(2)).map(|pair| pair[1].saturating_sub(pair[0]));
    check_below(members, "a step of the compressed indices", steps, count + 1)?;
    check_below(members, "an index", ends_of(members, plain), across)
}

/// The least and the greatest element, if there are any.
fn ends_of(members: &Check<'_>, tensor: Tensor<'_>) -> impl Iterator<Item = i64> + use<> {
    let ends = members.reader.and_then(|reader| reader.minmax(tensor));
    ends.into_iter().flat_map(|(least, greatest)| [least, greatest])
}

/// All values are at least 0 and below a limit.
fn check_below(members: &Check<'_>, what: &str, mut values: impl Iterator<Item = i64>, limit: i64) -> Outcome {
    let wrong = values.find(|value| !(0..limit).contains(value));
    let text = "of a sparse tensor is out of bounds";
    check!(members, wrong.is_none(), "{what} {text}: expected at least 0 and less than {limit}, but got {}", wrong.unwrap_or(0));
    Ok(())
}
