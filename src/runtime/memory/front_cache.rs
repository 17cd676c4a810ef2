//! Front cache: the last four small blocks freed, kept uncoalesced for reuse by an identical request.
//!
//! A loop over small tensors repeatedly frees blocks and requests others of the same sizes. A request of the same size and stream
//! as a cached block gets that block without the free lists. Any other request, and every reader of the pool, flushes the cache
//! first ([`Pool::settle`]). After that the counters equal those of a pool without the cache, except that the peaks of
//! `inactive_split` miss states between a free and the next request.

#![forbid(unsafe_code)]

use super::block::{BlockId, Kind, State};
use super::caching_pool::{Pool, Request};
use super::stats::PerKind;
use crate::tuning::pools::FRONT_CACHE_BLOCKS;

/// The cached blocks, and pending updates of the counters.
#[derive(Default)]
pub struct FrontCache {
    /// The first `used` entries are cached, the latest freed at the end.
    blocks: [BlockId; FRONT_CACHE_BLOCKS],
    used: usize,
    /// The number of blocks that were freed and handed out again, their bytes, and the requested bytes.
    count: usize,
    bytes: usize,
    requested: usize,
}

impl FrontCache {
    #[inline]
    fn remove(&mut self, position: usize) -> BlockId {
        let id = self.blocks[position];
        self.blocks.copy_within(position + 1..self.used, position);
        self.used -= 1;
        id
    }

    #[inline]
    fn all(&self) -> &[BlockId] {
        &self.blocks[..self.used]
    }
}

impl Pool {
    /// Puts a live block into the front cache; `false` if it must be freed normally.
    #[inline]
    pub(super) fn put_into_front_cache(&mut self, id: BlockId) -> bool {
        let block = &mut self.blocks[id];
        if block.kind != Kind::Small || block.shared || block.traced || block.labelled || self.history.records_events() {
            return false;
        }
        block.state = State::InFrontCache;
        if self.front_cache.used == FRONT_CACHE_BLOCKS {
            let oldest = self.front_cache.remove(0);
            self.evict(oldest);
        }
        self.front_cache.blocks[self.front_cache.used] = id;
        self.front_cache.used += 1;
        true
    }

    /// A cached block of the request's size and stream, if there is one.
    #[inline]
    pub(super) fn take_from_front_cache(&mut self, size: usize, request: &Request) -> Option<(usize, usize)> {
        let fits = |&id: &BlockId| {
            let block = &self.blocks[id];
            let lists = &self.lists[block.owner as usize];
            let is_owner = lists.private == request.private && std::ptr::addr_eq(lists.timeline, request.stream);
            block.size == size && block.requested == request.bytes && is_owner
        };
        let Some(position) = self.front_cache.all().iter().rposition(fits) else {
            self.settle();
            return None;
        };
        if request.context.is_some() || self.history.records_events() {
            self.settle();
            return None;
        }
        let block = &mut self.blocks[self.front_cache.remove(position)];
        block.state = State::Allocated;
        self.front_cache.count += 1;
        self.front_cache.bytes += size;
        self.front_cache.requested += request.bytes;
        Some((block.address, size))
    }

    /// Flushes the front cache: frees its blocks and updates the counters.
    #[inline]
    pub fn settle(&mut self) {
        if self.front_cache.used > 0 || self.front_cache.count > 0 {
            self.settle_now();
        }
    }

    fn settle_now(&mut self) {
        let FrontCache { blocks, used, count, bytes, requested } = std::mem::take(&mut self.front_cache);
        if count > 0 {
            let pass = |stat: &mut PerKind, amount| stat.pass(Kind::Small as usize, amount);
            let stats = &mut self.stats;
            pass(&mut stats.allocation, count);
            pass(&mut stats.active, count);
            pass(&mut stats.allocated_bytes, bytes);
            pass(&mut stats.active_bytes, bytes);
            pass(&mut stats.requested_bytes, requested);
        }
        for &id in &blocks[..used] {
            self.evict(id);
        }
    }

    #[cfg(test)]
    pub(super) fn is_in_front_cache(&self, id: BlockId) -> bool {
        self.front_cache.all().contains(&id)
    }

    /// Frees a block of the front cache.
    fn evict(&mut self, id: BlockId) {
        self.blocks[id].state = State::Allocated;
        self.release_block(id, None);
    }
}
