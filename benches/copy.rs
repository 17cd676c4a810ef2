//! Copies and casts: nanoseconds per element of contiguous, transposed, strided and converting copies.
//!
//! Each figure is the best of many calls, which other load on the machine disturbs least. "naive" is `ndarray`'s own assignment.

use std::time::{Duration, Instant};

use ndarray::Array2;
use rustdev::kernels::table::Op;
use rustdev::runtime::threads::num_threads;
use rustdev::simd::isa;
use rustdev::tensor::dtype::Element;
use rustdev::tensor::launch::Record;
use rustdev::tensor::view::{Flags, View};

fn main() {
    println!("{:?}, {} threads; ns per element", isa(), num_threads());
    println!("{:28}{:>10}{:>10}", "", "rustdev", "naive");
    for edge in [500, 1500, 4096] {
        report("transposed f32", edge, transposed::<f32>, |matrix| naive(matrix, true));
    }
    report("transposed bf16", 4096, transposed::<half::bf16>, |_| f64::NAN);
    report("transposed f64", 4096, transposed::<f64>, |_| f64::NAN);
    for edge in [150, 1000, 4096] {
        report("contiguous f32", edge, straight::<f32, f32>, |matrix| naive(matrix, false));
    }
    report("f32 to bf16", 1000, straight::<f32, half::bf16>, |_| f64::NAN);
    report("bf16 to f32", 1000, straight::<half::bf16, f32>, |_| f64::NAN);
    report("f32 to f16", 1000, straight::<f32, half::f16>, |_| f64::NAN);
    report("f16 to f32", 1000, straight::<half::f16, f32>, |_| f64::NAN);
    report("i64 to f32", 1000, straight::<i64, f32>, |_| f64::NAN);
    report("f32 to i32", 1000, straight::<f32, i32>, |_| f64::NAN);
    report("u8 to f32", 1000, straight::<u8, f32>, |_| f64::NAN);
}

fn report(what: &str, edge: usize, ours: impl Fn(usize) -> f64, theirs: impl Fn(usize) -> f64) {
    println!("{:28}{:10.3}{:10.3}", format!("{what} {edge} x {edge}"), ours(edge), theirs(edge));
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
    let (input, output) = (Array2::<S>::default((edge, edge)), Array2::<D>::default((edge, edge)));
    let sizes = [edge as i64; 2];
    let size = size_of::<D>() as i64;
    let to = [edge as i64 * size, size];
    let views = [
        View::new(output.as_ptr().cast_mut().cast(), D::DTYPE, Flags::default(), &sizes, &to).unwrap(),
        View::new(input.as_ptr().cast_mut().cast(), S::DTYPE, Flags::default(), &sizes, &strides).unwrap(),
    ];
    let op = Op::find(b"copy_").expect("the table has the operator");
    let record = Record::new(op.layout(), &views, 1, &[], None).unwrap();
    best(|| op.run(&record.launch()).unwrap()) * 1e9 / (edge * edge) as f64
}

fn naive(edge: usize, transposed: bool) -> f64 {
    let (input, mut output) = (Array2::<f32>::zeros((edge, edge)), Array2::<f32>::zeros((edge, edge)));
    let source = if transposed { input.t() } else { input.view() };
    best(|| output.assign(&source)) * 1e9 / (edge * edge) as f64
}

/// Seconds of the quickest call.
fn best(mut call: impl FnMut()) -> f64 {
    let end = Instant::now() + Duration::from_millis(300);
    let mut best = f64::INFINITY;
    while Instant::now() < end {
        let start = Instant::now();
        call();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}
