//! The extension module `rustdev._rustdev`: an entry point for Python. What it holds is `src/python.rs` of the crate.

use pyo3::prelude::*;

#[pymodule]
fn _rustdev(module: &Bound<'_, PyModule>) -> PyResult<()> {
    rustdev::python::register(module)
}
