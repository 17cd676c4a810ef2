//! Without installed hardware: the support for hardware must not cost this processor additional tasks or copies.

mod common;

use std::sync::{Arc, Mutex};
use std::thread;

use common::{Memory, copy, host, launch, on_device};
use rustdev::hardware;
use rustdev::runtime::device;
use rustdev::runtime::pools;
use rustdev::runtime::task::{Closure, Task};
use rustdev::tensor::DType;
use slow_device::SlowDevice;
use slow_device::speed::Speed;

#[test]
fn a_host_copy_is_one_task_and_small_work_runs_in_the_call() {
    let stream = device::get(0).unwrap().create_stream(0);
    assert!(!hardware::is_installed() && hardware::properties().is_none());
    let refusal = slow_device::install(&SlowDevice::new(Speed::default())).unwrap_err();
    assert!(refusal.message().contains("the runtime has started on this processor"), "{refusal}");

    // Another dtype and another layout; on hardware this takes three tasks.
    let (mut source, sizes) = ([1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    let block = Memory::new(stream, 64);
    copy(stream, on_device(&block, DType::Double, &sizes, &[3, 1]), host(&mut source, DType::Float, &sizes, &[1, 2]));
    assert_eq!((stream.submitted(), stream.completed()), (1, 1));
    assert_eq!(pools::host().stats().num_host_alloc, 0);
    // SAFETY: the copy has ended, and the block has six numbers.
    let copied = unsafe { std::slice::from_raw_parts(block.0.cast::<f64>(), 6) };
    assert_eq!(copied, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);

    let other = Memory::new(stream, 64);
    let on = |memory| on_device(memory, DType::Double, &[6], &[1]);
    launch(c"mul", stream, &[on(&other), on(&block), on(&block)]);
    assert_eq!((stream.submitted(), stream.completed()), (2, 2));
    // SAFETY: as above.
    let squares = unsafe { std::slice::from_raw_parts(other.0.cast::<f64>(), 6) };
    assert_eq!(squares, [1.0, 9.0, 25.0, 4.0, 16.0, 36.0]);

    let told = Arc::new(Mutex::new(None));
    let tells = Arc::clone(&told);
    let run = move || {
        *tells.lock().unwrap() = Some(thread::current().id());
        Ok(())
    };
    stream.submit(Task::new("where", 100, Closure::new(run))).unwrap();
    assert_eq!(*told.lock().unwrap(), Some(thread::current().id()));
}
