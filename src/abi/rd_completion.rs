//! C ABI of completions, the ends of work outside of the streams, which Python creates (`src/python/py_completion.rs`).

use std::ffi::{CStr, c_void};

use super::rd_stream::{Context, Foreign, rd_task_destroy, rd_task_run};
use super::{consume, rd_text, shield};
use crate::runtime::completion::Completion;
use crate::runtime::sync::Arc;

/// A completion, opaque to C.
#[derive(Debug)]
pub struct rd_completion(pub(crate) Arc<Completion>);

/// Keeps a context alive until the work has ended.
///
/// # Safety
/// `destroy` may be called with `context` on any thread, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_completion_keep(completion: &rd_completion, context: *mut c_void, destroy: rd_task_destroy) {
    let context = Context { context, destroy };
    shield((), move || completion.0.keep(context));
}

/// Runs a function as the work, on a thread that may block; its return ends the completion.
///
/// # Safety
/// `run` and `destroy` may be called with `context` on any thread, `destroy` once after everything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_completion_run(
    completion: &rd_completion,
    run: rd_task_run,
    context: *mut c_void,
    destroy: rd_task_destroy,
) {
    let work = Foreign::new(run, Context { context, destroy });
    shield((), move || completion.0.run(work));
}

/// Another handle of a completion, for [`rd_completion_end`]; null in a forked child.
#[unsafe(no_mangle)]
pub extern "C" fn rd_completion_share(completion: &rd_completion) -> Option<Box<rd_completion>> {
    shield(None, || Some(Box::new(rd_completion(Arc::clone(&completion.0)))))
}

/// Ends the work and releases the handle; null is allowed. `failure`: the reason of a failure, or null.
#[unsafe(no_mangle)]
pub extern "C" fn rd_completion_end(completion: Option<Box<rd_completion>>, failure: rd_text) {
    consume(completion, |completion| {
        let Some(completion) = completion else { return };
        completion.0.end(failure.given().map(CStr::to_string_lossy).as_deref());
    });
}
