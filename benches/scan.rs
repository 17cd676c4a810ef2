//! Scans: nanoseconds per element along rows and columns.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::Element;
use rustdev::tensor::launch::Scalar::Long;

const SHAPES: [[i64; 2]; 4] = [[1, 1_000], [1, 1_000_000], [256, 256], [2048, 2048]];

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SHAPES.map(|[rows, cols]| format!("{rows}x{cols}")));
    for name in ["cumsum", "cumprod", "_logcumsumexp", "_cummax_helper"] {
        for (way, dim) in [("rows", 1), ("columns", 0)] {
            line(&format!("{name} {way}"), SHAPES.map(|sizes| figure::<T>(name, sizes, dim)));
        }
    }
}

fn figure<T: Element>(name: &str, sizes: [i64; 2], dim: i64) -> f64 {
    let (output, input) = (Operand::new::<T>(&sizes, |_| 0.0), Operand::new::<T>(&sizes, scattered));
    let indices = Operand::new::<i64>(&sizes, |_| 0.0);
    let time = if name == "_cummax_helper" {
        call::<T>(name, 2, &[&output, &indices, &input], &[Long(dim)])
    } else {
        call::<T>(name, 1, &[&output, &input], &[Long(dim)])
    };
    time / (sizes[0] * sizes[1]) as f64
}
