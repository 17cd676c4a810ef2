//! The hardware behind the devices: this processor by default, other hardware after [`install`].
//!
//! A back end for hardware with a Rust driver implements two traits. [`Hardware`] describes the devices, reserves their memory, and
//! receives each task when its stream reaches it. [`DeviceMemory`] commits that memory in segments. Everything above is shared: the
//! memory pool, streams, events, graphs, traces, debugging modes, and PyTorch's registrations in the shim.
//!
//! ```no_run
//! use std::io;
//! use std::sync::Arc;
//!
//! use rustdev::hardware::{self, DeviceMemory, Hardware, HardwareTask, Properties, Reservation, Transfer};
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
//! # Ok::<(), rustdev::Error>(())
//! ```
//!
//! `examples/hardware` has a complete example, docs/bring-your-own-hardware.md the order of the calls.
//!
//! Without installed hardware, this module costs nothing: a launch reads the one word of the [`observers`], which has a bit for it.
#![forbid(unsafe_code)]

use std::fmt;
use std::io;

use super::memory::system::HUGE_PAGE;
use super::sync::{Arc, OnceLock};
use super::{Error, observers};

mod hardware_task;

pub use super::error::Cause;
pub use super::memory::device_memory::DeviceMemory;
pub use super::memory::system::Reservation;
pub use super::task::Transfer;
pub use super::trace::MemoryKind;
pub use hardware_task::HardwareTask;

pub const MAX_DEVICES: usize = 64;

/// What the devices are. All devices of a process are identical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The device's name for users: `torch.rustdev.get_device_name()`.
    pub name: String,
    /// The number of devices, 1 to 64. `RUSTDEV_DEVICE_COUNT` may ask for fewer.
    pub devices: usize,
    /// Bytes of memory per device: the budget of its pool, which counts segments. `RUSTDEV_MEMORY_LIMIT` may ask for less.
    pub memory: u64,
}

/// Hardware behind the devices of this process.
///
/// **Order.** Without a larger depth, the hardware has at most one task of a stream at a time; the next one comes when that task
/// has [ended](HardwareTask::finish). Tasks of different streams come in any order and concurrently; a task that waits for an event
/// comes after the event. The hardware therefore needs no queue to keep the order, and may run all its tasks concurrently.
/// [`HardwareTask::stream`] and [`HardwareTask::priority`] identify a task's stream.
///
/// **Depth.** Hardware with command queues may take several tasks of a stream at a time: up to its [depth](Hardware::depth). They
/// are handed over in the stream's order, from one thread at a time. The hardware runs them in that order, whichever of its engines
/// they are for: a task begins after the writes of the previous one are visible. It [ends](HardwareTask::finish) them on any
/// thread, also in another order; the stream counts a task when all earlier ones have ended. A task that fails is ended before the
/// next one of its stream begins, which then [is skipped](HardwareTask::is_skipped). Host functions, sleeps, and waits for events
/// that are not reached come only when the hardware has ended all tasks before them.
///
/// **Threads.** [`copy`](Hardware::copy), [`launch`](Hardware::launch) and [`submit`](Hardware::submit) are called concurrently on
/// any thread: one that submits, one that waits, one of the runtime's, or the one that has just ended the previous task. They
/// enqueue the task for the hardware and return. They may also run and end it themselves, which blocks the calling thread.
///
/// **Waiting.** None of them may wait for a stream, an event or another task. An engine that runs tasks serially on one thread is
/// allowed: a task that is short of memory does not wait for streams whose tasks the hardware has.
///
/// **Panics** of a task are caught by [`HardwareTask::run`] and become failures of the task. A dropped task fails, too.
///
/// **At process exit**, the runtime waits a moment for tasks that the hardware has, and hands no more over. Tasks that it has got
/// ahead of their turn and has not begun are skipped.
pub trait Hardware: fmt::Debug + Send + Sync {
    /// What the devices are; called once, by [`install`].
    fn properties(&self) -> Properties;

    /// Reserves an address range of `length` bytes, a multiple of 2 MiB, for a device; called before its first allocation. The
    /// range is larger than the memory, four times where possible, so that segments find room in any order. Fails if there is no
    /// such range. The runtime then asks for shorter ranges, down to the memory's size, and after that every allocation fails.
    fn reserve(&self, device: usize, length: usize) -> io::Result<Box<dyn DeviceMemory>>;

    /// Starts a byte copy between host and device, within the device, or to another device ([`MemoryKind::Peer`]). A copy between
    /// host and device that changes dtype or layout arrives as three tasks: the runtime packs or unpacks host memory on a host
    /// thread, so that only a plain transfer touches both memories. [`HardwareTask::run`] would copy with the processor.
    fn copy(&self, transfer: Transfer, task: HardwareTask);

    /// Starts any other task: a kernel of the operator table, of PyTorch or of another library, a fill, or a copy between devices
    /// that changes dtype or layout.
    fn launch(&self, task: HardwareTask);

    /// The number of tasks of one stream that it takes at a time, at least 1; called once, by [`install`].
    fn depth(&self) -> usize {
        1
    }

    /// Starts tasks of one stream, in this order; called if the [depth](Hardware::depth) is larger than 1. Hardware with command
    /// queues enqueues them all and rings its doorbell once.
    fn submit(&self, tasks: Vec<HardwareTask>) {
        for task in tasks {
            match task.transfer() {
                Some(transfer) => self.copy(transfer, task),
                None => self.launch(task),
            }
        }
    }
}

struct Installed {
    hardware: Arc<dyn Hardware>,
    properties: Properties,
    depth: usize,
}

/// The installed hardware; `None` once the runtime has started without any.
static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();

/// Puts hardware behind the devices. Must be called at most once per process, before anything else of this crate. Fails with
/// `InvalidArgument` once the runtime has started (the environment was read, or hardware was installed), and for invalid
/// properties.
pub fn install(hardware: Arc<dyn Hardware>) -> Result<(), Error> {
    let (properties, depth) = (hardware.properties(), hardware.depth());
    let refused = |hardware: Arc<dyn Hardware>, reason: &str| {
        Err(Error::InvalidArgument(format!("{hardware:?} cannot be installed: {reason}")))
    };
    if !(1..=MAX_DEVICES).contains(&properties.devices) {
        return refused(hardware, &format!("it has {} devices, which are 1 to {MAX_DEVICES}", properties.devices));
    }
    if properties.memory < HUGE_PAGE as u64 {
        return refused(hardware, &format!("a device has at least {HUGE_PAGE} bytes of memory, not {}", properties.memory));
    }
    if depth == 0 {
        return refused(hardware, "its depth is 0, which is at least 1");
    }
    let mut given = Some(Installed { hardware, properties, depth });
    // If a value is set already, it stays, and so does `given`.
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

/// True if hardware was installed. Costs one relaxed load.
#[inline]
pub fn is_installed() -> bool {
    observers::has(observers::HARDWARE)
}

/// The installed hardware. After this call none can be installed.
pub(super) fn installed() -> Option<&'static dyn Hardware> {
    INSTALLED.get_or_init(|| None).as_ref().map(|installed| &*installed.hardware)
}

/// The number of tasks of one stream that the installed hardware takes at a time. After this call none can be installed.
pub(super) fn depth() -> usize {
    INSTALLED.get_or_init(|| None).as_ref().map_or(1, |installed| installed.depth)
}

/// The properties of the installed hardware. After this call none can be installed.
pub fn properties() -> Option<&'static Properties> {
    INSTALLED.get_or_init(|| None).as_ref().map(|installed| &installed.properties)
}
