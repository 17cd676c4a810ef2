//! C ABI of the traces for PyTorch's profiler: which tasks ran on the devices, and when.
//!
//! Times are nanoseconds of the system's clock (`CLOCK_REALTIME`). At most one trace records at a time.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use super::rd_device::small;
use super::{rd_status, shield, write};
pub use crate::runtime::activities::Type as rd_activity_type;
use crate::runtime::activities::{Activities, Activity, Note};
use crate::runtime::debugging::clock;
use crate::runtime::trace;

/// A finished trace, opaque to C.
pub struct rd_trace {
    activities: Activities,
    /// The data that the latest [`rd_activity`] points to.
    latest: Option<(Activity, Vec<rd_activity_note>)>,
}

/// A key and a value that a profiler shows with an activity.
#[repr(C)]
#[derive(Debug)]
pub struct rd_activity_note {
    pub key: *const c_char,
    pub value: *const c_char,
    /// True if the value is a text, false if it is a number.
    pub is_text: bool,
}

/// An activity of a trace, as profilers show it.
#[repr(C)]
pub struct rd_activity {
    /// `RD_ACTIVITY_TYPE_*`.
    pub kind: i32,
    /// The device or, for a call, the process.
    pub device: i32,
    /// The stream's id or, for a call, the thread.
    pub resource: i64,
    /// NUL-terminated. Empty for a range, which has the name of the range that `linked` refers to.
    pub name: *const c_char,
    pub begin: u64,
    pub end: u64,
    /// The number of the task, if positive.
    pub id: i32,
    /// The number of the arrow from the call to what ran; 0 for none.
    pub arrow: i32,
    /// The id that [`rd_trace_enter`] last received on the submitting thread: an operator, or else a user range; 0 for none.
    pub linked: u64,
    pub notes: *const rd_activity_note,
    pub num_notes: usize,
}

/// Starts a trace and returns its number; fails while another trace is recording.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_start(number: &mut u64) -> rd_status {
    write(number, trace::start)
}

/// Stops the trace of that number and waits for the streams that have tasks in it; null if it is not recording. `types`: bit set of
/// the requested `RD_ACTIVITY_TYPE_*`. The caller destroys the result.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_stop(number: u64, types: u32) -> Option<Box<rd_trace>> {
    shield(None, || {
        clock::finish();
        let activities = Activities::new(trace::stop(number)?, types);
        Some(Box::new(rd_trace { activities, latest: None }))
    })
}

/// Frees a trace; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_destroy(trace: Option<Box<rd_trace>>) {
    drop(trace);
}

/// The number of tasks in the trace; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_count(trace: Option<&rd_trace>) -> usize {
    trace.map_or(0, |trace| trace.activities.trace().count())
}

/// The number of tasks that found no room in the trace; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_dropped(trace: Option<&rd_trace>) -> usize {
    trace.map_or(0, |trace| trace.activities.trace().dropped())
}

/// Writes the next activity of the trace, which is valid until the next call; returns `false` after the last one and for null.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_next(trace: Option<&mut rd_trace>, activity: &mut MaybeUninit<rd_activity>) -> bool {
    shield(false, || {
        let Some(trace) = trace else { return false };
        trace.latest = trace.activities.next().map(|next| {
            let notes = next.notes.iter().map(note_for_c).collect();
            (next, notes)
        });
        let Some((next, notes)) = &trace.latest else { return false };
        activity.write(for_c(next, notes));
        true
    })
}

fn note_for_c(note: &Note) -> rd_activity_note {
    rd_activity_note { key: note.key.as_ptr(), value: note.value.as_ptr(), is_text: note.is_text }
}

fn for_c(activity: &Activity, notes: &[rd_activity_note]) -> rd_activity {
    rd_activity {
        kind: activity.kind as i32,
        device: small(activity.device),
        resource: activity.resource,
        name: activity.name.as_ptr(),
        begin: activity.run.0,
        end: activity.run.1,
        id: small(activity.id),
        arrow: small(activity.arrow),
        linked: activity.linked,
        notes: notes.as_ptr(),
        num_notes: notes.len(),
    }
}

/// This thread enters an operator or a user range with the profiler's id `id`.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_enter(id: u64, is_user: bool) {
    shield((), || trace::enter(id, is_user));
}

/// This thread leaves the innermost operator or user range.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_leave(is_user: bool) {
    shield((), || trace::leave(is_user));
}
