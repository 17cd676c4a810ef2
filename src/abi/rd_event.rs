//! C ABI of the events.

use super::rd_device::{device_index, small};
use super::rd_stream::{find, give};
use super::{Failure, RD_INVALID_ARGUMENT, guard, rd_status, shield};
use crate::runtime::device;
use crate::runtime::event::Event;

/// An event, opaque to C.
#[allow(non_camel_case_types)]
pub struct rd_event(Event);

/// The event behind a handle.
///
/// # Safety
/// `event` is null or came from [`rd_event_create`] and was not destroyed.
unsafe fn borrow<'a>(event: *const rd_event) -> Result<&'a Event, Failure> {
    // SAFETY: the caller's promise.
    let found = unsafe { event.as_ref() };
    found.map(|event| &event.0).ok_or_else(|| Failure::new(RD_INVALID_ARGUMENT, "the event is null"))
}

/// The event behind a handle, for callers in Rust.
///
/// # Safety
/// `event` came from [`rd_event_create`] and is destroyed only after the last use of the result.
#[cfg(feature = "python-bindings")]
pub(crate) unsafe fn of_event<'a>(event: *const rd_event) -> &'a Event {
    // SAFETY: the caller's promise.
    unsafe { &(*event).0 }
}

/// A new event of the device, never recorded; the caller destroys it.
///
/// # Safety
/// `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_create(device: i32, timing: bool, event: *mut *mut rd_event) -> rd_status {
    guard(|| {
        let index = device_index(device)?;
        device::get(index)?;
        // SAFETY: the caller's promise.
        unsafe { give(event, Box::into_raw(Box::new(rd_event(Event::new(index, timing))))) };
        Ok(())
    })
}

/// Frees an event; null is allowed, and pending uses stay valid.
///
/// # Safety
/// `event` came from [`rd_event_create`] and was not destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_destroy(event: *mut rd_event) {
    shield((), || {
        if !event.is_null() {
            // SAFETY: the caller hands back what `rd_event_create` made with `Box::into_raw`.
            drop(unsafe { Box::from_raw(event) });
        }
    });
}

/// Records the event after the stream's current tasks.
///
/// # Safety
/// `event` is a live event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_record(event: *mut rd_event, device: i32, stream: i64) -> rd_status {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { borrow(event) }?.record(find(device, stream)?)?))
}

/// Makes the stream wait for the event's latest recording; no effect if never recorded.
///
/// # Safety
/// `event` is a live event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_block(event: *mut rd_event, device: i32, stream: i64) -> rd_status {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { borrow(event) }?.block(find(device, stream)?)?))
}

/// True if the latest recording is reached or the event was never recorded.
///
/// # Safety
/// `event` is a live event; `done` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_query(event: *mut rd_event, done: *mut bool) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let answer = unsafe { borrow(event) }?.query()?;
        // SAFETY: the caller's promise.
        unsafe { give(done, answer) };
        Ok(())
    })
}

/// Waits for the latest recording; raises a failure of the stream that it was recorded on.
///
/// # Safety
/// `event` is a live event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_synchronize(event: *mut rd_event) -> rd_status {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { borrow(event) }?.synchronize()?))
}

/// Milliseconds between two recordings, with microsecond resolution.
///
/// # Safety
/// `start` and `end` are live events; `milliseconds` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_elapsed(start: *mut rd_event, end: *mut rd_event, milliseconds: *mut f64) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let start = unsafe { borrow(start) }?;
        // SAFETY: the caller's promise.
        let end = unsafe { borrow(end) }?;
        let elapsed = start.elapsed(end)?;
        // SAFETY: the caller's promise.
        unsafe { give(milliseconds, elapsed) };
        Ok(())
    })
}

/// The event's device; -1 for null.
///
/// # Safety
/// `event` is null or a live event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_event_device(event: *const rd_event) -> i32 {
    // SAFETY: the caller's promise.
    shield(-1, || unsafe { borrow(event) }.map_or(-1, |event| small(event.device())))
}
