//! Scans over dimensions, layouts and dtypes.

use ndarray::{ArrayD, Dimension, IxDyn};

use crate::ops::check::{self, Case, Make, agree, any_threads, longs, real, rounded, values, with_nan};
use crate::tensor::{DType, DTypeSet, FLOATING, WIDE};

const CASES: [(&[usize], usize); 8] =
    [(&[1], 0), (&[5], 0), (&[300], 0), (&[3, 70], 1), (&[70, 3], 0), (&[4, 33, 5], 1), (&[2, 2, 129], 2), (&[40, 33], 0)];

fn check(name: &str, dtypes: DTypeSet, limits: [f64; 2], outputs: &[Option<DType>], scale: f64, start: f64) {
    for (case, (sizes, dim)) in CASES.into_iter().enumerate() {
        agree(name, dtypes, limits, |make| {
            let dtype = make.dtype();
            let values = with_nan(dtype, sizes, case).mapv(|value| start + value * scale);
            let outputs: Vec<_> = outputs.iter().map(|kind| make.output_of(kind.unwrap_or(dtype), sizes)).collect();
            Case::new(outputs, [make.of(dtype, &rounded(dtype, &values))], longs(&[dim as i64]))
        });
    }
}

#[test]
fn sums_products_and_extremes_so_far() {
    let dtypes = |name| check::find(name).dtypes();
    check("cumsum", dtypes("cumsum"), [2.0, 0.0], &[None], 0.125, 0.0);
    check("cumprod", dtypes("cumprod"), [16.0, 16.0], &[None], 1.0 / 64.0, 1.0);
    check("_cummax_helper", dtypes("_cummax_helper"), [0.0, 0.0], &[None, Some(DType::Long)], 1.0, 0.0);
    check("_cummin_helper", dtypes("_cummin_helper"), [0.0, 0.0], &[None, Some(DType::Long)], 1.0, 0.0);
    check("_logcumsumexp", FLOATING, [2.0, 2.0], &[None], 1.0, 0.0);
    // Angles are so small that no sum of exponentials is near 0.
    check("_logcumsumexp", dtypes("_logcumsumexp"), [2.0, 2.0], &[None], 1.0 / 16.0, 0.0);
}

#[test]
fn logarithms_of_sums_of_numbers_of_all_magnitudes() {
    // A line of whole blocks and a remainder, by itself and in a strip of lines.
    for sizes in [&[300][..], &[300, 40]] {
        agree("_logcumsumexp", WIDE, [2.0, 2.0], |make| {
            let far = values(make.dtype(), sizes, 1).mapv(|value| if value.re > 7.5 { value / 0.0 } else { value * value * value });
            Case::new([make.output(sizes)], [make.of(make.dtype(), &far.mapv(|value| real(value.re)))], longs(&[0]))
        });
    }
}

#[test]
fn long_lines_have_the_same_bits_for_any_thread_count() {
    for sizes in [&[200_000][..], &[70_000, 2], &[1, 50_000, 3], &[40_000, 2, 2]] {
        let dim = sizes.iter().position(|&size| size > 1).expect("a long dimension");
        let sines = ArrayD::from_shape_fn(IxDyn(sizes), |at| real((at.slice().iter().sum::<usize>() as f64).sin()));
        let build = |make: &Make| Case::new([make.output(sizes)], [make.dense(DType::Float, &sines)], longs(&[dim as i64]));
        any_threads("cumsum", &[DType::Float], build);
    }
}
