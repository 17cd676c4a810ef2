//! Debugging modes for `rustdev/debugging.py`: fault injection, task order and dry runs.

use pyo3::prelude::*;

use super::py_ops::loaded_shim;
use crate::abi::rd_wait::RD_WAIT_DRY;
use crate::runtime::config::config;
use crate::runtime::config::order::Order;
use crate::runtime::debugging::{dry_run, faults, schedule};
use crate::runtime::{Error, device, fork, observers};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: dry_run_begin, dry_run_end, is_dry_run, faults_push, faults_remove, faults_loss, nccl_mode, schedule_switch)
}

#[pyfunction]
fn dry_run_begin(at_start: bool) -> PyResult<()> {
    if at_start && !config().is_dry {
        return Ok(());
    }
    fork::check()?;
    let shim = loaded_shim()?;
    dry_run::begin();
    (shim.change_wait_flags)(RD_WAIT_DRY, RD_WAIT_DRY);
    Ok(())
}

#[pyfunction]
fn dry_run_end() -> PyResult<bool> {
    let shim = loaded_shim()?;
    let is_over = dry_run::end();
    if is_over {
        (shim.change_wait_flags)(RD_WAIT_DRY, 0);
    }
    Ok(is_over)
}

#[pyfunction]
fn is_dry_run() -> bool {
    observers::is_dry()
}

#[pyfunction]
fn faults_push(faults: &str) -> Result<u64, Error> {
    fork::check()?;
    // Initialises the devices first, so that the faults of the environment precede this list.
    device::all();
    faults::push(faults)
}

#[pyfunction]
fn faults_remove(number: u64) {
    faults::remove(number);
}

#[pyfunction]
fn faults_loss(rank: u64) -> Option<(bool, String)> {
    faults::loss(rank)
}

#[pyfunction]
fn nccl_mode() -> Option<&'static str> {
    config().nccl
}

#[pyfunction]
fn schedule_switch(order: Option<&str>) -> Result<Option<String>, Error> {
    fork::check()?;
    let before = schedule::switch(order.map(str::parse::<Order>).transpose()?)?;
    Ok(before.map(|order| order.to_string()))
}
