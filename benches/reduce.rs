//! Reductions: nanoseconds per element over rows, columns and everything, in the cache and beyond it.
//!
//! Kernels are called as a stream's task calls them. Each figure is the best of many calls, which other load on the machine disturbs least.

use std::time::{Duration, Instant};

use ndarray::Array1;
use rustdev::kernels::table::Op;
use rustdev::runtime::threads::num_threads;
use rustdev::simd::isa;
use rustdev::tensor::dtype::{DType, Element};
use rustdev::tensor::launch::Record;
use rustdev::tensor::number::Number;
use rustdev::tensor::view::{Flags, View};

/// Rows and columns.
const SHAPES: [[i64; 2]; 4] = [[32, 32], [256, 256], [1500, 1000], [4096, 4096]];
/// Name and which of rows and columns are reduced.
const WAYS: [(&str, [bool; 2]); 3] = [("rows", [false, true]), ("columns", [true, false]), ("all", [true, true])];
const OPERATORS: [&str; 4] = ["sum", "mean", "amax", "prod"];

fn main() {
    println!("{:?}, {} threads; ns per element", isa(), num_threads());
    for (dtype, measure) in [
        ("float32", measure::<f32> as fn(_, _, _) -> f64),
        ("bfloat16", measure::<half::bf16>),
        ("float64", measure::<f64>),
        ("int64", measure::<i64>),
    ] {
        print!("\n{dtype:20}");
        for shape in SHAPES {
            print!("{:>12}", format!("{}x{}", shape[0], shape[1]));
        }
        println!();
        for name in OPERATORS.into_iter().filter(|&name| name != "mean" || dtype != "int64") {
            for (way, reduced) in WAYS {
                print!("{:20}", format!("{name} {way}"));
                for shape in SHAPES {
                    print!("{:12.4}", measure(name, shape, reduced));
                }
                println!();
            }
        }
    }
}

fn measure<T: Element>(name: &str, sizes: [i64; 2], reduced: [bool; 2]) -> f64 {
    let op = Op::find(name.as_bytes()).expect("the table has the operator");
    let count = (sizes[0] * sizes[1]) as usize;
    let input = Array1::from_shape_fn(count, |index| T::store(T::Acc::from_i64(index as i64 % 3 + 1)));
    let output = Array1::from_elem(count, T::default());
    let size = size_of::<T>() as i64;
    let kept = [if reduced[0] { 0 } else { size }, if reduced[1] { 0 } else { size }];
    let dense = [sizes[1] * size, size];
    let view = |data: *const T, strides| View::new(data.cast_mut().cast(), T::DTYPE, Flags::default(), &sizes, strides).unwrap();
    let views = [view(output.as_ptr(), &kept), view(input.as_ptr(), &dense)];
    let compute: DType = T::DTYPE;
    let record = Record::new(op.layout(), &views, 1, &[], Some(compute)).unwrap();
    best(Duration::from_millis(40), || op.run(&record.launch()).unwrap()) * 1e9 / count as f64
}

/// Seconds of the quickest call.
fn best(time: Duration, mut call: impl FnMut()) -> f64 {
    let end = Instant::now() + time;
    let mut best = f64::INFINITY;
    while Instant::now() < end {
        let start = Instant::now();
        call();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}
