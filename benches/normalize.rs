//! Softmax and normalisation: nanoseconds per element.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::Element;
use rustdev::tensor::launch::Scalar::{Bool, Double, Long};

/// Number of lines, and elements of each; for batch normalisation, number of channels and elements of each.
const SHAPES: [[i64; 2]; 4] = [[1, 1_000], [128, 768], [1024, 1024], [4096, 4096]];

const EPS: f64 = 1e-5;

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SHAPES.map(|[rows, cols]| format!("{rows}x{cols}")));
    for name in ["_softmax", "_log_softmax"] {
        for (way, dim) in [("rows", 1), ("columns", 0)] {
            line(&format!("{name} {way}"), SHAPES.map(|sizes| softmax::<T>(name, sizes, dim)));
        }
    }
    line("native_layer_norm", SHAPES.map(layer_norm::<T>));
    line("native_batch_norm planes", SHAPES.map(|sizes| batch_norm::<T>(sizes, false)));
    line("native_batch_norm columns", SHAPES.map(|[channels, count]| batch_norm::<T>([count, channels], true)));
}

fn softmax<T: Element>(name: &str, sizes: [i64; 2], dim: i64) -> f64 {
    let (output, input) = (Operand::new::<T>(&sizes, |_| 0.0), Operand::new::<T>(&sizes, scattered));
    call::<T>(name, 1, &[&output, &input], &[Long(dim)]) / (sizes[0] * sizes[1]) as f64
}

fn layer_norm<T: Element>([rows, cols]: [i64; 2]) -> f64 {
    let (output, input) = (Operand::new::<T>(&[rows, cols], |_| 0.0), Operand::new::<T>(&[rows, cols], scattered));
    let [means, scales] = [(); 2].map(|()| Operand::new::<f32>(&[rows], |_| 0.0));
    let [weight, bias] = [(); 2].map(|()| Operand::new::<f32>(&[cols], scattered));
    let operands = [&output, &means, &scales, &input, &weight, &bias];
    call::<T>("native_layer_norm", 3, &operands, &[Double(EPS), Bool(true), Bool(true)]) / (rows * cols) as f64
}

/// Batch normalisation with the statistics of the input; channels are rows or columns.
fn batch_norm<T: Element>(sizes: [i64; 2], by_columns: bool) -> f64 {
    let channels = sizes[usize::from(by_columns)];
    let (output, input) = (Operand::new::<T>(&sizes, |_| 0.0), Operand::new::<T>(&sizes, scattered));
    let [means, scales] = [(); 2].map(|()| Operand::new::<f32>(&[channels], |_| 0.0));
    let [weight, bias] = [(); 2].map(|()| Operand::new::<f32>(&[channels], scattered));
    let scalars = [Long(channels), Bool(by_columns), Bool(true), Bool(false), Bool(true), Bool(true), Double(0.1), Double(EPS)];
    let operands = [&output, &means, &scales, &input, &weight, &bias];
    call::<T>("native_batch_norm", 3, &operands, &scalars) / (sizes[0] * sizes[1]) as f64
}
