//! Loom model of waits for a stream that may stop: they end when it stops, and its backlog is not passed over.

use loom::thread;

use crate::runtime::queue::Queue;
use crate::runtime::standstill::{Awaitable, Standstill};
use crate::runtime::sync::{AtomicBool, Ordering, Unlocked, unlocked};

struct Model {
    queue: Queue<usize>,
    stopped: AtomicBool,
    waits: Standstill<Seen>,
}

#[derive(Clone, Copy)]
struct Seen(&'static Model);

impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Awaitable for Seen {
    fn is_done(self, target: u64) -> bool {
        self.0.queue.completed() >= target
    }

    fn is_stuck(self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    fn help_until(self, target: u64) -> bool {
        let Some(mut owner) = self.0.queue.own() else { return false };
        while !self.is_done(target) && owner.head().is_some() {
            owner.advance();
        }
        let _ = owner.release();
        self.0.waits.tell();
        true
    }

    fn sleep_unless(self, target: u64, is_over: impl Fn() -> bool, unlocked: &Unlocked) {
        self.0.queue.sleep_unless(target, is_over, unlocked);
    }

    fn wake(self) {
        self.0.queue.wake();
    }
}

fn model() -> Seen {
    Seen(Box::leak(Box::new(Model { queue: Queue::default(), stopped: AtomicBool::new(false), waits: Standstill::default() })))
}

fn wait(stream: Seen, target: u64) {
    unlocked(|unlocked| stream.0.waits.wait(stream, target, unlocked));
}

#[test]
fn loom_a_wait_ends_when_the_stream_stops() {
    loom::model(|| {
        let stream = model();
        let (_, owner) = stream.0.queue.push_and_own(1);
        let mut owner = owner.unwrap();
        let stopper = thread::spawn(move || {
            // A task that may be waiting for the waiting thread.
            stream.0.stopped.store(true, Ordering::Release);
            stream.0.waits.tell();
            owner
        });
        // If nobody wakes this thread, loom reports a deadlock: the task ends below.
        wait(stream, 1);
        owner = stopper.join().unwrap();
        assert!(owner.head().is_some());
        owner.advance();
        assert!(!owner.release());
    });
}

#[test]
fn loom_back_pressure_ends_when_enough_is_done() {
    loom::model(|| {
        let stream = model();
        let _ = stream.0.queue.push(1);
        let worker = thread::spawn(move || {
            // A turn that ends after one task, with another one left for whoever comes.
            if let Some(mut owner) = stream.0.queue.own_ready() {
                owner.head();
                owner.advance();
                let _ = owner.release();
            }
        });
        let _ = stream.0.queue.push(2);
        wait(stream, 2);
        assert_eq!(stream.0.queue.completed(), 2);
        worker.join().unwrap();
    });
}
