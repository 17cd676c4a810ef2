//! Hardware: what lies behind the devices. By default this processor; [`install`] puts something else there.
//!
//! Whoever writes a backend for hardware with a driver in Rust implements two traits. [`Hardware`] says what the devices are, reserves their
//! memory, and is handed each task when its turn has come on its stream. [`DeviceMemory`] commits that memory in segments. Everything above
//! stays as it is: the pool of memory, streams, events, graphs, traces, debugging modes, and PyTorch's registrations in the shim.
//!
//! ```no_run
//! use std::io;
//! use std::sync::Arc;
//!
//! use rustdev::hardware::{self, DeviceMemory, Hardware, HardwareTask, Properties, Transfer};
//! use rustdev::runtime::memory::system::Reservation;
//!
//! #[derive(Debug)]
//! struct Idle;
//!
//! impl Hardware for Idle {
//!     fn properties(&self) -> Properties {
//!         Properties { name: "a processor that is called".to_owned(), devices: 1, memory: 1 << 30 }
//!     }
//!
//!     fn reserve(&self, _device: usize, length: usize) -> io::Result<Box<dyn DeviceMemory>> {
//!         Ok(Box::new(Reservation::new(length)?))
//!     }
//!
//!     fn copy(&self, _transfer: Transfer, mut task: HardwareTask) {
//!         let outcome = task.run();
//!         task.finish(outcome);
//!     }
//!
//!     fn launch(&self, mut task: HardwareTask) {
//!         let outcome = task.run();
//!         task.finish(outcome);
//!     }
//! }
//!
//! hardware::install(Arc::new(Idle))?;
//! # Ok::<(), rustdev::runtime::Error>(())
//! ```
//!
//! `examples/hardware` has a whole one, docs/bring-your-own-hardware.md the order of the calls.
//!
//! Without hardware that was installed, nothing here runs: a launch reads the one word of the [`observers`], which has a bit for it.
#![forbid(unsafe_code)]

use std::fmt;
use std::io;

use super::memory::arena;
use super::memory::system::HUGE_PAGE;
use super::sync::{Arc, OnceLock};
use super::{Error, observers};

mod hardware_task;

pub use super::error::Cause;
pub use super::memory::device_memory::DeviceMemory;
pub use super::task::Transfer;
pub use super::trace::MemoryKind;
pub use hardware_task::HardwareTask;

/// The most devices there can be.
pub const MAX_DEVICES: usize = 64;

/// What the devices are. All devices of a process are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What the device is called, for people: `torch.rustdev.get_device_name()`.
    pub name: String,
    /// How many there are, 1 to 64. `RUSTDEV_DEVICE_COUNT` may ask for fewer.
    pub devices: usize,
    /// Bytes of memory of each device: the budget of its pool, which counts segments. `RUSTDEV_MEMORY_LIMIT` may ask for less.
    pub memory: u64,
}

/// Hardware behind the devices of this process.
///
/// **Order.** A stream has one task with the hardware at a time, and the next one comes when that has [ended](HardwareTask::finish). Tasks
/// of different streams come in any order and at the same time; what waits for an event comes after it. So hardware needs no queue of its
/// own for order's sake, and may run whatever it has at the same time. [`HardwareTask::stream`] and [`HardwareTask::priority`] say whose task
/// it is.
///
/// **Threads.** [`copy`](Hardware::copy) and [`launch`](Hardware::launch) are called on any thread, several at once: the one that submits, one
/// that waits, one of the runtime's, or the one that has just ended the task before. They put the task where the hardware finds it and
/// return. They may also run and end it themselves: then the submitting thread takes the time.
///
/// **Waiting.** Neither may wait for a stream, an event or another task. An engine that runs tasks one after another on one thread is fine:
/// a task that is short of memory does not wait for streams whose tasks are with the hardware.
///
/// **Panics** of a task are caught by [`HardwareTask::run`] and are failures of the task. A task that is dropped fails as well.
///
/// **The end of the process** waits a moment for tasks that the hardware has, and hands no more over.
pub trait Hardware: fmt::Debug + Send + Sync {
    /// What the devices are: asked once, by [`install`].
    fn properties(&self) -> Properties;

    /// Reserves an address range of `length` bytes, a multiple of 2 MiB, for a device: asked once for each, before its first allocation. The
    /// range is larger than the memory, four times where that is possible, so that segments find room in any order.
    ///
    /// # Errors
    /// There is no such range: a shorter one is asked for, down to the memory's size; then every allocation fails.
    fn reserve(&self, device: usize, length: usize) -> io::Result<Box<dyn DeviceMemory>>;

    /// Begins a copy of bytes between host and device, within the device, or from it to another one ([`MemoryKind::Peer`]). A copy that
    /// changes dtype or layout between host and device comes as three: the runtime packs or unpacks host memory on a host thread, so that
    /// nothing but a transfer touches both memories. [`HardwareTask::run`] would copy with the processor.
    fn copy(&self, transfer: Transfer, task: HardwareTask);

    /// Begins any other task: a kernel of the operator table, a kernel of PyTorch's or of another library, a fill, a copy between devices
    /// that changes dtype or layout.
    fn launch(&self, task: HardwareTask);
}

struct Installed {
    hardware: Arc<dyn Hardware>,
    properties: Properties,
}

/// What was installed before the runtime asked for it; `None` once it has found nothing.
static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();

/// Puts hardware behind the devices: before anything else of this crate is called, once in a process.
///
/// # Errors
/// `InvalidArgument` once the runtime has started (the environment was read, or hardware was installed), and for properties that cannot be.
pub fn install(hardware: Arc<dyn Hardware>) -> Result<(), Error> {
    let properties = hardware.properties();
    let refused = |hardware: Arc<dyn Hardware>, reason: &str| {
        Err(Error::InvalidArgument(format!("{hardware:?} cannot be installed: {reason}")))
    };
    if !(1..=MAX_DEVICES).contains(&properties.devices) {
        return refused(hardware, &format!("it has {} devices, which are 1 to {MAX_DEVICES}", properties.devices));
    }
    if properties.memory < HUGE_PAGE as u64 {
        return refused(hardware, &format!("a device has at least {HUGE_PAGE} bytes of memory, not {}", properties.memory));
    }
    let mut given = Some(Installed { hardware, properties });
    // What is there already stays, and `given` then, too.
    let _ = INSTALLED.get_or_init(|| given.take());
    match given {
        None => {
            observers::set(observers::HARDWARE, true);
            Ok(())
        }
        Some(Installed { hardware, .. }) if is_installed() => refused(hardware, "there is hardware already"),
        Some(Installed { hardware, .. }) => refused(hardware, "the runtime has started on this processor"),
    }
}

/// Whether hardware was installed. One relaxed load.
#[inline]
pub fn is_installed() -> bool {
    observers::has(observers::HARDWARE)
}

/// The hardware that was installed. From now on none can be.
pub(super) fn installed() -> Option<&'static dyn Hardware> {
    INSTALLED.get_or_init(|| None).as_ref().map(|installed| &*installed.hardware)
}

/// What the hardware is that was installed. From now on none can be.
pub fn properties() -> Option<&'static Properties> {
    INSTALLED.get_or_init(|| None).as_ref().map(|installed| &installed.properties)
}

/// Reserves an address range for a device.
pub(super) fn reserve(device: usize, length: usize) -> io::Result<Box<dyn DeviceMemory>> {
    installed().map_or_else(|| arena::reserve(length), |hardware| hardware.reserve(device, length))
}
