//! Shared code of the kernel benchmarks: operands, calls of rows of the operator table, and tables of times.
//!
//! Kernels are called as from a stream's task. Each figure is the best of many calls, which other load on the machine disturbs
//! least.

#![allow(dead_code, reason = "every bench is a crate of its own, and uses a part of this")]

use std::any::Any;
use std::time::{Duration, Instant};

use rustdev::runtime::parallel_for::num_threads;
use rustdev::simd::isa;
use rustdev::tensor::{DType, Element, Flags, Number, Op, Record, Scalar, View};

/// The measuring time of one figure.
const TIME: Duration = Duration::from_millis(50);

/// A tensor.
pub struct Operand {
    /// The elements, which `data` points to.
    _memory: Box<dyn Any>,
    data: *mut u8,
    dtype: DType,
    sizes: Vec<i64>,
    /// Strides in bytes.
    strides: Vec<i64>,
}

impl Operand {
    /// A dense tensor; `value` computes an element from its index.
    pub fn new<T: Element>(sizes: &[i64], value: impl Fn(usize) -> f64) -> Self {
        let count = sizes.iter().product::<i64>() as usize;
        let mut memory: Vec<T> = (0..count).map(|index| T::store(T::Acc::from_f64(value(index)))).collect();
        let data = memory.as_mut_ptr().cast();
        let mut step = size_of::<T>() as i64;
        let mut strides = vec![0; sizes.len()];
        for (stride, size) in strides.iter_mut().zip(sizes).rev() {
            *stride = step;
            step *= size;
        }
        Self { _memory: Box::new(memory), data, dtype: T::DTYPE, sizes: sizes.to_vec(), strides }
    }

    /// The same memory with other sizes, and strides in bytes.
    #[must_use]
    pub fn restrided(mut self, sizes: &[i64], strides: &[i64]) -> Self {
        (self.sizes, self.strides) = (sizes.to_vec(), strides.to_vec());
        self
    }

    fn view(&self) -> View<'_> {
        // SAFETY: the sizes and strides that the benchmarks pass stay within the memory, which lives as long as the operand.
        unsafe { View::new(self.data, self.dtype, Flags::default(), &self.sizes, &self.strides) }.unwrap()
    }
}

/// Unordered values between -2 and 2.
pub fn scattered(index: usize) -> f64 {
    ((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 22) - 2.0
}

/// Unordered indices below `count`.
pub fn indices(count: i64) -> impl Fn(usize) -> f64 {
    move |index| (((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % count as u64) as f64
}

/// Nanoseconds of a kernel call that computes in `T`. The first `outputs` operands are written.
pub fn call<T: Element>(name: &str, outputs: usize, operands: &[&Operand], scalars: &[Scalar]) -> f64 {
    let op = Op::find(name.as_bytes()).expect("the table has the operator");
    let views: Vec<View<'_>> = operands.iter().map(|operand| operand.view()).collect();
    assert!(op.signature().takes(views.len(), scalars.len()), "{name} takes {}", op.signature().text());
    let record = Record::new(op.layout(), &views, outputs, scalars, Some(T::DTYPE)).unwrap();
    best(|| {
        // SAFETY: the operands outlive the calls, which run one at a time, and nothing else uses them.
        let launch = unsafe { record.launch() };
        op.run(&launch).unwrap();
    })
}

/// Nanoseconds of the fastest call.
pub fn best(mut call: impl FnMut()) -> f64 {
    let end = Instant::now() + TIME;
    let mut best = f64::INFINITY;
    while Instant::now() < end {
        let start = Instant::now();
        call();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9
}

/// Prints the instruction set, the number of threads and the unit of the figures.
pub fn introduce(unit: &str) {
    println!("{:?}, {} threads; {unit}", isa(), num_threads());
}

/// Prints the first line of a table.
pub fn heading(title: &str, columns: &[String]) {
    print!("\n{title:28}");
    for column in columns {
        print!("{column:>14}");
    }
    println!();
}

/// Prints a line of a table.
pub fn line(name: &str, figures: impl IntoIterator<Item = f64>) {
    print!("{name:28}");
    for figure in figures {
        print!("{figure:14.3}");
    }
    println!();
}
