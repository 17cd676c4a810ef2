//! The runtime on the slow device: streams, events, memory, copies, graphs, errors. The tests share one process and so one
//! device.

mod common;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use common::{
    MEMORY, Memory, STAGING, again_with_command_queues, copy, held, host, kernel, launch, new_stream, on_device, slow_device,
};
use rustdev::hardware;
use rustdev::runtime::event::Event;
use rustdev::runtime::graph::capture::{Capture, Mode};
use rustdev::runtime::pools::private_pool::{PrivatePool, new_number};
use rustdev::runtime::{Error, device, pools};
use rustdev::tensor::DType;
use slow_device::speed::Speed;
use slow_device::{Fault, SlowDevice};

#[test]
fn the_device_is_what_it_says() {
    slow_device();
    assert_eq!(device::count(), 2);
    assert_eq!(pools::pool(0).unwrap().lock().settings.budget as u64, MEMORY);
    assert_eq!(hardware::properties().map(|properties| properties.name.as_str()), Some("slow device"));
}

#[test]
fn all_of_it_holds_with_command_queues() {
    again_with_command_queues();
}

#[test]
fn nothing_is_installed_over_it() {
    slow_device();
    let refusal = slow_device::install(&SlowDevice::new(Speed::default())).unwrap_err();
    assert!(refusal.message().contains("there is hardware already"), "{refusal}");
}

#[test]
fn tasks_run_on_the_engine_in_the_order_of_their_stream() {
    let stream = new_stream();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..300 {
        let seen = Arc::clone(&seen);
        let note = move || seen.lock().unwrap().push((number, thread::current().name().unwrap_or_default().to_owned()));
        stream.submit(kernel("note", note)).unwrap();
    }
    stream.synchronize().unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
    assert!(seen.iter().all(|(_, thread)| thread == "slow-compute-0"), "{seen:?}");
}

#[test]
fn a_submission_does_not_wait_for_the_device() {
    let stream = new_stream();
    let gate = held(stream);
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let ran = Arc::clone(&ran);
        stream.submit(kernel("count", move || _ = ran.fetch_add(1, Ordering::Relaxed))).unwrap();
    }
    assert!(!stream.query().unwrap());
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    drop(gate);
    stream.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 50);
    assert!(stream.query().unwrap());
}

#[test]
fn an_event_orders_two_streams_and_two_devices() {
    let first = new_stream();
    for other in [new_stream(), device::get(1).unwrap().create_stream(-1)] {
        let stream = first;
        let gate = held(stream);
        let value = Arc::new(AtomicUsize::new(0));
        let (written, read) = (Arc::clone(&value), Arc::clone(&value));
        stream.submit(kernel("write", move || written.store(7, Ordering::Relaxed))).unwrap();
        let event = Event::new(0, false);
        event.record(stream).unwrap();
        event.block(other).unwrap();
        let found = Arc::new(AtomicUsize::new(0));
        let result = Arc::clone(&found);
        other.submit(kernel("read", move || result.store(read.load(Ordering::Relaxed), Ordering::Relaxed))).unwrap();
        assert!(!event.query().unwrap());
        drop(gate);
        other.synchronize().unwrap();
        assert!(event.query().unwrap());
        assert_eq!(found.load(Ordering::Relaxed), 7);
    }
}

#[test]
fn copies_move_bytes_through_the_staging_buffer() {
    let stream = new_stream();
    let counts = slow_device().counts();
    let count = 10 * STAGING + 3;
    let mut sent: Vec<u8> = (0..count).map(|index| (index * 31 % 251) as u8).collect();
    let expected = sent.clone();
    let mut received = vec![0u8; count];
    let (first, second) = (Memory::new(stream, count), Memory::new(stream, count));
    let sizes = [count as i64];
    let before = [&counts.bytes_to_device, &counts.bytes_to_host, &counts.bytes_within, &counts.staged].map(read);
    copy(stream, on_device(&first, DType::Byte, &sizes, &[1]), host(&mut sent, DType::Byte, &sizes, &[1]));
    copy(stream, on_device(&second, DType::Byte, &sizes, &[1]), on_device(&first, DType::Byte, &sizes, &[1]));
    copy(stream, host(&mut received, DType::Byte, &sizes, &[1]), on_device(&second, DType::Byte, &sizes, &[1]));
    stream.synchronize().unwrap();
    assert_eq!(received, expected);
    let after = [&counts.bytes_to_device, &counts.bytes_to_host, &counts.bytes_within, &counts.staged].map(read);
    assert!((0..3).all(|direction| after[direction] - before[direction] >= count as u64), "{before:?} {after:?}");
    assert!(after[3] - before[3] >= 33, "three copies fill the buffer eleven times each: {before:?} {after:?}");
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// The engine refuses launches that access host memory, so no launch can have made these copies.
#[test]
fn copies_that_change_dtype_and_layout_come_as_transfers() {
    let stream = new_stream();
    let (rows, columns) = (37, 53);
    let sizes = [rows, columns];
    let numel = (rows * columns) as usize;
    let values: Vec<f32> = (0..numel).map(|index| index as f32 / 8.0).collect();
    let mut source = values.clone();
    // Column-major on the host, float64 with gaps on the device, then float32 column-major on the host again.
    let device_memory = Memory::new(stream, 2 * numel * 8);
    let gaps = [2 * columns, 2];
    let mut result = vec![0f32; numel];
    copy(stream, on_device(&device_memory, DType::Double, &sizes, &gaps), host(&mut source, DType::Float, &sizes, &[1, rows]));
    copy(stream, host(&mut result, DType::Float, &sizes, &[1, rows]), on_device(&device_memory, DType::Double, &sizes, &gaps));
    stream.synchronize().unwrap();
    assert_eq!(result, values);
    // One side is contiguous, the other is not.
    let mut rows_first = vec![0f64; numel];
    copy(
        stream,
        host(&mut rows_first, DType::Double, &sizes, &[columns, 1]),
        on_device(&device_memory, DType::Double, &sizes, &gaps),
    );
    stream.synchronize().unwrap();
    for row in 0..rows as usize {
        for column in 0..columns as usize {
            assert_eq!(rows_first[row * columns as usize + column], f64::from(values[column * rows as usize + row]));
        }
    }
}

#[test]
fn kernels_compute_on_memory_of_the_device() {
    let stream = new_stream();
    let count = 5000;
    let sizes = [count as i64];
    let (mut lhs, mut rhs, mut product) = (vec![1.5f32; count], vec![2.0f32; count], vec![0f32; count]);
    let memory = [0; 3].map(|_| Memory::new(stream, 4 * count));
    let [a, b, c] = [0, 1, 2].map(|index: usize| on_device(&memory[index], DType::Float, &sizes, &[1]));
    copy(stream, a, host(&mut lhs, DType::Float, &sizes, &[1]));
    copy(stream, b, host(&mut rhs, DType::Float, &sizes, &[1]));
    launch(c"mul", stream, &[c, a, b]);
    copy(stream, host(&mut product, DType::Float, &sizes, &[1]), c);
    stream.synchronize().unwrap();
    assert_eq!(product, vec![3.0; count]);
}

#[test]
fn a_launch_that_touches_host_memory_is_refused_by_the_engine() {
    let stream = new_stream();
    let sizes = [8];
    let mut values = [1f32; 8];
    let memory = Memory::new(stream, 32);
    let (output, input) = (on_device(&memory, DType::Float, &sizes, &[1]), host(&mut values, DType::Float, &sizes, &[1]));
    launch(c"mul", stream, &[output, input, input]);
    let failure = stream.synchronize().unwrap_err();
    assert!(failure.message().contains("the device cannot reach"), "{failure}");
}

#[test]
fn memory_beyond_the_device_is_refused_and_the_device_works_on() {
    slow_device();
    let stream = device::get(1).unwrap().create_stream(0);
    let refusal = pools::allocate(1, stream, 2 * MEMORY as usize).unwrap_err();
    assert!(matches!(refusal, Error::OutOfMemory(_)), "{refusal}");
    // Allocates all memory repeatedly.
    for _ in 0..3 {
        let whole = Memory::new(stream, MEMORY as usize);
        assert!(pools::allocate(1, stream, MEMORY as usize / 2).is_err());
        drop(whole);
        let halves = [Memory::new(stream, MEMORY as usize / 2), Memory::new(stream, MEMORY as usize / 2)];
        drop(halves);
    }
}

#[test]
fn a_launch_that_the_engine_fails_is_the_streams_error() {
    let stream = new_stream();
    slow_device().break_next("broken", Fault::Fails("an uncorrectable error of the memory".to_owned()));
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    stream.submit(kernel("broken", || panic!("it must not run"))).unwrap();
    stream.submit(kernel("behind", move || _ = counted.fetch_add(1, Ordering::Relaxed))).unwrap();
    let failure = stream.synchronize().unwrap_err();
    let text = format!("broken failed on {stream:?}: an uncorrectable error of the memory");
    assert_eq!(failure, Error::TaskFailed(text));
    assert_eq!(ran.load(Ordering::Relaxed), 0, "what follows a failure is skipped");
    stream.submit(kernel("after", || ())).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn a_launch_that_the_engine_forgets_fails() {
    let stream = new_stream();
    slow_device().break_next("forgotten", Fault::Forgets);
    stream.submit(kernel("forgotten", || ())).unwrap();
    let failure = stream.synchronize().unwrap_err();
    assert!(failure.message().contains("the hardware dropped it"), "{failure}");
    stream.submit(kernel("after", || ())).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn a_panic_on_the_engine_is_a_failure_and_the_engine_works_on() {
    let stream = new_stream();
    stream.submit(kernel("panics", || panic!("a kernel's panic"))).unwrap();
    let failure = stream.synchronize().unwrap_err();
    assert!(failure.message().contains("a kernel's panic"), "{failure}");
    stream.submit(kernel("after", || ())).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn a_task_that_is_short_of_memory_does_not_wait_for_what_is_behind_it() {
    let (stream, other) = (new_stream(), new_stream());
    let freed = Memory::new(other, MEMORY as usize / 2);
    let (sender, receiver) = channel::<()>();
    let (told, begun) = channel();
    stream
        .submit(kernel("allocates", move || {
            told.send(()).unwrap();
            // Waits until the other stream has a task, which the engine queues after this one.
            let _ = receiver.recv();
            let refusal = pools::allocate(0, stream, MEMORY as usize - (8 << 20));
            assert!(refusal.is_err(), "half of the memory waits for the other stream");
        }))
        .unwrap();
    begun.recv().unwrap();
    other.submit(kernel("behind", || ())).unwrap();
    drop(freed);
    drop(sender);
    stream.synchronize().unwrap();
    other.synchronize().unwrap();
}

#[test]
fn a_graph_hands_over_each_of_its_kernels() {
    let stream = new_stream();
    let count = 1000;
    let sizes = [count as i64];
    let (mut input, mut output) = (vec![3f32; count], vec![0f32; count]);
    let (a, b) = (Memory::new(stream, 4 * count), Memory::new(stream, 4 * count));
    let on = |memory| on_device(memory, DType::Float, &sizes, &[1]);
    let capture = Capture::begin(stream, PrivatePool::new(new_number()), Mode::Relaxed).unwrap();
    copy(stream, on(&a), host(&mut input, DType::Float, &sizes, &[1]));
    launch(c"mul", stream, &[on(&b), on(&a), on(&a)]);
    copy(stream, host(&mut output, DType::Float, &sizes, &[1]), on(&b));
    let before = device::exchange_stream(stream);
    let graph = capture.end().unwrap();
    device::exchange_stream(before);
    for value in [3f32, 5.0] {
        // SAFETY: only replays of the graph read the memory, and the previous one has ended.
        unsafe { input.as_mut_ptr().write_volatile(value) };
        graph.replay(stream).unwrap();
        stream.synchronize().unwrap();
        // SAFETY: the replay that wrote it has ended.
        let first = unsafe { output.as_ptr().read_volatile() };
        assert_eq!((first, output[count - 1]), (value * value, 9.0));
    }
}
