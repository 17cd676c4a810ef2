//! Extension module `rustdev._rustdev`: the functions through which Python calls the runtime directly, without PyTorch.
//!
//! Each file serves one Python module and has a function `register` that adds its functions, which
//! `python/rustdev/_rustdev.pyi` documents.

macro_rules! add_functions {
    ($module:ident: $($name:ident),+) => {{
        $($module.add_function(wrap_pyfunction!($name, $module)?)?;)+
        PyResult::Ok(())
    }};
}

mod frames;
mod interpreter;
mod py_clock;
mod py_completion;
mod py_cuda_mode;
mod py_debugging;
mod py_device;
mod py_exit;
mod py_ipc;
mod py_memory;
mod py_ops;
mod py_sanitizer;
mod py_stream;
mod py_trace;
mod py_waits;

use std::sync::Arc;

use pyo3::exceptions::{PyImportError, PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::abi::rd_shim::INTERFACE;
use crate::runtime::hardware::{self, Hardware};
use crate::runtime::{Error, config, name};
use crate::simd;

/// The Python exception of an error, of the type that users of PyTorch expect.
impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let text = error.message().to_owned();
        match error {
            Error::InvalidValue(_) => PyValueError::new_err(text),
            Error::Unsupported(_) => PyNotImplementedError::new_err(text),
            Error::OutOfMemory(_) => exception_of("torch", "OutOfMemoryError", text),
            Error::TaskFailed(_) => exception_of("torch", "AcceleratorError", text),
            Error::Race(_) => exception_of("rustdev", "SynchronizationError", text),
            Error::InvalidArgument(_) | Error::Internal(_) => PyRuntimeError::new_err(text),
        }
    }
}

fn exception_of(module: &str, name: &str, text: String) -> PyErr {
    Python::attach(|py| {
        let kind = py.import(module).and_then(|module| module.getattr(name)).and_then(|kind| Ok(kind.cast_into::<PyType>()?));
        kind.map_or_else(|error| error, |kind| PyErr::from_type(kind, text))
    })
}

/// Installs hardware, once per process, and registers the module like [`register`]. The entry point of a backend calls this.
///
/// An import that failed may be retried: the hardware stays installed, and `open` is not called again. Fails as `open`,
/// [`hardware::install`] and [`register`] do.
pub fn register_on(module: &Bound<'_, PyModule>, open: impl FnOnce() -> PyResult<Arc<dyn Hardware>>) -> PyResult<()> {
    if !hardware::is_installed() {
        hardware::install(open()?)?;
    }
    register(module)
}

/// Names the backend, then does what [`register_on`] does: `torch.mychip`, `device="mychip"`, `MYCHIP_PROFILE`. The entry point of
/// a backend with a name of its own calls this. Fails as [`name::choose`] and [`register_on`] do.
pub fn register_as(
    module: &Bound<'_, PyModule>,
    name: &'static str,
    open: impl FnOnce() -> PyResult<Arc<dyn Hardware>>,
) -> PyResult<()> {
    name::choose(name)?;
    register_on(module, open)
}

/// Adds all functions to a module `rustdev._rustdev`. This reads the environment, but starts no device. Fails for a malformed
/// environment, and with `ImportError` on a processor for which the build is not made.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    simd::check().map_err(PyImportError::new_err)?;
    interpreter::register()?;
    let config = config::init()?;
    if config.sanitize_memory {
        // Must come before rustdev's own SIGSEGV handler, which leaves the Python stack to faulthandler.
        module.py().import("faulthandler")?.call_method0("enable")?;
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("backend", name::name())?;
    module.add("interface", format!("{INTERFACE:016x}"))?;
    py_completion::register(module)?;
    py_cuda_mode::register(module)?;
    py_clock::register(module)?;
    py_debugging::register(module)?;
    py_device::register(module)?;
    py_exit::register(module)?;
    py_ipc::register(module)?;
    py_memory::register(module)?;
    py_sanitizer::register(module)?;
    py_stream::register(module)?;
    py_trace::register(module)?;
    py_waits::register(module)?;
    py_ops::register(module)
}
