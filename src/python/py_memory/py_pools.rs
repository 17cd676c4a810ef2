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

#[pyclass(frozen, module = "rustdev._rustdev")]
struct PrivatePoolUse(PrivatePool);

#[pymethods]
impl PrivatePoolUse {
    #[new]
    fn new(use_on_oom: bool, no_split: bool) -> Result<Self, Error> {
        PrivatePool::with_traits(Traits { lends: use_on_oom, keeps_whole: no_split }).map(Self)
    }

    #[getter]
    fn number(&self) -> u64 {
        self.0.number()
    }

    fn use_count(&self) -> usize {
        self.0.use_count()
    }
}

#[pyfunction]
fn graph_pool_handle() -> u64 {
    private_pool::new_number()
}

#[pyfunction]
fn memory_choose_pool(device: usize, number: u64) -> Result<(), Error> {
    routes::choose(device, number)
}

#[pyfunction]
fn memory_restore_pool(device: usize, number: u64) -> Result<(), Error> {
    routes::restore(device, number)
}
