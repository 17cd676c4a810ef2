//! Traces of the tasks that ran on the devices, for `rustdev/profiler.py`, independent of PyTorch's profiler.

use pyo3::prelude::*;

use crate::runtime::debugging::clock;
use crate::runtime::trace::{self, Kind, Row};
use crate::runtime::{Error, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: trace_start, trace_stop, trace_limit, trace_set_limit)
}

#[pyfunction]
fn trace_start() -> Result<u64, Error> {
    fork::check()?;
    trace::start()
}

/// Title, tier, device, stream, thread, (submission begin, end), (begin, end), bytes, members, outcome.
type Task = (String, String, usize, i64, i32, (u64, u64), (u64, u64), u64, u64, String);

#[pyfunction]
fn trace_stop(number: u64) -> Option<(Vec<Task>, usize)> {
    clock::finish();
    let trace = trace::stop(number)?;
    let rows = (0..trace.count()).filter_map(|index| trace.row(index)).filter(|row| row.task.about.kind != Kind::Replay);
    Some((rows.map(task).collect(), trace.dropped()))
}

fn task(row: Row) -> Task {
    let (kind, text) = (row.task.about.kind, |text: &std::ffi::CStr| text.to_string_lossy().into_owned());
    (
        kind.title(row.task.name),
        text(kind.tier()),
        row.task.stream.device(),
        row.task.stream.id(),
        row.task.thread,
        row.submission,
        row.run,
        row.task.about.bytes,
        row.members,
        text(row.outcome.text()),
    )
}

#[pyfunction]
fn trace_limit() -> usize {
    trace::limit()
}

#[pyfunction]
fn trace_set_limit(tasks: usize) -> Result<(), Error> {
    trace::set_limit(tasks)
}
