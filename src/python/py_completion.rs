//! Completions for `rustdev/distributed`: the ends of collectives that Gloo performs.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::abi::rd_completion::rd_completion;
use crate::runtime::completion::Completion;
use crate::runtime::sync::Arc;
use crate::runtime::{Error, device};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCompletion>()
}

#[pyclass(module = "rustdev._rustdev", name = "Completion", frozen)]
struct PyCompletion(rd_completion);

#[pymethods]
impl PyCompletion {
    #[new]
    #[pyo3(signature = (prefix = String::new()))]
    fn new(prefix: String) -> Self {
        Self(rd_completion(Arc::new(Completion::new(prefix))))
    }

    #[getter]
    fn handle(&self) -> usize {
        std::ptr::from_ref(&self.0).expose_provenance()
    }

    fn is_over(&self) -> bool {
        self.0.0.is_over()
    }

    fn failure(&self) -> Option<&str> {
        self.0.0.failure()
    }

    fn note_writes(&self, ranges: Vec<(usize, usize)>) {
        self.0.0.note_writes(ranges.into_iter().map(|(address, bytes)| address..address + bytes).collect());
    }

    #[pyo3(signature = (failure = None))]
    fn end(&self, failure: Option<&str>) {
        self.0.0.end(failure);
    }

    #[pyo3(signature = (seconds = None))]
    fn wait(&self, seconds: Option<f64>) -> bool {
        // A timeout beyond the clock's range means no timeout.
        let deadline = seconds.and_then(|seconds| Instant::now().checked_add(Duration::try_from_secs_f64(seconds.max(0.0)).ok()?));
        self.0.0.wait(deadline)
    }

    #[pyo3(signature = (device, stream, fails = true))]
    fn hold(&self, device: usize, stream: i64, fails: bool) -> Result<(), Error> {
        self.0.0.hold(device::find_stream(device, stream)?, fails)
    }

    fn fail(&self, device: usize, stream: i64) -> Result<(), Error> {
        self.0.0.fail(device::find_stream(device, stream)?);
        Ok(())
    }
}
