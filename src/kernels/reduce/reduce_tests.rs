//! Reductions, compared with folds of `f64` values.

use ndarray::{ArrayD, Axis, Dimension, IxDyn};

use crate::kernels::check::{self, Strides, Tensor};
use crate::runtime::parallel_for;
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType};
use crate::tensor::launch::Scalar;

/// Sizes, and the reduced dimensions.
const CASES: [(&[usize], &[usize]); 17] = [
    (&[1], &[0]),
    (&[63], &[0]),
    (&[65], &[0]),
    (&[1023], &[0]),
    (&[1025], &[0]),
    (&[70001], &[0]),
    (&[5, 17], &[1]),
    (&[5, 15], &[1]),
    (&[5, 17], &[0]),
    (&[40, 3], &[0]),
    (&[33, 257], &[0]),
    (&[300, 255], &[0]),
    (&[3, 1100], &[1]),
    (&[4, 5, 6], &[1]),
    (&[4, 18, 6], &[0, 2]),
    (&[7, 1, 9], &[0, 1, 2]),
    (&[3, 4], &[]),
];

/// An output over the input's sizes.
fn output(dtype: DType, sizes: &[usize], dims: &[usize]) -> Tensor {
    let kept: Vec<usize> = sizes.iter().enumerate().map(|(dim, &size)| if dims.contains(&dim) { 1 } else { size }).collect();
    let tensor = Tensor::new(dtype, &kept, Strides::Contiguous);
    let strides: Vec<i64> = tensor.view().strides().to_vec();
    let strides: Vec<i64> = strides.iter().enumerate().map(|(dim, &stride)| if dims.contains(&dim) { 0 } else { stride }).collect();
    let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
    tensor.restrided(&sizes, &strides)
}

fn fold(
    values: &ArrayD<Complex64>,
    dims: &[usize],
    start: Complex64,
    merge: impl Fn(Complex64, Complex64) -> Complex64,
) -> ArrayD<Complex64> {
    let mut result = values.clone();
    for &dim in dims {
        result = result.fold_axis(Axis(dim), start, |&left, &right| merge(left, right)).insert_axis(Axis(dim));
    }
    result
}

fn check(
    name: &str,
    source: DType,
    dtype: DType,
    start: f64,
    merge: impl Fn(Complex64, Complex64) -> Complex64,
    finish: impl Fn(Complex64, usize) -> Complex64,
) {
    for (case, (sizes, dims)) in CASES.into_iter().enumerate() {
        // The division of the work does not depend on the dtype: two dtypes run the large sizes, in one layout.
        let large = sizes.iter().product::<usize>() > 4096;
        if large && !matches!(dtype, DType::Float | DType::Long) {
            continue;
        }
        for strides in Strides::ALL.into_iter().take(if large { 1 } else { 4 }) {
            let input = Tensor::of(source, &check::values(source, sizes, case), strides);
            let values = input.values().mapv(|value| check::round_trip(dtype, value));
            let count = dims.iter().map(|&dim| sizes[dim]).product();
            let expected =
                fold(&values, dims, check::real(start), &merge).mapv(|value| check::round_trip(dtype, finish(value, count)));
            let output = output(dtype, sizes, dims);
            for_each_isa(|isa| {
                check::run(name, &[&output], &[&input], &[], dtype).unwrap();
                let found = output.values();
                for (index, expected) in expected.indexed_iter() {
                    let found = found[&index];
                    // Sums of eighths are exact in f32 and f64: only the last rounding matters.
                    assert!(
                        check::close(found, *expected, check::tolerance(dtype)),
                        "{name} {source:?} {dtype:?} {isa:?} {sizes:?} {dims:?} {strides:?} {index:?}: {found} != {expected}"
                    );
                }
            });
        }
    }
}

#[test]
fn sum_adds() {
    for dtype in [DType::Half, DType::BFloat16, DType::Float, DType::Double, DType::Long, DType::Int, DType::ComplexFloat] {
        check("sum", dtype, dtype, 0.0, |left, right| left + right, |sum, _| sum);
    }
}

#[test]
fn sum_casts_first() {
    for (source, dtype) in
        [(DType::Int, DType::Long), (DType::Bool, DType::Long), (DType::Half, DType::Float), (DType::Float, DType::Int)]
    {
        check("sum", source, dtype, 0.0, |left, right| left + right, |sum, _| sum);
    }
}

#[test]
fn mean_divides_by_the_extent() {
    for dtype in [DType::BFloat16, DType::Float, DType::Double, DType::ComplexDouble] {
        check("mean", dtype, dtype, 0.0, |left, right| left + right, |sum, count| sum / count as f64);
    }
}

#[test]
fn extrema_and_truths() {
    for dtype in [DType::Byte, DType::Short, DType::Half, DType::Float, DType::Double] {
        let greater = |left: Complex64, right: Complex64| if left.re > right.re { left } else { right };
        let lesser = |left: Complex64, right: Complex64| if left.re < right.re { left } else { right };
        check("amax", dtype, dtype, -1e4, greater, |value, _| value);
        check("amin", dtype, dtype, 1e4, lesser, |value, _| value);
        for target in [DType::Bool, DType::Byte] {
            let truth = |value: bool| check::real(f64::from(value));
            let or = |left: Complex64, right: Complex64| truth(left.re != 0.0 || right.re != 0.0);
            let and = |left: Complex64, right: Complex64| truth(left.re != 0.0 && right.re != 0.0);
            if target == DType::Bool || dtype == DType::Byte {
                check("any", dtype, target, 0.0, or, |value, _| truth(value.re != 0.0));
                check("all", dtype, target, 1.0, and, |value, _| truth(value.re != 0.0));
            }
        }
    }
}

#[test]
fn prod_multiplies() {
    let input = Tensor::of(
        DType::Float,
        &ArrayD::from_shape_fn(IxDyn(&[100]), |index| check::real(1.0 + (index[0] % 2) as f64)),
        Strides::Sliced,
    );
    let output = output(DType::Float, &[100], &[0]);
    check::run("prod", &[&output], &[&input], &[], DType::Float).unwrap();
    assert_eq!(output.values()[[0]].re, 2f64.powi(50));
}

#[test]
fn both_limits_at_once() {
    let values = check::values(DType::Float, &[70, 300], 1);
    let input = Tensor::of(DType::Float, &values, Strides::Contiguous);
    for dims in [&[0][..], &[1], &[0, 1]] {
        let [least, greatest, low, high] = [0; 4].map(|_| output(DType::Float, &[70, 300], dims));
        check::run("aminmax", &[&least, &greatest], &[&input], &[], DType::Float).unwrap();
        check::run("amin", &[&low], &[&input], &[], DType::Float).unwrap();
        check::run("amax", &[&high], &[&input], &[], DType::Float).unwrap();
        assert_eq!((least.values(), greatest.values()), (low.values(), high.values()), "{dims:?}");
    }
}

#[test]
fn nan_wins() {
    for position in [0, 63, 64, 1500] {
        let mut values = check::values(DType::Float, &[2000], 1);
        values[[position]] = check::real(f64::NAN);
        let input = Tensor::of(DType::Float, &values, Strides::Contiguous);
        for name in ["amax", "amin"] {
            let output = output(DType::Float, &[2000], &[0]);
            check::run(name, &[&output], &[&input], &[], DType::Float).unwrap();
            assert!(output.values()[[0]].re.is_nan(), "{name} {position}");
        }
        let outputs = [0, 0].map(|_| output(DType::Float, &[2000], &[0]));
        check::run("aminmax", &[&outputs[0], &outputs[1]], &[&input], &[], DType::Float).unwrap();
        assert!(outputs.iter().all(|output| output.values()[[0]].re.is_nan()), "{position}");
    }
}

#[test]
fn threads_and_instruction_sets_do_not_change_the_bits() {
    for (sizes, dims) in [(&[70_001][..], &[0][..]), (&[3, 33_000], &[1]), (&[2000, 20], &[0]), (&[70, 600], &[0])] {
        let values = ArrayD::from_shape_fn(IxDyn(sizes), |index| {
            check::real((index.slice().iter().fold(1usize, |hash, &at| hash * 31 + at) as f64).sin())
        });
        let input = Tensor::of(DType::Float, &values, Strides::Contiguous);
        let mut first: Option<ArrayD<Complex64>> = None;
        let before = parallel_for::num_threads();
        for_each_isa(|_| {
            for threads in [1, 2, 3] {
                parallel_for::set_num_threads(threads);
                let output = output(DType::Float, sizes, dims);
                check::run("sum", &[&output], &[&input], &[], DType::Float).unwrap();
                assert_eq!(first.get_or_insert_with(|| output.values()), &output.values());
            }
        });
        parallel_for::set_num_threads(before);
        let exact = fold(&input.values(), dims, check::real(0.0), |left, right| left + right);
        let found = first.unwrap();
        for (index, exact) in exact.indexed_iter() {
            let found = found[&index];
            assert!((found.re - exact.re).abs() < 1e-3, "{sizes:?} {index:?}: {found} != {exact}");
        }
    }
}

#[test]
fn nansum_and_counts_leave_out() {
    for dtype in [DType::Half, DType::BFloat16, DType::Float, DType::Double] {
        check("nansum", dtype, dtype, 0.0, |left, right| left + right, |sum, _| sum);
    }
    let mut values = check::values(DType::Float, &[3, 500], 2);
    let expected = values.sum() - values[[1, 77]];
    values[[1, 77]] = check::real(f64::NAN);
    let (input, sum, count) = (
        Tensor::of(DType::Float, &values, Strides::Contiguous),
        output(DType::Float, &[3, 500], &[0, 1]),
        output(DType::Long, &[3, 500], &[0, 1]),
    );
    check::run("nansum", &[&sum], &[&input], &[], DType::Float).unwrap();
    assert!(check::close(sum.values()[[0, 0]], expected, 1e-6));
    check::run("count_nonzero", &[&count], &[&input], &[], DType::Float).unwrap();
    assert_eq!(count.values()[[0, 0]].re, values.iter().filter(|value| value.re != 0.0).count() as f64);
}

/// The division of the work does not depend on the dtype: only floats run large sizes.
fn layouts(dtype: DType, sizes: &[usize]) -> Vec<Strides> {
    match (sizes.iter().product::<usize>() > 4096, dtype) {
        (false, _) => vec![Strides::Contiguous, Strides::Transposed, Strides::Sliced],
        (true, DType::Float) => vec![Strides::Contiguous],
        _ => vec![],
    }
}

/// The moments along the last of two dimensions, by their definitions.
fn moments(values: &ArrayD<Complex64>, axis: usize) -> Vec<(f64, f64)> {
    let lanes = values.lanes(Axis(axis)).into_iter();
    lanes
        .map(|lane| {
            let mean = lane.iter().map(|value| value.re).sum::<f64>() / lane.len() as f64;
            (mean, lane.iter().map(|value| (value.re - mean).powi(2)).sum::<f64>())
        })
        .collect()
}

#[test]
fn variances_and_means() {
    for dtype in [DType::Half, DType::BFloat16, DType::Float, DType::Double] {
        for (sizes, axis) in [
            ([7, 9], 0),
            ([7, 9], 1),
            ([3, 5000], 1),
            ([5000, 3], 0),
            ([70, 300], 0),
            ([40, 130], 1),
            ([1, 300], 1),
            ([20_000, 2], 0),
        ] {
            for strides in layouts(dtype, &sizes) {
                let input = Tensor::of(dtype, &check::values(dtype, &sizes, 3), strides);
                let (variance, mean) = (output(dtype, &sizes, &[axis]), output(dtype, &sizes, &[axis]));
                for_each_isa(|isa| {
                    check::run("var", &[&variance, &mean], &[&input], &[Scalar::Double(1.0)], dtype).unwrap();
                    let found: Vec<_> = [&variance, &mean]
                        .map(|tensor| tensor.values().lanes(Axis(axis)).into_iter().map(|lane| lane[0]).collect::<Vec<_>>())
                        .into();
                    for (position, (expected, squares)) in moments(&input.values(), axis).into_iter().enumerate() {
                        let expected = [squares / (sizes[axis] as f64 - 1.0), expected];
                        for (found, expected) in found.iter().zip(expected) {
                            let (found, expected) = (found[position], check::round_trip(dtype, check::real(expected)));
                            assert!(
                                check::close(found, expected, check::tolerance(dtype)),
                                "{dtype:?} {isa:?} {sizes:?} {axis} {strides:?} {position}: {found} != {expected}"
                            );
                        }
                    }
                });
            }
        }
    }
}

#[test]
fn a_distant_mean_does_not_spoil_the_variance() {
    let values = ArrayD::from_shape_fn(IxDyn(&[30_000]), |index| check::real(10_000.0 + f64::from(index[0] as u32 % 4)));
    for strides in [Strides::Contiguous, Strides::Sliced] {
        let (input, found) = (Tensor::of(DType::Float, &values, strides), output(DType::Float, &[30_000], &[0]));
        check::run("std", &[&found], &[&input], &[Scalar::Long(0)], DType::Float).unwrap();
        assert!((found.values()[[0]].re - 1.25f64.sqrt()).abs() < 1e-5, "{}", found.values());
    }
}

#[test]
fn extremes_have_the_first_position() {
    for dtype in [DType::Bool, DType::Byte, DType::Long, DType::BFloat16, DType::Float, DType::Double] {
        for (sizes, axis) in
            [([5, 17], 0), ([5, 17], 1), ([3, 9000], 1), ([9000, 3], 0), ([90, 300], 0), ([40, 1], 1), ([2, 64], 1)]
        {
            for nan in [None, Some([sizes[0] / 2, sizes[1] / 2])] {
                let mut values = check::values(dtype, &sizes, 4);
                if let (Some(position), DType::Float | DType::BFloat16) = (nan, dtype) {
                    values[position] = check::real(f64::NAN);
                }
                for strides in layouts(dtype, &sizes) {
                    for (name, sign) in [("max.dim", 1.0), ("min.dim", -1.0)] {
                        let input = Tensor::of(dtype, &values, strides);
                        let (value, position) = (output(dtype, &sizes, &[axis]), output(DType::Long, &sizes, &[axis]));
                        for_each_isa(|isa| {
                            check::run(name, &[&value, &position], &[&input], &[], dtype).unwrap();
                            let (found, indices) = (value.values(), position.values());
                            let lanes = input.values();
                            for (number, lane) in lanes.lanes(Axis(axis)).into_iter().enumerate() {
                                let key = |value: &Complex64| if value.re.is_nan() { f64::INFINITY } else { sign * value.re };
                                let best = (0..lane.len()).rev().max_by(|&a, &b| key(&lane[a]).total_cmp(&key(&lane[b]))).unwrap();
                                let at = if axis == 0 { [0, number] } else { [number, 0] };
                                let context = format!("{name} {dtype:?} {isa:?} {sizes:?} {axis} {strides:?} {nan:?} {number}");
                                assert_eq!(indices[at].re, best as f64, "{context}");
                                assert!(check::close(found[at], lane[best], 0.0), "{context}");
                            }
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn norms_of_every_order() {
    for (dtype, real) in [
        (DType::BFloat16, DType::BFloat16),
        (DType::Float, DType::Float),
        (DType::Double, DType::Double),
        (DType::ComplexFloat, DType::Float),
    ] {
        for (sizes, axis) in [([6, 40], 1), ([40, 6], 0), ([3, 1], 1)] {
            let input = Tensor::of(dtype, &check::values(dtype, &sizes, 5), Strides::Contiguous);
            let found = output(real, &sizes, &[axis]);
            for order in [0.0, 1.0, 2.0, 3.0, 0.5, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
                check::run("linalg_vector_norm", &[&found], &[&input], &[Scalar::Double(order)], dtype).unwrap();
                for (number, lane) in input.values().lanes(Axis(axis)).into_iter().enumerate() {
                    let sizes = || lane.iter().map(|value| value.norm());
                    let expected = match order {
                        0.0 => sizes().filter(|&size| size != 0.0).count() as f64,
                        f64::INFINITY => sizes().fold(0.0, f64::max),
                        f64::NEG_INFINITY => sizes().fold(f64::INFINITY, f64::min),
                        _ if lane.len() == 1 => lane[0].norm(),
                        order => sizes().map(|size| size.powf(order)).sum::<f64>().powf(1.0 / order),
                    };
                    let at = if axis == 0 { [0, number] } else { [number, 0] };
                    let expected = check::round_trip(real, check::real(expected));
                    let found = found.values()[at];
                    assert!(
                        check::close(found, expected, 4.0 * check::tolerance(real)),
                        "{dtype:?} {order} {number}: {found} != {expected}"
                    );
                }
            }
        }
    }
}
