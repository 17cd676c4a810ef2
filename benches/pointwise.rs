//! Pointwise kernels: nanoseconds per element, in the cache and beyond it, beside a copy of the same size.
//!
//! Kernels are called as a stream's task calls them. Each figure is the best of many calls, which other load on the machine disturbs least.

use std::time::{Duration, Instant};

use ndarray::Array1;
use rustdev::kernels::table::Op;
use rustdev::runtime::threads::num_threads;
use rustdev::simd::isa;
use rustdev::tensor::dtype::Element;
use rustdev::tensor::launch::{Record, Scalar};
use rustdev::tensor::view::{Flags, View};

const SIZES: [usize; 3] = [1_000, 25_000, 1_000_000];
const OPERATORS: [(&str, usize, &[f64]); 16] = [
    ("copy_", 1, &[]),
    ("add", 2, &[]),
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
    println!("{:?}, {} threads; ns per element", isa(), num_threads());
    for (dtype, measure) in [("float32", measure::<f32> as fn(_, _, _, _) -> f64), ("bfloat16", measure::<half::bf16>)] {
        print!("\n{dtype:20}");
        for size in SIZES {
            print!("{size:>10}");
        }
        println!();
        for (name, inputs, scalars) in OPERATORS {
            print!("{:20}", format!("{name}{scalars:?}").replace("[]", ""));
            for size in SIZES {
                print!("{:10.3}", measure(name, inputs, scalars, size));
            }
            println!();
        }
    }
}

fn measure<T: Element<Acc = f32>>(name: &str, inputs: usize, scalars: &[f64], size: usize) -> f64 {
    let op = Op::find(name.as_bytes()).expect("the table has the operator");
    let values = Array1::from_shape_fn(size, |index| T::store((index % 977) as f32 * 0.005 + 0.1));
    let operands: Vec<Array1<T>> = vec![values; inputs + 1];
    let (sizes, strides) = ([size as i64], [size_of::<T>() as i64]);
    let views: Vec<View<'_>> = operands
        .iter()
        .map(|array| View::new(array.as_ptr().cast_mut().cast(), T::DTYPE, Flags::default(), &sizes, &strides).unwrap())
        .collect();
    let scalars: Vec<Scalar> = scalars.iter().map(|&value| Scalar::Double(value)).collect();
    let record = Record::new(op.layout(), &views, 1, &scalars, Some(T::DTYPE)).unwrap();
    best(Duration::from_millis(60), || op.run(&record.launch()).unwrap()) * 1e9 / size as f64
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
