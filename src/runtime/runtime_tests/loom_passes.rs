//! Loom models of the gate and of the exit: threads with a pass and an exclusive thread are never in the same memory, and nobody
//! waits for ever.

use loom::thread;

use crate::runtime::passes::Passes;
use crate::runtime::sync::{Arc, UnsafeCell, unlocked, wait};

struct Model {
    passes: Passes,
    memory: UnsafeCell<usize>,
}

impl Model {
    fn write(&self) {
        self.passes.take();
        // SAFETY: loom checks that nobody else is here meanwhile.
        self.memory.with_mut(|value| unsafe { *value += 1 });
        self.passes.give_back();
    }

    fn read_alone(&self) {
        assert!(unlocked(|unlocked| self.passes.exclude(|changed, state| (wait(changed, state, unlocked), true))));
        // SAFETY: as above.
        self.memory.with(|value| unsafe { assert!(*value <= 1) });
        self.passes.admit();
    }
}

#[test]
fn loom_a_writer_and_two_that_want_to_be_alone() {
    loom::model(|| {
        let model = Arc::new(Model { passes: Passes::default(), memory: UnsafeCell::new(0) });
        let (first, second) = (Arc::clone(&model), Arc::clone(&model));
        let writer = thread::spawn(move || first.write());
        let reader = thread::spawn(move || second.read_alone());
        model.read_alone();
        writer.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn loom_the_exit_waits_for_every_task_that_has_started() {
    loom::model(|| {
        let model = Arc::new(Model { passes: Passes::default(), memory: UnsafeCell::new(0) });
        let task = Arc::clone(&model);
        let runner = thread::spawn(move || {
            if task.passes.try_take() {
                // SAFETY: loom checks that the exit is not here meanwhile.
                task.memory.with_mut(|value| unsafe { *value += 1 });
                task.passes.give_back();
            }
        });
        assert!(unlocked(|unlocked| model.passes.exclude(|changed, state| (wait(changed, state, unlocked), true))));
        // SAFETY: loom checks that no task is here.
        model.memory.with_mut(|value| unsafe { *value = 0 });
        assert!(!model.passes.try_take(), "nothing starts afterwards");
        runner.join().unwrap();
    });
}
