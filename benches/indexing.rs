//! Indexing and masks: nanoseconds per element of the index or, for row indices, per element of the rows.

mod harness;

use harness::{Operand, call, heading, indices, introduce, line, scattered};
use rustdev::tensor::launch::Scalar::{self, Bool as Flag, Double, Long};
use rustdev::tensor::{Bool, Element};

const SIZES: [i64; 3] = [1_000, 64_000, 1_000_000];
/// Elements of a row.
const COLS: i64 = 64;
/// Scatters with their operation: store, add, maximum.
const UPDATES: [(&str, &str, i64); 3] =
    [("scatter", "scatter", 0), ("scatter_add", "scatter_add", 1), ("scatter_reduce amax", "scatter_reduce", 3)];

fn main() {
    introduce("ns per element");
    family::<f32>("float32");
    family::<half::bf16>("bfloat16");
}

fn family<T: Element>(dtype: &str) {
    heading(dtype, &SIZES.map(|size| size.to_string()));
    line("gather", SIZES.map(gather::<T>));
    line("index_select of rows", SIZES.map(rows::<T>));
    for (title, name, operator) in UPDATES {
        line(title, SIZES.map(|size| scatter::<T>(name, operator, size)));
    }
    line("masked_select of a half", SIZES.map(select::<T>));
    line("nonzero", SIZES.map(nonzero::<T>));
}

/// Values over the sizes of an index, with stride 0 in the indexed dimension, and the scalars of the index: slots and step in
/// bytes.
fn addressed<T: Element>(size: i64) -> (Operand, [Scalar; 2]) {
    let element = size_of::<T>() as i64;
    (Operand::new::<T>(&[size], scattered).restrided(&[size], &[0]), [Long(size), Long(element)])
}

fn gather<T: Element>(size: i64) -> f64 {
    let (source, pair) = addressed::<T>(size);
    let (output, index) = (Operand::new::<T>(&[size], |_| 0.0), Operand::new::<i64>(&[size], indices(size)));
    call::<T>("gather", 1, &[&output, &source, &index], &pair) / size as f64
}

fn rows<T: Element>(size: i64) -> f64 {
    let (count, element) = (size / COLS, size_of::<T>() as i64);
    let sizes = [count, COLS];
    let source = Operand::new::<T>(&sizes, scattered).restrided(&sizes, &[0, element]);
    let index = Operand::new::<i64>(&[count], indices(count)).restrided(&sizes, &[8, 0]);
    let output = Operand::new::<T>(&sizes, |_| 0.0);
    call::<T>("index_select", 1, &[&output, &source, &index], &[Long(count), Long(COLS * element)]) / size as f64
}

fn scatter<T: Element>(name: &str, operator: i64, size: i64) -> f64 {
    let (target, [count, step]) = addressed::<T>(size);
    let (source, index) = (Operand::new::<T>(&[size], scattered), Operand::new::<i64>(&[size], indices(size)));
    let scalars = [Long(operator), Flag(false), Double(1.0), Long(-1), count, step];
    call::<T>(name, 1, &[&target, &source, &index], &scalars) / size as f64
}

fn select<T: Element>(size: i64) -> f64 {
    let (source, mask) = (Operand::new::<T>(&[size], scattered), Operand::new::<Bool>(&[size], |index| indices(2)(index)));
    let kept = (0..size as usize).filter(|&index| indices(2)(index) != 0.0).count();
    let output = Operand::new::<T>(&[kept as i64], |_| 0.0);
    call::<T>("masked_select", 1, &[&output, &source, &mask], &[]) / size as f64
}

fn nonzero<T: Element>(size: i64) -> f64 {
    let input = Operand::new::<T>(&[size], indices(2));
    let kept = (0..size as usize).filter(|&index| indices(2)(index) != 0.0).count();
    let output = Operand::new::<i64>(&[kept as i64, 1], |_| 0.0);
    call::<T>("nonzero", 1, &[&output, &input], &[Long(0)]) / size as f64
}
