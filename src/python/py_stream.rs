//! Streams for `rustdev/streams.py`: priorities, native handles, host functions and sleeping.

use std::ptr::with_exposed_provenance;
use std::time::Duration;

use pyo3::prelude::*;

use super::interpreter;
use crate::abi::rd_event::rd_event;
use crate::abi::rd_stream::native;
use crate::runtime::error::Cause;
use crate::runtime::name::Device;
use crate::runtime::stream::Stream;
use crate::runtime::task::{Task, Work};
use crate::runtime::{Error, device, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: stream_priority, stream_from_handle, launch_host_func, sleep, event_elapsed)
}

#[pyfunction]
fn stream_priority(device: usize, stream: i64) -> Result<i32, Error> {
    device::find_stream(device, stream).map(Stream::priority)
}

#[pyfunction]
fn stream_from_handle(device: usize, handle: usize) -> Result<i64, Error> {
    let unknown = || Error::InvalidArgument(format!("{handle:#x} is not the handle of a stream of {}", Device(device)));
    let known = |device: &device::Device| device.streams().into_iter().find(|stream| native(stream).addr() == handle);
    known(device::get(device)?).ok_or_else(unknown).map(Stream::id)
}

/// A call of a Python function as device work; the function is dropped with the GIL held.
struct Call(Option<Py<PyAny>>);

impl Work for Call {
    fn run(&mut self) -> Result<(), Cause> {
        let Some(function) = &self.0 else { return Ok(()) };
        let called = interpreter::attach(|py| function.bind(py).call0().map(drop).map_err(|error| error.to_string().into()));
        called.unwrap_or_else(|| Err("the interpreter is shutting down".into()))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let function = self.0.take();
        interpreter::attach(|_| drop(function));
    }
}

#[pyfunction]
fn launch_host_func(device: usize, stream: i64, function: Py<PyAny>) -> Result<(), Error> {
    device::find_stream(device, stream)?.submit(Task::host("host_func", Call(Some(function))))
}

#[pyfunction]
fn sleep(device: usize, stream: i64, nanoseconds: u64) -> Result<(), Error> {
    device::find_stream(device, stream)?.submit(Task::sleep(Duration::from_nanos(nanoseconds)))
}

#[pyfunction]
fn event_elapsed(start: usize, end: usize) -> Result<f64, Error> {
    fork::check()?;
    // SAFETY: `rustdev/streams.py` passes the ids of two Event objects that it holds; each object keeps its event alive.
    let [start, end] = [start, end].map(|event| unsafe { &*with_exposed_provenance::<rd_event>(event) });
    start.0.elapsed(&end.0)
}
