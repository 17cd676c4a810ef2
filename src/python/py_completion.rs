//! Completions for `rustdev/distributed`: the ends of operations that Gloo works on.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::exception;
use super::py_stream::find;
use crate::abi::rd_completion::rd_completion;
use crate::runtime::completion::Completion;
use crate::runtime::sync::Arc;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCompletion>()
}

/// The end of work outside of the streams. `prefix`: what the text of its failure begins with.
#[pyclass(module = "rustdev._rustdev", name = "Completion", frozen)]
struct PyCompletion(rd_completion);

#[pymethods]
impl PyCompletion {
    #[new]
    #[pyo3(signature = (prefix = String::new()))]
    fn new(prefix: String) -> Self {
        Self(rd_completion(Arc::new(Completion::new(prefix))))
    }

    /// The address by which the shim knows it, as long as this object lives.
    #[getter]
    fn handle(&self) -> usize {
        std::ptr::from_ref(&self.0).expose_provenance()
    }

    /// Whether the work has ended, well or not.
    fn is_over(&self) -> bool {
        self.0.0.is_over()
    }

    /// Why the work failed, if it has ended and failed.
    fn failure(&self) -> Option<&str> {
        self.0.0.failure()
    }

    /// Notes that the work writes to ranges of memory (address, bytes), from now to its end.
    fn note_writes(&self, ranges: Vec<(usize, usize)>) {
        self.0.0.note_writes(ranges.into_iter().map(|(address, bytes)| address..address + bytes).collect());
    }

    /// Ends the work.
    #[pyo3(signature = (failure = None))]
    fn end(&self, failure: Option<&str>) {
        self.0.0.end(failure);
    }

    /// Waits for the end, for so many seconds at most; whether it has come.
    #[pyo3(signature = (seconds = None))]
    fn wait(&self, seconds: Option<f64>) -> bool {
        // A time beyond what the clock counts is none.
        let deadline = seconds.and_then(|seconds| Instant::now().checked_add(Duration::try_from_secs_f64(seconds.max(0.0)).ok()?));
        self.0.0.wait(deadline)
    }

    /// Holds back what is put on a stream from now on until the end. `fails`: a failure of the work is the stream's.
    #[pyo3(signature = (device, stream, fails = true))]
    fn hold(&self, py: Python<'_>, device: usize, stream: i64, fails: bool) -> PyResult<()> {
        self.0.0.hold(find(py, device, stream)?, fails).map_err(|error| exception(py, &error))
    }

    /// Has a stream fail with the work, which it does not wait for.
    fn fail(&self, py: Python<'_>, device: usize, stream: i64) -> PyResult<()> {
        self.0.0.fail(find(py, device, stream)?);
        Ok(())
    }
}
