//! Failed tasks: the error is raised once, with the operator's name; later tasks are skipped and their values dropped.

use super::common::{Gate, LARGE, callback, costing, kernel, stream};
use crate::runtime::error::Cause;
use crate::runtime::event::Event;
use crate::runtime::sync::{Arc, AtomicUsize, Ordering};
use crate::runtime::task::{Access, Closure, Task, Work};
use crate::runtime::{Error, device};

fn failing(name: &'static str, cost: u64) -> Task {
    Task::new(name, cost, Closure::new(|| Err("no good".into())))
}

#[test]
fn a_failure_is_raised_once_by_the_next_synchronisation() {
    for cost in [1, LARGE] {
        let stream = stream();
        stream.submit(failing("aten::add", cost)).unwrap();
        let expected = format!("aten::add failed on stream {} of device rustdev:0: no good", stream.id());
        assert_eq!(stream.synchronize(), Err(Error::TaskFailed(expected)));
        assert_eq!(stream.synchronize(), Ok(()));
    }
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
fn what_follows_a_failure_is_skipped_until_it_is_raised() {
    let stream = stream();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |cost: u64| {
        let ran = Arc::clone(&ran);
        costing(cost, move || _ = ran.fetch_add(1, Ordering::Relaxed))
    };
    stream.submit(failing("first", 1)).unwrap();
    stream.submit(failing("second", 1)).unwrap();
    stream.submit(count(1)).unwrap();
    stream.submit(count(LARGE)).unwrap();
    let counter = Arc::clone(&ran);
    stream.submit(callback(move || _ = counter.fetch_add(1, Ordering::Relaxed))).unwrap();
    assert!(stream.synchronize().unwrap_err().message().starts_with("first failed"));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    stream.submit(count(1)).unwrap();
    stream.submit(count(LARGE)).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

#[test]
fn events_behind_a_failure_complete_and_raise_it() {
    let (stream, other) = (stream(), stream());
    let event = Event::new(0, true);
    let gate = Gate::default();
    let held = gate.clone();
    stream.submit(callback(move || held.pass())).unwrap();
    stream.submit(failing("broken", LARGE)).unwrap();
    event.record(stream).unwrap();
    event.block(other).unwrap();
    gate.open();
    other.synchronize().unwrap();
    assert!(event.synchronize().unwrap_err().message().starts_with("broken failed"));
    assert_eq!(event.synchronize(), Ok(()));
}

#[test]
fn a_device_raises_the_failures_of_its_streams_one_by_one() {
    let device = device::get(1).unwrap();
    let streams = [device.create_stream(0), device.create_stream(0)];
    for stream in streams {
        stream.submit(failing("broken", LARGE)).unwrap();
    }
    assert!(device.synchronize().is_err());
    assert!(device.synchronize().is_err());
    assert_eq!(device.synchronize(), Ok(()));
}

#[test]
fn blocking_submission_raises_there_and_then() {
    let stream = stream();
    assert!(stream.enqueue(failing("aten::mul", LARGE), true).unwrap_err().message().starts_with("aten::mul failed"));
    assert_eq!(stream.enqueue(kernel(|| {}), true), Ok(2));
    assert_eq!(stream.completed(), 2);
}

struct Destroyed(Arc<AtomicUsize>);

impl Work for Destroyed {
    fn run(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn accesses(&self, _: &mut dyn FnMut(Access)) {}
}

impl Drop for Destroyed {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_task_is_destroyed_once_whether_it_ran_or_not() {
    let stream = stream();
    let destroyed = Arc::new(AtomicUsize::new(0));
    let submit = |poisoned: bool| {
        if poisoned {
            stream.submit(failing("broken", 1)).unwrap();
        }
        for cost in [1, LARGE] {
            stream.submit(Task::new("counted", cost, Destroyed(Arc::clone(&destroyed)))).unwrap();
        }
        stream.submit(Task::host("counted", Destroyed(Arc::clone(&destroyed)))).unwrap();
        let _ = stream.synchronize();
    };
    submit(false);
    assert_eq!(destroyed.load(Ordering::Relaxed), 3);
    submit(true);
    assert_eq!(destroyed.load(Ordering::Relaxed), 6);
}
