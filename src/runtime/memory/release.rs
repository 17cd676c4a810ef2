//! Release of cached segments to the system: for `empty_cache`, before an out-of-memory error, and by age.
//!
//! Only segments without a live block are released. Tasks that were queued before the last block was freed may still use the
//! segment, so it is released only after its stream has completed the position noted at that free. The caller synchronises the
//! device first, without the lock.

#![forbid(unsafe_code)]

use super::block::{BlockId, Kind};
use super::caching_pool::{GENERAL, Lists, Pool};
use super::history::{Action, Context};
use super::race_notes;

impl Pool {
    /// Releases every cached segment that no task uses any more; returns the released bytes.
    pub fn release_cached(&mut self, context: Option<&Context>) -> usize {
        self.release_from(|lists| lists.private == GENERAL || lists.is_released, context)
    }

    /// Releases the idle cached segments of the selected lists; returns the released bytes.
    pub(super) fn release_from(&mut self, lists: impl Fn(&Lists) -> bool, context: Option<&Context>) -> usize {
        let idle = self.idle_segments(lists);
        idle.into_iter().map(|id| self.release(id, context)).sum()
    }

    /// Releases the free segments of a private pool that nothing uses.
    pub fn release_idle(&mut self, private: u64) {
        self.release_from(|lists| lists.private == private && lists.is_released, None);
    }

    /// Releases a segment that became free in a private pool that nothing uses, unless tasks may still use it.
    #[cold]
    pub(super) fn release_freed(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        if block.position <= self.lists[block.owner as usize].timeline.completed() {
            self.release(id, None);
        }
    }

    /// Releases idle large segments that are at least as old as the average, until the reserved memory is below the threshold;
    /// returns the released bytes.
    pub fn collect_garbage(&mut self, context: Option<&Context>) -> usize {
        let threshold = self.settings.garbage_collection_threshold * self.settings.limit() as f64;
        let excess = (self.stats.reserved_bytes.current() as usize).saturating_sub(threshold as usize);
        let mut idle = self.idle_segments(|lists| lists.private == GENERAL || lists.is_released);
        idle.retain(|&id| self.blocks[id].kind == Kind::Large);
        let mut collected = 0;
        while collected < excess && !idle.is_empty() {
            let average = idle.iter().map(|&id| self.age(id)).sum::<u64>() as f64 / idle.len() as f64;
            let (old, young) = idle.into_iter().partition::<Vec<_>, _>(|&id| self.age(id) as f64 >= average);
            idle = young;
            for id in old {
                if collected < excess {
                    collected += self.release(id, context);
                }
            }
        }
        collected
    }

    /// The number of searches in its lists that a free block has survived.
    fn age(&self, id: BlockId) -> u64 {
        let block = &self.blocks[id];
        self.lists[block.owner as usize].clock - block.born
    }

    /// Free blocks of the selected lists that are whole segments and that no task uses any more.
    fn idle_segments(&self, is_asked: impl Fn(&Lists) -> bool) -> Vec<BlockId> {
        let mut idle = Vec::new();
        for lists in self.lists.iter().filter(|lists| is_asked(lists)) {
            let completed = lists.timeline.completed();
            for list in [&lists.small, &lists.large, &lists.oversize] {
                let whole =
                    list.ids(&self.blocks).filter(|&id| !self.blocks[id].is_split() && self.blocks[id].position <= completed);
                idle.extend(whole);
            }
        }
        idle
    }

    /// Releases one segment and returns its size; 0 if the system refuses, and the segment stays cached.
    fn release(&mut self, id: BlockId, context: Option<&Context>) -> usize {
        let block = &self.blocks[id];
        let (address, size, index, owner) = (block.address, block.size, block.kind as usize, block.owner);
        if self.arena.decommit(address, size).is_err() {
            return 0;
        }
        race_notes::remapped(address, size);
        self.delist(id);
        self.blocks.remove(id);
        self.segments.remove(&address);
        self.lists[owner as usize].segments -= 1;
        self.vacate(owner);
        self.stats.segment.decrease(index, 1);
        self.stats.reserved_bytes.decrease(index, size);
        self.give_shared_back(size);
        self.stats.num_device_free += 1;
        if size >= self.settings.max_split_size {
            self.stats.oversize_segments.decrease(1);
        }
        self.history.record(Action::SegmentFree, address, size, self.lists[owner as usize].timeline.id(), context);
        size
    }
}
