//! Sticky errors: after the first failure of a task, its device raises that failure again at every later call, until the process
//! ends. CUDA does so after a device-side assertion.

use std::collections::BTreeMap;

use crate::runtime::observers::{self, STICKY};
use crate::runtime::sync::Mutex;
use crate::runtime::{Error, exit};

/// The first failure of each device that has failed.
static FAILURES: Mutex<BTreeMap<usize, Error>> = Mutex::new(BTreeMap::new());

/// Makes the failures of this process stay.
pub(super) fn start() {
    observers::set(STICKY, true);
}

/// Notes a failure of a device; only its first one counts.
pub(super) fn note(device: usize, failure: &Error) {
    FAILURES.lock().entry(device).or_insert_with(|| failure.clone());
}

/// Raises the failure of the device, unless the process exits.
pub(super) fn check(device: usize) -> Result<(), Error> {
    match FAILURES.lock().get(&device) {
        Some(failure) if !exit::is_exiting() => Err(failure.clone()),
        _ => Ok(()),
    }
}
