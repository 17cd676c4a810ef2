//! The extension module `rustdev._rustdev`: what Python asks of the runtime directly, without going through PyTorch.
//!
//! One file per Python module that uses it; each has a `register` that adds its functions.

use pyo3::prelude::*;

#[pymodule]
fn _rustdev(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("torch_version", env!("RUSTDEV_TORCH_VERSION"))?;
    Ok(())
}
