//! Convolutions over kernels, geometries, groups and dtypes, against sums of all products.

mod depthwise;

use ndarray::{ArrayD, IxDyn};

use crate::ops::check::{Case, Strides, Tensor, agree, close, longs, run, values};
use crate::tensor::{Complex64, DType, FLOATING};

/// Kernel, dilation, padding and stride, each of height and width.
type Geometry = [[usize; 2]; 4];

/// Sizes (N, C, H, W) of images; output channels and groups.
const CASES: [([usize; 4], [usize; 2], Geometry); 11] = [
    ([2, 3, 9, 14], [7, 1], [[3, 3], [1, 1], [1, 1], [1, 1]]),
    ([1, 4, 30, 35], [6, 2], [[5, 5], [1, 1], [2, 2], [2, 2]]),
    ([3, 16, 7, 7], [50, 1], [[1, 1], [1, 1], [0, 0], [1, 1]]),
    ([2, 30, 4, 5], [9, 3], [[3, 3], [1, 1], [1, 1], [1, 1]]),
    ([1, 2, 10, 12], [3, 1], [[2, 4], [2, 1], [0, 2], [3, 2]]),
    ([1, 5, 6, 8], [5, 5], [[3, 3], [2, 3], [4, 5], [1, 1]]),
    ([2, 2, 6, 5], [4, 1], [[1, 1], [1, 1], [2, 1], [1, 3]]),
    ([1, 1, 3, 2], [1, 1], [[3, 2], [1, 1], [5, 4], [2, 3]]),
    ([5, 40, 1, 1], [17, 1], [[1, 1], [1, 1], [0, 0], [1, 1]]),
    ([2, 0, 4, 4], [3, 1], [[3, 3], [1, 1], [1, 1], [1, 1]]),
    ([1, 40, 20, 21], [60, 1], [[3, 3], [1, 1], [1, 1], [1, 1]]),
];

fn scalars(image: [usize; 4], geometry: Geometry, groups: usize) -> (Vec<i64>, [usize; 2]) {
    let [kernel, dilation, padding, stride] = geometry;
    let count = |axis: usize| (image[axis + 2] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1;
    let counts = [count(0), count(1)];
    ([kernel, dilation, padding, stride, counts].concat().iter().chain([&groups]).map(|&number| number as i64).collect(), counts)
}

#[test]
fn results_agree_with_those_in_double_precision() {
    for (image, [rows, groups], geometry) in CASES {
        let (scalars, counts) = scalars(image, geometry, groups);
        let (out, weight) = ([image[0], rows, counts[0], counts[1]], [rows, image[1] / groups, geometry[0][0], geometry[0][1]]);
        for has_bias in [true, false] {
            agree("convolution", FLOATING, [1.0, 0.0], |make| {
                let make = make.contiguous();
                let mut inputs = vec![make.input(&image, 0), make.input(&weight, 1)];
                inputs.extend(has_bias.then(|| make.input(&[rows], 2)));
                Case::new([make.output(&out)], inputs, longs(&scalars))
            });
        }
    }
}

#[test]
fn results_are_sums_of_all_products() {
    for (image, [rows, groups], geometry) in CASES {
        let (scalars, [height, width]) = scalars(image, geometry, groups);
        let ([kernel, dilation, padding, stride], channels) = (geometry, image[1] / groups);
        let [x, w, b] =
            [&image[..], &[rows, channels, kernel[0], kernel[1]], &[rows]].map(|sizes| values(DType::Double, sizes, sizes.len()));
        let expected = ArrayD::from_shape_fn(IxDyn(&[image[0], rows, height, width]), |at| {
            let mut total = b[[at[1]]];
            for (channel, down, across) in triples(channels, kernel[0], kernel[1]) {
                let position =
                    |axis: usize, tap: usize| (at[axis + 2] * stride[axis] + tap * dilation[axis]).checked_sub(padding[axis]);
                let taps_at = [position(0, down), position(1, across)];
                if let [Some(y), Some(x_at)] = taps_at
                    && y < image[2]
                    && x_at < image[3]
                {
                    let from = at[1] / (rows / groups) * channels + channel;
                    total += x[[at[0], from, y, x_at]] * w[[at[1], channel, down, across]];
                }
            }
            total
        });
        let tensor = |values: &ArrayD<Complex64>| Tensor::of(DType::Double, values, Strides::Contiguous);
        let out = Tensor::new(DType::Double, expected.shape(), Strides::Contiguous);
        run("convolution", &[&out], &[&tensor(&x), &tensor(&w), &tensor(&b)], &longs(&scalars), DType::Double).unwrap();
        for (found, expected) in out.values().iter().zip(&expected) {
            assert!(close(*found, *expected, 1e-12), "{image:?} {rows} {groups} {geometry:?}: {found} {expected}");
        }
    }
}

/// All triples of numbers below three limits.
fn triples(first: usize, second: usize, third: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..first).flat_map(move |a| (0..second).flat_map(move |b| (0..third).map(move |c| (a, b, c))))
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let is_taken = |sizes: [&[usize]; 4], groups: i64| {
        let [out, image, weight, bias] = sizes.map(|sizes| Tensor::new(DType::Float, sizes, Strides::Contiguous));
        let scalars = longs(&[3, 3, 1, 1, 1, 1, 1, 1, 5, 5, groups]);
        Case::new([out], [image, weight, bias], scalars).run("convolution", DType::Float, None).is_ok()
    };
    let [out, image, weight, bias]: [&[usize]; 4] = [&[2, 6, 5, 5], &[2, 4, 5, 5], &[6, 2, 3, 3], &[6]];
    assert!(is_taken([out, image, weight, bias], 2));
    assert!(!is_taken([out, image, weight, bias], 1) && !is_taken([out, image, weight, bias], 0));
    assert!(!is_taken([&[2, 6, 5, 4], image, weight, bias], 2) && !is_taken([out, &[1, 4, 5, 5], weight, bias], 2));
    assert!(!is_taken([out, image, &[6, 2, 3, 2], bias], 2) && !is_taken([out, image, weight, &[5]], 2));
}
