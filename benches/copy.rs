//! Copies and casts: nanoseconds per element of contiguous, transposed and converting copies. "naive" is `ndarray`'s own
//! assignment.

mod harness;

use harness::{Operand, best, call, heading, introduce, line};
use ndarray::Array2;
use rustdev::tensor::Element;

fn main() {
    introduce("ns per element");
    heading("", &["rustdev", "naive"].map(String::from));
    for edge in [500, 1500, 4096] {
        report("transposed f32", edge, &[transposed::<f32>(edge), naive(edge, true)]);
    }
    report("transposed bf16", 4096, &[transposed::<half::bf16>(4096)]);
    report("transposed f64", 4096, &[transposed::<f64>(4096)]);
    for edge in [150, 1000, 4096] {
        report("contiguous f32", edge, &[straight::<f32, f32>(edge), naive(edge, false)]);
    }
    report("f32 to bf16", 1000, &[straight::<f32, half::bf16>(1000)]);
    report("bf16 to f32", 1000, &[straight::<half::bf16, f32>(1000)]);
    report("f32 to f16", 1000, &[straight::<f32, half::f16>(1000)]);
    report("f16 to f32", 1000, &[straight::<half::f16, f32>(1000)]);
    report("i64 to f32", 1000, &[straight::<i64, f32>(1000)]);
    report("f32 to i32", 1000, &[straight::<f32, i32>(1000)]);
    report("u8 to f32", 1000, &[straight::<u8, f32>(1000)]);
}

fn report(what: &str, edge: usize, figures: &[f64]) {
    line(&format!("{what} {edge} x {edge}"), figures.iter().copied());
}

fn transposed<T: Element>(edge: usize) -> f64 {
    let size = size_of::<T>() as i64;
    measure::<T, T>(edge, [size, edge as i64 * size])
}

fn straight<S: Element, D: Element>(edge: usize) -> f64 {
    let size = size_of::<S>() as i64;
    measure::<S, D>(edge, [edge as i64 * size, size])
}

fn measure<S: Element, D: Element>(edge: usize, strides: [i64; 2]) -> f64 {
    let sizes = [edge as i64; 2];
    let input = Operand::new::<S>(&sizes, |_| 0.0).restrided(&sizes, &strides);
    let output = Operand::new::<D>(&sizes, |_| 0.0);
    call::<D>("copy_", 1, &[&output, &input], &[]) / (edge * edge) as f64
}

fn naive(edge: usize, transposed: bool) -> f64 {
    let (input, mut output) = (Array2::<f32>::zeros((edge, edge)), Array2::<f32>::zeros((edge, edge)));
    let source = if transposed { input.t() } else { input.view() };
    best(|| output.assign(&source)) / (edge * edge) as f64
}
