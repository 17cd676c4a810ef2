//! Debugging modes for `rustdev/debugging.py`: fault injection and task order.

use pyo3::prelude::*;

use crate::runtime::config::order::Order;
use crate::runtime::debugging::faults::{self, Loss};
use crate::runtime::debugging::schedule;
use crate::runtime::{Error, device, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: faults_push, faults_remove, faults_loss, schedule_switch)
}

/// Activates a list of faults and returns its number.
#[pyfunction]
fn faults_push(faults: &str) -> Result<u64, Error> {
    fork::check()?;
    // Initialises the devices first, so that the faults of the environment precede this list.
    device::all();
    faults::push(faults)
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
fn schedule_switch(order: Option<&str>) -> Result<Option<String>, Error> {
    fork::check()?;
    let before = schedule::switch(order.map(str::parse::<Order>).transpose()?)?;
    Ok(before.map(|order| order.to_string()))
}
