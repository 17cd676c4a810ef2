//! The clock of a profile, for `rustdev/clock.py`.

use std::collections::BTreeMap;

use pyo3::prelude::*;

use crate::runtime::config::{self, Profile};
use crate::runtime::debugging::clock::engine::Moment;
use crate::runtime::debugging::clock::{self, Report};
use crate::runtime::{Error, device, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimulatedMoment>()?;
    add_functions!(module: clock_begin, clock_end, clock_report, clock_profile, clock_collective, profile_speed)
}

/// Host, (device, (kernels, copies in, copies out, links)) of each device, operations, kernels. Times are nanoseconds.
type Counted = (u64, Vec<(usize, (u64, u64, u64, u64))>, u64, u64);

fn counted(report: Report) -> Counted {
    let Report { host, devices, flops, kernels } = report;
    let devices =
        devices.into_iter().map(|(device, [compute, copy_in, copy_out, link])| (device, (compute, copy_in, copy_out, link)));
    (host, devices.collect(), flops, kernels)
}

fn profile_of(name: &str) -> Result<&'static Profile, Error> {
    config::find_profile(name).map_err(|reason| Error::InvalidValue(format!("the profile {name:?} is not valid: {reason}")))
}

#[pyfunction]
fn clock_begin(profile: &str) -> Result<(), Error> {
    fork::check()?;
    let profile = profile_of(profile)?;
    // Initialises the devices first, so that the clock of the environment precedes this one.
    device::all();
    clock::begin(profile)
}

#[pyfunction]
fn clock_end() -> Option<Counted> {
    clock::end().map(counted)
}

#[pyfunction]
fn clock_report() -> Option<Counted> {
    device::all();
    clock::report().map(counted)
}

#[pyfunction]
fn clock_profile() -> Option<&'static str> {
    clock::profile().map(|profile| profile.name.as_str())
}

#[pyclass(frozen, module = "rustdev._rustdev")]
struct SimulatedMoment(Moment);

#[pymethods]
impl SimulatedMoment {
    fn order(&self, device: usize, stream: i64) -> Result<(), Error> {
        clock::wait_for(device::find_stream(device, stream)?, &self.0);
        Ok(())
    }

    fn wait(&self) {
        clock::host_waits_for_moment(&self.0);
    }
}

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python's becomes a vector")]
fn clock_collective(
    name: &str,
    device: usize,
    stream: i64,
    communicator: i64,
    ranks: Vec<u64>,
    nbytes: u64,
) -> Result<Option<SimulatedMoment>, Error> {
    let (stream, communicator) = (device::find_stream(device, stream)?, device::find_stream(device, communicator)?);
    Ok(clock::collective(stream, communicator, name, &ranks, nbytes).map(SimulatedMoment))
}

/// Memory in GiB, GB/s of it, and (dtype, TFLOPS) of the tensor cores and of the other units.
type Speed = (f64, f64, Vec<(&'static str, f64)>, Vec<(&'static str, f64)>);

#[pyfunction]
fn profile_speed(profile: &str) -> Result<Speed, Error> {
    let Profile { memory_gib, gigabytes_per_second, tensor_tflops, vector_tflops, .. } = profile_of(profile)?;
    let table = |table: &'static BTreeMap<String, f64>| table.iter().map(|(dtype, rate)| (dtype.as_str(), *rate)).collect();
    Ok((*memory_gib, gigabytes_per_second.memory, table(tensor_tflops), table(vector_tflops)))
}
