//! Sorting kernels over ties, NaN, both zeros, layouts, long and short lines, and numbers of threads.

use super::kernel::sort::workspace;
use crate::ops::check::{Case, Make, Strides, Tensor, agree, any_threads, find, longs, run, values, with_nan};
use crate::tensor::{DType, ORDERED, Scalar};

/// A launch with the results [values, indices] of `count` elements for each line of the contiguous input.
fn select(make: &Make, lines: usize, [len, count]: [usize; 2], scalars: &[i64]) -> Case {
    let input = make.dense(make.dtype(), &with_nan(make.dtype(), &[lines, len], len));
    Case::new([make.output(&[lines, count]), make.output_of(DType::Long, &[lines, count])], [input], longs(scalars))
}

#[test]
fn lines_are_sorted_in_any_layout() {
    for (sizes, dim) in [(&[7, 50][..], 1), (&[50, 7], 0), (&[3, 1], 1), (&[2, 400], 1), (&[0, 3], 0)] {
        for descending in [0, 1] {
            agree("sort.stable", ORDERED, [0.0, 0.0], |make| {
                let input = make.of(make.dtype(), &with_nan(make.dtype(), sizes, 1));
                let outputs = [make.output(sizes), make.output_of(DType::Long, sizes), Tensor::absent()];
                Case::new(outputs, [input], longs(&[dim, descending]))
            });
        }
    }
}

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
    let mut case = select(&Make::plain(DType::Float), 1, [100, 100], &[1, 0]);
    case.outputs.push(Make::plain(DType::Byte).output(&[100]));
    assert!(case.run("sort.stable", DType::Float, None).unwrap_err().text().contains("800 are needed"));
}

#[test]
fn selections_from_lines_of_any_length() {
    for len in [1, 2, 40, 1000] {
        for (count, largest) in [0, len / 16, 600].into_iter().flat_map(|count| [(count.min(len), 0), (count.min(len), 1)]) {
            agree("topk", ORDERED, [0.0, 0.0], |make| select(make, 1, [len, count], &[largest]));
        }
        for rank in [1, len.div_ceil(3), len] {
            agree("kthvalue", ORDERED, [0.0, 0.0], |make| select(make, 1, [len, 1], &[rank as i64]));
        }
        agree("median", ORDERED, [0.0, 0.0], |make| select(make, 1, [len, 1], &[]));
        agree("nanmedian", ORDERED, [0.0, 0.0], |make| select(make, 1, [len, 1], &[]));
    }
    any_threads("topk", &[DType::Float, DType::Long], |make| select(make, 1, [200_000, 7], &[1]));
    any_threads("nanmedian", &[DType::Float, DType::Half], |make| select(make, 1, [200_000, 1], &[]));
}

#[test]
fn values_are_found_between_sorted_ones() {
    for right in [0, 1] {
        agree("searchsorted", ORDERED, [0.0, 0.0], |make| {
            let make = make.contiguous();
            let mut line = values(make.dtype(), &[400], 1);
            line.as_slice_mut().unwrap().sort_by(|one, other| one.re.total_cmp(&other.re));
            let inputs = [make.dense(make.dtype(), &line), make.of(make.dtype(), &with_nan(make.dtype(), &[3, 100], 2))];
            Case::new([make.output_of(DType::Int, &[3, 100])], inputs, longs(&[right]))
        });
        agree("isin", find("isin").dtypes(), [0.0, 0.0], |make| {
            let make = make.contiguous();
            let inputs = [make.input(&[300], 1), make.dense(make.dtype(), &with_nan(make.dtype(), &[9], 2))];
            Case::new([make.output_of(DType::Bool, &[300])], inputs, longs(&[right]))
        });
    }
    // Each line is searched in its own, by way of a sorter.
    let line = |values: &[f64], cols: i64| Tensor::line(DType::Long, values).restrided(&[2, cols], &[8 * cols, 8]);
    let (lines, sorter) = (line(&[30.0, 10.0, 20.0, 3.0, 2.0, 1.0], 3), line(&[1.0, 2.0, 0.0, 2.0, 1.0, 0.0], 3));
    let output = line(&[9.0; 4], 2);
    run("searchsorted", &[&output], &[&lines, &line(&[20.0, 31.0, 0.0, 3.0], 2), &sorter], &longs(&[0]), DType::Long).unwrap();
    assert_eq!(output.reals(), [1.0, 3.0, 0.0, 2.0]);
}

#[test]
fn rows_that_differ_are_grouped_counted_and_taken() {
    let (line, empty) = (|values: &[f64]| Tensor::line(DType::Long, values), |len| Tensor::line(DType::Long, &vec![0.0; len]));
    let rows = line(&[3.0, 1.0, 2.0, 9.0, 3.0, 1.0, 2.0, 7.0]).restrided(&[4, 2], &[16, 8]);
    let (order, groups) = (empty(4), empty(4));
    run("unique_order", &[&order], &[&rows], &[], DType::Long).unwrap();
    run("unique_groups", &[&groups], &[&rows, &order], &[], DType::Long).unwrap();
    assert_eq!([order.reals(), groups.reals()], [[3.0, 1.0, 0.0, 2.0], [0.0, 1.0, 2.0, 2.0]]);
    let ([starts, counts, inverse], apart) = ([empty(3), empty(3), empty(4)], [Scalar::Bool(false)]);
    run("unique_collect", &[&starts, &inverse, &counts], &[&groups, &order], &apart, DType::Long).unwrap();
    assert_eq!((starts.reals(), counts.reals()), (vec![3.0, 1.0, 0.0], vec![1.0, 1.0, 2.0]));
    assert_eq!(inverse.reals(), [2.0, 1.0, 2.0, 0.0]);
    let taken = empty(6).restrided(&[3, 2], &[16, 8]);
    run("unique_rows", &[&taken], &[&rows, &starts], &[], DType::Long).unwrap();
    assert_eq!(taken.reals(), [2.0, 7.0, 2.0, 9.0, 3.0, 1.0]);
    assert!(run("unique_collect", &[&empty(2), &inverse, &counts], &[&groups], &apart, DType::Long).is_err());
}
