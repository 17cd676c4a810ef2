//! Products against a naive oracle: dtypes, strides, thin and empty shapes, factors.

use ndarray::{ArrayD, Ix2, IxDyn, s};

use crate::kernels::check::{self, Strides, Tensor, real, round_trip};
use crate::kernels::table::Op;
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType};
use crate::tensor::launch::Scalar;

/// m, k, n: nothing, one, thin both ways, around lanes and strips, larger than a tile.
const SHAPES: [[usize; 3]; 14] = [
    [0, 3, 2],
    [2, 0, 3],
    [1, 1, 1],
    [1, 33, 70],
    [1, 100, 129],
    [70, 65, 1],
    [2, 31, 64],
    [3, 129, 65],
    [7, 40, 130],
    [130, 40, 7],
    [16, 16, 16],
    [33, 17, 65],
    [65, 70, 66],
    [9, 300, 11],
];

fn multiply(lhs: &ArrayD<Complex64>, rhs: &ArrayD<Complex64>) -> ArrayD<Complex64> {
    let [lhs, rhs] = [lhs, rhs].map(|matrix| matrix.clone().into_dimensionality::<Ix2>().unwrap());
    lhs.dot(&rhs).into_dyn()
}

fn assert_close(found: &ArrayD<Complex64>, expected: &ArrayD<Complex64>, dtype: DType, context: &str) {
    for (index, found) in found.indexed_iter() {
        let expected = round_trip(dtype, expected[&index]);
        // The values are multiples of 1/64 with sums that f32 and f64 hold exactly.
        assert!(check::close(*found, expected, check::tolerance(dtype)), "{context} {index:?}: {found} != {expected}");
    }
}

#[test]
fn mm_of_every_dtype_shape_and_layout() {
    for dtype in Op::find(b"mm").unwrap().dtypes().iter() {
        for (case, [m, k, n]) in SHAPES.into_iter().enumerate() {
            for (turn, strides) in [Strides::Contiguous, Strides::Transposed, Strides::Sliced].into_iter().enumerate() {
                let other = [Strides::Transposed, Strides::Contiguous, Strides::Contiguous, Strides::Sliced][(turn + case) % 4];
                let small = |sizes: &[usize], seed| check::values(dtype, sizes, seed).mapv(|value| round_trip(dtype, value * 0.5));
                let (lhs, rhs) =
                    (Tensor::of(dtype, &small(&[m, k], case), strides), Tensor::of(dtype, &small(&[k, n], case + 5), other));
                let expected = multiply(&lhs.values(), &rhs.values());
                for_each_isa(|isa| {
                    let out = Tensor::new(dtype, &[m, n], if case % 2 == 0 { Strides::Contiguous } else { Strides::Transposed });
                    check::run("mm", &[&out], &[&lhs, &rhs], &[], dtype).unwrap();
                    assert_close(&out.values(), &expected, dtype, &format!("{dtype:?} {m} {k} {n} {strides:?} {isa:?}"));
                });
            }
        }
    }
}

#[test]
fn addmm_scales_and_adds() {
    for dtype in [DType::Float, DType::Double, DType::BFloat16, DType::Int, DType::ComplexFloat] {
        for [m, k, n] in [[1, 40, 70], [5, 6, 7], [20, 0, 3]] {
            let [lhs, rhs, bias] = [[m, k], [k, n], [1, n]].map(|sizes| {
                Tensor::of(
                    dtype,
                    &check::values(dtype, &sizes, m + n).mapv(|value| round_trip(dtype, value * 0.25)),
                    Strides::Contiguous,
                )
            });
            let row = dtype.size() as i64;
            let spread = bias.clone().restrided(&[m as i64, n as i64], &[0, row]);
            for (beta, alpha) in [(1, 1), (2, 3), (0, 1)] {
                let out = Tensor::new(dtype, &[m, n], Strides::Contiguous);
                let scalars = [Scalar::Long(beta), Scalar::Long(alpha)];
                check::run("addmm", &[&out], &[&spread, &lhs, &rhs], &scalars, dtype).unwrap();
                let expected = multiply(&lhs.values(), &rhs.values()) * real(alpha as f64) + spread.values() * real(beta as f64);
                assert_close(&out.values(), &expected, dtype, &format!("{dtype:?} {m} {k} {n} {beta} {alpha}"));
            }
        }
    }
}

#[test]
fn addmm_in_place_and_without_self() {
    let of =
        |sizes: &[usize], value: f64| Tensor::of(DType::Float, &ArrayD::from_elem(IxDyn(sizes), real(value)), Strides::Contiguous);
    let (lhs, rhs) = (of(&[3, 4], 1.0), of(&[4, 5], 2.0));
    let shared = of(&[3, 5], 10.0);
    check::run("addmm", &[&shared], &[&shared, &lhs, &rhs], &[], DType::Float).unwrap();
    assert_eq!(shared.values(), ArrayD::from_elem(IxDyn(&[3, 5]), real(18.0)));
    let (out, nan) = (of(&[3, 5], f64::NAN), of(&[3, 5], f64::NAN));
    for dtype in [DType::Float, DType::Half] {
        check::run("addmm", &[&out], &[&nan, &lhs, &rhs], &[Scalar::Long(0), Scalar::Double(0.5)], dtype).unwrap();
        assert_eq!(out.values(), ArrayD::from_elem(IxDyn(&[3, 5]), real(4.0)));
    }
}

#[test]
fn batches_are_multiplied_one_by_one() {
    for dtype in [DType::Float, DType::Half, DType::Long] {
        let [lhs, rhs, bias] = [[3, 4, 20], [3, 20, 6], [3, 4, 6]]
            .map(|sizes| Tensor::of(dtype, &check::values(dtype, &sizes, 7), Strides::Contiguous));
        let out = Tensor::new(dtype, &[3, 4, 6], Strides::Contiguous);
        let (left, right, add) = (lhs.values(), rhs.values(), bias.values());
        for with_bias in [false, true] {
            if with_bias {
                check::run("baddbmm", &[&out], &[&bias, &lhs, &rhs], &[], dtype).unwrap();
            } else {
                check::run("bmm", &[&out], &[&lhs, &rhs], &[], dtype).unwrap();
            }
            for batch in 0..3 {
                let at = |array: &ArrayD<Complex64>| array.slice(s![batch, .., ..]).to_owned().into_dyn();
                let product = multiply(&at(&left), &at(&right));
                let expected = if with_bias { product + at(&add) } else { product };
                assert_close(&at(&out.values()), &expected, dtype, &format!("{dtype:?} {batch}"));
            }
        }
    }
}

#[test]
fn large_products_do_not_depend_on_threads() {
    check::alone("kernels::matmul::tests::large_products");
}

#[test]
#[ignore = "sets the number of threads"]
fn large_products() {
    let [lhs, rhs] = [[200, 150], [150, 300]].map(|sizes| {
        let values = ArrayD::from_shape_fn(IxDyn(&sizes), |index| real(f64::sin((index[0] * 7 + index[1] * 13) as f64)));
        Tensor::of(DType::Float, &values, Strides::Contiguous)
    });
    let expected = multiply(&lhs.values(), &rhs.values());
    check::assert_same_for_any_number_of_threads(|| {
        let out = Tensor::new(DType::Float, &[200, 300], Strides::Contiguous);
        check::run("mm", &[&out], &[&lhs, &rhs], &[], DType::Float).unwrap();
        for (found, expected) in out.values().iter().zip(&expected) {
            assert!(check::close(*found, *expected, 1e-5), "{found} != {expected}");
        }
        out.values()
    });
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let of = |sizes: &[usize]| Tensor::new(DType::Float, sizes, Strides::Contiguous);
    assert!(check::run("mm", &[&of(&[2, 3])], &[&of(&[2, 4]), &of(&[5, 3])], &[], DType::Float).is_err());
    assert!(check::run("mm", &[&of(&[2, 2])], &[&of(&[2, 4]), &of(&[4, 3])], &[], DType::Float).is_err());
    assert!(check::run("mm", &[&of(&[2, 3, 1])], &[&of(&[2, 4]), &of(&[4, 3])], &[], DType::Float).is_err());
}
