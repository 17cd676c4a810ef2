//! A simulated slow device behind rustdev: launches have a latency, copies have a latency and a bandwidth, and memory is
//! separate from the host's.
//!
//! It stands for hardware with a driver in Rust, and shows everything that a backend implements:
//!
//! | file | what it is on real hardware |
//! |---|---|
//! | [`memory`] | the driver's calls that reserve addresses and map memory of the device |
//! | [`engine`] | command queues, and the thread that waits for their interrupts |
//! | [`lines`] | semaphores between the command queues |
//! | [`dma`] | the copy engine, with a staging buffer of limited size |
//! | [`speed`] | the device's data sheet; here, environment variables |
//! | `module` (feature `python`) | the extension module: `install`, then the same as in rustdev's own |
//!
//! ```no_run
//! let device = slow_device::SlowDevice::new(slow_device::speed::Speed::default());
//! slow_device::install(&device)?;
//! // From here on `rustdev::runtime::device` has slow devices.
//! # Ok::<(), rustdev::runtime::Error>(())
//! ```

pub mod dma;
pub mod engine;
pub mod lines;
pub mod memory;
#[cfg(feature = "python")]
mod module;
pub mod speed;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustdev::hardware::{self, DeviceMemory, Hardware, HardwareTask, Properties, Transfer};
use rustdev::runtime::Error;

use engine::{Engine, Job, Work};
use lines::Lines;
use memory::{Ranges, SlowMemory};
use speed::Speed;

/// The hardware: several devices, each with an engine for launches and one for copies.
pub struct SlowDevice {
    speed: Speed,
    ranges: Arc<Ranges>,
    counts: Arc<Counts>,
    lines: Arc<Lines>,
    faults: Mutex<Vec<(&'static str, Fault)>>,
    compute: Vec<Engine>,
    copies: Vec<Engine>,
}

/// Counters of the engines of all devices together.
#[derive(Debug, Default)]
pub struct Counts {
    /// Launches, and those of them that completed.
    pub launches: AtomicU64,
    pub completed: AtomicU64,
    /// Copies, and their bytes by direction.
    pub copies: AtomicU64,
    pub bytes_to_device: AtomicU64,
    pub bytes_to_host: AtomicU64,
    pub bytes_within: AtomicU64,
    /// The number of fills of staging buffers.
    pub staged: AtomicU64,
    /// The calls that handed over tasks.
    pub doorbells: AtomicU64,
    /// The most tasks of one stream that the device has had at a time.
    pub most_ahead: AtomicU64,
}

/// A fault of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The engine reports this failure.
    Fails(String),
    /// The engine never completes the launch.
    Forgets,
}

impl fmt::Debug for SlowDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a slow device ({:?})", self.speed)
    }
}

impl SlowDevice {
    /// Devices with these parameters.
    pub fn new(speed: Speed) -> Arc<Self> {
        let (ranges, counts, lines) = (Arc::new(Ranges::default()), Arc::new(Counts::default()), Arc::new(Lines::default()));
        let engines = |name: &str| -> Vec<Engine> {
            let new = |device| Engine::new(format!("slow-{name}-{device}"), speed, &ranges, &counts, &lines);
            (0..speed.devices).map(new).collect()
        };
        let (compute, copies) = (engines("compute"), engines("copy"));
        Arc::new(Self { speed, ranges, counts, lines, faults: Mutex::default(), compute, copies })
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Makes the next launch with this name fail.
    pub fn break_next(&self, name: &'static str, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push((name, fault));
    }

    fn fault(&self, name: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let position = faults.iter().position(|(broken, _)| *broken == name)?;
        Some(faults.swap_remove(position).1)
    }
}

/// Installs the device as rustdev's hardware; must precede any other call of rustdev.
///
/// # Errors
/// Those of [`hardware::install`].
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

    fn depth(&self) -> usize {
        self.speed.depth
    }

    fn copy(&self, _transfer: Transfer, task: HardwareTask) {
        self.submit(vec![task]);
    }

    fn launch(&self, task: HardwareTask) {
        self.submit(vec![task]);
    }

    /// The copy engine of the task's device makes a copy. Copies within a device go to the compute engine, like a kernel.
    fn submit(&self, tasks: Vec<HardwareTask>) {
        self.counts.doorbells.fetch_add(1, Ordering::Relaxed);
        for task in tasks {
            let (engines, work) = match task.transfer() {
                Some(transfer) => (if transfer.is_host() { &self.copies } else { &self.compute }, Work::Copy(transfer)),
                None => (&self.compute, Work::Launch(self.fault(task.name()))),
            };
            let count = if matches!(work, Work::Copy(_)) { &self.counts.copies } else { &self.counts.launches };
            count.fetch_add(1, Ordering::Relaxed);
            let (engine, place) = (&engines[task.device()], self.lines.enter(&task, &self.counts));
            engine.submit(Job { work, task, submitted: Instant::now(), place });
        }
    }
}
