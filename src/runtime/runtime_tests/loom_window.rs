//! Loom model of the window, with the queue whose items it has: each item reaches the hardware once and in order, at most so many
//! at a time, and is counted in order.

use loom::thread;

use crate::runtime::queue::{Owner, Queue};
use crate::runtime::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::runtime::window::{Need, Parked, Window};

const DEPTH: usize = 2;

/// Items from here on are marks.
const MARK: usize = 100;

type Lease = Owner<'static, usize>;

/// A stream with its hardware, which is a list.
struct Model {
    queue: &'static Queue<usize>,
    window: Window<Lease, usize>,
    hardware: Mutex<Vec<(usize, u64)>>,
    /// The number of items that the hardware got, and of those that have ended.
    handed: AtomicUsize,
    ended: AtomicUsize,
}

impl Model {
    fn new() -> Arc<Self> {
        let (hardware, handed, ended) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { queue: Box::leak(Box::default()), window: Window::new(DEPTH), hardware, handed, ended })
    }

    fn push(&self, item: usize) {
        let lease = self.queue.push_and_own(item).1.or_else(|| self.window.pushed());
        if let Some(lease) = lease {
            self.drain(lease);
        }
    }

    /// As `Stream::turn`.
    fn drain(&self, mut lease: Lease) {
        loop {
            match self.feed(lease) {
                Some(returned) => lease = returned,
                None => return,
            }
            match lease.head() {
                None => break,
                Some(item) if *item >= MARK => lease.advance(),
                Some(_) => {}
            }
        }
        assert!(!lease.release() || self.queue.own_ready().is_none_or(|lease| self.drain_all(lease)));
    }

    fn drain_all(&self, lease: Lease) -> bool {
        self.drain(lease);
        true
    }

    /// As `Stream::feed`.
    fn feed(&self, mut lease: Lease) -> Option<Lease> {
        loop {
            let need = loop {
                match lease.head().copied() {
                    None => break Need::Item,
                    Some(item) if item >= MARK => {
                        if !self.window.pass(Some(item)) {
                            break Need::End;
                        }
                        lease.take();
                    }
                    Some(item) => {
                        let Some(number) = self.window.admit() else { break Need::Place };
                        assert_eq!(lease.take(), Some(item));
                        let mut hardware = self.hardware.lock();
                        hardware.push((item, number));
                        assert!(hardware.len() <= DEPTH);
                        drop(hardware);
                        assert_eq!(self.handed.fetch_add(1, Ordering::SeqCst) + 1, item, "order");
                    }
                }
            };
            match self.window.leave(lease, need) {
                Parked::Kept => return None,
                Parked::Again(returned) => lease = returned,
                Parked::Empty(returned) => return Some(returned),
            }
        }
    }

    /// The hardware ends a task, the first or the last that it has; false if it has none.
    fn end(&self, is_first: bool) -> bool {
        let mut hardware = self.hardware.lock();
        if hardware.is_empty() {
            return false;
        }
        let place = if is_first { 0 } else { hardware.len() - 1 };
        let (_, number) = hardware.remove(place);
        drop(hardware);
        self.ended.fetch_add(1, Ordering::SeqCst);
        let lease = self.window.end(number, |mark| {
            if let Some(mark) = mark {
                assert!(self.queue.completed() >= (mark - MARK) as u64, "a mark is reached after the items before it");
            }
            self.queue.complete();
        });
        if let Some(lease) = lease {
            self.drain(lease);
        }
        true
    }

    /// Ends everything that was submitted. The hardware always has as many items as it takes.
    fn finish(&self, items: usize, marks: usize) {
        loop {
            let left = items - self.ended.load(Ordering::SeqCst);
            assert_eq!(self.hardware.lock().len(), left.min(DEPTH), "somebody feeds the hardware");
            if !self.end(true) {
                break;
            }
        }
        assert_eq!(self.handed.load(Ordering::SeqCst), items, "nothing is lost");
        assert_eq!(self.ended.load(Ordering::SeqCst), items);
        assert_eq!(self.queue.completed(), (items + marks) as u64);
        assert_eq!(self.queue.submitted(), (items + marks) as u64);
        assert!(self.window.is_empty() && !self.queue.is_owned());
    }
}

#[test]
fn loom_pushes_while_the_hardware_ends_tasks() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        model.push(1);
        let hardware = thread::spawn(move || {
            other.end(true);
            other.end(true);
        });
        model.push(2);
        model.push(3);
        hardware.join().unwrap();
        model.finish(3, 0);
    });
}

#[test]
fn loom_a_submitter_finds_the_lease_or_leaves_a_note() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        model.push(1);
        let next = Arc::new(Mutex::new(1));
        let submit = |model: &Model, next: &Mutex<usize>| {
            let mut number = next.lock();
            *number += 1;
            // The items are numbered in the order of the queue.
            let lease = model.queue.push_and_own(*number).1;
            drop(number);
            if let Some(lease) = lease.or_else(|| model.window.pushed()) {
                model.drain(lease);
            }
        };
        let other_next = Arc::clone(&next);
        let submitter = thread::spawn(move || submit(&other, &other_next));
        submit(&model, &next);
        submitter.join().unwrap();
        model.finish(3, 0);
    });
}

#[test]
fn loom_two_tasks_end_at_once_and_in_any_order() {
    loom::model(|| {
        let model = Model::new();
        [1, 2, 3, MARK + 3, 4].into_iter().for_each(|item| model.push(item));
        let other = Arc::clone(&model);
        let hardware = thread::spawn(move || _ = other.end(false));
        model.end(true);
        hardware.join().unwrap();
        model.finish(4, 1);
    });
}

#[test]
fn loom_a_mark_waits_for_what_is_before_it() {
    loom::model(|| {
        let model = Model::new();
        model.push(1);
        let other = Arc::clone(&model);
        let hardware = thread::spawn(move || _ = other.end(true));
        model.push(MARK + 1);
        model.push(2);
        hardware.join().unwrap();
        model.finish(2, 1);
    });
}
