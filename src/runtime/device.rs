//! Devices with their streams, and each thread's current device and streams.
#![forbid(unsafe_code)]

use std::cell::Cell;

use super::config::{self, MAX_DEVICES, config};
use super::gate::Pass;
use super::graph::capture;
use super::stream::Stream;
use super::sync::{AtomicUsize, LazyLock, OnceLock, Ordering, PoisonError, RwLock};
use super::task::DrainableStream;
use super::{Error, debugging, exit, fork, sanitizer};

/// Streams per priority in the pool of a device.
pub const POOL_STREAMS: usize = 32;
const PRIORITIES: usize = 2;
const FIRST_CREATED: usize = 1 + PRIORITIES * POOL_STREAMS;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    static STREAMS: [Cell<Option<&'static Stream>>; MAX_DEVICES] = const { [const { Cell::new(None) }; MAX_DEVICES] };
}

/// Created on first use, which starts the runtime. A process that has only read the configuration may therefore fork.
static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    fork::mark_started();
    exit::watch();
    debugging::start(config());
    (0..config().device_count).map(Device::new).collect()
});

/// The number of devices.
pub fn count() -> usize {
    config().device_count
}

/// The device of that index.
///
/// # Errors
/// `InvalidArgument` for an index out of range and in a forked child, `InvalidValue` for a malformed environment.
#[inline]
pub fn get(index: usize) -> Result<&'static Device, Error> {
    fork::check()?;
    config::init()?;
    DEVICES.get(index).ok_or_else(|| out_of_range(index))
}

#[cold]
fn out_of_range(index: usize) -> Error {
    let count = count();
    let range = match count {
        0 => "there is no device".to_owned(),
        1 => "only device 0 exists".to_owned(),
        _ => format!("devices are 0 to {}", count - 1),
    };
    Error::InvalidArgument(format!("invalid device ordinal {index}: {range} (RUSTDEV_DEVICE_COUNT, RUSTDEV_VISIBLE_DEVICES)"))
}

/// Every device.
#[inline]
pub fn all() -> &'static [Device] {
    &DEVICES
}

/// The streams of all devices that have been used so far.
pub(super) fn streams() -> impl Iterator<Item = &'static Stream> {
    all().iter().flat_map(Device::streams)
}

/// This thread's current device.
#[inline]
pub fn current() -> usize {
    CURRENT.get()
}

/// Makes `index` this thread's current device.
///
/// # Errors
/// As [`get`].
pub fn set_current(index: usize) -> Result<(), Error> {
    if index >= config::init()?.device_count {
        return Err(out_of_range(index));
    }
    fork::check()?;
    CURRENT.set(index);
    Ok(())
}

/// This thread's current stream of a device.
///
/// # Panics
/// If the device does not exist.
#[inline]
pub fn current_stream(device: usize) -> &'static Stream {
    STREAMS.with(|streams| {
        streams[device].get().unwrap_or_else(|| {
            let stream = all()[device].default_stream();
            streams[device].set(Some(stream));
            stream
        })
    })
}

/// Makes `stream` this thread's current stream of its device; returns the previous one.
pub fn exchange_stream(stream: &'static Stream) -> &'static Stream {
    let before = current_stream(stream.device());
    STREAMS.with(|streams| streams[stream.device()].set(Some(stream)));
    before
}

/// The stream of that id; `None` if device or stream does not exist.
pub fn find_stream(device: usize, id: i64) -> Option<&'static Stream> {
    get(device).ok()?.stream(id)
}

/// One device.
///
/// Stream ids: 0 is the default stream, then the pool of normal priority, the pool of high priority, and created streams.
/// Streams live to the end of the process, so that their addresses serve as native handles.
#[derive(Debug)]
pub struct Device {
    index: usize,
    default: &'static Stream,
    pool: [OnceLock<&'static Stream>; PRIORITIES * POOL_STREAMS],
    next: [AtomicUsize; PRIORITIES],
    created: RwLock<Vec<&'static Stream>>,
}

impl Device {
    fn new(index: usize) -> Self {
        Self {
            index,
            default: Stream::leak(index, 0, 0),
            pool: [const { OnceLock::new() }; PRIORITIES * POOL_STREAMS],
            next: [const { AtomicUsize::new(0) }; PRIORITIES],
            created: RwLock::default(),
        }
    }

    /// The default stream, with id 0.
    #[inline]
    pub fn default_stream(&self) -> &'static Stream {
        self.default
    }

    /// The next stream of the pool, round robin. `priority`: 0 normal, -1 (and below) high.
    pub fn stream_from_pool(&self, priority: i32) -> &'static Stream {
        let class = usize::from(priority < 0);
        let turn = self.next[class].fetch_add(1, Ordering::Relaxed) % POOL_STREAMS;
        self.pool_stream(class * POOL_STREAMS + turn)
    }

    fn pool_stream(&self, slot: usize) -> &'static Stream {
        if let Some(stream) = self.pool[slot].get() {
            return stream;
        }
        // A thread that stops all streams has not seen this one, so it must not exist before that ends.
        let _pass = Pass::take();
        self.pool[slot].get_or_init(|| Stream::leak(self.index, id_of(1 + slot), if slot < POOL_STREAMS { 0 } else { -1 }))
    }

    /// Creates a stream.
    #[cfg(any(test, feature = "internals"))]
    pub fn create_stream(&self, priority: i32) -> &'static Stream {
        let _pass = Pass::take();
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        let stream = Stream::leak(self.index, id_of(FIRST_CREATED + created.len()), priority.clamp(-1, 0));
        created.push(stream);
        stream
    }

    /// The stream of that id, if it exists.
    pub fn stream(&self, id: i64) -> Option<&'static Stream> {
        match usize::try_from(id).ok()? {
            0 => Some(self.default),
            id @ 1..FIRST_CREATED => Some(self.pool_stream(id - 1)),
            id => self.created.read().unwrap_or_else(PoisonError::into_inner).get(id - FIRST_CREATED).copied(),
        }
    }

    /// The streams that have been used so far.
    pub fn streams(&self) -> Vec<&'static Stream> {
        let pool = self.pool.iter().filter_map(OnceLock::get).copied();
        let created = self.created.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(self.default).chain(pool).chain(created.iter().copied()).collect()
    }

    /// Waits for all work of the device.
    ///
    /// # Errors
    /// The first failure that a stream of the device has stored; the others are kept for their streams' next synchronising call.
    /// `InvalidArgument` while a stream of the device captures, depending on the capture's mode.
    pub fn synchronize(&self) -> Result<(), Error> {
        capture::check_device(self.index)?;
        let streams = self.streams();
        for stream in &streams {
            sanitizer::host_waits_for(stream);
        }
        streams.iter().try_for_each(|stream| stream.finish())?;
        streams.iter().try_for_each(|stream| stream.raise())
    }
}

fn id_of(number: usize) -> i64 {
    i64::try_from(number).expect("streams are fewer than 2^63")
}
