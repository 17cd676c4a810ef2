//! The cost of an operator on one element through the C ABI, in nanoseconds per call: `c = a + b` as the shim calls it, and its
//! parts.
//!
//! `cargo bench --bench launch`. The rows: the allocation of the result alone, the operator with one output tensor for all
//! calls, and with a new output tensor for each call.

use std::ffi::c_void;
use std::hint::black_box;
use std::time::Instant;

use rustdev::abi::rd_launch::{rd_launch, rd_launch_args, rd_op, rd_operand, rd_scalar};
use rustdev::abi::rd_memory::{rd_memory_allocate, rd_memory_free};
use rustdev::tensor::Op;

/// Calls per batch: few enough that most batches run without interruption.
const CALLS: usize = 1000;
const BATCHES: usize = 500;
/// `c10::ScalarType` of float32 and int64.
const FLOAT: i32 = 6;
const LONG: i32 = 4;

/// Prints the median over batches; `body` makes one call.
fn report(name: &str, mut body: impl FnMut()) {
    let batch = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| body());
        start.elapsed().as_nanos() as f64 / CALLS as f64
    };
    let mut times = (0..BATCHES).map(batch).collect::<Vec<_>>();
    times.sort_by(f64::total_cmp);
    println!("{name:<40} {:>8.1} ns", times[BATCHES / 2]);
}

fn allocate() -> *mut c_void {
    let (mut pointer, mut device) = (std::ptr::null_mut(), 0);
    let status = rd_memory_allocate(black_box(4), &mut pointer, &mut device);
    assert_eq!(status, 0);
    pointer
}

fn add(op: &'static rd_op, [out, left, right]: [*mut c_void; 3]) {
    let operand = |data| rd_operand { data, dtype: FLOAT, flags: 0 };
    let operands = [out, left, right].map(operand);
    let alpha = rd_scalar { dtype: LONG, integer: 1, real: 0.0, imaginary: 0.0 };
    let args = rd_launch_args {
        operands: operands.as_ptr(),
        num_operands: 3,
        num_outputs: 1,
        scalars: &raw const alpha,
        num_scalars: 1,
        compute_dtype: FLOAT,
        numel: 1,
    };
    // SAFETY: the arguments are local variables, and the operands are blocks of this device that live on.
    let status = unsafe { rd_launch(op, 0, black_box(&args)) };
    assert_eq!(status, 0);
}

fn main() {
    let op = Op::find(b"add").expect("the table has it");
    let [out, left, right] = [(); 3].map(|()| allocate());
    report("allocate + free", || rd_memory_free(black_box(allocate())));
    report("add into the same tensor", || add(op, [out, left, right]));
    let mut result = out;
    report("add into a new tensor", || {
        let next = allocate();
        add(op, [next, left, right]);
        rd_memory_free(std::mem::replace(&mut result, next));
    });
}
