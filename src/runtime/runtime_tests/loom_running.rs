//! Loom model of the exit: no task starts after it, and what a task used stays until the task has ended.

use loom::thread;

use crate::runtime::running::RunningTasks;
use crate::runtime::sync::{Arc, UnsafeCell, unlocked, wait};

#[test]
fn loom_the_exit_waits_for_every_task_that_has_started() {
    loom::model(|| {
        let tasks = Arc::new(RunningTasks::default());
        let memory = Arc::new(UnsafeCell::new(0));
        let (other, used) = (Arc::clone(&tasks), Arc::clone(&memory));
        let runner = thread::spawn(move || {
            if other.start() {
                // SAFETY: loom checks that the exit is not here meanwhile.
                used.with_mut(|value| unsafe { *value += 1 });
                other.end();
            }
        });
        unlocked(|unlocked| tasks.close(|ended, locked| (wait(ended, locked, unlocked), true)));
        // SAFETY: loom checks that no task is here.
        memory.with_mut(|value| unsafe { *value = 0 });
        assert!(!tasks.start(), "nothing starts afterwards");
        runner.join().unwrap();
    });
}
