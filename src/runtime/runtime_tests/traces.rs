//! A trace that is read while one of its tasks runs.

use super::common::{Gate, callback, stream};
use crate::runtime::sync::{Arc, Mutex};
use crate::runtime::trace::{self, Outcome};

#[test]
fn a_trace_that_a_task_of_the_stream_ends_says_that_it_runs() {
    let stream = stream();
    let number = trace::start().unwrap();
    let found = Gate::default();
    let outcome = Arc::new(Mutex::new(None));
    let (gate, told) = (found.clone(), Arc::clone(&outcome));
    stream
        .submit(callback(move || {
            let trace = trace::stop(number).unwrap();
            let mut rows = (0..trace.count()).filter_map(|index| trace.row(index));
            let row = rows.find(|row| std::ptr::addr_eq(row.task.stream, stream));
            *told.lock() = row.map(|row| (row.outcome, row.run.0 <= row.run.1));
            gate.open();
        }))
        .unwrap();
    found.pass();
    stream.synchronize().unwrap();
    assert_eq!(*outcome.lock(), Some((Outcome::Running, true)));
}
