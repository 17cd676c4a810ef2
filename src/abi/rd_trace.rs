//! C ABI of the traces, for PyTorch's profiler: which tasks ran on the devices, and when.
//!
//! Times are nanoseconds of the system's clock (`CLOCK_REALTIME`). At most one trace records at a time.

use std::ffi::{CString, c_char};

use super::rd_device::small;
use super::rd_stream::give;
use super::{guard, rd_status, shield};
use crate::runtime::sync::Arc;
use crate::runtime::trace::{self, Kind, Row, Trace};

/// A trace that is over, opaque to the other side.
#[allow(non_camel_case_types)]
pub struct rd_trace(Arc<Trace>);

/// Of [`rd_trace_row`]: computes.
pub const RD_TRACE_KERNEL: i32 = 0;
/// Of [`rd_trace_row`]: copies.
pub const RD_TRACE_COPY: i32 = 1;
/// Of [`rd_trace_row`]: fills.
pub const RD_TRACE_FILL: i32 = 2;
/// Of [`rd_trace_row`]: keeps the stream busy without computing (a host callback, a sleep).
pub const RD_TRACE_OTHER: i32 = 3;
/// Of [`rd_trace_row`]: a call alone, whose work other rows are: a replay of a graph.
pub const RD_TRACE_CALL: i32 = 4;

/// One task of a trace. Strings live as long as the process, but for `title`, which the caller frees with [`rd_string_free`].
///
/// [`rd_string_free`]: super::rd_string_free
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_trace_row {
    /// The task's name, and its length: it ends with no NUL.
    pub name: *const c_char,
    pub name_length: usize,
    /// The name that a profiler shows: the operator's, or that of a copy or a fill.
    pub title: *mut c_char,
    /// rust, aten, compiled, custom, fallback, host, sleep, graph; ends with a NUL, as the next two.
    pub tier: *const c_char,
    /// The function of this header that submitted it.
    pub call: *const c_char,
    /// done, failed, "not run", running.
    pub outcome: *const c_char,
    pub activity: i32,
    pub device: i32,
    pub stream: i64,
    /// The system's number of the submitting thread.
    pub thread: i32,
    /// What [`rd_trace_enter`] was told of last on the submitting thread: an operator, a range of the user; 0 for none.
    pub operator_id: u64,
    pub range_id: u64,
    /// That a copy or a fill writes.
    pub bytes: u64,
    /// How many tasks were fused with it, itself included.
    pub members: u64,
    /// Of a node of a graph: the number of the replay's row, counted from 1; else 0.
    pub replay: u64,
    pub submission_begin: u64,
    pub submission_end: u64,
    /// Both 0 where it did not run.
    pub begin: u64,
    pub end: u64,
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

/// Ends the trace of that number and waits for the streams that have tasks in it; null if it is not being taken. The caller destroys it.
#[unsafe(no_mangle)]
pub extern "C" fn rd_trace_stop(number: u64) -> *mut rd_trace {
    shield(std::ptr::null_mut(), || {
        trace::stop(number).map_or(std::ptr::null_mut(), |trace| Box::into_raw(Box::new(rd_trace(trace))))
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

/// How many rows the trace has; 0 for null.
///
/// # Safety
/// `trace` is null or a live trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_count(trace: *const rd_trace) -> usize {
    // SAFETY: the caller's promise.
    unsafe { trace.as_ref() }.map_or(0, |trace| trace.0.count())
}

/// How many tasks found no room in the trace; 0 for null.
///
/// # Safety
/// `trace` is null or a live trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_dropped(trace: *const rd_trace) -> usize {
    // SAFETY: the caller's promise.
    unsafe { trace.as_ref() }.map_or(0, |trace| trace.0.dropped())
}

/// The range of the user in which the range `id` lies; 0 for none.
///
/// # Safety
/// `trace` is null or a live trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_parent(trace: *const rd_trace, id: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { trace.as_ref() }.map_or(0, |trace| trace.0.parent(id))
}

/// The row of that number; `false` where there is none, as for a task whose submission had only begun when the trace was stopped.
///
/// # Safety
/// `trace` is a live trace; `row` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_trace_row_at(trace: *const rd_trace, index: usize, row: *mut rd_trace_row) -> bool {
    shield(false, || {
        // SAFETY: the caller's promise.
        let found = unsafe { trace.as_ref() }.and_then(|trace| trace.0.row(index));
        match found {
            // SAFETY: the caller's promise.
            Some(found) => unsafe { row.write(for_c(&found)) },
            None => return false,
        }
        true
    })
}

fn for_c(row: &Row) -> rd_trace_row {
    let kind = row.about.kind;
    rd_trace_row {
        name: row.name.as_ptr().cast(),
        name_length: row.name.len(),
        title: CString::new(kind.title(row.name)).unwrap_or_default().into_raw(),
        tier: kind.tier().as_ptr(),
        call: kind.call().as_ptr(),
        outcome: row.outcome.text().as_ptr(),
        activity: match kind {
            Kind::Copy(..) => RD_TRACE_COPY,
            Kind::Fill => RD_TRACE_FILL,
            Kind::Host | Kind::Sleep => RD_TRACE_OTHER,
            Kind::Replay => RD_TRACE_CALL,
            _ => RD_TRACE_KERNEL,
        },
        device: small(row.stream.device()),
        stream: row.stream.id(),
        thread: row.thread,
        operator_id: row.operator,
        range_id: row.range,
        bytes: row.about.bytes,
        members: row.members,
        replay: row.replay.map_or(0, |index| index as u64 + 1),
        submission_begin: row.submission.0,
        submission_end: row.submission.1,
        begin: row.run.0,
        end: row.run.1,
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
