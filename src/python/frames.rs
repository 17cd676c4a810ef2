//! The Python frames of a thread.

use pyo3::prelude::*;
use pyo3::{ffi, intern};

use super::interpreter;

/// Reads Python state of this thread; `None` if the thread never ran Python, or if reading fails. In the first case it does not
/// even wait for the GIL: a stream's thread must not wait for a thread that waits for the stream.
pub(super) fn read<T>(reader: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
    if !interpreter::has_state() {
        return None;
    }
    interpreter::attach(reader)?.ok()
}

/// The code object and the line number of a frame.
pub(super) fn place<'py>(frame: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, u32)> {
    let line = frame.getattr(intern!(frame.py(), "f_lineno"))?.extract::<Option<u32>>()?.unwrap_or(0);
    Ok((frame.getattr(intern!(frame.py(), "f_code"))?, line))
}

/// Visits frames, innermost first, until a visit returns `false`. This runs no Python code.
pub(super) fn visit<'py>(py: Python<'py>, mut visitor: impl FnMut(&Bound<'py, PyAny>) -> PyResult<bool>) -> PyResult<()> {
    // SAFETY: the GIL is held; null means that no Python function is running.
    let frame = unsafe { ffi::PyEval_GetFrame() };
    // SAFETY: the call above returned null or a reference borrowed from the running frame, which outlives this function.
    let mut next = unsafe { Bound::from_borrowed_ptr_or_opt(py, frame.cast()) };
    while let Some(frame) = next.filter(|frame| !frame.is_none()) {
        if !visitor(&frame)? {
            break;
        }
        next = Some(frame.getattr(intern!(py, "f_back"))?);
    }
    Ok(())
}
