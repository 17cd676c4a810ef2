//! C ABI of the traces, for PyTorch's profiler: which tasks ran on the devices, and when.
//!
//! Times are nanoseconds of the system's clock (`CLOCK_REALTIME`). At most one trace records at a time.

use std::ffi::c_char;
use std::ptr;

use super::rd_device::small;
use super::rd_stream::give;
use super::{guard, rd_status, shield};
use crate::runtime::activities::{Activities, Activity, Note, Type};
use crate::runtime::trace;

/// A trace that is over, opaque to the other side.
#[allow(non_camel_case_types)]
pub struct rd_trace {
    activities: Activities,
    /// What the latest [`rd_activity`] points to.
    latest: Option<(Activity, Vec<rd_activity_note>)>,
}

/// Of [`rd_activity`]: a task that computes, or keeps the stream busy.
pub const RD_ACTIVITY_KERNEL: i32 = 0;
/// Of [`rd_activity`]: a copy.
pub const RD_ACTIVITY_COPY: i32 = 1;
/// Of [`rd_activity`]: a fill.
pub const RD_ACTIVITY_FILL: i32 = 2;
/// Of [`rd_activity`]: the part of a range of the user that ran on one stream.
pub const RD_ACTIVITY_RANGE: i32 = 3;
/// Of [`rd_activity`]: a call that submitted work.
pub const RD_ACTIVITY_CALL: i32 = 4;
/// Of [`rd_activity`]: none, but the name of a stream's line.
pub const RD_ACTIVITY_LINE: i32 = 5;

/// A key and a value that a profiler shows with an activity.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug)]
pub struct rd_activity_note {
    pub key: *const c_char,
    pub value: *const c_char,
    /// Whether the value is a text; else it is a number.
    pub is_text: bool,
}

/// An activity of a trace, as profilers draw them.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_activity {
    /// `RD_ACTIVITY_*`.
    pub kind: i32,
    /// The device, or the process of a call.
    pub device: i32,
    /// The number of the stream, or the thread of a call.
    pub resource: i64,
    /// Ends with a NUL. Empty for a range, whose name is that of what it is linked with.
    pub name: *const c_char,
    pub begin: u64,
    pub end: u64,
    /// Above 0, the number of the task.
    pub id: i32,
    /// The number of the arrow that begins at a call or ends at what ran; 0 for none.
    pub arrow: i32,
    /// What [`rd_trace_enter`] was told of last on the submitting thread: an operator, or else a range of the user; 0 for none.
    pub linked: u64,
    pub notes: *const rd_activity_note,
    pub num_notes: usize,
}

/// Begins a trace and gives it a number; refused while another is being taken.
///
/// # Safety
/// `number` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_start(number: *mut u64) -> rd_status {
    guard(|| {
        let started = trace::start()?;
        // SAFETY: the caller's promise.
        unsafe { give(number, started) };
        Ok(())
    })
}

/// Ends the trace of that number and waits for the streams that have tasks in it; null if it is not being taken. `types`: the types of its
/// activities that are asked for, bit 0 for 0 and so on. The caller destroys it.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_stop(number: u64, types: u32) -> *mut rd_trace {
    shield(ptr::null_mut(), || {
        let Some(trace) = trace::stop(number) else { return ptr::null_mut() };
        let activities = Activities::new(trace, TYPES.into_iter().filter(|&kind| types >> number_of(kind) & 1 != 0).collect());
        Box::into_raw(Box::new(rd_trace { activities, latest: None }))
    })
}

/// Frees a trace; null is allowed.
///
/// # Safety
/// `trace` came from [`rd_trace_stop`] and was not destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_destroy(trace: *mut rd_trace) {
    if !trace.is_null() {
        // SAFETY: the caller hands back what `rd_trace_stop` made with `Box::into_raw`.
        drop(unsafe { Box::from_raw(trace) });
    }
}

/// How many tasks the trace has; 0 for null.
///
/// # Safety
/// `trace` is null or a live trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_count(trace: *const rd_trace) -> usize {
    // SAFETY: the caller's promise.
    unsafe { trace.as_ref() }.map_or(0, |trace| trace.activities.trace().count())
}

/// How many tasks found no room in the trace; 0 for null.
///
/// # Safety
/// `trace` is null or a live trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_dropped(trace: *const rd_trace) -> usize {
    // SAFETY: the caller's promise.
    unsafe { trace.as_ref() }.map_or(0, |trace| trace.activities.trace().dropped())
}

/// Writes the next activity of the trace, which lives until the next call; `false` behind the last one, and for null.
///
/// # Safety
/// `trace` is null or a live trace; `activity` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_next(trace: *mut rd_trace, activity: *mut rd_activity) -> bool {
    shield(false, || {
        // SAFETY: the caller's promise.
        let Some(trace) = (unsafe { trace.as_mut() }) else { return false };
        trace.latest = trace.activities.next().map(|next| {
            let notes = next.notes.iter().map(note_for_c).collect();
            (next, notes)
        });
        let Some((next, notes)) = &trace.latest else { return false };
        // SAFETY: the caller's promise.
        unsafe { give(activity, for_c(next, notes)) };
        true
    })
}

/// The types that are asked for.
const TYPES: [Type; 5] = [Type::Kernel, Type::Copy, Type::Fill, Type::Range, Type::Call];

fn number_of(kind: Type) -> i32 {
    match kind {
        Type::Kernel => RD_ACTIVITY_KERNEL,
        Type::Copy => RD_ACTIVITY_COPY,
        Type::Fill => RD_ACTIVITY_FILL,
        Type::Range => RD_ACTIVITY_RANGE,
        Type::Call => RD_ACTIVITY_CALL,
        Type::Line => RD_ACTIVITY_LINE,
    }
}

fn note_for_c(note: &Note) -> rd_activity_note {
    rd_activity_note { key: note.key.as_ptr(), value: note.value.as_ptr(), is_text: note.is_text }
}

fn for_c(activity: &Activity, notes: &[rd_activity_note]) -> rd_activity {
    rd_activity {
        kind: number_of(activity.kind),
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

/// This thread enters an operator, or a range of the user, that the profiler calls by that number.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_enter(id: u64, is_user: bool) {
    shield((), || trace::enter(id, is_user));
}

/// This thread leaves the innermost one.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_leave(is_user: bool) {
    shield((), || trace::leave(is_user));
}
