//! The blocks that rest: the small ones that were freed last, before they are joined with their neighbours.
//!
//! A loop over small tensors frees some and asks for others of the same sizes, again and again. The pool keeps such blocks as they are; a
//! request of the same size and stream as one of them, where nothing else about the block matters, gets it without a way through the
//! free lists. Any other request, and whoever looks at the pool, has it settled first ([`Pool::settle`]), so that the counters are as if
//! each free and each request had been carried out in turn; only the peaks of `inactive_split` do not see what lasted from a free to the
//! next request.

#![forbid(unsafe_code)]

use super::block::{BlockId, Kind, NONE, State};
use super::pool::{Pool, Request};
use super::stats::PerKind;

/// How many blocks rest: as many as a few operators with several results give back between two calls.
pub const RESTS: usize = 4;

/// The resting blocks, and what the counters do not know yet.
pub struct Resting {
    /// The first `used` rest, the one freed last at the end.
    blocks: [BlockId; RESTS],
    used: usize,
    /// Blocks that were freed and handed out again, their bytes, and the bytes that were asked for.
    count: usize,
    bytes: usize,
    requested: usize,
}

impl Default for Resting {
    fn default() -> Self {
        Self { blocks: [NONE; RESTS], used: 0, count: 0, bytes: 0, requested: 0 }
    }
}

impl Resting {
    #[inline]
    fn remove(&mut self, place: usize) -> BlockId {
        let id = self.blocks[place];
        self.blocks.copy_within(place + 1..self.used, place);
        self.used -= 1;
        id
    }

    #[inline]
    fn all(&self) -> &[BlockId] {
        &self.blocks[..self.used]
    }
}

impl Pool {
    /// Lets a live block rest; `false` if it has to be freed for good.
    #[inline]
    pub(super) fn rest(&mut self, id: BlockId) -> bool {
        let block = &mut self.blocks[id];
        if block.kind != Kind::Small || block.shared || block.traced || block.labelled || self.history.records_events() {
            return false;
        }
        block.state = State::Resting;
        if self.resting.used == RESTS {
            let oldest = self.resting.remove(0);
            self.wake(oldest);
        }
        self.resting.blocks[self.resting.used] = id;
        self.resting.used += 1;
        true
    }

    /// A resting block for a request, if there is one of that size and stream.
    #[inline]
    pub(super) fn take_resting(&mut self, size: usize, request: &Request) -> Option<(usize, usize)> {
        let fits = |&id: &BlockId| {
            let block = &self.blocks[id];
            let lists = &self.lists[block.owner as usize];
            let is_owner = lists.private == request.private && std::ptr::addr_eq(lists.timeline, request.stream);
            block.size == size && block.requested == request.bytes && is_owner
        };
        let Some(place) = self.resting.all().iter().rposition(fits) else {
            self.settle();
            return None;
        };
        if request.context.is_some() || self.history.records_events() {
            self.settle();
            return None;
        }
        let block = &mut self.blocks[self.resting.remove(place)];
        block.state = State::Allocated;
        self.resting.count += 1;
        self.resting.bytes += size;
        self.resting.requested += request.bytes;
        Some((block.address, size))
    }

    /// Frees the resting blocks for good and brings the counters up to date.
    #[inline]
    pub fn settle(&mut self) {
        if self.resting.used > 0 || self.resting.count > 0 {
            self.settle_now();
        }
    }

    fn settle_now(&mut self) {
        let Resting { blocks, used, count, bytes, requested } = std::mem::take(&mut self.resting);
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
            self.wake(id);
        }
    }

    /// Whether the block is among those that rest.
    #[cfg(test)]
    pub(super) fn is_resting(&self, id: BlockId) -> bool {
        self.resting.all().contains(&id)
    }

    /// Frees a block that rested.
    fn wake(&mut self, id: BlockId) {
        self.blocks[id].state = State::Allocated;
        self.release_block(id, None);
    }
}
