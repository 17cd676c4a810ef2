//! Private pools that the program uses by itself, for `rustdev/mem_pools.py`.

use pyo3::prelude::*;

use super::raise;
use crate::runtime::memory::lending::Traits;
use crate::runtime::pools::private_pool::PrivatePool;
use crate::runtime::pools::routes;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PrivatePoolUse>()?;
    module.add_function(wrap_pyfunction!(memory_choose_pool, module)?)?;
    module.add_function(wrap_pyfunction!(memory_restore_pool, module)?)
}

/// A use of a new private pool, which lasts as long as the object.
#[pyclass(frozen, module = "rustdev._rustdev")]
struct PrivatePoolUse(PrivatePool);

#[pymethods]
impl PrivatePoolUse {
    #[new]
    fn new(py: Python<'_>, use_on_oom: bool, no_split: bool) -> PyResult<Self> {
        raise(py, PrivatePool::with_traits(Traits { lends: use_on_oom, keeps_whole: no_split })).map(Self)
    }

    /// The pool's number.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number()
    }

    /// How often the pool is used.
    fn use_count(&self) -> usize {
        self.0.use_count()
    }
}

/// Takes this thread's memory of a device from a private pool.
#[pyfunction]
fn memory_choose_pool(py: Python<'_>, device: usize, number: u64) -> PyResult<()> {
    raise(py, routes::choose(device, number))
}

/// Takes back the last such choice of that pool.
#[pyfunction]
fn memory_restore_pool(py: Python<'_>, device: usize, number: u64) -> PyResult<()> {
    raise(py, routes::restore(device, number))
}
