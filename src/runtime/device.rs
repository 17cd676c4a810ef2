//! Devices, and each thread's current device. The first use of a device starts the runtime.
#![forbid(unsafe_code)]

use std::cell::Cell;

use super::config::{self, config};
use super::name::{self, variable};
use super::stream::{Stream, registry};
use super::sync::LazyLock;
use super::{Error, debugging, exit, fork};

pub use registry::{Device, exchange as exchange_stream};

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The devices of the runtime, which starts here. A process that has only read the configuration may therefore fork.
static DEVICES: LazyLock<&'static [Device]> = LazyLock::new(|| {
    fork::mark_started();
    exit::watch();
    debugging::start();
    registry::devices()
});

pub fn count() -> usize {
    config().device_count
}

/// The device of that index. Fails with `InvalidArgument` for an index out of range and in a forked child, `InvalidValue` for a
/// malformed environment.
#[inline]
pub fn get(index: usize) -> Result<&'static Device, Error> {
    fork::check()?;
    config::init()?;
    all().get(index).ok_or_else(|| out_of_range(index))
}

#[cold]
fn out_of_range(index: usize) -> Error {
    let count = count();
    let range = match count {
        0 => "there is no device".to_owned(),
        1 => "only device 0 exists".to_owned(),
        _ => format!("devices are 0 to {}", count - 1),
    };
    Error::InvalidArgument(format!(
        "invalid device ordinal {index}: {range} ({}, {})",
        variable("DEVICE_COUNT"),
        variable("VISIBLE_DEVICES")
    ))
}

#[inline]
pub fn all() -> &'static [Device] {
    &DEVICES
}

/// This thread's current device.
#[inline]
pub fn current() -> usize {
    CURRENT.get()
}

pub fn set_current(index: usize) -> Result<(), Error> {
    if index >= config::init()?.device_count {
        return Err(out_of_range(index));
    }
    fork::check()?;
    CURRENT.set(index);
    Ok(())
}

/// This thread's current stream of a device. Panics if the device does not exist.
#[inline]
pub fn current_stream(device: usize) -> &'static Stream {
    registry::current(device, all)
}

/// The stream of that id. Fails like [`get`], and with `InvalidArgument` if there is no such stream.
#[inline]
pub fn find_stream(device: usize, id: i64) -> Result<&'static Stream, Error> {
    let unknown = || Error::InvalidArgument(format!("{} has no stream with the id {id}", name::Device(device)));
    get(device)?.stream(id).ok_or_else(unknown)
}
