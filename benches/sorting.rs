//! Sorting, selection and search: nanoseconds per element of one line.

mod harness;

use harness::{Operand, call, heading, introduce, line, scattered};
use rustdev::tensor::Element;
use rustdev::tensor::launch::Scalar::{self, Long};

const SIZES: [i64; 4] = [100, 4_000, 64_000, 1_000_000];

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
    family::<i64>("int64");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SIZES.map(|size| size.to_string()));
    line("sort", SIZES.map(sort::<T>));
    line("topk of 10", SIZES.map(|size| selection::<T>("topk", size, 10, &[Long(1), Long(1)])));
    line("kthvalue, the middle", SIZES.map(|size| selection::<T>("kthvalue", size, 1, &[Long(size / 2)])));
    line("median", SIZES.map(|size| selection::<T>("median", size, 1, &[])));
    line("searchsorted", SIZES.map(search::<T>));
}

/// Values between -2000 and 2000, so that they differ as integers, too.
fn values(index: usize) -> f64 {
    scattered(index) * 1000.0
}

fn sort<T: Element>(size: i64) -> f64 {
    let (sorted, indices) = (Operand::new::<T>(&[1, size], |_| 0.0), Operand::new::<i64>(&[1, size], |_| 0.0));
    let bytes = size * if size_of::<T>() == 8 { 32 } else { 8 } + 16;
    let workspace = Operand::new::<u8>(&[bytes], |_| 0.0);
    let input = Operand::new::<T>(&[1, size], values);
    call::<T>("sort.stable", 3, &[&sorted, &indices, &workspace, &input], &[Long(1), Long(0)]) / size as f64
}

fn selection<T: Element>(name: &str, size: i64, count: i64, scalars: &[Scalar]) -> f64 {
    let (found, indices) = (Operand::new::<T>(&[1, count], |_| 0.0), Operand::new::<i64>(&[1, count], |_| 0.0));
    let input = Operand::new::<T>(&[1, size], values);
    call::<T>(name, 2, &[&found, &indices, &input], scalars) / size as f64
}

/// Searches as many values as the sorted line has elements.
fn search<T: Element>(size: i64) -> f64 {
    let (found, input) = (Operand::new::<i64>(&[size], |_| 0.0), Operand::new::<T>(&[size], values));
    let sorted = Operand::new::<T>(&[size], |index| (index as f64 / size as f64 * 4.0 - 2.0) * 1000.0);
    call::<T>("searchsorted", 1, &[&found, &sorted, &input], &[Long(0)]) / size as f64
}
