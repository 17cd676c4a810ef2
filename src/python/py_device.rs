//! Functions of the process and its devices, for `rustdev/device.py` and `rustdev/info.py`.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::runtime::config::Profile;
use crate::runtime::{config, device, fork, hardware, parallel_for, pools};
use crate::simd::{self, Isa};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(
        module:
        device_count, current_device, is_fork_child, is_started, total_memory, hardware_name, hardware_kernels, profiles, profile, num_threads,
        set_num_threads, instruction_set, instruction_sets
    )
}

#[pyfunction]
fn device_count() -> usize {
    if fork::is_child() { 0 } else { device::count() }
}

#[pyfunction]
fn current_device() -> usize {
    device::current()
}

#[pyfunction]
fn is_started() -> bool {
    fork::is_started()
}

#[pyfunction]
fn is_fork_child() -> bool {
    fork::is_child()
}

#[pyfunction]
fn total_memory() -> u64 {
    pools::budget(config::config())
}

#[pyfunction]
fn hardware_name() -> Option<&'static str> {
    hardware::properties().map(|properties| properties.name.as_str())
}

#[pyfunction]
fn hardware_kernels() -> Vec<(&'static str, u64, u64)> {
    crate::hardware_kernels::counts()
}

/// Name, GPU, capability, bytes of memory, GB/s of it, and TFLOPS of the fastest unit by dtype.
type Row = (&'static str, &'static str, (u32, u32), u64, f64, HashMap<&'static str, f64>);

#[pyfunction]
fn profiles() -> Vec<Row> {
    let own = config::config().profile.filter(|own| config::PROFILES.iter().all(|known| known.name != own.name));
    config::PROFILES.iter().chain(own).map(row).collect()
}

fn row(profile: &'static Profile) -> Row {
    let rates = profile.vector_tflops.iter().chain(&profile.tensor_tflops).map(|(dtype, rate)| (dtype.as_str(), *rate));
    (&profile.name, &profile.gpu, profile.capability, profile.memory(), profile.gigabytes_per_second.memory, rates.collect())
}

#[pyfunction]
fn profile() -> Option<&'static str> {
    config::config().profile.map(|profile| profile.name.as_str())
}

#[pyfunction]
fn num_threads() -> usize {
    parallel_for::num_threads()
}

#[pyfunction]
fn set_num_threads(count: i64) -> PyResult<()> {
    fork::check()?;
    let accepted = usize::try_from(count).ok().filter(|count| (1..=config::MAX_THREADS).contains(count));
    let refusal = || PyValueError::new_err(format!("the number of threads is 1 to {}, not {count}", config::MAX_THREADS));
    parallel_for::set_num_threads(accepted.ok_or_else(refusal)?);
    Ok(())
}

#[pyfunction]
fn instruction_set() -> &'static str {
    simd::isa().name()
}

#[pyfunction]
fn instruction_sets() -> Vec<&'static str> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Isa::name).collect()
}
