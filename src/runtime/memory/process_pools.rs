//! The memory pools of this process: one per device and one of pinned host memory.
#![forbid(unsafe_code)]

use super::device_pool::DevicePool;
use super::label::Label;
use super::pinned_pool::HostPool;
use crate::runtime::Error;
use crate::runtime::sync::{LazyLock, OnceLock};

static POOLS: OnceLock<Result<Vec<DevicePool>, Error>> = OnceLock::new();
static HOST: LazyLock<HostPool> = LazyLock::new(HostPool::default);

/// The pools of all devices; the first call makes them. Fails with the error of `make` at the first call.
pub fn get_or_make(make: impl FnOnce() -> Result<Vec<DevicePool>, Error>) -> Result<&'static [DevicePool], Error> {
    POOLS.get_or_init(make).as_deref().map_err(Clone::clone)
}

#[inline]
pub fn all() -> &'static [DevicePool] {
    POOLS.get().and_then(|pools| pools.as_deref().ok()).unwrap_or_default()
}

/// The pool whose address range holds the pointer.
#[inline]
pub fn pool_of(pointer: *const u8) -> Option<&'static DevicePool> {
    all().iter().find(|pool| pool.contains(pointer as usize))
}

/// The device whose address range holds the pointer.
#[inline]
pub fn device_of(pointer: *const u8) -> Option<usize> {
    all().iter().position(|pool| pool.contains(pointer as usize))
}

/// The label of the live block that contains `pointer`.
pub fn label_over(pointer: *const u8) -> Option<Label> {
    let pool = pool_of(pointer)?.lock();
    pool.whereabouts(pointer as usize).and_then(|found| pool.label(found.block))
}

#[inline]
pub fn host() -> &'static HostPool {
    &HOST
}
