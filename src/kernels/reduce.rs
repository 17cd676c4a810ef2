//! Reductions. Operands [out, input] of the same sizes: out has stride 0 in the dimensions that are reduced.
//!
//! The input is cast to the compute dtype; 16 bit floats are accumulated in `f32` and rounded once. The order of the additions depends on
//! sizes and strides alone.

#![forbid(unsafe_code)]

use crate::tensor::dtype::dispatch;
use crate::tensor::launch::Launch;
use crate::tensor::loops::fold::{Fold, run};
use crate::tensor::number::{Field, Number, Ordered};

#[derive(Clone, Copy)]
struct Sum;

impl<T: Number> Fold<T> for Sum {
    const NEUTRAL: T = T::ZERO;

    #[inline(always)]
    fn combine(self, left: T, right: T) -> T {
        left.add(right)
    }
}

/// `aten::sum`: the sum; 0 of nothing. Integers wrap; Bool is or.
///
/// # Errors
/// A dtype outside the table's.
pub fn sum(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in ALL, T => run::<T, _>(launch, Sum))
}

#[derive(Clone, Copy)]
struct Mean;

impl<T: Field> Fold<T> for Mean {
    const NEUTRAL: T = T::ZERO;

    #[inline(always)]
    fn combine(self, left: T, right: T) -> T {
        left.add(right)
    }

    #[inline(always)]
    fn finish(self, folded: T, count: usize) -> T {
        folded.div(T::from_u64(count as u64))
    }
}

/// `aten::mean`: the sum divided by the number of values; NaN of nothing.
///
/// # Errors
/// A dtype outside the table's.
pub fn mean(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FIELD, T => run::<T, _>(launch, Mean))
}

#[derive(Clone, Copy)]
struct Prod;

impl<T: Number> Fold<T> for Prod {
    const NEUTRAL: T = T::ONE;

    #[inline(always)]
    fn combine(self, left: T, right: T) -> T {
        left.mul(right)
    }
}

/// `aten::prod`: the product; 1 of nothing. Integers wrap; Bool is and.
///
/// # Errors
/// A dtype outside the table's.
pub fn prod(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in ALL, T => run::<T, _>(launch, Prod))
}

#[derive(Clone, Copy)]
struct Greatest;

impl<T: Ordered> Fold<T> for Greatest {
    const NEUTRAL: T = T::LOWEST;

    #[inline(always)]
    fn combine(self, left: T, right: T) -> T {
        left.maximum(right)
    }
}

/// `aten::amax`: the greatest value; NaN if there is one.
///
/// # Errors
/// A dtype outside the table's.
pub fn amax(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => run::<T, _>(launch, Greatest))
}

#[derive(Clone, Copy)]
struct Least;

impl<T: Ordered> Fold<T> for Least {
    const NEUTRAL: T = T::HIGHEST;

    #[inline(always)]
    fn combine(self, left: T, right: T) -> T {
        left.minimum(right)
    }
}

/// `aten::amin`: the least value; NaN if there is one.
///
/// # Errors
/// A dtype outside the table's.
pub fn amin(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => run::<T, _>(launch, Least))
}

/// `aten::any`: whether a value is not 0. The compute dtype is Bool: the input is cast to it.
///
/// # Errors
/// A dtype outside the table's.
pub fn any(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in BOOL, T => run::<T, _>(launch, Sum))
}

/// `aten::all`: whether no value is 0. The compute dtype is Bool: the input is cast to it.
///
/// # Errors
/// A dtype outside the table's.
pub fn all(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in BOOL, T => run::<T, _>(launch, Prod))
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, Axis, IxDyn};

    use crate::kernels::check::{self, Strides, Tensor, real, round_trip};
    use crate::kernels::table::Op;
    use crate::simd::for_each_isa;
    use crate::tensor::dtype::{Complex64, DType};

    /// Sizes and the dimensions to reduce: rows, columns, both, several, short ones, none, nothing to reduce, no outputs.
    const CASES: [(&[usize], &[usize]); 13] = [
        (&[7, 130], &[1]),
        (&[130, 7], &[0]),
        (&[33, 1025], &[0, 1]),
        (&[3, 5, 70], &[0, 2]),
        (&[4, 70, 5], &[1]),
        (&[300, 3], &[1]),
        (&[2000, 3], &[0]),
        (&[6, 5], &[]),
        (&[4, 0], &[1]),
        (&[0, 4], &[1]),
        (&[1], &[0]),
        (&[3, 1, 65], &[1, 2]),
        (&[2, 3, 4, 5, 6], &[1, 3]),
    ];

    fn reduce(name: &str, input: &Tensor, dims: &[usize], compute: DType, result: DType) -> ArrayD<Complex64> {
        let sizes = input.view().sizes().to_vec();
        let kept: Vec<usize> =
            sizes.iter().enumerate().map(|(dim, &size)| if dims.contains(&dim) { 1 } else { size as usize }).collect();
        let output = Tensor::new(result, &kept, Strides::Contiguous);
        let strides: Vec<i64> =
            output.view().strides().iter().enumerate().map(|(dim, &stride)| if dims.contains(&dim) { 0 } else { stride }).collect();
        let spread = output.restrided(&sizes, &strides);
        check::run(name, &[&spread], &[input], &[], compute).unwrap_or_else(|error| panic!("{name} {compute:?}: {error}"));
        let kept: Vec<i64> = kept.iter().map(|&size| size as i64).collect();
        spread.restrided(&kept, &strides).values()
    }

    fn oracle(
        values: &ArrayD<Complex64>,
        dims: &[usize],
        start: Complex64,
        fold: impl Fn(Complex64, Complex64) -> Complex64,
    ) -> ArrayD<Complex64> {
        dims.iter().fold(values.clone(), |values, &dim| {
            values.fold_axis(Axis(dim), start, |&left, &right| fold(left, right)).insert_axis(Axis(dim))
        })
    }

    fn check(
        name: &str,
        start: Complex64,
        fold: impl Fn(Complex64, Complex64) -> Complex64,
        finish: impl Fn(Complex64, f64) -> Complex64,
    ) {
        for dtype in Op::find(name.as_bytes()).unwrap().dtypes().iter() {
            for (case, (sizes, dims)) in CASES.iter().enumerate() {
                for strides in [Strides::Contiguous, Strides::Transposed, Strides::Sliced, Strides::Broadcast] {
                    let scale = if name == "prod" { real(0.25) } else { real(1.0) };
                    let values = check::values(dtype, sizes, case).mapv(|value| round_trip(dtype, value * scale));
                    let input = Tensor::of(dtype, &values, strides);
                    let values = input.values();
                    let count = dims.iter().map(|&dim| sizes[dim] as f64).product::<f64>();
                    let expected = oracle(&values, dims, start, &fold).mapv(|value| finish(value, count));
                    for_each_isa(|isa| {
                        let found = reduce(name, &input, dims, dtype, dtype);
                        for (found, &expected) in found.iter().zip(&expected) {
                            let expected = round_trip(dtype, expected);
                            let tolerance = 4.0 * check::tolerance(dtype);
                            assert!(
                                check::close(*found, expected, tolerance),
                                "{name} {dtype:?} {sizes:?} {dims:?} {strides:?} {isa:?}: {found} != {expected}"
                            );
                        }
                    });
                }
            }
        }
    }

    #[test]
    fn sum_and_mean() {
        check("sum", real(0.0), |left, right| left + right, |sum, _| sum);
        check("mean", real(0.0), |left, right| left + right, |sum, count| sum / count);
    }

    #[test]
    fn extrema() {
        let pick =
            |greater: bool| move |left: Complex64, right: Complex64| if (left.re > right.re) == greater { left } else { right };
        let check = |name: &str, start: f64, greater| {
            for dtype in Op::find(name.as_bytes()).unwrap().dtypes().iter() {
                for (case, (sizes, dims)) in CASES.iter().enumerate().filter(|(_, (sizes, _))| !sizes.contains(&0)) {
                    let input = Tensor::of(dtype, &check::values(dtype, sizes, case), Strides::Contiguous);
                    let expected = oracle(&input.values().mapv(|value| real(value.re)), dims, real(start), pick(greater));
                    assert_eq!(reduce(name, &input, dims, dtype, dtype), expected, "{name} {dtype:?} {sizes:?}");
                }
            }
        };
        check("amax", f64::NEG_INFINITY, true);
        check("amin", f64::INFINITY, false);
        let mut values = ArrayD::from_elem(IxDyn(&[200]), real(1.0));
        values[[77]] = real(f64::NAN);
        let input = Tensor::of(DType::Float, &values, Strides::Contiguous);
        assert!(reduce("amax", &input, &[0], DType::Float, DType::Float)[[0]].re.is_nan());
    }

    #[test]
    fn any_all_and_prod() {
        for (values, any, all) in [([0.0, 0.0, 0.5], 1.0, 0.0), ([0.0; 3], 0.0, 0.0), ([2.0, f64::NAN, -1.0], 1.0, 1.0)] {
            let input = Tensor::of(DType::Float, &ndarray::arr1(&values.map(real)).into_dyn(), Strides::Contiguous);
            assert_eq!(reduce("any", &input, &[0], DType::Bool, DType::Bool)[[0]], real(any));
            assert_eq!(reduce("all", &input, &[0], DType::Bool, DType::Bool)[[0]], real(all));
        }
        let input = Tensor::of(DType::Int, &ndarray::arr1(&[3.0, -2.0, 7.0].map(real)).into_dyn(), Strides::Sliced);
        assert_eq!(reduce("prod", &input, &[0], DType::Long, DType::Long)[[0]], real(-42.0));
    }

    #[test]
    fn sums_are_cast_before_they_are_taken() {
        let input = Tensor::of(DType::Bool, &ArrayD::from_elem(IxDyn(&[3000]), real(1.0)), Strides::Contiguous);
        assert_eq!(reduce("sum", &input, &[0], DType::Long, DType::Long)[[0]], real(3000.0));
        let halves = Tensor::of(DType::Half, &ArrayD::from_elem(IxDyn(&[5000]), real(1.0)), Strides::Contiguous);
        assert_eq!(reduce("sum", &halves, &[0], DType::Half, DType::Half)[[0]], real(5000.0));
    }

    #[test]
    fn long_sums_are_the_same_for_any_number_of_threads() {
        check::alone("kernels::reduce::tests::long_sums");
    }

    #[test]
    #[ignore = "sets the number of threads"]
    fn long_sums() {
        for (sizes, dims) in [(&[2_000_003][..], &[0][..]), (&[100_003, 20], &[0]), (&[300, 3001], &[1])] {
            let values = ArrayD::from_shape_fn(IxDyn(sizes), |index| real(f64::from((index[0] % 1000) as u32) * 1e-3 + 0.1));
            let input = Tensor::of(DType::Float, &values, Strides::Contiguous);
            let expected = oracle(&input.values(), dims, real(0.0), |left, right| left + right);
            check::assert_same_for_any_number_of_threads(|| {
                let found = reduce("sum", &input, dims, DType::Float, DType::Float);
                for (found, expected) in found.iter().zip(&expected) {
                    assert!((found.re / expected.re - 1.0).abs() < 3e-7, "{found} != {expected}");
                }
                found
            });
        }
    }
}
