//! Loom model of the queue: no item lost or run twice, one owner at a time, no lost wake-up.

use loom::thread;

use crate::runtime::queue::{Owner, Queue};
use crate::runtime::sync::{Arc, AtomicUsize, Mutex, Ordering, UnsafeCell, unlocked};

/// A queue with an executor that is one list; items are numbers that have to come in order.
struct Model {
    queue: Queue<usize>,
    ready: AtomicUsize,
    /// What the owner alone touches: loom reports two at once.
    last: UnsafeCell<usize>,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self { queue: Queue::default(), ready: AtomicUsize::new(0), last: UnsafeCell::new(0) })
    }

    fn submit(&self, item: usize) {
        if self.queue.push(item).1 {
            self.ready.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn note(&self, item: usize) {
        // SAFETY: loom checks that only one owner is here at a time.
        self.last.with_mut(|last| unsafe {
            assert_eq!(*last + 1, item);
            *last = item;
        });
    }

    fn drain(&self, mut owner: Owner<'_, usize>, target: u64) {
        while let Some(item) = owner.head() {
            let item = *item;
            self.note(item);
            owner.advance();
            if self.queue.completed() >= target {
                break;
            }
        }
        if owner.release() {
            self.ready.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Does all items that are there before it counts any of them.
    fn drain_together(&self, mut owner: Owner<'_, usize>) {
        while owner.head().is_some() {
            owner.look();
            let items: Vec<usize> = owner.waiting().iter().flatten().copied().collect();
            items.iter().for_each(|&item| self.note(item));
            items.iter().for_each(|_| owner.advance());
        }
        if owner.release() {
            self.ready.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A compute thread: serves the queue if it was handed over; returns whether it was.
    fn serve(&self) -> bool {
        if self.ready.load(Ordering::SeqCst) == 0 {
            return false;
        }
        self.ready.fetch_sub(1, Ordering::SeqCst);
        if let Some(owner) = self.queue.own_ready() {
            self.drain(owner, u64::MAX);
        }
        true
    }

    /// A synchronising thread: drains what it can, sleeps while somebody else does.
    fn synchronize(&self, target: u64) {
        while self.queue.completed() < target {
            match self.queue.own() {
                Some(owner) => self.drain(owner, target),
                None => unlocked(|unlocked| self.queue.sleep(target, unlocked)),
            }
        }
    }
}

#[test]
fn loom_two_submitters_and_a_worker() {
    loom::model(|| {
        let model = Model::new();
        let order = Arc::new(Mutex::new(0));
        let submit = |model: &Arc<Model>, order: &Arc<Mutex<usize>>| {
            let mut next = order.lock();
            *next += 1;
            model.submit(*next);
        };
        let (other, other_order) = (Arc::clone(&model), Arc::clone(&order));
        let submitter = thread::spawn(move || submit(&other, &other_order));
        let worker_model = Arc::clone(&model);
        let worker = thread::spawn(move || _ = worker_model.serve());
        submit(&model, &order);
        submitter.join().unwrap();
        worker.join().unwrap();
        // Whatever the worker did not see was handed over.
        while model.serve() {}
        assert_eq!(model.queue.completed(), 2);
    });
}

#[test]
fn loom_synchronize_steals_or_sleeps_until_the_worker_is_done() {
    loom::model(|| {
        let model = Model::new();
        model.submit(1);
        let other = Arc::clone(&model);
        let worker = thread::spawn(move || _ = other.serve());
        model.submit(2);
        model.synchronize(2);
        assert_eq!(model.queue.completed(), 2);
        worker.join().unwrap();
    });
}

#[test]
fn loom_a_sleeper_wakes_when_an_inline_item_is_done() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        let inline_owner = model.queue.own_idle().unwrap();
        let number = inline_owner.number();
        let sleeper = thread::spawn(move || {
            while other.queue.completed() < number {
                unlocked(|unlocked| other.queue.sleep(number, unlocked));
            }
        });
        assert!(!inline_owner.finish());
        sleeper.join().unwrap();
    });
}

#[test]
fn loom_running_inline_keeps_the_order() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        let inline = thread::spawn(move || match other.queue.own_idle() {
            Some(inline_owner) => {
                other.note(usize::try_from(inline_owner.number()).unwrap());
                if inline_owner.finish() {
                    other.ready.fetch_add(1, Ordering::SeqCst);
                }
                true
            }
            None => false,
        });
        let (number, owner) = model.queue.push_and_own(usize::MAX);
        if let Some(mut owner) = owner {
            assert_eq!(owner.head().copied(), Some(usize::MAX));
            model.note(usize::try_from(number).unwrap());
            owner.advance();
            assert!(!owner.release());
            assert!(model.queue.completed() >= number, "the inline item may be done as well");
        }
        inline.join().unwrap();
        let left = model.queue.submitted() - model.queue.completed();
        assert_eq!(left as usize, model.ready.load(Ordering::SeqCst), "what is left was handed over");
    });
}

#[test]
fn loom_an_owner_that_travels_wakes_the_sleeper() {
    loom::model(|| {
        let queue: &'static Queue<usize> = Box::leak(Box::default());
        let (_, owner) = queue.push_and_own(1);
        let mut owner = owner.unwrap();
        let host = thread::spawn(move || {
            owner.head().unwrap();
            owner.advance();
            assert!(!owner.release());
        });
        while queue.completed() < 1 {
            unlocked(|unlocked| queue.sleep(1, unlocked));
        }
        host.join().unwrap();
    });
}

#[test]
fn loom_a_sleeper_wakes_when_its_item_is_done_and_not_only_at_the_release() {
    loom::model(|| {
        let queue: &'static Queue<usize> = Box::leak(Box::default());
        let (_, owner) = queue.push_and_own(1);
        let mut owner = owner.unwrap();
        let worker = thread::spawn(move || {
            owner.head().unwrap();
            owner.advance();
            owner
        });
        while queue.completed() < 1 {
            unlocked(|unlocked| queue.sleep(1, unlocked));
        }
        assert!(!worker.join().unwrap().release());
    });
}

#[test]
fn loom_an_owner_that_looks_ahead_loses_nothing() {
    loom::model(|| {
        let model = Model::new();
        model.submit(1);
        let other = Arc::clone(&model);
        let worker = thread::spawn(move || {
            if let Some(owner) = other.queue.own() {
                other.drain_together(owner);
            }
        });
        model.submit(2);
        worker.join().unwrap();
        model.synchronize(2);
        assert_eq!(model.queue.completed(), 2);
    });
}

#[test]
fn loom_a_sleeper_hears_that_its_reason_is_over() {
    loom::model(|| {
        let queue = Arc::new(Queue::default());
        let over = Arc::new(AtomicUsize::new(0));
        let (_, owner) = queue.push_and_own(1);
        let owner = owner.expect("nobody else owns it");
        let (asleep, seen) = (Arc::clone(&queue), Arc::clone(&over));
        let sleeper = thread::spawn(move || {
            unlocked(|unlocked| asleep.sleep_unless(1, || seen.load(Ordering::Relaxed) > 0, unlocked));
        });
        over.store(1, Ordering::Relaxed);
        queue.wake();
        // The owner does nothing before: what is lost here is a deadlock.
        sleeper.join().unwrap();
        drain(owner);
    });
}

fn drain(mut owner: Owner<'_, usize>) {
    while owner.head().is_some() {
        owner.advance();
    }
    assert!(!owner.release());
}
