//! What the program may ask of a private pool that it uses by itself: to lend its free memory, and to keep blocks whole.
//!
//! A pool that lends serves the general pool when that would run out of memory otherwise. Memory of a graph is never lent: a replay writes
//! to it whether it is free or not.

#![forbid(unsafe_code)]

use super::caching_pool::{GENERAL, Pool, Request, block_size};

/// What is special about a private pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Its free memory serves the general pool before an out-of-memory error.
    pub lends: bool,
    /// Its blocks are handed out unsplit.
    pub keeps_whole: bool,
}

impl Pool {
    /// Says what is special about a private pool, before its first block and until it is released.
    pub fn set_traits(&mut self, private: u64, traits: Traits) {
        self.traits.insert(private, traits);
    }

    /// Lets a private pool lend no more.
    pub fn stop_lending(&mut self, private: u64) {
        if let Some(traits) = self.traits.get_mut(&private) {
            traits.lends = false;
        }
    }

    /// Serves a request of the general pool from pools that lend: with a free block of the same stream, which stays one of its pool, else
    /// with memory that whole segments of any stream give back. The block's address and size.
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
