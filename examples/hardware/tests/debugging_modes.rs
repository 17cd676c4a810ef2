//! Debugging modes on the slow device. They apply to the whole process, so one test tries them in turn.

mod common;

use std::sync::{Arc, Mutex};

use common::{Memory, again_with_command_queues, copy, host, new_stream, on_device, slow_device};
use rustdev::runtime::config::order::Order;
use rustdev::runtime::debugging::{faults, schedule};
use rustdev::runtime::event::Event;
use rustdev::runtime::task::{Closure, Task};
use rustdev::tensor::DType;

type Seen = Arc<Mutex<Vec<u32>>>;

/// A device task that records a number.
fn note(seen: &Seen, number: u32) -> Task {
    let seen = Arc::clone(seen);
    let run = move || {
        seen.lock().unwrap().push(number);
        Ok(())
    };
    Task::new("note", 100, Closure::new(run))
}

#[test]
fn modes() {
    slow_device();
    lazy_runs_nothing_before_a_wait();
    let orders: Vec<_> = (0..8).map(a_random_order).collect();
    assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");
    assert_eq!(orders[3], a_random_order(3), "a seed repeats its order");
    schedule::switch(None).unwrap();
    an_injected_failure_is_the_streams_error();
    a_slow_copy_still_copies();
    again_with_command_queues();
}

fn lazy_runs_nothing_before_a_wait() {
    schedule::switch(Some(Order::Lazy)).unwrap();
    let (stream, seen) = (new_stream(), Seen::default());
    for number in 0..5 {
        stream.submit(note(&seen, number)).unwrap();
    }
    assert!(seen.lock().unwrap().is_empty());
    stream.synchronize().unwrap();
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
}

/// The order in which the tasks of two streams run; an event puts 11 after 1.
fn a_random_order(seed: u64) -> Vec<u32> {
    schedule::switch(Some(Order::Random(seed))).unwrap();
    let (first, second, seen) = (new_stream(), new_stream(), Seen::default());
    let event = Event::new(0, false);
    for number in 0..6 {
        first.submit(note(&seen, number)).unwrap();
        if number == 1 {
            event.record(first).unwrap();
            event.block(second).unwrap();
        }
        second.submit(note(&seen, 10 + number)).unwrap();
    }
    second.synchronize().unwrap();
    first.synchronize().unwrap();
    let order = seen.lock().unwrap().clone();
    for begin in [0, 10] {
        let of_one: Vec<_> = order.iter().copied().filter(|number| (begin..begin + 6).contains(number)).collect();
        assert_eq!(of_one, (begin..begin + 6).collect::<Vec<_>>(), "{order:?}");
    }
    let position = |number| order.iter().position(|other| *other == number);
    assert!(position(1) < position(11), "{order:?}");
    order
}

fn an_injected_failure_is_the_streams_error() {
    let number = faults::push("kernel:note:2").unwrap();
    let (stream, seen) = (new_stream(), Seen::default());
    for number in 0..3 {
        stream.submit(note(&seen, number)).unwrap();
    }
    let failure = stream.synchronize().unwrap_err();
    faults::remove(number);
    assert!(failure.message().contains("injected by kernel:note:2"), "{failure}");
    assert_eq!(*seen.lock().unwrap(), [0]);
}

fn a_slow_copy_still_copies() {
    let number = faults::push("copy:1").unwrap();
    let (stream, sizes) = (new_stream(), [4]);
    let (mut sent, mut received) = ([1u8, 2, 3, 4], [0u8; 4]);
    let memory = Memory::new(stream, 4);
    copy(stream, on_device(&memory, DType::Byte, &sizes, &[1]), host(&mut sent, DType::Byte, &sizes, &[1]));
    copy(stream, host(&mut received, DType::Byte, &sizes, &[1]), on_device(&memory, DType::Byte, &sizes, &[1]));
    stream.synchronize().unwrap();
    faults::remove(number);
    assert_eq!(received, [1, 2, 3, 4]);
}
