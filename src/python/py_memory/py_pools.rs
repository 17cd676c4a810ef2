//! Private pools that a program creates itself, for `rustdev/mem_pools.py`.

use pyo3::prelude::*;

use crate::runtime::Error;
use crate::runtime::memory::lending::Traits;
use crate::runtime::pools::private_pool::{self, PrivatePool};
use crate::runtime::pools::routes;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PrivatePoolUse>()?;
    add_functions!(module: graph_pool_handle, memory_choose_pool, memory_restore_pool)
}

/// A use of a new private pool; it ends when the object is deleted.
#[pyclass(frozen, module = "rustdev._rustdev")]
struct PrivatePoolUse(PrivatePool);

#[pymethods]
impl PrivatePoolUse {
    #[new]
    fn new(use_on_oom: bool, no_split: bool) -> Result<Self, Error> {
        PrivatePool::with_traits(Traits { lends: use_on_oom, keeps_whole: no_split }).map(Self)
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

/// A new number for a memory pool that graphs can share.
#[pyfunction]
fn graph_pool_handle() -> u64 {
    private_pool::new_number()
}

/// Routes this thread's allocations on a device to a private pool.
#[pyfunction]
fn memory_choose_pool(device: usize, number: u64) -> Result<(), Error> {
    routes::choose(device, number)
}

/// Ends the last such route to that pool.
#[pyfunction]
fn memory_restore_pool(device: usize, number: u64) -> Result<(), Error> {
    routes::restore(device, number)
}
