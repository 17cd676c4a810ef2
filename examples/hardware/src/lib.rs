//! A simulated slow device behind rustdev: each launch has a latency, each copy a latency and a bandwidth, and memory is the device's own.
//!
//! It stands for hardware with a driver in Rust, and shows all that a backend implements:
//!
//! | file | what it is on real hardware |
//! |---|---|
//! | [`memory`] | the driver's calls that reserve addresses and map memory of the device |
//! | [`engine`] | command queues, and the thread that waits for their interrupts |
//! | [`dma`] | the copy engine, with a staging buffer of limited size |
//! | [`speed`] | what the data sheet says; here, environment variables |
//! | `module` (feature `python`) | the extension module: `install`, then what rustdev's own does |
//!
//! ```no_run
//! let device = slow_device::SlowDevice::new(slow_device::speed::Speed::default());
//! slow_device::install(&device)?;
//! // From here on `rustdev::runtime::device` has slow devices.
//! # Ok::<(), rustdev::runtime::Error>(())
//! ```

pub mod dma;
pub mod engine;
pub mod memory;
#[cfg(feature = "python")]
mod module;
pub mod speed;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustdev::hardware::{self, DeviceMemory, Hardware, HardwareTask, Properties, Transfer};
use rustdev::runtime::Error;

use engine::{Engine, Job};
use memory::{Ranges, SlowMemory};
use speed::Speed;

/// Hardware: some devices, each with an engine for launches and one for copies.
pub struct SlowDevice {
    speed: Speed,
    ranges: Arc<Ranges>,
    counts: Arc<Counts>,
    faults: Mutex<Vec<(&'static str, Fault)>>,
    compute: Vec<Engine>,
    copies: Vec<Engine>,
}

/// What the engines have done so far, of all devices together.
#[derive(Debug, Default)]
pub struct Counts {
    /// Launches, and how many of them ran to their end.
    pub launches: AtomicU64,
    pub completed: AtomicU64,
    /// Copies, and their bytes by direction.
    pub copies: AtomicU64,
    pub bytes_to_device: AtomicU64,
    pub bytes_to_host: AtomicU64,
    pub bytes_within: AtomicU64,
    /// The fills of the staging buffers.
    pub staged: AtomicU64,
}

/// What goes wrong with a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The engine reports this failure.
    Fails(String),
    /// The engine forgets the launch.
    Forgets,
}

impl fmt::Debug for SlowDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a slow device ({:?})", self.speed)
    }
}

impl SlowDevice {
    /// Devices of that speed.
    pub fn new(speed: Speed) -> Arc<Self> {
        let (ranges, counts) = (Arc::new(Ranges::default()), Arc::new(Counts::default()));
        let engines = |name: &str| -> Vec<Engine> {
            (0..speed.devices).map(|device| Engine::new(format!("slow-{name}-{device}"), speed, &ranges, &counts)).collect()
        };
        let (compute, copies) = (engines("compute"), engines("copy"));
        Arc::new(Self { speed, ranges, counts, faults: Mutex::default(), compute, copies })
    }

    /// What the engines have done so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Lets the next launch of that name go wrong.
    pub fn break_next(&self, name: &'static str, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push((name, fault));
    }

    fn fault(&self, name: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let position = faults.iter().position(|(broken, _)| *broken == name)?;
        Some(faults.swap_remove(position).1)
    }
}

/// Puts the device behind rustdev; before anything else of rustdev is called.
///
/// # Errors
/// As [`hardware::install`].
pub fn install(device: &Arc<SlowDevice>) -> Result<(), Error> {
    hardware::install(Arc::clone(device) as Arc<dyn Hardware>)
}

impl Hardware for SlowDevice {
    fn properties(&self) -> Properties {
        let Speed { devices, memory, .. } = self.speed;
        Properties { name: "slow device".to_owned(), devices, memory }
    }

    fn reserve(&self, device: usize, length: usize) -> io::Result<Box<dyn DeviceMemory>> {
        Ok(Box::new(SlowMemory::reserve(device, length, self.speed.memory, &self.ranges)?))
    }

    /// The copy engine of the task's device makes it, or, within a device, the compute engine, as a kernel would.
    fn copy(&self, transfer: Transfer, task: HardwareTask) {
        self.counts.copies.fetch_add(1, Ordering::Relaxed);
        let engines = if transfer.is_host() { &self.copies } else { &self.compute };
        engines[task.device()].submit(Job::Copy(transfer, task));
    }

    fn launch(&self, task: HardwareTask) {
        self.counts.launches.fetch_add(1, Ordering::Relaxed);
        let fault = self.fault(task.name());
        self.compute[task.device()].submit(Job::Launch(task, fault));
    }
}
