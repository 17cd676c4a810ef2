//! Functions of the process and its devices, for `rustdev/device.py` and `rustdev/info.py`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::runtime::{config, device, fork, hardware, parallel_for, pools};
use crate::simd::{self, Isa};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(
        module:
        device_count, current_device, is_fork_child, is_started, total_memory, hardware_name, hardware_kernels, profiles, profile, num_threads,
        set_num_threads, instruction_set, instruction_sets
    )
}

/// The number of devices; 0 in a forked child.
#[pyfunction]
fn device_count() -> usize {
    if fork::is_child() { 0 } else { device::count() }
}

/// The current device of this thread. This does not start the runtime.
#[pyfunction]
fn current_device() -> usize {
    device::current()
}

/// True if the runtime was started in this process, which the first use of a device does.
#[pyfunction]
fn is_started() -> bool {
    fork::is_started()
}

/// True in a forked child of a process that had started the runtime.
#[pyfunction]
fn is_fork_child() -> bool {
    fork::is_child()
}

/// The memory budget in bytes: of each device, or of all together if they share one.
#[pyfunction]
fn total_memory() -> u64 {
    pools::budget(config::config())
}

/// The name of the installed hardware; None for this processor.
#[pyfunction]
fn hardware_name() -> Option<&'static str> {
    hardware::properties().map(|properties| properties.name.as_str())
}

/// The calls of kernels by name, on hardware with kernels of its own: how many the hardware computed, and how many the processor.
#[pyfunction]
fn hardware_kernels() -> Vec<(&'static str, u64, u64)> {
    crate::hardware_kernels::counts()
}

/// The GPUs that devices can imitate: profile name, GPU name, compute capability, bytes of memory.
#[pyfunction]
fn profiles() -> Vec<(&'static str, &'static str, (u32, u32), u64)> {
    let own = config::config().profile.filter(|own| config::PROFILES.iter().all(|known| known.name != own.name));
    let all = config::PROFILES.iter().chain(own);
    all.map(|profile| (profile.name.as_str(), profile.gpu.as_str(), profile.capability, profile.memory)).collect()
}

/// The name of the GPU that the devices imitate, if any.
#[pyfunction]
fn profile() -> Option<&'static str> {
    config::config().profile.map(|profile| profile.name.as_str())
}

/// The number of threads that devices compute with.
#[pyfunction]
fn num_threads() -> usize {
    parallel_for::num_threads()
}

/// Sets the number of threads that devices compute with.
#[pyfunction]
fn set_num_threads(count: i64) -> PyResult<()> {
    fork::check()?;
    let accepted = usize::try_from(count).ok().filter(|count| (1..=config::MAX_THREADS).contains(count));
    let refusal = || PyValueError::new_err(format!("the number of threads is 1 to {}, not {count}", config::MAX_THREADS));
    parallel_for::set_num_threads(accepted.ok_or_else(refusal)?);
    Ok(())
}

/// The instruction set that kernels use.
#[pyfunction]
fn instruction_set() -> &'static str {
    simd::isa().name()
}

/// The instruction sets of this processor for which kernels are compiled, the best one last.
#[pyfunction]
fn instruction_sets() -> Vec<&'static str> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Isa::name).collect()
}
