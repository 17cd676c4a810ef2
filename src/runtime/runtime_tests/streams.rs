//! Streams: which thread runs a task, priority, the bounded backlog, failures.

use std::thread;
use std::time::Duration;

use super::common::{Gate, LARGE, callback, costing, eventually, failing, kernel, noting, stopped, stream, urgent_stream};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::runtime::{Error, device, thread_pool};
use crate::tuning::waking::BACKLOG_TASKS;

#[test]
fn a_cheap_task_on_an_idle_stream_runs_on_the_submitter() {
    let stream = stream();
    let ran_on = Arc::new(Mutex::new(None));
    let place = Arc::clone(&ran_on);
    stream.submit(costing(100, move || *place.lock() = Some(thread::current().id()))).unwrap();
    assert_eq!(*ran_on.lock(), Some(thread::current().id()));
}

#[test]
fn a_cheap_task_behind_another_keeps_its_place() {
    let stream = stream();
    let gate = stopped(stream);
    let has_run = noting(stream, 1);
    assert!(!has_run());
    gate.open();
    stream.synchronize().unwrap();
    assert!(has_run());
}

#[test]
fn callbacks_leave_the_compute_threads_free() {
    let gate = Gate::default();
    let blocked: Vec<_> = (0..8).map(|_| stream()).collect();
    let on_worker = Arc::new(AtomicBool::new(false));
    for stream in &blocked {
        let (held, on_worker) = (gate.clone(), Arc::clone(&on_worker));
        let body = move || {
            on_worker.fetch_or(thread_pool::on_worker(), Ordering::Relaxed);
            held.pass();
        };
        stream.submit(callback(body)).unwrap();
    }
    eventually("a kernel beside blocked callbacks", noting(stream(), LARGE));
    gate.open();
    for stream in &blocked {
        stream.synchronize().unwrap();
    }
    assert!(!on_worker.load(Ordering::Relaxed));
}

/// Held by the test that occupies every compute thread.
static OCCUPIED: Mutex<()> = Mutex::new(());

/// Occupies every compute thread until the gate opens.
fn occupy(gate: &Gate) -> (MutexGuard<'static, ()>, Vec<&'static Stream>) {
    let alone = OCCUPIED.lock();
    let count = crate::runtime::parallel_for::num_threads();
    let running = Arc::new(AtomicUsize::new(0));
    let streams: Vec<_> = (0..count).map(|_| urgent_stream()).collect();
    for stream in &streams {
        let (held, running) = (gate.clone(), Arc::clone(&running));
        let body = move || {
            running.fetch_add(1, Ordering::Release);
            held.pass();
        };
        stream.submit(kernel(body)).unwrap();
    }
    eventually("every compute thread busy", || running.load(Ordering::Acquire) == count);
    (alone, streams)
}

#[test]
fn high_priority_goes_first() {
    let gate = Gate::default();
    let (_alone, busy) = occupy(&gate);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (normal, urgent) = ([stream(), stream(), stream()], urgent_stream());
    for (stream, mark) in normal.iter().map(|stream| (*stream, "normal")).chain([(urgent, "urgent")]) {
        let order = Arc::clone(&order);
        stream.submit(kernel(move || order.lock().push(mark))).unwrap();
    }
    gate.open();
    eventually("all four", || order.lock().len() == 4);
    // Each compute thread takes the urgent one first; the others may be at most one task ahead of it in the list.
    let place = order.lock().iter().position(|mark| *mark == "urgent").unwrap();
    assert!(place < crate::runtime::parallel_for::num_threads(), "{:?}", order.lock());
    for stream in busy {
        stream.synchronize().unwrap();
    }
}

#[test]
fn waiting_runs_the_work_when_no_thread_is_free() {
    let gate = Gate::default();
    let (_alone, busy) = occupy(&gate);
    let stream = stream();
    let ran_on = Arc::new(Mutex::new(None));
    let place = Arc::clone(&ran_on);
    stream.submit(kernel(move || *place.lock() = Some(thread::current().id()))).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(*ran_on.lock(), Some(thread::current().id()));
    gate.open();
    for stream in busy {
        stream.synchronize().unwrap();
    }
}

#[test]
fn one_long_stream_shares_the_threads_with_others() {
    let long: Vec<_> = (0..crate::runtime::parallel_for::num_threads()).map(|_| stream()).collect();
    for stream in &long {
        for _ in 0..500 {
            stream.submit(kernel(|| thread::sleep(Duration::from_micros(200)))).unwrap();
        }
    }
    eventually("the other stream", noting(stream(), LARGE));
    assert!(long.iter().any(|stream| !stream.query().unwrap()), "the long streams ended first");
    for stream in long {
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_submitter_cannot_outrun_a_stream_without_bound() {
    let stream = stream();
    let most = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 * BACKLOG_TASKS {
        stream.submit(costing(LARGE, || thread::sleep(Duration::from_micros(1)))).unwrap();
        let waiting = usize::try_from(stream.submitted() - stream.completed()).unwrap();
        most.fetch_max(waiting, Ordering::Relaxed);
    }
    stream.synchronize().unwrap();
    assert!(most.load(Ordering::Relaxed) as u64 <= BACKLOG_TASKS + 1, "{most:?}");
}

#[test]
fn a_stream_that_stands_still_does_not_hold_its_submitter_for_ever() {
    let stream = stream();
    let gate = stopped(stream);
    for _ in 0..BACKLOG_TASKS + 3 {
        stream.submit(kernel(|| {})).unwrap();
    }
    gate.open();
    stream.synchronize().unwrap();
}

#[test]
fn a_task_that_waits_for_its_own_stream_is_told_so() {
    let stream = stream();
    let answer = Arc::new(Mutex::new(None));
    let place = Arc::clone(&answer);
    stream.submit(callback(move || *place.lock() = Some(stream.synchronize()))).unwrap();
    stream.synchronize().unwrap();
    assert!(matches!(&*answer.lock(), Some(Err(Error::InvalidArgument(_)))));
}

#[test]
fn a_panic_is_a_failure() {
    let stream = stream();
    stream.submit(kernel(|| panic!("index 7 is out of bounds"))).unwrap();
    assert!(stream.synchronize().unwrap_err().message().ends_with(": index 7 is out of bounds"));
    stream.submit(callback(|| panic!("in Python"))).unwrap();
    assert!(stream.synchronize().unwrap_err().message().starts_with("callback failed"));
}

#[test]
fn a_device_raises_the_failures_of_its_streams_one_by_one() {
    let device = device::get(1).unwrap();
    for stream in [device.create_stream(0), device.create_stream(0)] {
        stream.submit(failing("broken", LARGE)).unwrap();
    }
    assert!(device.synchronize().is_err());
    assert!(device.synchronize().is_err());
    assert_eq!(device.synchronize(), Ok(()));
}
