//! C ABI for the host's waits for the devices, which are reported to an observer.

use std::sync::OnceLock;

use super::rd_event::rd_event;
use super::{rd_text, shield};
use crate::runtime::stream::Stream;
use crate::runtime::{device, trace};

/// Kind of [`rd_wait`]: the program reads a value.
pub const RD_WAIT_READ: i32 = 0;
/// Kind of [`rd_wait`]: an operator needs a value, for example the size of its result.
pub const RD_WAIT_RESULT: i32 = 1;
/// Kind of [`rd_wait`]: a CPU fallback.
pub const RD_WAIT_FALLBACK: i32 = 2;
/// Kind of [`rd_wait`]: a copy.
pub const RD_WAIT_COPY: i32 = 3;
/// Kind of [`rd_wait`]: the program waits for a device explicitly.
pub const RD_WAIT_DEVICE: i32 = 4;
/// Kind of [`rd_wait`]: the program waits for a stream explicitly.
pub const RD_WAIT_STREAM: i32 = 5;
/// Kind of [`rd_wait`]: the program waits for an event explicitly.
pub const RD_WAIT_EVENT: i32 = 6;

/// Mask of the debug mode in the flags of waits: 0 nothing, 1 warn, 2 raise.
pub const RD_WAIT_MODE: i32 = 3;
/// Bit in the flags of waits: waits are reported to the observer.
pub const RD_WAIT_OBSERVED: i32 = 4;
/// Bit in the flags of waits: a dry run is on, in which the host reads zeros.
pub const RD_WAIT_DRY: i32 = 8;

/// A wait of the host.
#[repr(C)]
#[derive(Debug)]
pub struct rd_wait {
    /// `RD_WAIT_*`.
    pub kind: i32,
    pub device: i32,
    pub name: rd_text,
    /// The awaited stream.
    pub stream: i64,
    /// The awaited event.
    pub event: *mut rd_event,
    /// Bytes of the copy.
    pub bytes: u64,
    /// Direction of the copy: true from host to device.
    pub to_device: bool,
    /// True if the host memory of the copy is pinned.
    pub pinned: bool,
    /// True for a copy that the host does not wait for.
    pub is_asynchronous: bool,
    /// True if nothing was queued or running when the wait began.
    pub is_idle: bool,
}

/// Called after each wait with its begin and end in nanoseconds of the system's clock.
type Observer = fn(wait: &rd_wait, begin: u64, end: u64);

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Sets the observer of waits; only the first call has an effect.
#[cfg(feature = "python-bindings")]
pub(crate) fn observe(observer: Observer) {
    OBSERVER.get_or_init(|| observer);
}

/// Begins a wait: sets `is_idle` and returns the time, for [`rd_wait_end`].
///
/// # Safety
/// The wait's event is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_wait_begin(wait: &mut rd_wait) -> u64 {
    shield(0, || {
        // SAFETY: the caller's promise.
        let event = unsafe { wait.event.as_ref() };
        // If the query fails, the wait itself will report the error.
        wait.is_idle =
            if wait.kind == RD_WAIT_EVENT { event.is_some_and(|event| event.0.query() == Ok(true)) } else { is_idle(wait) };
        trace::now()
    })
}

/// True if nothing is queued or running on what the wait is for (a device or a stream, not an event).
fn is_idle(wait: &rd_wait) -> bool {
    let Ok(index) = usize::try_from(wait.device) else { return false };
    let Ok(device) = device::get(index) else { return false };
    match wait.kind {
        RD_WAIT_DEVICE => device.streams().into_iter().all(is_done),
        RD_WAIT_STREAM => device.stream(wait.stream).is_some_and(is_done),
        _ => is_done(device::current_stream(index)),
    }
}

fn is_done(stream: &Stream) -> bool {
    let submitted = stream.submitted();
    stream.completed() >= submitted
}

/// Ends a wait that began at `begin`.
#[unsafe(no_mangle)]
pub extern "C" fn rd_wait_end(wait: &rd_wait, begin: u64) {
    let end = trace::now().max(begin);
    shield((), || OBSERVER.get().into_iter().for_each(|observer| observer(wait, begin, end)));
}
