//! Debugging modes for `rustdev/debugging.py`: faults and orders of tasks.

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

/// Puts a list of faults in force; its number.
#[pyfunction]
fn faults_push(py: Python<'_>, faults: &str) -> PyResult<u64> {
    fork::check().map_err(|error| exception(py, &error))?;
    // The environment's list comes first.
    device::all();
    faults::push(faults).map_err(|error| exception(py, &error))
}

/// Removes the list of that number.
#[pyfunction]
fn faults_remove(number: u64) {
    faults::remove(number);
}

/// Counts a collective of a rank of this process; whether the process ends and a text, where the rank is to be lost in it.
#[pyfunction]
fn faults_loss(rank: u64) -> Option<(bool, String)> {
    faults::loss(rank).map(|(loss, text)| (loss == Loss::Exit, text))
}

/// Turns an order on, or none; the one before.
#[pyfunction]
fn schedule_switch(py: Python<'_>, order: Option<&str>) -> PyResult<Option<String>> {
    let order = order.map(str::parse::<Order>).transpose();
    let before = fork::check().and_then(|()| schedule::switch(order?)).map_err(|error| exception(py, &error))?;
    Ok(before.map(|order| order.to_string()))
}
