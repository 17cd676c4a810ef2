//! Matrix products in GFLOP/s, through the kernels of the operator table, with one thread and with all of them.
//!
//! Each figure is the best of several rounds. The shapes are those that `docs/` quotes: squares from tiny to large, and the
//! skinny ones of a layer with one or eight samples, whose weights are stored by output.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustdev::runtime::parallel_for::{num_threads, set_num_threads};
use rustdev::tensor::{DType, Flags, Op, Record, View};

const SHAPES: [[i64; 3]; 9] = [
    [16, 16, 16],
    [64, 64, 64],
    [128, 128, 128],
    [256, 256, 256],
    [512, 512, 512],
    [1024, 1024, 1024],
    [1, 2800, 700],
    [8, 2800, 700],
    [64, 2800, 700],
];
const DTYPES: [DType; 3] = [DType::Float, DType::Double, DType::BFloat16];
const TURNS: usize = 5;
const TURN: Duration = Duration::from_millis(10);

fn main() {
    let threads = num_threads();
    println!("GFLOP/s with 1 and with {threads} threads; b as (k, n), then as the transpose of (n, k)");
    println!("{:>9} {:>18} {:>8} {:>8} {:>8} {:>8}", "dtype", "m, n, k", "1", threads, "1, bᵀ", format!("{threads}, bᵀ"));
    for dtype in DTYPES {
        for shape in SHAPES {
            let figures = [false, true].map(|transposed| [1, threads].map(|count| measure(dtype, shape, transposed, count)));
            let [[one, all], [one_transposed, all_transposed]] = figures;
            let name = format!("{}, {}, {}", shape[0], shape[1], shape[2]);
            println!("{:>9} {name:>18} {one:8.1} {all:8.1} {one_transposed:8.1} {all_transposed:8.1}", format!("{dtype:?}"));
        }
    }
}

/// GFLOP/s of one product.
fn measure(dtype: DType, [m, n, k]: [i64; 3], transposed: bool, threads: usize) -> f64 {
    set_num_threads(threads);
    let size = dtype.size() as i64;
    let mut memory = [m * n, m * k, k * n].map(|count| vec![0u8; (count * size) as usize]);
    let sizes = [[m, n], [m, k], [k, n]];
    let strides = [[n * size, size], [k * size, size], if transposed { [size, k * size] } else { [n * size, size] }];
    let views: [View<'_>; 3] = std::array::from_fn(|index| {
        let data = memory[index].as_mut_ptr();
        // SAFETY: the memory holds the elements of these sizes and lives on.
        unsafe { View::new(data, dtype, Flags::default(), &sizes[index], &strides[index]) }.expect("a valid operand")
    });
    let op = Op::find(b"mm").expect("the table has mm");
    let record = Record::new(op.layout(), &views, 1, &[], Some(dtype)).expect("valid operands");
    let nanoseconds = best(|| {
        // SAFETY: the operands live on, and calls run one at a time.
        let launch = unsafe { record.launch() };
        op.run(&launch).expect("a product that runs");
    });
    black_box(&memory);
    2.0 * (m * n * k) as f64 / nanoseconds
}

/// Nanoseconds of a call in the best round.
fn best(mut call: impl FnMut()) -> f64 {
    call();
    let turn = |_| {
        let (start, mut calls) = (Instant::now(), 0);
        while start.elapsed() < TURN {
            call();
            calls += 1;
        }
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    (0..TURNS).map(turn).fold(f64::INFINITY, f64::min)
}
