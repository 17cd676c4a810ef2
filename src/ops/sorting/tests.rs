//! Sorting of long lines by all threads, and its workspace.

use super::kernel::sort::workspace;
use crate::ops::check::{Make, Strides, Tensor, longs, run, with_nan};
use crate::tensor::DType;

/// Sorts a line alone and with a workspace, by all threads.
fn sort_long(input: &Tensor, descending: i64) {
    let (dtype, len) = (input.view().dtype(), input.view().size(0));
    let results = || [dtype, DType::Long].map(|dtype| Make::plain(dtype).output(&[len]));
    let ([values, indices], [long_values, long_indices]) = (results(), results());
    let memory = Make::plain(DType::Byte).output(&[workspace(dtype, len)]);
    let scalars = longs(&[0, descending]);
    run("sort.stable", &[&values, &indices, &Tensor::absent()], &[input], &scalars, dtype).unwrap();
    run("sort.stable", &[&long_values, &long_indices, &memory], &[input], &scalars, dtype).unwrap();
    assert!(values.packed() == long_values.packed() && indices.packed() == long_indices.packed(), "{dtype:?} {len} {descending}");
}

#[test]
fn long_lines_are_sorted_as_short_ones() {
    for dtype in [DType::Bool, DType::Char, DType::BFloat16, DType::Float, DType::Long, DType::Double] {
        for (len, descending) in [(1, 0), (50_000, 1)] {
            sort_long(&Tensor::of(dtype, &with_nan(dtype, &[len], len), Strides::Contiguous), descending);
        }
    }
    // Keys of which few or all bits differ.
    for (dtype, scale) in [
        (DType::Long, 0.0),
        (DType::Long, 1.0),
        (DType::Long, 1e5),
        (DType::Long, 1e14),
        (DType::Double, 1e300),
        (DType::Float, 1e33),
    ] {
        let spread: Vec<f64> = (0..20_000u64).map(|at| (at.wrapping_mul(0x9e37_79b9) % 20_011) as f64 * scale - 1e3).collect();
        sort_long(&Tensor::line(dtype, &spread), 0);
    }
}

#[test]
fn workspaces_have_room_for_indices_of_32_or_64_bits() {
    for (dtype, per_element) in [(DType::Bool, 8), (DType::Half, 8), (DType::Float, 8), (DType::Long, 32), (DType::Double, 32)] {
        assert_eq!(workspace(dtype, 1 << 20), per_element << 20, "{dtype:?}");
        assert_eq!(workspace(dtype, (1 << 32) - 1), (per_element * ((1 << 32) - 1)).next_multiple_of(16), "{dtype:?}");
        assert_eq!(workspace(dtype, 1 << 32), 32 << 32, "{dtype:?}");
    }
    let [input, values, indices, memory] =
        [DType::Float, DType::Float, DType::Long, DType::Byte].map(|dtype| Make::plain(dtype).output(&[100]));
    let refused = run("sort.stable", &[&values, &indices, &memory], &[&input], &longs(&[0, 0]), DType::Float).unwrap_err();
    assert!(refused.text().contains("800 are needed"));
}
