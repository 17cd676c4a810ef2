//! Streams for `rustdev/streams.py`: priorities, native handles, host functions and sleeping.

use std::ptr::with_exposed_provenance_mut;
use std::time::Duration;

use pyo3::prelude::*;

use super::{exception, interpreter};
use crate::abi::rd_event::rd_event_elapsed;
use crate::abi::rd_stream::native;
use crate::abi::{RD_OK, last_error};
use crate::runtime::error::Cause;
use crate::runtime::stream::Stream;
use crate::runtime::task::{Access, Task, Work};
use crate::runtime::{Error, device};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stream_priority, module)?)?;
    module.add_function(wrap_pyfunction!(stream_from_handle, module)?)?;
    module.add_function(wrap_pyfunction!(launch_host_func, module)?)?;
    module.add_function(wrap_pyfunction!(sleep, module)?)?;
    module.add_function(wrap_pyfunction!(event_elapsed, module)?)
}

pub(super) fn find(py: Python<'_>, device: usize, id: i64) -> PyResult<&'static Stream> {
    let unknown = || Error::InvalidArgument(format!("rustdev:{device} has no stream with the id {id}"));
    device::get(device).and_then(|_| device::find_stream(device, id).ok_or_else(unknown)).map_err(|error| exception(py, &error))
}

/// 0, or -1 for a high-priority stream.
#[pyfunction]
fn stream_priority(py: Python<'_>, device: usize, stream: i64) -> PyResult<i32> {
    find(py, device, stream).map(Stream::priority)
}

/// The id of the stream with a native handle.
#[pyfunction]
fn stream_from_handle(py: Python<'_>, device: usize, handle: usize) -> PyResult<i64> {
    let unknown = || Error::InvalidArgument(format!("{handle:#x} is not the handle of a stream of rustdev:{device}"));
    let known = |device: &device::Device| device.streams().into_iter().find(|stream| native(stream).addr() == handle);
    device::get(device).and_then(|device| known(device).ok_or_else(unknown)).map(Stream::id).map_err(|error| exception(py, &error))
}

/// A call of a Python function as device work; the function is dropped with the GIL held.
struct Call(Option<Py<PyAny>>);

impl Work for Call {
    fn run(&mut self) -> Result<(), Cause> {
        let Some(function) = &self.0 else { return Ok(()) };
        let called = interpreter::attach(|py| function.bind(py).call0().map(drop).map_err(|error| error.to_string().into()));
        called.unwrap_or_else(|| Err("the interpreter is shutting down".into()))
    }

    fn accesses(&self, _: &mut dyn FnMut(Access)) {}
}

impl Drop for Call {
    fn drop(&mut self) {
        let function = self.0.take();
        interpreter::attach(|_| drop(function));
    }
}

#[pyfunction]
fn launch_host_func(py: Python<'_>, device: usize, stream: i64, function: Py<PyAny>) -> PyResult<()> {
    let stream = find(py, device, stream)?;
    let task = Task::host("host_func", Call(Some(function)));
    stream.submit(task).map_err(|error| exception(py, &error))
}

/// Keeps a stream busy for a time without occupying a thread.
#[pyfunction]
fn sleep(py: Python<'_>, device: usize, stream: i64, nanoseconds: u64) -> PyResult<()> {
    let stream = find(py, device, stream)?;
    stream.submit(Task::sleep(Duration::from_nanos(nanoseconds))).map_err(|error| exception(py, &error))
}

/// Milliseconds between two completed events, given by their `event_id`.
#[pyfunction]
fn event_elapsed(py: Python<'_>, start: usize, end: usize) -> PyResult<f64> {
    let mut milliseconds = 0.0;
    let (start, end) = (with_exposed_provenance_mut(start), with_exposed_provenance_mut(end));
    // SAFETY: `rustdev/streams.py` passes the ids of two Event objects that it holds; each object keeps its event alive.
    let status = unsafe { rd_event_elapsed(start, end, &raw mut milliseconds) };
    if status == RD_OK { Ok(milliseconds) } else { Err(exception(py, &Error::InvalidArgument(last_error()))) }
}
