//! Tasks that run out of memory: which streams they wait for, and which they must not.

use std::thread;
use std::time::Duration;

use super::common::{Gate, callback, eventually, kernel, stream};
use crate::runtime::event::Event;
use crate::runtime::stream::Stream;
use crate::runtime::task::Task;

/// Makes the second stream wait for the tasks of the first.
fn follow(first: &'static Stream, second: &'static Stream) {
    let event = Event::new(0, false);
    event.record(first).unwrap();
    event.block(second).unwrap();
}

/// True if the streams end within a good while; a thread that hangs is left behind.
#[track_caller]
fn assert_ends(streams: &[&'static Stream]) {
    eventually("the end of the streams", || streams.iter().all(|stream| stream.query().unwrap()));
}

#[test]
fn a_task_waits_neither_for_its_stream_nor_for_those_behind_it() {
    for task in [callback as fn(Box<dyn FnMut() + Send>) -> Task, kernel] {
        let (own, next, last) = (stream(), stream(), stream());
        let gate = Gate::default();
        let held = gate.clone();
        own.submit(task(Box::new(move || {
            held.pass();
            [own, next, last].into_iter().for_each(Stream::finish_for_memory);
        })))
        .unwrap();
        follow(own, next);
        next.submit(kernel(|| {})).unwrap();
        last.submit(Task::sleep(Duration::from_millis(20))).unwrap();
        follow(next, last);
        last.submit(kernel(|| {})).unwrap();
        gate.open();
        assert_ends(&[own, next, last]);
    }
}

#[test]
fn tasks_do_not_wait_for_each_other() {
    for task in [callback as fn(Box<dyn FnMut() + Send>) -> Task, kernel] {
        let streams = [stream(), stream(), stream()];
        for own in streams {
            let short = move || {
                thread::sleep(Duration::from_millis(5));
                streams.into_iter().for_each(Stream::finish_for_memory);
            };
            own.submit(task(Box::new(short))).unwrap();
            own.submit(kernel(|| {})).unwrap();
        }
        assert_ends(&streams);
    }
}
