//! Notes of the pools for the race detector: blocks handed out and taken back, memory mapped and unmapped. Models look for no races.
//!
//! All but [`tell`] are called under the lock of the pool.
#![forbid(unsafe_code)]

#[cfg(loom)]
pub use none::*;
#[cfg(not(loom))]
pub use notes::*;

#[cfg(not(loom))]
mod notes {
    use crate::runtime::memory::Timeline;
    use crate::runtime::memory::caching_pool::Pool;
    use crate::runtime::memory::history::Context;
    use crate::runtime::memory::observe::watches_races;
    use crate::runtime::sanitizer;

    /// What was found in a free.
    pub type Race = sanitizer::Raw;

    /// A block is handed out for a stream.
    pub fn allocated(stream: &'static dyn Timeline, address: usize, size: usize) {
        if watches_races() {
            sanitizer::allocated(stream, address, size);
        }
    }

    /// Memory is mapped anew, or unmapped.
    pub fn remapped(address: usize, size: usize) {
        if watches_races() {
            sanitizer::forget(address, size);
        }
    }

    /// A block is taken back. Memory of private pools and memory that was sent is not freed by what its owner does alone: nothing is
    /// found there.
    #[cold]
    pub fn freed(pool: &Pool, address: usize) -> Option<Race> {
        let use_of = pool.use_of(address).filter(|_| watches_races())?;
        sanitizer::freed(&use_of, address)
    }

    /// A block of pinned memory with these users is taken back.
    pub fn host_freed(address: usize, size: usize, users: &[&'static dyn Timeline]) -> Option<Race> {
        if watches_races() { sanitizer::host_freed(address, size, users) } else { None }
    }

    /// Tells what was found, once the lock is released.
    pub fn tell(race: Race, context: Option<Context>) {
        sanitizer::tell_later(race, context);
    }
}

#[cfg(loom)]
mod none {
    use crate::runtime::memory::Timeline;
    use crate::runtime::memory::caching_pool::Pool;
    use crate::runtime::memory::history::Context;

    pub type Race = std::convert::Infallible;

    pub fn allocated(_: &'static dyn Timeline, _: usize, _: usize) {}

    pub fn remapped(_: usize, _: usize) {}

    pub fn freed(_: &Pool, _: usize) -> Option<Race> {
        None
    }

    pub fn host_freed(_: usize, _: usize, _: &[&'static dyn Timeline]) -> Option<Race> {
        None
    }

    pub fn tell(race: Race, _: Option<Context>) {
        match race {}
    }
}
