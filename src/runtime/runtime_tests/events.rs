//! Events: order across streams and devices, recording again, time, destruction while pending.

use std::time::Duration;

use super::common::{Gate, callback, costing, eventually, kernel, stream};
use crate::runtime::device;
use crate::runtime::event::Event;
use crate::runtime::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::runtime::task::Task;

#[test]
fn a_blocked_stream_waits_for_the_recording() {
    let (first, second) = (stream(), device::get(1).unwrap().create_stream(0));
    let (gate, ran) = (Gate::default(), Arc::new(AtomicBool::new(false)));
    let (held, flag) = (gate.clone(), Arc::clone(&ran));
    let event = Event::new(0, false);
    first.submit(callback(move || held.pass())).unwrap();
    event.record(first).unwrap();
    event.block(second).unwrap();
    second.submit(kernel(move || flag.store(true, Ordering::Release))).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!ran.load(Ordering::Acquire) && !event.query().unwrap() && !second.query().unwrap());
    gate.open();
    eventually("the blocked kernel", || ran.load(Ordering::Acquire));
    second.synchronize().unwrap();
    assert!(event.query().unwrap());
}

#[test]
fn waiting_for_a_blocked_stream_drains_the_chain() {
    let streams = [(); 5].map(|()| stream());
    let count = Arc::new(AtomicUsize::new(0));
    for (index, stream) in streams.iter().enumerate() {
        if index > 0 {
            let event = Event::new(0, false);
            event.record(streams[index - 1]).unwrap();
            event.block(stream).unwrap();
        }
        let count = Arc::clone(&count);
        stream.submit(kernel(move || assert_eq!(count.fetch_add(1, Ordering::Relaxed), index))).unwrap();
    }
    streams[4].synchronize().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 5);
}

#[test]
fn recording_again_leaves_earlier_waits_alone() {
    let (slow, fast, waiting) = (stream(), stream(), stream());
    let (gate, ran) = (Gate::default(), Arc::new(AtomicBool::new(false)));
    let (held, flag) = (gate.clone(), Arc::clone(&ran));
    let event = Event::new(0, false);
    slow.submit(callback(move || held.pass())).unwrap();
    event.record(slow).unwrap();
    event.block(waiting).unwrap();
    waiting.submit(costing(1, move || flag.store(true, Ordering::Release))).unwrap();
    event.record(fast).unwrap();
    event.synchronize().unwrap();
    assert!(event.query().unwrap());
    std::thread::sleep(Duration::from_millis(10));
    assert!(!ran.load(Ordering::Acquire), "the wait was for the first recording");
    gate.open();
    waiting.synchronize().unwrap();
    assert!(ran.load(Ordering::Acquire));
}

#[test]
fn an_event_never_recorded_is_complete_and_blocks_nobody() {
    let (event, stream) = (Event::new(0, true), stream());
    assert!(event.query().unwrap());
    event.synchronize().unwrap();
    event.block(stream).unwrap();
    assert_eq!(stream.submitted(), 0);
}

#[test]
fn destroying_a_pending_event_is_harmless() {
    let (first, second) = (stream(), stream());
    let (gate, ran) = (Gate::default(), Arc::new(AtomicBool::new(false)));
    let (held, flag) = (gate.clone(), Arc::clone(&ran));
    first.submit(callback(move || held.pass())).unwrap();
    let event = Event::new(0, false);
    event.record(first).unwrap();
    event.block(second).unwrap();
    drop(event);
    second.submit(kernel(move || flag.store(true, Ordering::Release))).unwrap();
    assert!(!second.query().unwrap());
    gate.open();
    second.synchronize().unwrap();
    assert!(ran.load(Ordering::Acquire));
}

#[test]
fn recording_on_an_idle_stream_is_immediate() {
    let (event, stream) = (Event::new(0, false), stream());
    event.record(stream).unwrap();
    assert!(event.query().unwrap());
}

#[test]
fn elapsed_time_spans_the_work_between() {
    let stream = stream();
    let (start, end) = (Event::new(0, true), Event::new(0, true));
    start.record(stream).unwrap();
    stream.submit(Task::sleep(Duration::from_millis(50))).unwrap();
    end.record(stream).unwrap();
    assert!(start.elapsed(&end).unwrap_err().message().contains("completed"));
    end.synchronize().unwrap();
    let milliseconds = start.elapsed(&end).unwrap();
    assert!((50.0..500.0).contains(&milliseconds), "{milliseconds}");
    assert!((end.elapsed(&start).unwrap() + milliseconds).abs() < 1e-9);
    let microseconds = milliseconds * 1e3;
    assert!((microseconds - microseconds.round()).abs() < 1e-6, "whole microseconds: {microseconds}");
}

#[test]
fn elapsed_time_is_refused_with_the_reason() {
    let (timed, untimed, elsewhere) = (Event::new(0, true), Event::new(0, false), Event::new(1, true));
    assert!(timed.elapsed(&untimed).unwrap_err().message().contains("enable_timing"));
    assert!(timed.elapsed(&elsewhere).unwrap_err().message().contains("same device"));
    assert!(timed.elapsed(&Event::new(0, true)).unwrap_err().message().contains("recorded"));
    assert!(elsewhere.record(stream()).unwrap_err().message().contains("rustdev:1"));
}

#[test]
fn streams_that_cross_wait_for_each_other_many_times() {
    let (left, right) = (stream(), stream());
    let value = Arc::new(AtomicUsize::new(0));
    let event = Event::new(0, false);
    for round in 0..2000_usize {
        let (from, to) = if round % 2 == 0 { (left, right) } else { (right, left) };
        let value = Arc::clone(&value);
        let cost = if round % 3 == 0 { 100 } else { 1_000_000 };
        from.submit(costing(cost, move || assert_eq!(value.fetch_add(1, Ordering::Relaxed), round))).unwrap();
        event.record(from).unwrap();
        event.block(to).unwrap();
    }
    left.synchronize().unwrap();
    right.synchronize().unwrap();
    assert_eq!(value.load(Ordering::Relaxed), 2000);
}
