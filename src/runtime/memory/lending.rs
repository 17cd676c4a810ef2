//! Traits of private pools that a program creates: lending free memory, and keeping blocks whole.
//!
//! A lending pool serves the general pool when that would otherwise run out of memory. Memory of a graph is never lent, because a
//! replay writes to it even while it is free.

#![forbid(unsafe_code)]

use super::caching_pool::{GENERAL, Pool, Request, block_size};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// True if its free memory serves the general pool before an out-of-memory error.
    pub lends: bool,
    /// True if its blocks are handed out unsplit.
    pub keeps_whole: bool,
}

impl Pool {
    /// Sets the traits of a private pool, before its first block; they last until it is released.
    pub fn set_traits(&mut self, private: u64, traits: Traits) {
        self.traits.insert(private, traits);
    }

    pub fn stop_lending(&mut self, private: u64) {
        if let Some(traits) = self.traits.get_mut(&private) {
            traits.lends = false;
        }
    }

    /// Serves a request of the general pool from the lending pools: with a free block of the same stream, which stays in its pool,
    /// or else with memory that releasing free segments of any stream makes available. Returns the block's address and size.
    pub fn borrow(&mut self, request: &Request) -> Option<(usize, usize)> {
        let size = block_size(request.bytes).filter(|_| request.private == GENERAL)?;
        let lenders: Vec<_> = self.traits.iter().filter(|(_, traits)| traits.lends).map(|(&private, _)| private).collect();
        for &private in &lenders {
            if let Some(&owner) = self.owners.get(&(private, request.stream.id()))
                && let Some(id) = self.find(owner, size)
            {
                return Some(self.hand_out(id, size, request));
            }
        }
        let released = self.release_from(|lists| lenders.contains(&lists.private), request.context.as_ref());
        if released > 0 { self.allocate(request).ok() } else { None }
    }
}
