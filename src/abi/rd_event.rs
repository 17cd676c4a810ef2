//! C ABI of the events.

use super::rd_device::{device_index, small};
use super::rd_stream::find;
use super::{consume, guard, rd_status, shield, write};
use crate::runtime::event::Event;
use crate::runtime::{Error, device};

/// An event, opaque to C.
pub struct rd_event(pub(crate) Event);

/// A new event of the device, never recorded; the caller destroys it.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_create(device: i32, timing: bool, event: &mut *mut rd_event) -> rd_status {
    write(event, || {
        let index = device_index(device)?;
        device::get(index)?;
        Ok::<_, Error>(Box::into_raw(Box::new(rd_event(Event::new(index, timing)))))
    })
}

/// Frees an event; null is allowed, and pending uses stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_destroy(event: Option<Box<rd_event>>) {
    consume(event, drop);
}

/// Records the event after the stream's current tasks.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_record(event: &rd_event, device: i32, stream: i64) -> rd_status {
    guard(|| Ok(event.0.record(find(device, stream)?)?))
}

/// Makes the stream wait for the event's latest recording; no effect if never recorded.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_block(event: &rd_event, device: i32, stream: i64) -> rd_status {
    guard(|| Ok(event.0.block(find(device, stream)?)?))
}

/// True if the latest recording is reached or the event was never recorded.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_query(event: &rd_event, done: &mut bool) -> rd_status {
    write(done, || event.0.query())
}

/// Waits for the latest recording; raises a failure of the stream that it was recorded on.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_synchronize(event: &rd_event) -> rd_status {
    guard(|| Ok(event.0.synchronize()?))
}

/// Milliseconds between two recordings, with microsecond resolution.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_elapsed(start: &rd_event, end: &rd_event, milliseconds: &mut f64) -> rd_status {
    write(milliseconds, || start.0.elapsed(&end.0))
}

/// The event's device.
#[unsafe(no_mangle)]
pub extern "C" fn rd_event_device(event: &rd_event) -> i32 {
    shield(-1, || small(event.0.device()))
}
