//! Operators: rules and statistics of the fallback, the debug mode for implicit synchronisation, and launch counts of the kernels.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::abi::rd_shim::{rd_shim, shim};
use crate::abi::rd_wait::RD_WAIT_MODE;
use crate::ops::table::TABLE;
use crate::runtime::config::Fallback;
use crate::runtime::fallback;

/// The functions of the shim, which the Python package loads before it calls any function of this module.
pub(super) fn loaded_shim() -> PyResult<&'static rd_shim> {
    shim().ok_or_else(|| PyRuntimeError::new_err("rustdev's shim is not loaded: import the package `rustdev`"))
}

#[pyfunction]
fn fallback_stats() -> Vec<(String, u64, u64)> {
    fallback::statistics()
}

#[pyfunction]
fn reset_fallback_stats() {
    fallback::reset_statistics();
}

#[pyfunction]
fn fallback_mode() -> i32 {
    fallback::mode() as i32
}

#[pyfunction]
fn set_fallback_mode(mode: i32) {
    let modes = [Fallback::Allow, Fallback::Warn, Fallback::Error];
    fallback::set_mode(modes.into_iter().find(|&each| each as i32 == mode).unwrap_or(Fallback::Allow));
}

#[pyfunction]
fn set_fallback_list(allow: bool, names: Vec<String>) {
    fallback::set_list(allow, names);
}

#[pyfunction]
fn fallback_list(allow: bool) -> Vec<String> {
    fallback::list(allow)
}

#[pyfunction]
fn sync_debug_mode() -> PyResult<i32> {
    Ok((loaded_shim()?.change_wait_flags)(0, 0) & RD_WAIT_MODE)
}

#[pyfunction]
fn set_sync_debug_mode(mode: i32) -> PyResult<()> {
    (loaded_shim()?.change_wait_flags)(RD_WAIT_MODE, mode);
    Ok(())
}

#[pyfunction]
fn op_calls() -> Vec<(&'static str, u64)> {
    TABLE.iter().map(|op| (op.text(), op.calls())).collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(
        module:
        fallback_stats, reset_fallback_stats, fallback_mode, set_fallback_mode,
        set_fallback_list, fallback_list, sync_debug_mode, set_sync_debug_mode, op_calls
    )
}
