//! Moving elements: nanoseconds per element of the result.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::Element;
use rustdev::tensor::launch::Scalar::{self, Long};

const EDGES: [i64; 3] = [32, 256, 2048];

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &EDGES.map(|edge| format!("{edge}x{edge}")));
    let same = |edge| [edge; 2];
    line("flip rows", EDGES.map(|edge| figure::<T>("flip", same(edge), edge, &[Long(1)])));
    line("flip columns", EDGES.map(|edge| figure::<T>("flip", same(edge), edge, &[Long(2)])));
    line("roll", EDGES.map(|edge| figure::<T>("roll", same(edge), edge, &[Long(1), Long(edge / 3)])));
    line("tril", EDGES.map(|edge| figure::<T>("tril", same(edge), edge, &[Long(0)])));
    line("reflection_pad", EDGES.map(|edge| figure::<T>("reflection_pad", [edge + 4, edge + 4], edge, &[Long(2), Long(2)])));
    line("cat of two, by rows", EDGES.map(|edge| two::<T>([2 * edge, edge], edge, 0)));
    line("cat of two, by columns", EDGES.map(|edge| two::<T>([edge, 2 * edge], edge, 1)));
}

/// An operator from a square to a matrix.
fn figure<T: Element>(name: &str, sizes: [i64; 2], edge: i64, scalars: &[Scalar]) -> f64 {
    let (output, input) = (Operand::new::<T>(&sizes, |_| 0.0), Operand::new::<T>(&[edge; 2], scattered));
    call::<T>(name, 1, &[&output, &input], scalars) / (sizes[0] * sizes[1]) as f64
}

/// An operator from two squares to a matrix.
fn two<T: Element>(sizes: [i64; 2], edge: i64, dim: i64) -> f64 {
    let (output, input) = (Operand::new::<T>(&sizes, |_| 0.0), Operand::new::<T>(&[edge; 2], scattered));
    call::<T>("cat", 1, &[&output, &input, &input], &[Long(dim)]) / (sizes[0] * sizes[1]) as f64
}
