//! Pointwise kernels: nanoseconds per element, with data inside and outside the cache, compared with a copy of the same size.

mod harness;

use harness::{Operand, call, heading, introduce, line};
use rustdev::tensor::{Element, Scalar};

const SIZES: [i64; 3] = [1_000, 25_000, 1_000_000];
const OPERATORS: [(&str, usize, &[f64]); 16] = [
    ("copy_", 1, &[]),
    ("add", 2, &[1.0]),
    ("mul", 2, &[]),
    ("relu", 1, &[]),
    ("threshold_backward", 2, &[0.0]),
    ("exp", 1, &[]),
    ("log", 1, &[]),
    ("tanh", 1, &[]),
    ("sigmoid", 1, &[]),
    ("erf", 1, &[]),
    ("gelu", 1, &[0.0]),
    ("gelu", 1, &[1.0]),
    ("silu", 1, &[]),
    ("pow_scalar", 1, &[2.5]),
    ("sin", 1, &[]),
    ("sqrt", 1, &[]),
];

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SIZES.map(|size| size.to_string()));
    for (name, inputs, scalars) in OPERATORS {
        let scalars: Vec<Scalar> = scalars.iter().map(|&value| Scalar::Double(value)).collect();
        let title = format!("{name}{}", scalars.first().map_or(String::new(), |scalar| format!(" {}", scalar.to::<f64>())));
        let figure = |size: i64| {
            let operands = [0; 3].map(|_: i32| Operand::new::<T>(&[size], |index| (index % 977) as f64 * 0.005 + 0.1));
            let operands: Vec<&Operand> = operands.iter().take(inputs + 1).collect();
            call::<T>(name, 1, &operands, &scalars) / size as f64
        };
        line(&title, SIZES.map(figure));
    }
}
