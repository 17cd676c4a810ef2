//! Histograms: nanoseconds per value.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::launch::Scalar::{Bool, Long};

const SIZES: [i64; 3] = [1_000, 64_000, 1_000_000];

/// Methods of finding a bin: search among the edges, distance from the first edge, or distance corrected by the adjacent edges.
const METHODS: [&str; 3] = ["search", "linear", "corrected"];

fn main() {
    introduce("ns per value");
    heading("float32", &SIZES.map(|size| size.to_string()));
    for bins in [10, 1_000] {
        for (number, method) in METHODS.iter().enumerate() {
            line(&format!("{bins} bins, {method}"), SIZES.map(|size| histogram(size, bins, number as i64)));
        }
    }
}

fn histogram(size: i64, bins: i64, method: i64) -> f64 {
    let (counts, values) = (Operand::new::<f32>(&[bins], |_| 0.0), Operand::new::<f32>(&[size], scattered));
    let edges = Operand::new::<f32>(&[bins + 1], |index| index as f64 / bins as f64 * 4.0 - 2.0);
    call::<f32>("histogram", 1, &[&counts, &values, &edges], &[Long(method), Bool(false)]) / size as f64
}
