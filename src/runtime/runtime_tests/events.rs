//! Events: chains of streams, streams that wait for each other many times, failures, captured events.

use super::common::{LARGE, captured, costing, failing, kernel, stopped, stream};
use crate::runtime::event::Event;
use crate::runtime::sync::{Arc, AtomicUsize, Ordering};

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

#[test]
fn events_behind_a_failure_complete_and_raise_it() {
    let (stream, other) = (stream(), stream());
    let event = Event::new(0, true);
    let gate = stopped(stream);
    stream.submit(failing("broken", LARGE)).unwrap();
    event.record(stream).unwrap();
    event.block(other).unwrap();
    gate.open();
    other.synchronize().unwrap();
    assert!(event.synchronize().unwrap_err().message().starts_with("broken failed"));
    assert_eq!(event.synchronize(), Ok(()));
}

#[test]
fn captured_events_have_no_moment() {
    let own = stream();
    let event = Event::new(0, true);
    let graph = captured(own, || event.record(own).unwrap());
    assert!(graph.is_empty());
    assert!(event.query().is_err() && event.synchronize().is_err() && event.elapsed(&event).is_err());
    assert!(event.block(stream()).unwrap_err().to_string().contains("has ended"));
}
