//! Maximum pooling: nanoseconds per window.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::Element;
use rustdev::tensor::launch::Scalar::Long;

/// Number of channels, and height and width of their planes.
const SHAPES: [[i64; 2]; 3] = [[1, 28], [64, 56], [64, 224]];

/// Height and width of windows, and their stride.
const WINDOWS: [[i64; 2]; 2] = [[2, 2], [3, 1]];

fn main() {
    introduce("ns per window");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SHAPES.map(|[channels, side]| format!("{channels}x{side}x{side}")));
    for [kernel, stride] in WINDOWS {
        for (way, by_columns) in [("planes", false), ("channels last", true)] {
            let name = format!("{kernel}x{kernel} by {stride}, {way}");
            line(&name, SHAPES.map(|shape| max_pool2d::<T>(shape, [kernel, stride], by_columns)));
        }
    }
}

fn max_pool2d<T: Element>([channels, side]: [i64; 2], [kernel, stride]: [i64; 2], by_columns: bool) -> f64 {
    let windows = (side - kernel) / stride + 1;
    let (samples, width) = if by_columns { (1, channels) } else { (channels, 1) };
    let sizes = [samples, windows, windows * width];
    let (output, positions) = (Operand::new::<T>(&sizes, |_| 0.0), Operand::new::<i64>(&sizes, |_| 0.0));
    let input = Operand::new::<T>(&[samples, side * side * width], scattered);
    let both = |value: i64| [Long(value); 2];
    let scalars = [both(kernel), both(1), both(0), both(stride), both(windows), both(side)].concat();
    let time = call::<T>("max_pool2d_with_indices", 2, &[&output, &positions, &input], &[scalars, vec![Long(width)]].concat());
    time / (channels * windows * windows) as f64
}
