//! Counters of pinned host memory, as a dictionary with the keys of `torch.cuda.host_memory_stats`.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::runtime::memory::pinned_pool::{Duration, HostPool};
use crate::runtime::memory::stats::Stat;
use crate::runtime::{Error, fork, pools};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: host_memory_stats, host_memory_reset_stats)
}

fn stat<'py>(py: Python<'py>, stat: &Stat) -> PyResult<Bound<'py, PyDict>> {
    [("current", stat.current), ("peak", stat.peak), ("allocated", stat.allocated), ("freed", stat.freed)].into_py_dict(py)
}

fn duration<'py>(py: Python<'py>, time: &Duration) -> PyResult<Bound<'py, PyDict>> {
    let avg = if time.count == 0 { 0 } else { time.total / time.count };
    [("total", time.total), ("max", time.max), ("min", time.min), ("count", time.count), ("avg", avg)].into_py_dict(py)
}

fn host() -> Result<&'static HostPool, Error> {
    fork::check()?;
    Ok(pools::host())
}

#[pyfunction]
fn host_memory_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let stats = host()?.stats();
    let dict = PyDict::new(py);
    dict.set_item("allocations", stat(py, &stats.allocations)?)?;
    dict.set_item("allocated_bytes", stat(py, &stats.allocated_bytes)?)?;
    dict.set_item("active_requests", stat(py, &stats.active_requests)?)?;
    dict.set_item("active_bytes", stat(py, &stats.active_bytes)?)?;
    dict.set_item("host_alloc_time", duration(py, &stats.host_alloc_time)?)?;
    dict.set_item("host_free_time", duration(py, &stats.host_free_time)?)?;
    dict.set_item("num_host_alloc", stats.num_host_alloc)?;
    dict.set_item("num_host_free", stats.num_host_free)?;
    Ok(dict)
}

#[pyfunction]
fn host_memory_reset_stats(accumulated: bool) -> Result<(), Error> {
    host()?.reset_stats(accumulated);
    Ok(())
}
