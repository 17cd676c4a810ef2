//! Layer normalisation compared with `f64`, and its gradients with sums over all elements.

use ndarray::{Array1, Array2, ArrayD, Axis, Ix2};

use crate::kernels::check::{self, Strides, Tensor};
use crate::runtime::parallel_for;
use crate::simd::for_each_isa;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

const EPS: f64 = 1e-3;

fn real(tensor: &Tensor) -> Array2<f64> {
    tensor.values().mapv(|value| value.re).into_dimensionality::<Ix2>().unwrap()
}

fn vector(tensor: &Tensor) -> Array1<f64> {
    tensor.values().iter().map(|value| value.re).collect()
}

fn tensor(dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
    Tensor::of(dtype, &check::values(dtype, sizes, seed), Strides::Contiguous)
}

fn same(found: &ArrayD<crate::tensor::dtype::Complex64>, expected: impl IntoIterator<Item = f64>, tolerance: f64, what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        let scale = expected.abs().max(1.0);
        assert!((found.re - expected).abs() <= tolerance * scale, "{what}: {found} != {expected}");
    }
}

/// Normalised rows, means, and reciprocals of the standard deviations.
fn normal(x: &Array2<f64>) -> (Array2<f64>, Array1<f64>, Array1<f64>) {
    let mean = x.mean_axis(Axis(1)).unwrap();
    let rstd = x.var_axis(Axis(1), 0.0).mapv(|variance| 1.0 / (variance + EPS).sqrt());
    let normal = (x - &mean.clone().insert_axis(Axis(1))) * rstd.clone().insert_axis(Axis(1));
    (normal, mean, rstd)
}

#[test]
fn rows_are_normalised() {
    for (dtype, stats) in
        [(DType::BFloat16, DType::Float), (DType::Half, DType::Half), (DType::Float, DType::Float), (DType::Double, DType::Double)]
    {
        for [rows, cols] in [[1, 1], [5, 7], [3, 100], [40, 64], [2, 1031]] {
            let (x, weight, bias) = (tensor(dtype, &[rows, cols], 1), tensor(stats, &[cols], 2), tensor(stats, &[cols], 3));
            let (expected, means, scales) = normal(&real(&x));
            let outputs =
                [Tensor::new(dtype, &[rows, cols], Strides::Contiguous), tensor(stats, &[rows], 0), tensor(stats, &[rows], 0)];
            let given = [Scalar::Double(EPS), Scalar::Bool(true), Scalar::Bool(true)];
            let without = [Scalar::Double(EPS), Scalar::Bool(false), Scalar::Bool(false)];
            for_each_isa(|isa| {
                let what = format!("{dtype:?} {isa:?} {rows} {cols}");
                let tolerance = 8.0 * check::tolerance(dtype);
                check::run("native_layer_norm", &outputs.each_ref(), &[&x, &weight, &bias], &given, dtype).unwrap();
                same(
                    &outputs[0].values(),
                    (&expected * &vector(&weight) + &vector(&bias)).into_iter().map(|value| value + 0.0),
                    tolerance * 8.0,
                    &what,
                );
                same(&outputs[1].values(), means.iter().copied(), tolerance, &what);
                same(&outputs[2].values(), scales.iter().copied(), tolerance, &what);
                check::run("native_layer_norm", &outputs.each_ref(), &[&x], &without, dtype).unwrap();
                same(&outputs[0].values(), expected.iter().copied(), tolerance, &what);
            });
        }
    }
}

#[test]
fn gradients_are_those_of_the_formula() {
    let before = parallel_for::num_threads();
    for dtype in [DType::Float, DType::Double] {
        for [rows, cols] in [[1, 3], [7, 33], [300, 40], [2000, 33]] {
            let (grad, x, weight) = (tensor(dtype, &[rows, cols], 1), tensor(dtype, &[rows, cols], 2), tensor(dtype, &[cols], 3));
            let (normal, means, scales) = normal(&real(&x));
            let (means, scales) = (means.mapv(check::real).into_dyn(), scales.mapv(check::real).into_dyn());
            let mean = Tensor::of(dtype, &means, Strides::Contiguous);
            let rstd = Tensor::of(dtype, &scales, Strides::Contiguous);
            let weighted = real(&grad) * vector(&weight);
            let plain = weighted.mean_axis(Axis(1)).unwrap().insert_axis(Axis(1));
            let product = (&weighted * &normal).mean_axis(Axis(1)).unwrap().insert_axis(Axis(1));
            let scale = scales.mapv(|value| value.re).into_dimensionality::<ndarray::Ix1>().unwrap().insert_axis(Axis(1));
            let expected = (&weighted - &plain - &normal * &product) * &scale;
            let given = [Scalar::Bool(true); 3];
            let mut first = None;
            for count in [1, 2, 3] {
                parallel_for::set_num_threads(count);
                let outputs = [tensor(dtype, &[rows, cols], 0), tensor(dtype, &[cols], 0), tensor(dtype, &[cols], 0)];
                check::run("native_layer_norm_backward", &outputs.each_ref(), &[&grad, &x, &mean, &rstd, &weight], &given, dtype)
                    .unwrap();
                let tolerance = 100.0 * check::tolerance(dtype);
                same(&outputs[0].values(), expected.iter().copied(), tolerance, "input");
                same(&outputs[1].values(), (real(&grad) * &normal).sum_axis(Axis(0)), tolerance, "weight");
                same(&outputs[2].values(), real(&grad).sum_axis(Axis(0)), tolerance, "bias");
                let values = outputs.map(|output| output.values());
                assert_eq!(first.get_or_insert_with(|| values.clone()), &values, "{count} threads");
            }
        }
    }
    parallel_for::set_num_threads(before);
}
