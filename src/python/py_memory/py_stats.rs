//! Counters as dictionaries with the keys of `torch.cuda.memory_stats` and `torch.cuda.host_memory_stats`.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::runtime::memory::pinned_pool::{Duration, HostPool};
use crate::runtime::memory::stats::{PerKind, Stat};
use crate::runtime::{Error, fork, pools};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: memory_stats, host_memory_stats, host_memory_reset_stats)
}

fn stat<'py>(py: Python<'py>, stat: &Stat) -> PyResult<Bound<'py, PyDict>> {
    [("current", stat.current), ("peak", stat.peak), ("allocated", stat.allocated), ("freed", stat.freed)].into_py_dict(py)
}

fn per_kind<'py>(py: Python<'py>, stats: &PerKind) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in ["all", "small_pool", "large_pool"].into_iter().zip(&stats.values) {
        dict.set_item(name, stat(py, value)?)?;
    }
    Ok(dict)
}

fn duration<'py>(py: Python<'py>, time: &Duration) -> PyResult<Bound<'py, PyDict>> {
    let avg = if time.count == 0 { 0 } else { time.total / time.count };
    [("total", time.total), ("max", time.max), ("min", time.min), ("count", time.count), ("avg", avg)].into_py_dict(py)
}

#[pyfunction]
fn memory_stats(py: Python<'_>, device: usize) -> PyResult<Bound<'_, PyDict>> {
    let stats = pools::pool(device)?.stats();
    let dict = PyDict::new(py);
    for (name, value) in [
        ("allocation", &stats.allocation),
        ("segment", &stats.segment),
        ("active", &stats.active),
        ("inactive_split", &stats.inactive_split),
        ("allocated_bytes", &stats.allocated_bytes),
        ("reserved_bytes", &stats.reserved_bytes),
        ("active_bytes", &stats.active_bytes),
        ("inactive_split_bytes", &stats.inactive_split_bytes),
        ("requested_bytes", &stats.requested_bytes),
    ] {
        dict.set_item(name, per_kind(py, value)?)?;
    }
    dict.set_item("oversize_allocations", stat(py, &stats.oversize_allocations)?)?;
    dict.set_item("oversize_segments", stat(py, &stats.oversize_segments)?)?;
    dict.set_item("num_alloc_retries", stats.num_alloc_retries)?;
    dict.set_item("num_ooms", stats.num_ooms)?;
    dict.set_item("num_oom_rejections", 0)?;
    dict.set_item("num_sync_all_streams", stats.num_sync_all_streams)?;
    dict.set_item("num_device_alloc", stats.num_device_alloc)?;
    dict.set_item("num_device_free", stats.num_device_free)?;
    dict.set_item("max_split_size", stats.max_split_size)?;
    dict.set_item("reserved_bytes_by_private_pools", PyDict::new(py))?;
    Ok(dict)
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
