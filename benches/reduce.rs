//! Reductions: nanoseconds per element over rows, columns and all elements, with data inside and outside the cache.

mod harness;

use harness::{Operand, call, heading, introduce, line};
use rustdev::tensor::Element;

/// Rows and columns.
const SHAPES: [[i64; 2]; 4] = [[32, 32], [256, 256], [1500, 1000], [4096, 4096]];
/// Name, and whether rows and columns are reduced.
const WAYS: [(&str, [bool; 2]); 3] = [("rows", [false, true]), ("columns", [true, false]), ("all", [true, true])];
/// Operators whose results have the input's dtype, then those whose results are indices.
const VALUES: [&str; 4] = ["sum", "mean", "amax", "prod"];
const UNSTABLE_INDICES: [&str; 1] = ["argmax"];

fn main() {
    introduce("ns per element");
    family::<f32>("float32", &VALUES);
    family::<half::bf16>("bfloat16", &VALUES);
    family::<f64>("float64", &VALUES);
    family::<i64>("int64", &["sum", "amax", "prod"]);
}

fn family<T: Element>(dtype: &str, names: &[&str]) {
    heading(dtype, &SHAPES.map(|[rows, cols]| format!("{rows}x{cols}")));
    for name in names {
        for (way, reduced) in WAYS {
            line(&format!("{name} {way}"), SHAPES.map(|sizes| figure::<T, T>(name, sizes, reduced)));
        }
    }
    for name in UNSTABLE_INDICES {
        for (way, reduced) in &WAYS[..2] {
            line(&format!("{name} {way}"), SHAPES.map(|sizes| figure::<T, i64>(name, sizes, *reduced)));
        }
    }
}

fn figure<T: Element, O: Element>(name: &str, sizes: [i64; 2], reduced: [bool; 2]) -> f64 {
    let input = Operand::new::<T>(&sizes, |index| (index % 3 + 1) as f64);
    let size = size_of::<O>() as i64;
    let strides = reduced.map(|reduced| if reduced { 0 } else { size });
    let output = Operand::new::<O>(&[sizes[0].max(sizes[1])], |_| 0.0).restrided(&sizes, &strides);
    call::<T>(name, 1, &[&output, &input], &[]) / (sizes[0] * sizes[1]) as f64
}
