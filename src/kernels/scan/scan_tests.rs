//! Scans, compared with running folds over `f64` values.

use ndarray::{ArrayD, Axis, Dimension};

use crate::kernels::check::{self, Strides, Tensor};
use crate::runtime::parallel_for;
use crate::tensor::dtype::{Complex64, DType};
use crate::tensor::launch::Scalar;

const CASES: [(&[usize], usize); 8] =
    [(&[1], 0), (&[5], 0), (&[1000], 0), (&[3, 70], 1), (&[70, 3], 0), (&[4, 33, 5], 1), (&[2, 3, 129], 2), (&[100, 90], 0)];

fn expected(
    values: &ArrayD<Complex64>,
    axis: usize,
    start: f64,
    step: impl Fn(Complex64, Complex64) -> Complex64,
) -> ArrayD<Complex64> {
    let mut result = values.clone();
    for mut lane in result.lanes_mut(Axis(axis)) {
        let mut total = check::real(start);
        for value in &mut lane {
            total = step(total, *value);
            *value = total;
        }
    }
    result
}

fn check(name: &str, dtype: DType, scale: f64, start: f64, step: impl Fn(Complex64, Complex64) -> Complex64 + Copy) {
    for (case, (sizes, axis)) in CASES.into_iter().enumerate() {
        for strides in [Strides::Contiguous, Strides::Transposed, Strides::Sliced, Strides::Broadcast] {
            let input = Tensor::of(dtype, &check::values(dtype, sizes, case).mapv(|value| value * scale), strides);
            let expected = expected(&input.values(), axis, start, step);
            for target in [Strides::Contiguous, Strides::Transposed] {
                let output = Tensor::new(dtype, sizes, target);
                check::run(name, &[&output], &[&input], &[Scalar::Long(axis as i64)], dtype).unwrap();
                for (index, found) in output.values().indexed_iter() {
                    let expected = check::round_trip(dtype, expected[&index]);
                    assert!(
                        check::close(*found, expected, check::tolerance(dtype)),
                        "{name} {dtype:?} {sizes:?} {axis} {strides:?} {index:?}: {found} != {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_so_far() {
    for dtype in [DType::Half, DType::BFloat16, DType::Float, DType::Double, DType::Long, DType::ComplexFloat] {
        check("cumsum", dtype, if dtype == DType::Half { 0.125 } else { 1.0 }, 0.0, |left, right| left + right);
    }
}

#[test]
fn products_so_far() {
    for dtype in [DType::Float, DType::Double, DType::ComplexDouble] {
        check("cumprod", dtype, 0.25, 1.0, |left, right| left * right);
    }
}

#[test]
fn logarithms_of_sums_so_far() {
    for dtype in [DType::BFloat16, DType::Float, DType::Double] {
        check("_logcumsumexp", dtype, 1.0, f64::NEG_INFINITY, |left, right| check::real((left.re.exp() + right.re.exp()).ln()));
    }
    // Angles are so small that no sum of exponentials is near 0.
    for dtype in [DType::ComplexFloat, DType::ComplexDouble] {
        check("_logcumsumexp", dtype, 0.0625, f64::NEG_INFINITY, |left, right| (left.exp() + right.exp()).ln());
    }
}

#[test]
fn logarithms_of_sums_of_far_and_special_values() {
    let far = |at: usize| (at as f64 * 0.7).sin() * 1000.0 + at as f64;
    let near = |at: usize| (at as f64 * 0.7).sin();
    let late = |at: usize| if at < 130 { f64::NEG_INFINITY } else { near(at) };
    let infinite = |at: usize| if at == 150 { f64::INFINITY } else { near(at) };
    let not_a_number = |at: usize| if at == 70 { f64::NAN } else { near(at) };
    let cases: [&dyn Fn(usize) -> f64; 5] = [&far, &near, &late, &infinite, &not_a_number];
    let step = |left: f64, right: f64| {
        let high = left.max(right);
        if left.is_nan() || right.is_nan() {
            f64::NAN
        } else if high.is_infinite() {
            high
        } else {
            high + ((left - high).exp() + (right - high).exp()).ln()
        }
    };
    for (case, value) in cases.into_iter().enumerate() {
        for dtype in [DType::Float, DType::Double] {
            // A line of whole blocks and a remainder, by itself and in a strip of lines.
            for (sizes, axis) in [(&[300_usize][..], 0), (&[300, 40], 0)] {
                let values = ArrayD::from_shape_fn(ndarray::IxDyn(sizes), |index| check::real(value(index[0])));
                let input = Tensor::of(dtype, &values, Strides::Contiguous);
                let expected =
                    expected(&input.values(), axis, f64::NEG_INFINITY, |left, right| check::real(step(left.re, right.re)));
                let output = Tensor::new(dtype, sizes, Strides::Contiguous);
                check::run("_logcumsumexp", &[&output], &[&input], &[Scalar::Long(axis as i64)], dtype).unwrap();
                for (index, found) in output.values().indexed_iter() {
                    let expected = check::round_trip(dtype, expected[&index]);
                    assert!(
                        check::close(*found, expected, check::tolerance(dtype)),
                        "{case} {dtype:?} {index:?}: {found} != {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn long_lines_have_the_same_bits_for_any_thread_count() {
    for sizes in [&[200_000][..], &[70_000, 2], &[1, 50_000, 3], &[40_000, 2, 2]] {
        let values = ArrayD::from_shape_fn(ndarray::IxDyn(sizes), |index| check::real((index.as_array_view().sum() as f64).sin()));
        let axis = sizes.iter().position(|&size| size > 1).expect("a long dimension");
        for dtype in [DType::Float, DType::BFloat16] {
            let input = Tensor::of(dtype, &values, Strides::Contiguous);
            let expected = expected(&input.values(), axis, 0.0, |left, right| left + right);
            let mut first = None;
            let before = parallel_for::num_threads();
            for count in [1, 2, 3] {
                parallel_for::set_num_threads(count);
                let output = Tensor::new(DType::Float, sizes, Strides::Contiguous);
                check::run("cumsum", &[&output], &[&input], &[Scalar::Long(axis as i64)], DType::Float).unwrap();
                assert_eq!(first.get_or_insert_with(|| output.values()), &output.values());
            }
            parallel_for::set_num_threads(before);
            for (found, expected) in first.unwrap().iter().zip(&expected) {
                assert!((found.re - expected.re).abs() < 1e-5 * expected.re.abs().max(1.0), "{found} != {expected}");
            }
        }
    }
}

#[test]
fn extremes_so_far_have_the_last_position() {
    for dtype in [DType::Long, DType::BFloat16, DType::Float] {
        let mut values = check::values(dtype, &[6, 90], 1);
        if dtype == DType::Float {
            values[[2, 40]] = check::real(f64::NAN);
        }
        for (strides, axis) in [(Strides::Contiguous, 1), (Strides::Contiguous, 0), (Strides::Transposed, 1)] {
            for (name, sign) in [("_cummax_helper", 1.0), ("_cummin_helper", -1.0)] {
                let input = Tensor::of(dtype, &values, strides);
                let (value, position) =
                    (Tensor::new(dtype, &[6, 90], Strides::Contiguous), Tensor::new(DType::Long, &[6, 90], Strides::Contiguous));
                check::run(name, &[&value, &position], &[&input], &[Scalar::Long(axis as i64)], dtype).unwrap();
                let (value, position) = (value.values(), position.values());
                let key = |value: Complex64| if value.re.is_nan() { f64::INFINITY } else { sign * value.re };
                for ((lane, found), indices) in
                    values.lanes(Axis(axis)).into_iter().zip(value.lanes(Axis(axis))).zip(position.lanes(Axis(axis)))
                {
                    let mut best = 0;
                    for at in 0..lane.len() {
                        best = if key(lane[at]) >= key(lane[best]) { at } else { best };
                        assert_eq!(indices[at].re, best as f64, "{name} {dtype:?} {at}");
                        assert!(check::close(found[at], lane[best], 0.0));
                    }
                }
            }
        }
    }
}
