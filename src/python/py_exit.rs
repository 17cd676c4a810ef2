//! Exit of the interpreter: tasks and callbacks must end before the interpreter frees its state.

use pyo3::prelude::*;

use crate::runtime::exit;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let handler = wrap_pyfunction!(end, module)?;
    module.py().import("atexit")?.call_method1("register", (handler,))?;
    Ok(())
}

/// Starts nothing more, and waits a moment for what runs; callbacks may take the interpreter meanwhile.
#[pyfunction]
fn end() {
    exit::begin();
}
