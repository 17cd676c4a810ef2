//! Device memory and pinned host memory for `rustdev/memory.py`.
//!
//! Calls that may wait for a stream release the GIL: otherwise, tasks that call Python could not end.

mod py_pools;
mod py_recording;
mod py_snapshot;
mod py_stats;

use pyo3::prelude::*;

use super::interpreter;
use crate::runtime::memory::device_pool::DevicePool;
use crate::runtime::memory::observe::{self, Shortage};
use crate::runtime::{Error, device, fork, pools};
pub(super) use py_recording::frames;
use std::sync::Arc;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(
        module:
        memory_empty_cache, memory_set_fraction, memory_get_fraction, memory_allocate, memory_free,
        memory_attach_shortage_observer
    )?;
    py_pools::register(module)?;
    py_stats::register(module)?;
    py_recording::register(module)?;
    py_snapshot::register(module)
}

#[pyfunction]
fn memory_empty_cache(py: Python<'_>) {
    py.detach(|| pools::all().iter().for_each(DevicePool::empty_cache));
}

#[pyfunction]
fn memory_set_fraction(device: usize, fraction: f64) -> Result<(), Error> {
    pools::pool(device)?.lock().settings.fraction = fraction;
    Ok(())
}

#[pyfunction]
fn memory_get_fraction(device: usize) -> Result<f64, Error> {
    Ok(pools::pool(device)?.lock().settings.fraction)
}

#[pyfunction]
fn memory_allocate(py: Python<'_>, device: usize, stream: i64, bytes: usize) -> Result<usize, Error> {
    py.detach(|| pools::allocate(device, device::find_stream(device, stream)?, bytes).map(|block| block as usize))
}

#[pyfunction]
fn memory_free(address: usize) -> Result<(), Error> {
    pools::free_checked(address as *mut u8)
}

#[pyfunction]
fn memory_attach_shortage_observer(observer: Py<PyAny>) -> Result<(), Error> {
    fork::check()?;
    observe::attach_shortage_observer(Arc::new(move |shortage: &Shortage| {
        interpreter::attach(|py| {
            let arguments = (shortage.device, shortage.asked, shortage.total, shortage.free);
            if let Err(error) = observer.call1(py, arguments) {
                error.write_unraisable(py, Some(observer.bind(py)));
            }
        });
    }));
    Ok(())
}
