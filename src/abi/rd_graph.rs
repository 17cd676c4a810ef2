//! C ABI of the graphs: capture, replay by one call.

use std::ffi::{CStr, c_char};
use std::fs;
use std::ptr;

use super::rd_device::device_index;
use super::rd_stream::{find, give};
use super::{Failure, RD_INVALID_ARGUMENT, guard, rd_status, shield};
use crate::runtime::device;
use crate::runtime::graph::Graph;
use crate::runtime::graph::capture::{Capture, Mode};
use crate::runtime::pools::private_pool::{self, PrivatePool};
use crate::runtime::stream::Stream;
use crate::runtime::sync::Arc;

/// A capture under way, opaque to the other side.
#[allow(non_camel_case_types)]
pub struct rd_capture(Arc<Capture>);

/// A captured graph, opaque to the other side.
#[allow(non_camel_case_types)]
pub struct rd_graph(Graph);

/// Nobody may wait for the device.
pub const RD_CAPTURE_GLOBAL: i32 = 1;
/// The thread that captures may not wait for the device.
pub const RD_CAPTURE_THREAD_LOCAL: i32 = 2;
/// Who waits for the device does so for the streams that do not capture.
pub const RD_CAPTURE_RELAXED: i32 = 3;

fn invalid(message: String) -> Failure {
    Failure::new(RD_INVALID_ARGUMENT, message)
}

/// The graph behind a handle.
///
/// # Safety
/// `graph` is null or came from [`rd_capture_end`] and was not destroyed.
unsafe fn borrow<'a>(graph: *const rd_graph) -> Result<&'a Graph, Failure> {
    // SAFETY: the caller's promise.
    let found = unsafe { graph.as_ref() };
    found.map(|graph| &graph.0).ok_or_else(|| invalid("the graph is null".into()))
}

/// A number for a memory pool that graphs are to share.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_pool_handle() -> u64 {
    private_pool::new_number()
}

/// Makes this thread's stream of the device capture. `pool`: the number of the memory pool, 0 for a new one; `mode`: `RD_CAPTURE_*`.
///
/// # Safety
/// `capture` is valid for a write; what is written there goes to [`rd_capture_end`] or [`rd_capture_abort`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_begin(device: i32, pool: u64, mode: i32, capture: *mut *mut rd_capture) -> rd_status {
    guard(|| {
        let index = device_index(device)?;
        device::get(index)?;
        let mode = match mode {
            RD_CAPTURE_GLOBAL => Mode::Global,
            RD_CAPTURE_THREAD_LOCAL => Mode::ThreadLocal,
            RD_CAPTURE_RELAXED => Mode::Relaxed,
            _ => return Err(invalid(format!("{mode} is no mode of a capture"))),
        };
        let pool = PrivatePool::for_graph(if pool == 0 { private_pool::new_number() } else { pool });
        let begun = Capture::begin(device::current_stream(index), pool, mode)?;
        // SAFETY: the caller's promise.
        unsafe { give(capture, Box::into_raw(Box::new(rd_capture(begun)))) };
        Ok(())
    })
}

/// Ends a capture. On failure `graph` is null; the capture goes on only if `is_over` is false.
///
/// # Safety
/// `capture` came from [`rd_capture_begin`] and did not end before; `graph` and `is_over` are valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_end(capture: *mut rd_capture, graph: *mut *mut rd_graph, is_over: *mut bool) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { give(graph, ptr::null_mut()) };
        // SAFETY: the caller's promise.
        let Some(known) = (unsafe { capture.as_ref() }) else { return Err(invalid("the capture is null".into())) };
        let ended = known.0.end();
        let is_done = !known.0.is_under_way();
        // SAFETY: the caller's promise.
        unsafe { give(is_over, is_done) };
        if is_done {
            // SAFETY: the caller hands back what `rd_capture_begin` made with `Box::into_raw`, and does not use it again.
            drop(unsafe { Box::from_raw(capture) });
        }
        let made = Box::into_raw(Box::new(rd_graph(ended?)));
        // SAFETY: the caller's promise.
        unsafe { give(graph, made) };
        Ok(())
    })
}

/// Ends a capture and forgets what it recorded; null is allowed.
///
/// # Safety
/// `capture` came from [`rd_capture_begin`] and did not end before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_abort(capture: *mut rd_capture) {
    shield((), || {
        if !capture.is_null() {
            // SAFETY: the caller hands back what `rd_capture_begin` made with `Box::into_raw`.
            unsafe { Box::from_raw(capture) }.0.abort();
        }
    });
}

/// Whether what is put on a stream is recorded.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_is_capturing(device: i32, stream: i64) -> bool {
    shield(false, || find(device, stream).is_ok_and(Stream::is_capturing))
}

/// Whether nothing was recorded; true for null.
///
/// # Safety
/// `graph` is null or a live graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_is_empty(graph: *const rd_graph) -> bool {
    // SAFETY: the caller's promise.
    shield(true, || unsafe { borrow(graph) }.map_or(true, Graph::is_empty))
}

/// The number of its memory pool; 0 for null.
///
/// # Safety
/// `graph` is null or a live graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_pool(graph: *const rd_graph) -> u64 {
    // SAFETY: the caller's promise.
    shield(0, || unsafe { borrow(graph) }.map_or(0, Graph::pool))
}

/// Starts the recorded work on this thread's stream of the graph's device. Its generators are moved on, as by the same calls.
///
/// # Safety
/// `graph` is a live graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_replay(graph: *const rd_graph) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let graph = unsafe { borrow(graph) }?;
        Ok(graph.replay(device::current_stream(graph.device()))?)
    })
}

/// Writes the graph in the DOT language to a file.
///
/// # Safety
/// `graph` is a live graph; `path` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_dump(graph: *const rd_graph, path: *const c_char) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let text = unsafe { borrow(graph) }?.dump();
        // SAFETY: the caller's promise.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
        fs::write(&*path, text).map_err(|error| invalid(format!("debug_dump: cannot write {path}: {error}")))
    })
}

/// Destroys a graph; null is allowed. Replays under way end as usual, and keep its memory until then.
///
/// # Safety
/// `graph` came from [`rd_capture_end`] and was not destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_destroy(graph: *mut rd_graph) {
    shield((), || {
        if !graph.is_null() {
            // SAFETY: the caller hands back what `rd_capture_end` made with `Box::into_raw`.
            drop(unsafe { Box::from_raw(graph) });
        }
    });
}
