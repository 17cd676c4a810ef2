//! C ABI of completions, the ends of work outside of the streams, which Python creates (`src/python/py_completion.rs`).

use std::ffi::{CStr, c_char, c_void};

use super::rd_stream::{Context, Foreign, rd_task_destroy, rd_task_run};
use super::shield;
use crate::runtime::completion::Completion;
use crate::runtime::sync::Arc;

/// A completion, opaque to C.
#[allow(non_camel_case_types)]
#[derive(Debug)]
pub struct rd_completion(pub(crate) Arc<Completion>);

/// Keeps a context alive until the work has ended.
///
/// # Safety
/// `completion` is live; `destroy` may be called with `context` on any thread, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_completion_keep(completion: *const rd_completion, context: *mut c_void, destroy: rd_task_destroy) {
    let context = Context { context, destroy };
    // SAFETY: the caller's promise.
    shield((), move || unsafe { &*completion }.0.keep(context));
}

/// Runs a function as the work, on a thread that may block; its return ends the completion.
///
/// # Safety
/// `completion` is live; `run` and `destroy` may be called with `context` on any thread, `destroy` once after everything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_completion_run(
    completion: *const rd_completion,
    run: rd_task_run,
    context: *mut c_void,
    destroy: rd_task_destroy,
) {
    let work = Foreign::new(run, Context { context, destroy });
    // SAFETY: the caller's promise.
    shield((), move || unsafe { &*completion }.0.run(work));
}

/// Another handle of a completion, for [`rd_completion_end`]; null in a forked child.
///
/// # Safety
/// `completion` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_completion_share(completion: *const rd_completion) -> *mut rd_completion {
    // SAFETY: the caller's promise.
    shield(std::ptr::null_mut(), || Box::into_raw(Box::new(rd_completion(Arc::clone(&unsafe { &*completion }.0)))))
}

/// Ends the work and releases the handle. `failure`: the reason of a failure, or null.
///
/// # Safety
/// `completion` is null, or came from [`rd_completion_share`] and was not released before; `failure` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_completion_end(completion: *mut rd_completion, failure: *const c_char) {
    shield((), || {
        if completion.is_null() {
            return;
        }
        // SAFETY: the caller passes a pointer that `rd_completion_share` made with `Box::into_raw`.
        let completion = unsafe { Box::from_raw(completion) };
        // SAFETY: the caller's promise.
        let failure = (!failure.is_null()).then(|| unsafe { CStr::from_ptr(failure) }.to_string_lossy());
        completion.0.end(failure.as_deref());
    });
}
