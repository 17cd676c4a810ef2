//! Tests of the depthwise convolutions.

use ndarray::ArrayD;

use crate::kernels::check::{self, Strides, Tensor, round_trip, values};
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType, FLOATING};
use crate::tensor::launch::Scalar;

/// Sizes (N, H, W, C) of images; kernel, dilation, padding and stride, each of height and width.
type Case = ([usize; 4], [[usize; 2]; 4]);

const CASES: [Case; 10] = [
    ([2, 9, 14, 33], [[3, 3], [1, 1], [1, 1], [1, 1]]),
    ([1, 8, 11, 96], [[5, 5], [1, 1], [2, 2], [2, 2]]),
    ([2, 7, 9, 16], [[7, 7], [1, 1], [3, 3], [1, 1]]),
    ([1, 10, 12, 3], [[2, 4], [2, 1], [0, 2], [3, 2]]),
    ([3, 4, 13, 1], [[1, 9], [1, 1], [0, 4], [1, 1]]),
    ([1, 5, 6, 8], [[3, 3], [2, 3], [4, 5], [1, 1]]),
    ([2, 6, 5, 24], [[1, 1], [1, 1], [2, 1], [1, 3]]),
    ([1, 3, 2, 17], [[3, 2], [1, 1], [5, 4], [2, 3]]),
    ([1, 40, 60, 40], [[3, 3], [1, 1], [1, 1], [1, 1]]),
    ([2, 1, 5, 9], [[1, 2], [1, 3], [0, 0], [1, 1]]),
];

/// Calls `visit` with the offsets of every product in images, windows and weights.
fn each_product(
    sizes: [usize; 4],
    [kernel, dilation, padding, stride]: [[usize; 2]; 4],
    counts: [usize; 2],
    mut visit: impl FnMut([usize; 4], [usize; 4], [usize; 2]),
) {
    let [samples, height, width, channels] = sizes;
    for index in ndarray::indices([samples * counts[0] * counts[1], kernel[0] * kernel[1], channels]) {
        let (window, tap, channel) = index;
        let [sample, top, left] = [window / (counts[0] * counts[1]), window / counts[1] % counts[0], window % counts[1]];
        let y = (top * stride[0] + tap / kernel[1] * dilation[0]).wrapping_sub(padding[0]);
        let x = (left * stride[1] + tap % kernel[1] * dilation[1]).wrapping_sub(padding[1]);
        if y < height && x < width {
            visit([sample, y, x, channel], [sample, top, left, channel], [channel, tap]);
        }
    }
}

/// Numbers of few bits, whose sums are exact until they are rounded.
#[test]
fn results_are_sums_of_all_products_rounded_once() {
    for (case, (sizes, geometry)) in CASES.into_iter().enumerate() {
        let ([samples, height, width, channels], [kernel, dilation, padding, stride]) = (sizes, geometry);
        let counts: [usize; 2] = std::array::from_fn(|axis| {
            ([height, width][axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1
        });
        let mut scalars: Vec<_> =
            [kernel, dilation, padding, stride, counts].concat().iter().map(|&number| Scalar::Long(number as i64)).collect();
        let of_windows = [samples, counts[0], counts[1], channels];
        let of_weights = [channels, kernel[0] * kernel[1]];
        for dtype in FLOATING.iter() {
            let [images, windows] = [&sizes, &of_windows].map(|sizes| values(dtype, sizes, case));
            let (weights, bias) = (values(dtype, &of_weights, case + 1), values(dtype, &[channels], case + 2));
            let zeros = |sizes: &[usize]| ArrayD::<Complex64>::zeros(sizes);
            let (mut forward, mut to_images, mut to_weights) = (zeros(&of_windows), zeros(&sizes), zeros(&of_weights));
            forward += &bias;
            each_product(sizes, geometry, counts, |image, window, weight| {
                forward[window.as_slice()] += images[image.as_slice()] * weights[weight.as_slice()];
                to_images[image.as_slice()] += windows[window.as_slice()] * weights[weight.as_slice()];
                to_weights[weight.as_slice()] += windows[window.as_slice()] * images[image.as_slice()];
            });
            let to_bias = windows.rows().into_iter().fold(zeros(&[channels]), |sum, row| sum + row);
            let tensor = |values: &ArrayD<Complex64>| Tensor::of(dtype, values, Strides::Contiguous);
            let made = |values: &ArrayD<Complex64>| Tensor::new(dtype, values.shape(), Strides::Contiguous);
            let [images, windows, weights, bias] = [&images, &windows, &weights, &bias].map(tensor);
            for_each_isa(|isa| {
                let mut check = |name: &str, expected: &[&ArrayD<Complex64>], inputs: &[&Tensor], last: &[bool]| {
                    let outputs: Vec<_> = expected.iter().map(|expected| made(expected)).collect();
                    scalars.truncate(10);
                    scalars.extend(last.iter().map(|&last| Scalar::Bool(last)));
                    check::run(name, &outputs.iter().collect::<Vec<_>>(), inputs, &scalars, dtype).unwrap();
                    for (output, expected) in outputs.iter().zip(expected) {
                        assert_eq!(
                            output.values(),
                            expected.mapv(|value| round_trip(dtype, value)),
                            "{isa:?} {dtype:?} {case} {name} {last:?}"
                        );
                    }
                };
                check("depthwise", &[&forward], &[&images, &weights, &bias], &[false]);
                check("depthwise", &[&to_images], &[&windows, &weights], &[true]);
                check("depthwise_weight", &[&to_weights], &[&images, &windows], &[true, false]);
                check("depthwise_weight", &[&to_bias], &[&images, &windows], &[false, true]);
                check("depthwise_weight", &[&to_weights, &to_bias], &[&images, &windows], &[true, true]);
            });
        }
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let scalars: Vec<_> = [3, 3, 1, 1, 1, 1, 1, 1, 5, 5].map(Scalar::Long).into_iter().chain([Scalar::Bool(false)]).collect();
    let is_taken = |out: &[usize], x: &[usize], weight: &[usize]| {
        let [out, x, weight] = [out, x, weight].map(|sizes| Tensor::new(DType::Float, sizes, Strides::Contiguous));
        check::run("depthwise", &[&out], &[&x, &weight], &scalars, DType::Float).is_ok()
    };
    assert!(is_taken(&[2, 5, 5, 4], &[2, 5, 5, 4], &[4, 9]));
    assert!(!is_taken(&[2, 5, 4, 4], &[2, 5, 5, 4], &[4, 9]) && !is_taken(&[1, 5, 5, 4], &[2, 5, 5, 4], &[4, 9]));
    assert!(!is_taken(&[2, 5, 5, 4], &[2, 5, 5, 4], &[4, 8]) && !is_taken(&[2, 5, 5, 4], &[2, 5, 5], &[4, 9]));
}
