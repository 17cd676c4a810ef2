//! Memory pools of this process: one per device, created on first use, and one of pinned host memory.
//!
//! In a forked child the pools belong to a parent whose threads do not exist there: allocations fail, and frees do nothing.

#![forbid(unsafe_code)]

use std::io;

use super::config::{self, Config, machine};
use super::debugging::faults;
use super::memory::caching_pool::Settings;
use super::memory::device_memory::DeviceMemory;
use super::memory::device_pool::{DevicePool, Surroundings};
use super::memory::label::Label;
use super::memory::shared_budget::SharedBudget;
use super::memory::{Timeline, arena, process_pools};
use super::name::Device;
use super::stream::Stream;
use super::sync::{Arc, OnceLock};
use super::{Error, device, fork, hardware, isolation, observers};

pub mod private_pool;
pub mod routes;

pub use process_pools::{all, device_of, host, pool_of};

/// The function that frees blocks whose receivers have returned them; set once something was sent.
pub(super) static COLLECTOR: OnceLock<fn()> = OnceLock::new();

/// The pools of all devices, created on the first call.
fn pools() -> Result<&'static [DevicePool], Error> {
    process_pools::get_or_make(|| {
        let config = config::init()?;
        let shared = config.memory_limit.is_none().then(|| Arc::new(SharedBudget::new(bytes(budget(config)))));
        let around = |device| Box::new(DeviceSurroundings { device, shared: shared.clone() });
        (0..config.device_count).map(|device| DevicePool::new(device, settings(config), around(device))).collect()
    })
}

/// The budget of each device in bytes. Without a limit, the budget of all devices together, which the first call determines.
pub fn budget(config: &Config) -> u64 {
    static AVAILABLE: OnceLock<u64> = OnceLock::new();
    config.memory_limit.unwrap_or_else(|| *AVAILABLE.get_or_init(|| machine::budget(config.processes)))
}

fn bytes(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn settings(config: &Config) -> Settings {
    Settings {
        budget: bytes(budget(config)),
        fraction: 1.0,
        max_split_size: config.alloc_conf.max_split_size.map_or(usize::MAX, bytes),
        garbage_collection_threshold: config.alloc_conf.garbage_collection_threshold.unwrap_or(0.0),
    }
}

struct DeviceSurroundings {
    device: usize,
    shared: Option<Arc<SharedBudget>>,
}

impl Surroundings for DeviceSurroundings {
    fn streams(&self) -> Vec<&'static dyn Timeline> {
        let streams = device::get(self.device).map(device::Device::streams).unwrap_or_default();
        streams.into_iter().map(|stream| stream as &'static dyn Timeline).collect()
    }

    fn reserve(&self, length: usize) -> io::Result<Box<dyn DeviceMemory>> {
        hardware::installed().map_or_else(|| arena::reserve(length), |hardware| hardware.reserve(self.device, length))
    }

    fn shared_budget(&self) -> Option<Arc<SharedBudget>> {
        self.shared.clone()
    }

    fn empty_other_caches(&self) {
        if self.shared.is_some() {
            all().iter().enumerate().filter(|(device, _)| *device != self.device).for_each(|(_, pool)| pool.empty_cache());
        }
    }

    fn collect_sends(&self) {
        if let Some(collect) = COLLECTOR.get() {
            collect();
        }
    }

    fn empty_quarantine(&self) {
        isolation::empty_quarantine();
    }
}

/// The pool of a device. Fails with `InvalidArgument` for an index out of range and in a forked child, `InvalidValue` for a
/// malformed environment.
pub fn pool(index: usize) -> Result<&'static DevicePool, Error> {
    fork::check()?;
    match all().get(index) {
        Some(pool) => Ok(pool),
        None => device::get(index).and_then(|_| Ok(&pools()?[index])),
    }
}

/// The pools of all devices, created now if necessary. Fails with `InvalidArgument` in a forked child, `InvalidValue` for a
/// malformed environment.
pub fn make_all() -> Result<&'static [DevicePool], Error> {
    fork::check()?;
    config::init()?;
    device::all();
    pools()
}

/// A block of at least `bytes` bytes for tasks of the stream, aligned to 512; null for 0 bytes. Its contents are undefined. Fails
/// with `OutOfMemory` if the budget or the machine is used up, `InvalidArgument` for a stream of another device and in a forked
/// child.
#[inline]
pub fn allocate(device: usize, stream: &'static Stream, bytes: usize) -> Result<*mut u8, Error> {
    let pool = pool(device)?;
    if stream.device() != device {
        return Err(Error::InvalidArgument(format!(
            "memory of device {} cannot belong to a stream of device {}",
            Device(device),
            Device(stream.device())
        )));
    }
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    take(pool, stream, bytes)
}

/// As [`allocate`], for this thread's stream of the device.
#[inline]
pub fn allocate_on(device: usize, bytes: usize) -> Result<*mut u8, Error> {
    let pool = pool(device)?;
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    take(pool, device::current_stream(device), bytes)
}

#[inline]
fn take(pool: &'static DevicePool, stream: &'static Stream, bytes: usize) -> Result<*mut u8, Error> {
    let source = routes::source(stream);
    let block =
        if observers::is_debugging() { take_debugged(pool, stream, source, bytes) } else { pool.allocate(stream, source, bytes) };
    block.map(|address| address as *mut u8)
}

#[cold]
fn take_debugged(pool: &'static DevicePool, stream: &'static Stream, source: u64, bytes: usize) -> Result<usize, Error> {
    match faults::shortage() {
        Some(reason) => Err(pool.refuse(stream, source, bytes, &reason)),
        None => isolation::allocate(pool, stream, source, bytes),
    }
}

/// Frees a block; null is allowed. Never waits and never fails; does nothing in a forked child.
#[inline]
pub fn free(pointer: *mut u8) {
    if pointer.is_null() || fork::is_child() {
        return;
    }
    let freed = release(pointer);
    debug_assert!(freed, "a pointer was freed that no live block starts at");
}

/// Frees a block like [`free`], but checks the pointer. Fails with `InvalidArgument` if no live block starts there.
pub fn free_checked(pointer: *mut u8) -> Result<(), Error> {
    fork::check()?;
    if pointer.is_null() || release(pointer) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("no live block of device memory starts at {pointer:p}")))
}

#[inline]
fn release(pointer: *mut u8) -> bool {
    let free = |pool: &'static DevicePool| {
        if isolation::has_guards() { isolation::free(pool, pointer as usize) } else { pool.free(pointer as usize) }
    };
    pool_of(pointer).is_some_and(free)
}

/// Notes that tasks of the stream use the block that starts at `pointer`: once freed, it is not reused before the tasks submitted
/// by then are done. Fails with `InvalidArgument` if no live block starts there.
pub fn record_stream(pointer: *mut u8, stream: &'static Stream) -> Result<(), Error> {
    fork::check()?;
    if pointer.is_null() || pool_of(pointer).is_some_and(|pool| pool.record_stream(pointer as usize, stream)) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("record_stream: no live block of device memory starts at {pointer:p}")))
}

/// Sets or removes the label of the live block that starts at `pointer`; `false` if there is none.
pub fn set_label(pointer: *const u8, label: Option<Label>) -> bool {
    pool_of(pointer).is_some_and(|pool| pool.lock().set_label(pointer as usize, label))
}

/// The label of the live block that starts at `pointer`.
pub fn label(pointer: *const u8) -> Option<Label> {
    pool_of(pointer)?.lock().label(pointer as usize)
}

/// A page-aligned block of at least `bytes` bytes of pinned host memory; null for 0 bytes. Fails with `OutOfMemory` if the machine
/// refuses it, `InvalidArgument` in a forked child.
pub fn allocate_host(bytes: usize) -> Result<*mut u8, Error> {
    fork::check()?;
    config::init()?;
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    host().allocate(bytes).map(|address| address as *mut u8)
}

/// Frees a block of pinned host memory; null is allowed. Does nothing in a forked child.
pub fn free_host(pointer: *mut u8) {
    if !pointer.is_null() && !fork::is_child() {
        host().free(pointer as usize);
    }
}

/// Notes that tasks of the stream use the pinned block that contains `pointer`. Once freed, it is not reused before they are done
/// or, if the stream captures, before the graph is destroyed. Fails with `InvalidArgument` if no live block contains it.
pub fn record_host_stream(pointer: *mut u8, stream: &'static Stream) -> Result<(), Error> {
    fork::check()?;
    if pointer.is_null() {
        return Ok(());
    }
    let user: &'static dyn Timeline = match stream.recorder() {
        Some(recorder) => recorder.hold()?,
        None => stream,
    };
    if host().record_stream(pointer as usize, user) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("record_stream: {pointer:p} is not in a live block of pinned memory")))
}
