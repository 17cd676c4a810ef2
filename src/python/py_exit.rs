//! Exit of the interpreter: tasks and callbacks must end before the interpreter frees its state.

use pyo3::prelude::*;

use crate::runtime::exit;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let handler = wrap_pyfunction!(end, module)?;
    module.py().import("atexit")?.call_method1("register", (handler,))?;
    Ok(())
}

/// Stops starting tasks and waits a moment for running ones; callbacks may take the GIL meanwhile.
#[pyfunction]
fn end() {
    exit::begin();
}
