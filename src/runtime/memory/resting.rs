//! The block that rests: the small one that was freed last, before it is joined with its neighbours.
//!
//! A loop over small tensors frees one and asks for another of the same size, again and again. The pool keeps such a block as it is for
//! one request; if that is of the same size and stream, and nothing else about the block matters, it gets it without a way through the
//! free lists. Whoever looks at the pool has it settled first ([`Pool::settle`]), so that blocks and counters are as if each free and
//! each request had been carried out in turn; only the peaks of `inactive_split` do not see what lasted from a free to the next request.

#![forbid(unsafe_code)]

use super::block::{BlockId, Kind, NONE, State};
use super::pool::{Pool, Request};
use super::stats::PerKind;

/// The resting block, and what the counters do not know yet.
pub struct Resting {
    block: BlockId,
    /// Blocks that were freed and handed out again, their bytes, and the bytes that were asked for.
    count: usize,
    bytes: usize,
    requested: usize,
}

impl Default for Resting {
    fn default() -> Self {
        Self { block: NONE, count: 0, bytes: 0, requested: 0 }
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
        let before = std::mem::replace(&mut self.resting.block, id);
        if before != NONE {
            self.wake(before);
        }
        true
    }

    /// The resting block for a request, if it is of that size and stream.
    #[inline]
    pub(super) fn take_resting(&mut self, size: usize, request: &Request) -> Option<(usize, usize)> {
        if self.resting.block == NONE {
            return None;
        }
        let block = &mut self.blocks[self.resting.block];
        let timeline = self.lists[block.owner as usize].timeline;
        let fits = block.size == size && block.requested == request.bytes && std::ptr::addr_eq(timeline, request.stream);
        if !fits || request.context.is_some() || self.history.records_events() {
            self.settle();
            return None;
        }
        block.state = State::Allocated;
        self.resting.block = NONE;
        self.resting.count += 1;
        self.resting.bytes += size;
        self.resting.requested += request.bytes;
        Some((block.address, size))
    }

    /// Frees the resting block for good and brings the counters up to date.
    pub fn settle(&mut self) {
        let Resting { block, count, bytes, requested } = std::mem::take(&mut self.resting);
        if count > 0 {
            let pass = |stat: &mut PerKind, amount| stat.pass(Kind::Small as usize, amount);
            let stats = &mut self.stats;
            pass(&mut stats.allocation, count);
            pass(&mut stats.active, count);
            pass(&mut stats.allocated_bytes, bytes);
            pass(&mut stats.active_bytes, bytes);
            pass(&mut stats.requested_bytes, requested);
        }
        if block != NONE {
            self.wake(block);
        }
    }

    /// Whether that is the resting block.
    #[cfg(test)]
    pub(super) fn is_resting(&self, id: BlockId) -> bool {
        self.resting.block == id
    }

    /// Frees a block that rested.
    fn wake(&mut self, id: BlockId) {
        self.blocks[id].state = State::Allocated;
        self.release_block(id, None);
    }
}
