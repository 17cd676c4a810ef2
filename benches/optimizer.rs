//! Steps of fused optimizers: nanoseconds per element of the parameters.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::Element;
use rustdev::tensor::launch::Scalar::{self, Bool, Double, Long};

/// Number of parameters, and elements of each.
const SHAPES: [(usize, i64); 4] = [(100, 10), (100, 1_000), (10, 100_000), (10, 1_000_000)];

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SHAPES.map(|(count, size)| format!("{count} x {size}")));
    // Learning rate, betas, decay and eps; without AMSGrad and `maximize`.
    let adam = [Double(1e-3), Double(0.9), Double(0.999), Double(0.01), Double(1e-8), Bool(false), Bool(false)];
    line("_fused_adam_", SHAPES.map(|shape| step::<T>("_fused_adam_", 4, true, shape, &adam)));
    line("_fused_adamw_", SHAPES.map(|shape| step::<T>("_fused_adamw_", 4, true, shape, &adam)));
    // Decay, momentum, learning rate and dampening; without Nesterov and `maximize`, and not the first step.
    let sgd = [Double(0.0), Double(0.9), Double(1e-3), Double(0.0), Bool(false), Bool(false), Bool(false)];
    line("_fused_sgd_", SHAPES.map(|shape| step::<T>("_fused_sgd_", 3, false, shape, &sgd)));
}

/// A step of an operator with this many lists and, if `counted`, step counts.
fn step<T: Element>(name: &str, lists: usize, counted: bool, (count, size): (usize, i64), settings: &[Scalar]) -> f64 {
    let tensors: Vec<Operand> = (0..lists * count).map(|_| Operand::new::<T>(&[size], |index| scattered(index).abs())).collect();
    let steps: Vec<Operand> = (0..if counted { count } else { 0 }).map(|_| Operand::new::<f32>(&[], |_| 3.0)).collect();
    let operands: Vec<&Operand> = tensors.iter().chain(&steps).collect();
    let shared = [Long(count as i64), Bool(false), Bool(false), Bool(false)];
    call::<T>(name, lists * count, &operands, &[&shared, settings].concat()) / (count as i64 * size) as f64
}
