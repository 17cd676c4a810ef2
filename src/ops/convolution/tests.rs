//! Convolutions over kernels, geometries, groups and dtypes.

mod depthwise;

use crate::ops::check::{Case, agree, longs};
use crate::tensor::FLOATING;

/// Kernel, dilation, padding and stride, each of height and width.
type Geometry = [[usize; 2]; 4];

/// Sizes (N, C, H, W) of images; output channels and groups.
const CASES: [([usize; 4], [usize; 2], Geometry); 15] = [
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
    ([1, 16, 7, 9], [50, 1], [[1, 1], [1, 1], [0, 0], [1, 1]]),
    ([2, 16, 20, 14], [7, 1], [[1, 1], [1, 1], [0, 0], [1, 1]]),
    ([600, 3, 1, 1], [1, 1], [[1, 1], [1, 1], [0, 0], [1, 1]]),
    ([1, 0, 20, 30], [24, 1], [[1, 1], [1, 1], [0, 0], [1, 1]]),
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
