//! Race detector for `rustdev/sanitizer.py`: its switch and its findings.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::py_memory;
use super::py_ops::loaded_shim;
use crate::runtime::config::{self, RaceMode};
use crate::runtime::sanitizer;
use crate::runtime::sanitizer::finding::{Finding, Side};
use crate::runtime::task::Access;
use crate::runtime::vector_clock::VectorClock;
use crate::runtime::{Error, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SanitizerClock>()?;
    add_functions!(
        module:
        sanitizer_collective, sanitizer_begin, sanitizer_enable, sanitizer_disable, sanitizer_mode, sanitizer_findings,
        sanitizer_clear, sanitizer_raise, sanitizer_waits_for_nothing
    )
}

#[pyfunction]
fn sanitizer_begin(error: Py<PyAny>, libraries: Vec<String>) -> PyResult<()> {
    // The reference is kept until the process ends.
    (loaded_shim()?.set_race_type)(error.into_ptr().cast());
    sanitizer::set_front_end(py_memory::frames, libraries);
    if let Some(mode) = config::config().sanitize {
        sanitizer::enable(mode);
    }
    Ok(())
}

#[pyfunction]
fn sanitizer_enable(mode: &str) -> PyResult<()> {
    fork::check()?;
    let mode = match mode {
        "warn" => RaceMode::Warn,
        "error" => RaceMode::Error,
        _ => return Err(PyValueError::new_err(format!("mode is 'warn' or 'error', not {mode:?}"))),
    };
    sanitizer::enable(mode);
    Ok(())
}

#[pyfunction]
fn sanitizer_disable() {
    sanitizer::disable();
}

#[pyfunction]
fn sanitizer_mode() -> Option<&'static str> {
    sanitizer::mode().map(|mode| match mode {
        RaceMode::Warn => "warn",
        RaceMode::Error => "error",
    })
}

#[pyfunction]
fn sanitizer_clear() {
    sanitizer::clear();
}

#[pyfunction]
fn sanitizer_raise() -> Result<(), Error> {
    sanitizer::raise_all()
}

#[pyfunction]
fn sanitizer_waits_for_nothing(device: usize, stream: i64) -> Result<(), Error> {
    sanitizer::waits_for_nothing(Some((device, stream)))
}

#[pyclass(frozen)]
struct SanitizerClock(VectorClock);

#[pymethods]
impl SanitizerClock {
    fn order(&self, device: usize, stream: Option<i64>) {
        sanitizer::order_behind(stream.map(|stream| (device, stream)), &self.0);
    }
}

#[pyfunction]
fn sanitizer_collective(
    name: &str,
    device: usize,
    stream: i64,
    ranges: Vec<(usize, usize, bool)>,
) -> Result<Option<SanitizerClock>, Error> {
    let accesses = ranges.into_iter().map(|(begin, bytes, write)| Access { begin, end: begin + bytes, write });
    Ok(sanitizer::collective(name, (device, stream), accesses)?.map(SanitizerClock))
}

/// The operator, the stream, whether it writes, and the frames: file, line, function.
type Call = (String, Option<(usize, i64)>, bool, Vec<(String, u32, String)>);

/// Kind, calls, begin and end of the memory, its label and shape, remedy, text.
type Report = (&'static str, Option<Call>, Call, usize, usize, Option<String>, Option<String>, String, String);

#[pyfunction]
fn sanitizer_findings() -> Vec<Report> {
    sanitizer::findings().into_iter().map(report).collect()
}

fn report(found: Finding) -> Report {
    let (remedy, text, memory) = (found.remedy(), found.text(), found.memory);
    let (first, second) = (found.first.map(call), call(found.second));
    (found.fault.name(), first, second, memory.begin, memory.end, memory.label, memory.shape, remedy, text)
}

fn call(side: Side) -> Call {
    let frames = side.frames.into_iter().map(|frame| (frame.file, frame.line, frame.function));
    (side.operator, side.stream, side.write, frames.collect())
}
