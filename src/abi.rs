//! The C ABI: the only `extern "C"` code of the crate, one file per part of `shim/`.
//!
//! Every body runs inside [`guard`], so that a panic becomes a status instead of crossing the boundary.

#![allow(non_camel_case_types, reason = "types have their names in C")]

pub mod rd_completion;
pub mod rd_copy;
pub mod rd_device;
pub mod rd_event;
pub mod rd_fallback;
pub mod rd_generator;
pub mod rd_graph;
pub mod rd_guard;
pub mod rd_host_memory;
pub mod rd_ipc;
pub mod rd_launch;
pub mod rd_memory;
pub mod rd_operator;
pub mod rd_sanitizer;
pub mod rd_shim;
pub mod rd_stream;
pub mod rd_trace;
pub mod rd_wait;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use crate::runtime::error::panic_text;
use crate::runtime::{Error, fork};

/// Status of a fallible call; the text of the last failure on this thread is [`rd_last_error`].
pub type rd_status = i32;

/// Success.
pub const RD_OK: rd_status = 0;
/// A wrong argument: `RuntimeError`.
pub const RD_INVALID_ARGUMENT: rd_status = 1;
/// The device's budget or the machine's memory is used up: `torch.OutOfMemoryError`.
pub const RD_OUT_OF_MEMORY: rd_status = 2;
/// The operation is not supported: `NotImplementedError`. From `rd_launch`: the kernel does not take these dtypes.
pub const RD_UNSUPPORTED: rd_status = 3;
/// An internal error: `RuntimeError`.
pub const RD_INTERNAL: rd_status = 4;
/// A task failed earlier: `torch.AcceleratorError`.
pub const RD_TASK_FAILED: rd_status = 5;
/// A value outside the accepted range: `ValueError`.
pub const RD_INVALID_VALUE: rd_status = 6;
/// A race: the program accesses memory without the necessary order: `torch.rustdev.SynchronizationError`.
pub const RD_RACE: rd_status = 7;
/// An index or a dimension outside its range: `IndexError`.
pub const RD_OUT_OF_RANGE: rd_status = 8;
/// From `rd_operator_call`: PyTorch's CPU kernel must serve the call.
pub const RD_FALLBACK: rd_status = 9;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// A failure to be reported to the C side.
#[derive(Debug)]
pub struct Failure {
    pub status: rd_status,
    pub message: String,
}

impl Failure {
    pub fn new(status: rd_status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (status, message) = match error {
            Error::InvalidArgument(text) => (RD_INVALID_ARGUMENT, text),
            Error::InvalidValue(text) => (RD_INVALID_VALUE, text),
            Error::OutOfMemory(text) => (RD_OUT_OF_MEMORY, text),
            Error::Unsupported(text) => (RD_UNSUPPORTED, text),
            Error::TaskFailed(text) => (RD_TASK_FAILED, text),
            Error::Race(text) => (RD_RACE, text),
            Error::Internal(text) => (RD_INTERNAL, text),
        };
        Self { status, message }
    }
}

/// Runs the body of an `extern "C"` function: a failure or a panic becomes a status, and its text is stored for [`rd_last_error`].
/// In a forked child of a process that had started the runtime, it fails without running the body.
pub fn guard(body: impl FnOnce() -> Result<(), Failure>) -> rd_status {
    if let Err(refusal) = fork::check() {
        return keep(&refusal.into());
    }
    catch(body)
}

/// Runs a body under [`guard`] and writes its result to `place`.
fn write<T, E: Into<Failure>>(place: &mut T, body: impl FnOnce() -> Result<T, E>) -> rd_status {
    guard(|| {
        *place = body().map_err(Into::into)?;
        Ok(())
    })
}

/// As [`guard`], but the body also runs in a forked child.
fn catch(body: impl FnOnce() -> Result<(), Failure>) -> rd_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => RD_OK,
        Ok(Err(failure)) => keep(&failure),
        Err(panic) => keep(&Failure::new(RD_INTERNAL, format!("internal error: {}", panic_text(&*panic)))),
    }
}

#[cold]
fn keep(failure: &Failure) -> rd_status {
    let text = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with(|last| *last.borrow_mut() = text);
    failure.status
}

/// Runs the body of an `extern "C"` function that cannot report failures; after a panic, and in a forked child, returns
/// `otherwise`.
pub fn shield<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    if fork::is_child() {
        return otherwise;
    }
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// A body that consumes a handle runs under [`shield`]. In a forked child the handle is leaked, because its destructor could wait
/// for a lock that a thread of the parent held.
fn consume<T>(handle: T, body: impl FnOnce(T)) {
    let handle = ManuallyDrop::new(handle);
    shield((), || body(ManuallyDrop::into_inner(handle)));
}

/// A NUL-terminated string or, where a function says so, null. C passes it to a call, itself or in an argument, and keeps it
/// meanwhile; Rust makes none, except in tests.
#[derive(Debug)]
#[repr(transparent)]
pub struct rd_text(*const c_char);

impl rd_text {
    /// The string; `None` for null.
    pub fn given(&self) -> Option<&CStr> {
        // SAFETY: C has passed it, which promises a NUL-terminated string that outlives the call.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// The string, with replacements of what is not UTF-8.
    pub fn lossy(&self) -> Cow<'_, str> {
        self.given().unwrap_or_default().to_string_lossy()
    }
}

/// The text of the last failure on this thread; never null, valid until the next failing call of the thread.
#[unsafe(no_mangle)]
pub extern "C" fn rd_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// Frees a string that an `rd_*` call returned as owned; null is allowed.
///
/// # Safety
/// `text` came from such a call and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller hands back a pointer that `CString::into_raw` made.
        drop(unsafe { CString::from_raw(text) });
    }
}
