//! Random numbers: nanoseconds per element.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::launch::Scalar::{self, Double, Long};
use rustdev::tensor::{Bool, Element};

const SIZES: [i64; 3] = [1_000, 64_000, 1_000_000];
/// Names, and the scalars after the generator's state.
const OPERATORS: [(&str, &[Scalar]); 8] = [
    ("uniform_", &[Double(0.0), Double(1.0)]),
    ("normal_", &[Double(0.0), Double(1.0)]),
    ("log_normal_", &[Double(0.0), Double(1.0)]),
    ("exponential_", &[Double(1.0)]),
    ("cauchy_", &[Double(0.0), Double(1.0)]),
    ("geometric_", &[Double(0.5)]),
    ("random_", &[Long(0), Long(100)]),
    ("bernoulli_.float", &[Double(0.5)]),
];
/// Seed and offset.
const STATE: [Scalar; 2] = [Long(1), Long(0)];

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
    family::<f64>("float64");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SIZES.map(|size| size.to_string()));
    for (name, scalars) in OPERATORS {
        let figure = |size| {
            let output = Operand::new::<T>(&[size], |_| 0.0);
            call::<T>(name, 1, &[&output], &[&STATE, scalars].concat()) / size as f64
        };
        line(name, SIZES.map(figure));
    }
    line("native_dropout", SIZES.map(dropout::<T>));
}

fn dropout<T: Element>(size: i64) -> f64 {
    let (output, input) = (Operand::new::<T>(&[size], |_| 0.0), Operand::new::<T>(&[size], scattered));
    let mask = Operand::new::<Bool>(&[size], |_| 0.0);
    let scalars = [&STATE[..], &[Double(0.75), Double(4.0 / 3.0)]].concat();
    call::<T>("native_dropout", 2, &[&output, &mask, &input], &scalars) / size as f64
}
