//! Debugging modes for `rustdev/debugging.py`: fault injection and task order.

use pyo3::prelude::*;

use super::exception;
use crate::runtime::config::order::Order;
use crate::runtime::debugging::faults::{self, Loss};
use crate::runtime::debugging::schedule;
use crate::runtime::{device, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(faults_push, module)?)?;
    module.add_function(wrap_pyfunction!(faults_remove, module)?)?;
    module.add_function(wrap_pyfunction!(faults_loss, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_switch, module)?)
}

/// Activates a list of faults and returns its number.
#[pyfunction]
fn faults_push(py: Python<'_>, faults: &str) -> PyResult<u64> {
    fork::check().map_err(|error| exception(py, &error))?;
    // Initialises the devices first, so that the faults of the environment precede this list.
    device::all();
    faults::push(faults).map_err(|error| exception(py, &error))
}

/// Deactivates the list of faults with this number.
#[pyfunction]
fn faults_remove(number: u64) {
    faults::remove(number);
}

/// Counts a collective of a rank of this process. If the rank is to be lost in it, returns whether the process must exit, and a
/// message.
#[pyfunction]
fn faults_loss(rank: u64) -> Option<(bool, String)> {
    faults::loss(rank).map(|(loss, text)| (loss == Loss::Exit, text))
}

/// Activates an order of tasks, or deactivates it with None. Returns the previous one.
#[pyfunction]
fn schedule_switch(py: Python<'_>, order: Option<&str>) -> PyResult<Option<String>> {
    let order = order.map(str::parse::<Order>).transpose();
    let before = fork::check().and_then(|()| schedule::switch(order?)).map_err(|error| exception(py, &error))?;
    Ok(before.map(|order| order.to_string()))
}
