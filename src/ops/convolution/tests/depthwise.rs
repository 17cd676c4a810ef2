//! Depthwise convolutions over kernels, geometries, dtypes and layouts.

use crate::ops::check::{Case, Tensor, agree, longs};
use crate::tensor::{FLOATING, Scalar};

/// Sizes (N, H, W, C) of images; kernel, dilation, padding and stride, each of height and width.
const CASES: [([usize; 4], [[usize; 2]; 4]); 9] = [
    ([2, 9, 14, 33], [[3, 3], [1, 1], [1, 1], [1, 1]]),
    ([1, 8, 11, 96], [[5, 5], [1, 1], [2, 2], [2, 2]]),
    ([2, 7, 9, 16], [[7, 7], [1, 1], [3, 3], [1, 1]]),
    ([1, 10, 12, 3], [[2, 4], [2, 1], [0, 2], [3, 2]]),
    ([3, 4, 13, 1], [[1, 9], [1, 1], [0, 4], [1, 1]]),
    ([1, 5, 6, 8], [[3, 3], [2, 3], [4, 5], [1, 1]]),
    ([2, 6, 5, 24], [[1, 1], [1, 1], [2, 1], [1, 3]]),
    ([1, 3, 2, 17], [[3, 2], [1, 1], [5, 4], [2, 3]]),
    ([2, 1, 5, 9], [[1, 2], [1, 3], [0, 0], [1, 1]]),
];

/// Numbers of few bits, whose sums are exact until they are rounded.
#[test]
fn results_are_sums_of_all_products_rounded_once() {
    for (image, [kernel, dilation, padding, stride]) in CASES {
        let counts =
            [0, 1].map(|axis| (image[axis + 1] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1);
        let windows = [image[0], counts[0], counts[1], image[3]];
        let (weight, bias) = ([image[3], kernel[0] * kernel[1]], [image[3]]);
        let geometry = [kernel, dilation, padding, stride, counts].concat().iter().map(|&number| number as i64).collect::<Vec<_>>();
        let check = |name: &str, outputs: &[&[usize]], inputs: &[&[usize]], flags: &[bool]| {
            let scalars = [longs(&geometry), flags.iter().map(|&flag| Scalar::Bool(flag)).collect()].concat();
            agree(name, FLOATING, [1.0, 0.0], |make| {
                let make = make.contiguous();
                let inputs = inputs.iter().enumerate().map(|(seed, sizes)| make.input(sizes, seed)).collect::<Vec<_>>();
                let output = |sizes: &&[usize]| if sizes.is_empty() { Tensor::absent() } else { make.output(sizes) };
                Case::new(outputs.iter().map(output).collect::<Vec<_>>(), inputs, &scalars[..])
            });
        };
        check("depthwise", &[&windows], &[&image, &weight, &bias], &[false]);
        check("depthwise", &[&image], &[&windows, &weight], &[true]);
        check("depthwise_weight", &[&weight, &bias], &[&image, &windows], &[]);
        check("depthwise_weight", &[&weight, &[]], &[&image, &windows], &[]);
        check("depthwise_weight", &[&[], &bias], &[&image, &windows], &[]);
    }
}
