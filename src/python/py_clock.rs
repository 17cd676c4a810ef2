//! The clock of a profile, for `rustdev/clock.py`.

use pyo3::prelude::*;

use crate::runtime::config;
use crate::runtime::debugging::clock::engine::Moment;
use crate::runtime::debugging::clock::{self, Report};
use crate::runtime::{Error, device, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimulatedMoment>()?;
    add_functions!(module: clock_begin, clock_end, clock_report, clock_profile, clock_collective)
}

/// Host, (device, (kernels, copies in, copies out, links)) of each device, operations, kernels. Times are nanoseconds.
type Counted = (u64, Vec<(usize, (u64, u64, u64, u64))>, u64, u64);

fn counted(report: Report) -> Counted {
    let Report { host, devices, flops, kernels } = report;
    let devices =
        devices.into_iter().map(|(device, [compute, copy_in, copy_out, link])| (device, (compute, copy_in, copy_out, link)));
    (host, devices.collect(), flops, kernels)
}

#[pyfunction]
fn clock_begin(profile: &str) -> Result<(), Error> {
    fork::check()?;
    let invalid = |reason| Error::InvalidValue(format!("the profile {profile:?} is not valid: {reason}"));
    let profile = config::find_profile(profile).map_err(invalid)?;
    // Initialises the devices first, so that the clock of the environment precedes this one.
    device::all();
    clock::begin(profile)
}

#[pyfunction]
fn clock_end() {
    clock::end();
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
