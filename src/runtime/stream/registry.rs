//! The streams of every device, and each thread's current streams.

use std::cell::Cell;

use super::Stream;
use crate::runtime::Error;
use crate::runtime::config::{MAX_DEVICES, config};
use crate::runtime::gate::Pass;
use crate::runtime::sync::{AtomicUsize, LazyLock, OnceLock, Ordering, PoisonError, RwLock};
use crate::runtime::task::DrainableStream;

/// Streams per priority in the pool of a device.
pub const POOL_STREAMS: usize = 32;
const PRIORITIES: usize = 2;
const FIRST_CREATED: usize = 1 + PRIORITIES * POOL_STREAMS;

thread_local! {
    static STREAMS: [Cell<Option<&'static Stream>>; MAX_DEVICES] = const { [const { Cell::new(None) }; MAX_DEVICES] };
}

static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| (0..config().device_count).map(Device::new).collect());

#[inline]
pub fn devices() -> &'static [Device] {
    &DEVICES
}

/// The streams of all devices that have been used so far.
pub(in crate::runtime) fn streams() -> impl Iterator<Item = &'static Stream> {
    devices().iter().flat_map(Device::streams)
}

/// The stream of that id; `None` if device or stream does not exist.
pub fn find(device: usize, id: i64) -> Option<&'static Stream> {
    devices().get(device)?.stream(id)
}

/// This thread's current stream of a device: the default stream of `devices()` at first. Panics if the device does not exist.
#[inline]
pub fn current(device: usize, devices: impl FnOnce() -> &'static [Device]) -> &'static Stream {
    STREAMS.with(|streams| {
        streams[device].get().unwrap_or_else(|| {
            let stream = devices()[device].default_stream();
            streams[device].set(Some(stream));
            stream
        })
    })
}

/// Makes `stream` this thread's current stream of its device; returns the previous one.
pub fn exchange(stream: &'static Stream) -> &'static Stream {
    let before = current(stream.device(), devices);
    STREAMS.with(|streams| streams[stream.device()].set(Some(stream)));
    before
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

    /// The next stream of the pool, round robin, without those that are capturing unless all are. `priority`: 0 normal, -1 (and
    /// below) high.
    pub fn stream_from_pool(&self, priority: i32) -> &'static Stream {
        let class = usize::from(priority < 0);
        let next = || self.pool_stream(class * POOL_STREAMS + self.next[class].fetch_add(1, Ordering::Relaxed) % POOL_STREAMS);
        let first = next();
        let mut candidates = std::iter::once(first).chain(std::iter::repeat_with(next).take(POOL_STREAMS - 1));
        candidates.find(|stream| !stream.is_capturing()).unwrap_or(first)
    }

    fn pool_stream(&self, slot: usize) -> &'static Stream {
        if let Some(stream) = self.pool[slot].get() {
            return stream;
        }
        // A thread that stops all streams has not seen this one, so it must not exist before that ends.
        let _pass = Pass::take();
        self.pool[slot].get_or_init(|| Stream::leak(self.index, id_of(1 + slot), if slot < POOL_STREAMS { 0 } else { -1 }))
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn create_stream(&self, priority: i32) -> &'static Stream {
        let _pass = Pass::take();
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        let stream = Stream::leak(self.index, id_of(FIRST_CREATED + created.len()), priority.clamp(-1, 0));
        created.push(stream);
        stream
    }

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

    /// Waits for all work of the device. Fails with the first failure that a stream of the device has stored (the others are kept
    /// for their streams' next synchronising call), and with `InvalidArgument` while a stream of the device captures, depending on
    /// the capture's mode.
    pub fn synchronize(&self) -> Result<(), Error> {
        let streams = self.streams();
        streams.iter().filter_map(|stream| stream.recorder()).try_for_each(|recorder| recorder.check_wait(self.index))?;
        for stream in &streams {
            stream.tell_host_waits();
        }
        streams.iter().try_for_each(|stream| stream.finish())?;
        streams.iter().try_for_each(|stream| stream.raise())
    }
}

fn id_of(number: usize) -> i64 {
    i64::try_from(number).expect("streams are fewer than 2^63")
}
