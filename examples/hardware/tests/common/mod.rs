//! The slow device that the tests of a process share, and calls as the shim makes them.

#![allow(dead_code, reason = "each file of tests uses a part")]

use std::env;
use std::ffi::CStr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustdev::abi::rd_launch::KernelCall;
use rustdev::runtime::stream::Stream;
use rustdev::runtime::task::{Closure, Task};
use rustdev::runtime::{device, pools};
use rustdev::tensor::{DType, Flags, Op, Record, View};
use slow_device::SlowDevice;
use slow_device::speed::Speed;

/// Bytes of memory of each device.
pub const MEMORY: u64 = 512 << 20;
/// Bytes of the staging buffers.
pub const STAGING: usize = 4 << 10;

/// Tasks of one stream that the device takes at a time, unless `SLOW_DEVICE_DEPTH` says otherwise; to set before the first call.
pub static DEPTH: AtomicUsize = AtomicUsize::new(1);

/// The device, which the first call installs. Every test must call this first.
pub fn slow_device() -> &'static SlowDevice {
    static DEVICE: OnceLock<Arc<SlowDevice>> = OnceLock::new();
    DEVICE.get_or_init(|| {
        let latency = Duration::from_micros(5);
        let depth = env::var("SLOW_DEVICE_DEPTH").map_or(DEPTH.load(Ordering::Relaxed), |text| text.parse().unwrap());
        let (devices, memory, bandwidth, staging) = (2, MEMORY, 20e9, STAGING);
        let speed = Speed { devices, memory, launch: latency, copy: latency, bandwidth, staging, depth };
        let device = SlowDevice::new(speed);
        slow_device::install(&device).unwrap();
        device
    })
}

/// Runs the tests of this file again, in a process whose device takes eight tasks of a stream at a time.
pub fn again_with_command_queues() {
    if env::var_os("SLOW_DEVICE_DEPTH").is_none() {
        let output = Command::new(env::current_exe().unwrap()).env("SLOW_DEVICE_DEPTH", "8").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
    }
}

/// A stream that no other test uses.
pub fn new_stream() -> &'static Stream {
    slow_device();
    device::get(0).unwrap().create_stream(0)
}

pub fn kernel(name: &'static str, mut body: impl FnMut() + Send + 'static) -> Task {
    let run = move || {
        body();
        Ok(())
    };
    Task::new(name, 100, Closure::new(run))
}

/// Blocks a stream with a task until the returned sender is dropped.
pub fn held(stream: &'static Stream) -> Sender<()> {
    let (sender, receiver) = channel::<()>();
    let wait = move || {
        // It returns when the sender is dropped.
        let _ = receiver.recv();
        Ok(())
    };
    stream.submit(Task::host("held", Closure::new(wait))).unwrap();
    sender
}

pub struct Memory(pub *mut u8);

impl Memory {
    pub fn new(stream: &'static Stream, bytes: usize) -> Self {
        Self(pools::allocate(stream.device(), stream, bytes).unwrap())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        pools::free(self.0);
    }
}

/// An operand: the address of its first element, strides in elements.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    pub data: *mut u8,
    pub dtype: DType,
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
    pub is_host: bool,
}

/// `target.copy_(source)` on a stream.
pub fn copy(stream: &'static Stream, target: Tensor<'_>, source: Tensor<'_>) {
    launch(c"copy_", stream, &[target, source]);
}

/// Runs an operator with one output on a stream; it computes in the output's dtype.
pub fn launch(name: &CStr, stream: &'static Stream, tensors: &[Tensor<'_>]) {
    let strides: Vec<Vec<i64>> = tensors.iter().map(bytes).collect();
    let operands: Vec<_> = tensors.iter().zip(&strides).map(|(tensor, strides)| operand(tensor, strides)).collect();
    let op = Op::find(name.to_bytes()).unwrap();
    let record = Record::new(op.layout(), &operands, 1, &[], None).unwrap();
    // SAFETY: the tests hold the memory until they have waited for the stream, and call kernels as their signatures say.
    unsafe { KernelCall::new(op, record) }.enqueue(stream).unwrap();
}

fn bytes(tensor: &Tensor<'_>) -> Vec<i64> {
    tensor.strides.iter().map(|stride| stride * tensor.dtype.size() as i64).collect()
}

fn operand<'a>(tensor: &Tensor<'a>, strides: &'a [i64]) -> View<'a> {
    let flags = if tensor.is_host { Flags::HOST } else { Flags::default() };
    // SAFETY: the tests hold the memory until they have waited for the stream.
    unsafe { View::new(tensor.data, tensor.dtype, flags, tensor.sizes, strides) }.unwrap()
}

/// Host memory as an operand.
pub fn host<'a, T>(data: &mut [T], dtype: DType, sizes: &'a [i64], strides: &'a [i64]) -> Tensor<'a> {
    Tensor { data: data.as_mut_ptr().cast(), dtype, sizes, strides, is_host: true }
}

/// Device memory as an operand.
pub fn on_device<'a>(memory: &Memory, dtype: DType, sizes: &'a [i64], strides: &'a [i64]) -> Tensor<'a> {
    Tensor { data: memory.0, dtype, sizes, strides, is_host: false }
}
