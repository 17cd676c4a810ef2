//! The extension module `rustdev._rustdev` for the slow device: it installs the device, then does the same as rustdev's own
//! module.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::SlowDevice;
use crate::speed::Speed;

#[pymodule]
fn _rustdev(module: &Bound<'_, PyModule>) -> PyResult<()> {
    rustdev::python::register_on(module, || {
        let speed = Speed::from_environment().map_err(PyValueError::new_err)?;
        Ok(SlowDevice::new(speed))
    })
}
