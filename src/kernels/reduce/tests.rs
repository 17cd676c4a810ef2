//! The reductions against folds of `f64` values.

use ndarray::{ArrayD, Axis, Dimension, IxDyn};

use crate::kernels::check::{self, Strides, Tensor};
use crate::runtime::threads;
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType};

/// Sizes and the dimensions that are reduced.
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
        // How the work is divided does not depend on the dtype: two of them see the large sizes, in one layout.
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
                    // Sums of eighths are exact in f32 and f64: only the last rounding counts.
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
fn extremes_and_truths() {
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
fn nan_wins() {
    for place in [0, 63, 64, 1500] {
        let mut values = check::values(DType::Float, &[2000], 1);
        values[[place]] = check::real(f64::NAN);
        let input = Tensor::of(DType::Float, &values, Strides::Contiguous);
        for name in ["amax", "amin"] {
            let output = output(DType::Float, &[2000], &[0]);
            check::run(name, &[&output], &[&input], &[], DType::Float).unwrap();
            assert!(output.values()[[0]].re.is_nan(), "{name} {place}");
        }
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
        let before = threads::num_threads();
        for_each_isa(|_| {
            for threads in [1, 2, 3] {
                threads::set_num_threads(threads);
                let output = output(DType::Float, sizes, dims);
                check::run("sum", &[&output], &[&input], &[], DType::Float).unwrap();
                assert_eq!(first.get_or_insert_with(|| output.values()), &output.values());
            }
        });
        threads::set_num_threads(before);
        let exact = fold(&input.values(), dims, check::real(0.0), |left, right| left + right);
        let found = first.unwrap();
        for (index, exact) in exact.indexed_iter() {
            let found = found[&index];
            assert!((found.re - exact.re).abs() < 1e-3, "{sizes:?} {index:?}: {found} != {exact}");
        }
    }
}
