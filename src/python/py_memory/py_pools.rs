//! Private pools that a program creates itself, for `rustdev/mem_pools.py`.

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

/// A use of a new private pool; it ends when the object is deleted.
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

    /// The number of uses of the pool.
    fn use_count(&self) -> usize {
        self.0.use_count()
    }
}

/// Routes this thread's allocations on a device to a private pool.
#[pyfunction]
fn memory_choose_pool(py: Python<'_>, device: usize, number: u64) -> PyResult<()> {
    raise(py, routes::choose(device, number))
}

/// Ends the last such route to that pool.
#[pyfunction]
fn memory_restore_pool(py: Python<'_>, device: usize, number: u64) -> PyResult<()> {
    raise(py, routes::restore(device, number))
}
