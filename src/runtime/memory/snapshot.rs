//! Snapshot of the pool: every segment with its blocks in order, and the history events.

#![forbid(unsafe_code)]

use super::block::{Kind, NONE, State};
use super::caching_pool::Pool;
use super::history::{Context, Entry};
use super::label::Label;

pub struct BlockSnapshot {
    pub address: usize,
    pub size: usize,
    pub requested: usize,
    pub state: State,
    pub context: Option<Context>,
    /// The name that the user gave it.
    pub label: Option<Label>,
}

pub struct SegmentSnapshot {
    pub address: usize,
    pub size: usize,
    pub stream: i64,
    /// The number of the pool that it belongs to.
    pub pool: u64,
    pub large: bool,
    pub context: Option<Context>,
    /// Ordered by address.
    pub blocks: Vec<BlockSnapshot>,
}

/// A device's memory at one moment.
pub struct Snapshot {
    /// Ordered by address.
    pub segments: Vec<SegmentSnapshot>,
    /// Oldest first.
    pub entries: Vec<Entry>,
}

impl Pool {
    pub fn snapshot(&self) -> Snapshot {
        let segments = self.segments.iter().map(|(&address, segment)| SegmentSnapshot {
            address,
            size: segment.size,
            stream: self.lists[segment.owner as usize].timeline.id(),
            pool: self.lists[segment.owner as usize].private,
            large: segment.kind == Kind::Large,
            context: segment.context.clone(),
            blocks: self.blocks_of(address),
        });
        Snapshot { segments: segments.collect(), entries: self.history.entries.iter().cloned().collect() }
    }

    fn blocks_of(&self, segment: usize) -> Vec<BlockSnapshot> {
        let mut blocks = Vec::new();
        let mut next = self.arena.start(segment);
        while next != NONE {
            let block = &self.blocks[next];
            blocks.push(BlockSnapshot {
                address: block.address,
                size: block.size,
                requested: if block.state == State::Free { 0 } else { block.requested },
                state: block.state,
                context: self.contexts.get(&next).cloned(),
                label: self.labels.get(&next).cloned(),
            });
            next = block.after;
        }
        blocks
    }
}
