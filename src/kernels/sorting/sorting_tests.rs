//! Sorting kernels, compared with plain definitions, with ties, NaN, both zeros, long and short lines.

use std::cmp::Ordering;

use ndarray::{ArrayD, Axis, IxDyn};

use super::sort::workspace;
use crate::kernels::check::{self, Strides, Tensor, real, round_trip, values};
use crate::runtime::parallel_for;
use crate::tensor::dtype::{Complex64, DType, FLOATING, ORDERED};
use crate::tensor::launch::Scalar;

fn longs(numbers: &[i64]) -> Vec<Scalar> {
    numbers.iter().map(|&number| Scalar::Long(number)).collect()
}

fn numbers(values: impl IntoIterator<Item = f64>) -> ArrayD<Complex64> {
    let values: Vec<Complex64> = values.into_iter().map(real).collect();
    ArrayD::from_shape_vec(IxDyn(&[values.len()]), values).unwrap()
}

/// Values with many ties. Floating-point values include NaN and negative zeros.
fn mixed(dtype: DType, sizes: &[usize], seed: usize) -> ArrayD<Complex64> {
    let mut at = 0;
    values(dtype, sizes, seed).mapv(|value| {
        at += 1;
        match (FLOATING.contains(dtype), at % 13, at % 17) {
            (true, 5, _) => real(f64::NAN),
            (true, _, 3) => real(-0.0),
            _ => round_trip(dtype, real(value.re)),
        }
    })
}

fn before(one: f64, other: f64) -> Ordering {
    one.partial_cmp(&other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
}

/// The indices that sort a line.
fn order_of(line: &[f64], descending: bool) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..line.len()).collect();
    indices.sort_by(|&one, &other| if descending { before(line[other], line[one]) } else { before(line[one], line[other]) });
    indices
}

fn same(found: f64, expected: f64) -> bool {
    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
}

/// Compares the lines of both outputs with the indices that `oracle` returns for a line.
fn compare(context: &str, outputs: [&Tensor; 2], input: &Tensor, dim: usize, oracle: impl Fn(&[f64]) -> Vec<usize>) {
    let (found, indices, input) = (outputs[0].values(), outputs[1].values(), input.values());
    let lines = |array: &ArrayD<Complex64>| -> Vec<Vec<f64>> {
        array.lanes(Axis(dim)).into_iter().map(|lane| lane.iter().map(|value| value.re).collect()).collect()
    };
    for ((line, found), indices) in lines(&input).iter().zip(lines(&found)).zip(lines(&indices)) {
        let expected = oracle(line);
        assert_eq!(indices, expected.iter().map(|&position| position as f64).collect::<Vec<_>>(), "{context}: indices");
        assert!(found.iter().zip(&expected).all(|(&found, &position)| same(found, line[position])), "{context}: values");
    }
}

fn sort(dtype: DType, sizes: &[usize], dim: usize, from: Strides, descending: bool) {
    let input = Tensor::of(dtype, &mixed(dtype, sizes, dim + 1), from);
    let (values, indices) = (Tensor::new(dtype, sizes, Strides::Contiguous), Tensor::new(DType::Long, sizes, Strides::Contiguous));
    check::run("sort.stable", &[&values, &indices], &[&input], &longs(&[dim as i64, descending.into()]), dtype).unwrap();
    let context = format!("{dtype:?} {sizes:?} {dim} {from:?} {descending}");
    compare(&context, [&values, &indices], &input, dim, |line| order_of(line, descending));
}

#[test]
fn lines_are_sorted_and_equal_elements_keep_their_order() {
    for dtype in ORDERED.iter() {
        for from in Strides::ALL {
            for descending in [false, true] {
                for (sizes, dim) in [(&[7, 50][..], 1), (&[50, 7], 0), (&[3, 1], 1), (&[2, 1500], 1), (&[0, 3], 0)] {
                    sort(dtype, sizes, dim, from, descending);
                }
            }
        }
    }
}

/// Sorts with a workspace.
fn sort_long(dtype: DType, values: &ArrayD<Complex64>, descending: bool) -> [Tensor; 3] {
    let input = Tensor::of(dtype, values, Strides::Contiguous);
    let sizes = values.shape();
    let outputs = [dtype, DType::Long].map(|dtype| Tensor::new(dtype, sizes, Strides::Contiguous));
    let bytes = workspace(dtype, sizes[sizes.len() - 1]);
    let workspace = Tensor::new(DType::Byte, &[bytes], Strides::Contiguous);
    let scalars = longs(&[sizes.len() as i64 - 1, descending.into()]);
    check::run("sort.stable", &[&outputs[0], &outputs[1], &workspace], &[&input], &scalars, dtype).unwrap();
    let [values, indices] = outputs;
    [values, indices, input]
}

#[test]
fn long_lines_are_sorted_by_all_threads() {
    for dtype in [DType::Bool, DType::Char, DType::BFloat16, DType::Float, DType::Long, DType::Double] {
        for (len, descending) in [(1, false), (70_000, true), (300_001, false)] {
            let values = mixed(dtype, &[2, len], len);
            let [found, indices, input] = sort_long(dtype, &values, descending);
            compare(&format!("{dtype:?} {len}"), [&found, &indices], &input, 1, |line| order_of(line, descending));
        }
    }
}

#[test]
fn keys_of_any_width_are_sorted() {
    let spread = |scale: f64| numbers((0..40_000u64).map(|at| (at.wrapping_mul(0x9e37_79b9) % 40_009) as f64 * scale - 1e3));
    for (dtype, scale) in [
        (DType::Long, 0.0),
        (DType::Long, 1.0),
        (DType::Long, 1e5),
        (DType::Long, 1e14),
        (DType::Double, 1e300),
        (DType::Float, 1e33),
    ] {
        let values = spread(scale).mapv(|value| round_trip(dtype, value));
        let [found, indices, input] = sort_long(dtype, &values, false);
        compare(&format!("{dtype:?} {scale}"), [&found, &indices], &input, 0, |line| order_of(line, false));
    }
}

#[test]
fn indices_beyond_32_bits_take_wider_workspaces() {
    for (dtype, per_element) in [(DType::Bool, 8), (DType::Half, 8), (DType::Float, 8), (DType::Long, 32), (DType::Double, 32)] {
        assert_eq!(workspace(dtype, 1 << 20), per_element << 20, "{dtype:?}");
        assert_eq!(workspace(dtype, (1 << 32) - 1), (per_element * ((1 << 32) - 1)).next_multiple_of(16), "{dtype:?}");
        assert_eq!(workspace(dtype, 1 << 32), 32 << 32, "{dtype:?}");
    }
    assert_eq!(workspace(DType::ComplexFloat, 100), 0);
}

#[test]
fn a_workspace_that_is_too_small_is_refused() {
    let input = Tensor::new(DType::Float, &[100], Strides::Contiguous);
    let (indices, workspace) =
        (Tensor::new(DType::Long, &[100], Strides::Contiguous), Tensor::new(DType::Byte, &[100], Strides::Contiguous));
    let values = input.clone();
    let found = check::run("sort.stable", &[&values, &indices, &workspace], &[&input], &longs(&[0, 0]), DType::Float);
    assert!(found.unwrap_err().text().contains("800 are needed"));
}

#[test]
fn results_do_not_depend_on_the_threads() {
    let before = parallel_for::num_threads();
    let values = mixed(DType::Float, &[400_000], 3);
    let results = [1, 2, 5].map(|count| {
        parallel_for::set_num_threads(count);
        let [_, indices, input] = sort_long(DType::Float, &values, false);
        let top = select("topk", DType::Float, &input, &[7], &[1]);
        let middle = select("nanmedian", DType::Float, &input, &[1], &[]);
        parallel_for::set_num_threads(before);
        (indices.values(), top[1].values(), middle[1].values())
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}

/// Runs a selection kernel along the last dimension.
fn select(name: &str, dtype: DType, input: &Tensor, sizes: &[usize], scalars: &[i64]) -> [Tensor; 2] {
    let outputs = [dtype, DType::Long].map(|dtype| Tensor::new(dtype, sizes, Strides::Sliced));
    check::run(name, &[&outputs[0], &outputs[1]], &[input], &longs(scalars), dtype).unwrap();
    outputs
}

#[test]
fn the_first_are_those_of_a_stable_sort() {
    for dtype in ORDERED.iter() {
        for len in [1, 40, 5000, 300_000] {
            if len > 5000 && ![DType::Float, DType::Long].contains(&dtype) {
                continue;
            }
            let input = Tensor::of(dtype, &mixed(dtype, &[2, len], len), Strides::Contiguous);
            for count in [0, 1, 3, len / 16, 2000].map(|count| count.min(len)) {
                for largest in [false, true] {
                    let [found, indices] = select("topk", dtype, &input, &[2, count], &[largest.into()]);
                    let context = format!("{dtype:?} {count} of {len} {largest}");
                    compare(&context, [&found, &indices], &input, 1, |line| order_of(line, largest)[..count].to_vec());
                }
            }
        }
    }
}

#[test]
fn the_kth_and_the_middle_are_those_of_a_stable_sort() {
    for dtype in ORDERED.iter() {
        for len in [1, 2, 41, 5000, 300_000] {
            if len > 5000 && ![DType::Float, DType::Long, DType::Half].contains(&dtype) {
                continue;
            }
            let input = Tensor::of(dtype, &mixed(dtype, &[2, len], len), Strides::Contiguous);
            for rank in [1, len.div_ceil(3), len] {
                let [found, indices] = select("kthvalue", dtype, &input, &[2, 1], &[rank as i64]);
                let context = format!("{dtype:?} {rank} of {len}");
                compare(&context, [&found, &indices], &input, 1, |line| vec![order_of(line, false)[rank - 1]]);
            }
            for (name, ignores) in [("median", false), ("nanmedian", true)] {
                let [found, indices] = select(name, dtype, &input, &[2, 1], &[]);
                compare(&format!("{name} {dtype:?} {len}"), [&found, &indices], &input, 1, |line| {
                    let nans = line.iter().filter(|value| value.is_nan()).count();
                    let rank = match (ignores, nans) {
                        (true, nans) => (line.len() - nans).saturating_sub(1) / 2,
                        (false, 0) => (line.len() - 1) / 2,
                        (false, nans) => line.len() - nans,
                    };
                    vec![order_of(line, false)[rank]]
                });
            }
        }
    }
}

#[test]
fn the_mode_is_the_first_of_the_most_frequent_at_its_last_position() {
    let lines = [[2.0, 1.0, 2.0, 1.0, 3.0, f64::NAN, f64::NAN, f64::NAN], [5.0, 5.0, 4.0, 6.0, 6.0, 6.0, 7.0, 7.0]];
    let sorted: Vec<Vec<usize>> = lines.iter().map(|line| order_of(line, false)).collect();
    let array =
        |value: &dyn Fn(usize, usize) -> f64| ArrayD::from_shape_fn(IxDyn(&[2, 8]), |at| real(value(at[0], sorted[at[0]][at[1]])));
    let values = Tensor::of(DType::Float, &array(&|line, position| lines[line][position]), Strides::Contiguous);
    let origins = Tensor::of(DType::Long, &array(&|_, position| position as f64), Strides::Contiguous);
    let outputs = [DType::Float, DType::Long].map(|dtype| Tensor::new(dtype, &[2, 1], Strides::Contiguous));
    check::run("mode", &[&outputs[0], &outputs[1]], &[&values, &origins], &[], DType::Float).unwrap();
    assert_eq!(outputs[0].values().into_raw_vec_and_offset().0, [1.0, 6.0].map(real));
    assert_eq!(outputs[1].values().into_raw_vec_and_offset().0, [3.0, 5.0].map(real));
}

#[test]
fn values_are_found_between_sorted_ones() {
    for dtype in ORDERED.iter() {
        for right in [false, true] {
            let mut line: Vec<f64> = values(dtype, &[400], 1).iter().map(|value| value.re).collect();
            line.sort_by(|one, other| before(*one, *other));
            let sorted = Tensor::of(dtype, &numbers(line.iter().copied()), Strides::Contiguous);
            let wanted = mixed(dtype, &[3, 1000], 2);
            let input = Tensor::of(dtype, &wanted, Strides::Contiguous);
            let output = Tensor::new(DType::Int, &[3, 1000], Strides::Contiguous);
            check::run("searchsorted", &[&output], &[&sorted, &input], &longs(&[right.into()]), dtype).unwrap();
            for (found, wanted) in output.values().iter().zip(&wanted) {
                let behind = |value: f64| if right { value > wanted.re } else { value >= wanted.re };
                let expected = line.iter().position(|&value| behind(value)).unwrap_or(400);
                assert_eq!(found.re as usize, expected, "{dtype:?} {right} {wanted}");
            }
        }
    }
}

#[test]
fn each_line_is_searched_in_its_own_by_way_of_a_sorter() {
    let lines =
        Tensor::of(DType::Long, &numbers([30.0, 10.0, 20.0, 3.0, 2.0, 1.0]), Strides::Contiguous).restrided(&[2, 3], &[24, 8]);
    let sorter =
        Tensor::of(DType::Long, &numbers([1.0, 2.0, 0.0, 2.0, 1.0, 0.0]), Strides::Contiguous).restrided(&[2, 3], &[24, 8]);
    let input = Tensor::of(DType::Long, &numbers([20.0, 31.0, 0.0, 3.0]), Strides::Contiguous).restrided(&[2, 2], &[16, 8]);
    let output = Tensor::new(DType::Long, &[2, 2], Strides::Contiguous);
    check::run("searchsorted", &[&output], &[&lines, &input, &sorter], &longs(&[0]), DType::Long).unwrap();
    assert_eq!(output.values().into_raw_vec_and_offset().0, [1.0, 3.0, 0.0, 2.0].map(real));
}

#[test]
fn membership_ignores_nan() {
    let others = Tensor::of(DType::Float, &numbers([-1.0, 0.0, 2.0, f64::NAN]), Strides::Contiguous);
    let elements = Tensor::of(DType::Float, &numbers([-0.0, 1.0, 2.0, f64::NAN]), Strides::Contiguous);
    let output = Tensor::new(DType::Bool, &[4], Strides::Contiguous);
    for (inverted, expected) in [(0, [1.0, 0.0, 1.0, 0.0]), (1, [0.0, 1.0, 0.0, 1.0])] {
        check::run("isin", &[&output], &[&elements, &others], &longs(&[inverted]), DType::Float).unwrap();
        assert_eq!(output.values().into_raw_vec_and_offset().0, expected.map(real));
    }
}

#[test]
fn rows_that_differ_are_grouped_counted_and_taken() {
    let line = |values: &[f64]| Tensor::of(DType::Long, &numbers(values.iter().copied()), Strides::Contiguous);
    let empty = |len| Tensor::new(DType::Long, &[len], Strides::Contiguous);
    let rows = line(&[3.0, 1.0, 2.0, 9.0, 3.0, 1.0, 2.0, 7.0]).restrided(&[4, 2], &[16, 8]);
    let (order, groups) = (empty(4), empty(4));
    check::run("unique_order", &[&order], &[&rows], &[], DType::Long).unwrap();
    assert_eq!(order.values(), line(&[3.0, 1.0, 0.0, 2.0]).values());
    check::run("unique_groups", &[&groups], &[&rows, &order], &[], DType::Long).unwrap();
    assert_eq!(groups.values(), line(&[0.0, 1.0, 2.0, 2.0]).values());
    let [starts, counts, inverse] = [empty(3), empty(3), empty(4)];
    let apart = [Scalar::Bool(false)];
    check::run("unique_collect", &[&starts, &inverse, &counts], &[&groups, &order], &apart, DType::Long).unwrap();
    assert_eq!(starts.values(), line(&[3.0, 1.0, 0.0]).values());
    assert_eq!(counts.values(), line(&[1.0, 1.0, 2.0]).values());
    assert_eq!(inverse.values(), line(&[2.0, 1.0, 2.0, 0.0]).values());
    let taken = Tensor::new(DType::Long, &[3, 2], Strides::Contiguous);
    check::run("unique_rows", &[&taken], &[&rows, &starts], &[], DType::Long).unwrap();
    assert_eq!(taken.values().into_raw_vec_and_offset().0, [2.0, 7.0, 2.0, 9.0, 3.0, 1.0].map(real));
    // Only the starts of the groups, in the order of the rows.
    check::run("unique_collect", &[&starts, &empty(0), &empty(0)], &[&groups], &[Scalar::Bool(true)], DType::Long).unwrap();
    assert_eq!(starts.values(), line(&[0.0, 1.0, 2.0]).values());
    assert!(check::run("unique_collect", &[&empty(2), &inverse, &counts], &[&groups], &apart, DType::Long).is_err());
}

#[test]
fn neighbours_that_are_equal_are_one_group_and_nan_is_alone() {
    let values = mixed(DType::Float, &[70_000, 1], 4);
    let rows = Tensor::of(DType::Float, &values, Strides::Contiguous);
    let groups = Tensor::new(DType::Long, &[70_000], Strides::Contiguous);
    check::run("unique_groups", &[&groups], &[&rows], &[], DType::Float).unwrap();
    let (mut group, mut last) = (0.0, values[[0, 0]].re);
    for (found, value) in groups.values().iter().zip(&values).skip(1) {
        group += f64::from(u8::from(value.re != last));
        last = value.re;
        assert_eq!(found.re, group);
    }
}
