//! Reductions over dimensions, layouts and dtypes.

use ndarray::{ArrayD, Dimension, IxDyn};

use crate::ops::check::{self, Case, Make, Tensor, agree, any_threads, doubles, real, with_nan};
use crate::tensor::{Complex64, DType, DTypeSet, FLOAT};

/// Sizes, and the reduced dimensions: around lanes, blocks and strips of columns.
const CASES: [(&[usize], &[usize]); 10] = [
    (&[1], &[0]),
    (&[65], &[0]),
    (&[1025], &[0]),
    (&[5, 17], &[1]),
    (&[33, 37], &[0]),
    (&[3, 300], &[1]),
    (&[4, 5, 6], &[1]),
    (&[4, 18, 6], &[0, 2]),
    (&[7, 1, 9], &[0, 1, 2]),
    (&[3, 4], &[]),
];

/// Cases that are divided between threads or into several levels of sums.
const LARGE: [(&[usize], &[usize]); 4] = [(&[70_001], &[0]), (&[3, 33_000], &[1]), (&[2000, 20], &[0]), (&[70, 600], &[0])];

/// The output of a reduction, over the sizes of the input.
fn output(make: &Make, dtype: DType, sizes: &[usize], dims: &[usize]) -> Tensor {
    let kept: Vec<_> = sizes.iter().enumerate().map(|(dim, &size)| if dims.contains(&dim) { 1 } else { size }).collect();
    make.output_of(dtype, &kept).expanded(sizes, dims)
}

/// A row, the dtypes of its outputs (those that are not the computing dtype), and its scalars.
type Row = (&'static str, &'static [Option<DType>], &'static [f64]);

const LONG: Option<DType> = Some(DType::Long);

/// Checks a row over values of `draw` in all its dtypes.
fn check(row: Row, limits: [f64; 2], cases: &[(&[usize], &[usize])], draw: impl Fn(DType, &[usize], usize) -> ArrayD<Complex64>) {
    let (name, outputs, scalars) = row;
    for (seed, &(sizes, dims)) in cases.iter().enumerate() {
        let is_large = sizes.iter().product::<usize>() > 4096;
        let dtypes = if is_large { FLOAT } else { check::find(name).dtypes() };
        // One position alone is found along one dimension.
        if outputs.contains(&LONG) && name != "count_nonzero" && dims.len() != 1 {
            continue;
        }
        agree(name, dtypes, limits, |make| {
            let dtype = make.dtype();
            let of = |kind: &Option<DType>| output(make, kind.unwrap_or(dtype), sizes, dims);
            Case::new(outputs.iter().map(of).collect::<Vec<_>>(), [make.of(dtype, &draw(dtype, sizes, seed))], doubles(scalars))
        });
    }
}

#[test]
fn sums_of_eighths_are_exact() {
    for name in ["sum", "nansum"] {
        check((name, &[None], &[]), [1.0, 0.0], &CASES, check::values);
        check((name, &[None], &[]), [1.0, 0.0], &LARGE, check::values);
    }
    check(("mean", &[None], &[]), [1.0, 0.0], &CASES, check::values);
}

#[test]
fn extremes_truths_and_counts() {
    let rows: [Row; 10] = [
        ("amax", &[None], &[]),
        ("amin", &[None], &[]),
        ("aminmax", &[None, None], &[]),
        ("max.dim", &[None, LONG], &[]),
        ("min.dim", &[None, LONG], &[]),
        ("argmax", &[LONG], &[]),
        ("argmin", &[LONG], &[]),
        ("count_nonzero", &[LONG], &[]),
        ("any", &[None], &[]),
        ("all", &[None], &[]),
    ];
    for row in rows {
        check(row, [0.0, 0.0], &CASES, with_nan);
        if ["amax", "max.dim", "count_nonzero"].contains(&row.0) {
            check(row, [0.0, 0.0], &LARGE, with_nan);
        }
    }
}

#[test]
fn products_moments_and_norms() {
    // Products of numbers next to 1 neither overflow nor vanish.
    let next_to_1 =
        |dtype, sizes: &[usize], seed| check::rounded(dtype, &check::values(dtype, sizes, seed).mapv(|x| 1.0 + x / 64.0));
    check(("prod", &[None], &[]), [64.0, 64.0], &CASES, next_to_1);
    for (name, outputs) in [("var", &[None, None][..]), ("std", &[None])] {
        check((name, outputs, &[1.0]), [4.0, 4.0], &CASES[2..6], check::values);
        check((name, outputs, &[0.0]), [4.0, 4.0], &LARGE, check::values);
    }
    let norms: [&'static [f64]; 8] = [&[0.0], &[1.0], &[2.0], &[3.0], &[0.5], &[-1.0], &[f64::INFINITY], &[f64::NEG_INFINITY]];
    for order in norms {
        for dtype in check::find("linalg_vector_norm").dtypes().iter() {
            for (seed, (sizes, dims)) in CASES[1..6].iter().enumerate() {
                agree("linalg_vector_norm", DTypeSet::of(&[dtype]), [16.0, 16.0], |make| {
                    Case::new([output(make, dtype.real(), sizes, dims)], [make.input(sizes, seed)], doubles(order))
                });
            }
        }
    }
}

/// Sums that depend on the order of their terms.
#[test]
fn neither_threads_nor_instruction_sets_change_a_bit() {
    for (sizes, dims) in LARGE {
        let sines =
            ArrayD::from_shape_fn(IxDyn(sizes), |at| real((at.slice().iter().fold(1, |hash, &at| hash * 31 + at) as f64).sin()));
        let build = |make: &Make| Case::new([output(make, DType::Float, sizes, dims)], [make.dense(DType::Float, &sines)], []);
        agree("sum", FLOAT, [1000.0, 0.0], build);
        any_threads("sum", &[DType::Float], build);
    }
}

#[test]
fn a_distant_mean_does_not_spoil_the_variance() {
    let distant = |_: DType, sizes: &[usize], _| ArrayD::from_shape_fn(IxDyn(sizes), |at| real(10_000.0 + (at[0] % 4) as f64));
    check(("std", &[None], &[0.0]), [10.0, 10.0], &[(&[30_000], &[0])], distant);
}
