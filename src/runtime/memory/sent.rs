//! Blocks that other processes use, and memory that belongs to other processes.
//!
//! A block whose segment is a file may be *sent* any number of times. When the program frees it, it stays allocated until every
//! send is over, and is then freed normally. The pool itself does not determine when a send is over.
//!
//! *Foreign* memory is a file of another process that is mapped into this device's range. It is not a segment: no list and no
//! counter includes it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Result;
use std::sync::Arc;

use super::Timeline;
use super::block::{BlockId, NONE, State};
use super::caching_pool::Pool;
use super::history::Context;
use super::race_notes;

/// A file that other processes can map.
pub type SegmentFile = Arc<File>;

pub type Sends = HashMap<BlockId, Sent>;

/// Mapped files of other processes: address to size.
pub type Foreign = BTreeMap<usize, usize>;

/// The state of a block that was sent.
#[derive(Default)]
pub struct Sent {
    count: usize,
    is_freed: bool,
    /// The context of that free.
    context: Option<Context>,
}

/// The location of a live block, and its users.
pub struct Whereabouts {
    pub block: usize,
    /// The address and the size of its segment.
    pub segment: (usize, usize),
    /// The file that backs the segment; `None` while its memory is private.
    pub file: Option<SegmentFile>,
    /// The stream that it was allocated for, and the streams recorded on it.
    pub timelines: Vec<&'static dyn Timeline>,
}

impl Pool {
    /// Describes the live block that contains an address.
    pub fn whereabouts(&self, address: usize) -> Option<Whereabouts> {
        let (&start, segment) = self.segments.range(..=address).next_back()?;
        let mut id = self.arena.start(start);
        while id != NONE && address >= self.blocks[id].address + self.blocks[id].size {
            id = self.blocks[id].after;
        }
        let block = self.blocks.get(id).filter(|block| block.state == State::Allocated)?;
        let mut timelines = vec![self.lists[segment.owner as usize].timeline];
        timelines.extend(self.uses.get(&id).into_iter().flatten());
        let file = segment.file.clone();
        Some(Whereabouts { block: block.address, segment: (start, segment.size), file, timelines })
    }

    /// Replaces a segment's memory by an empty file, unless it is a file's already. Fails if the system refuses; nothing has
    /// changed then.
    ///
    /// # Safety
    /// Nothing writes to the segment meanwhile.
    pub unsafe fn replace(&mut self, address: usize, file: SegmentFile) -> Result<()> {
        if let Some(segment) = self.segments.get_mut(&address).filter(|segment| segment.file.is_none()) {
            // SAFETY: the caller's promise.
            unsafe { self.arena.replace(address, segment.size, &file) }?;
            segment.file = Some(file);
        }
        Ok(())
    }

    /// Counts a send of the live block that starts at an address; `false` if there is none.
    pub fn send(&mut self, address: usize) -> bool {
        let Some(id) = self.live(address) else { return false };
        self.blocks[id].sent = true;
        self.sends.entry(id).or_default().count += 1;
        true
    }

    /// Ends one of the sends of the block that starts at an address.
    pub fn end_send(&mut self, address: usize) {
        let Some(id) = self.live(address) else { return };
        let Some(sent) = self.sends.get_mut(&id) else { return };
        sent.count -= 1;
        if sent.count == 0 {
            self.blocks[id].sent = false;
            if let Some(Sent { is_freed: true, context, .. }) = self.sends.remove(&id) {
                self.release_block(id, context.as_ref());
            }
        }
    }

    /// Frees a sent block, which takes effect when its sends are over. Returns its size, or `None` if it was freed before.
    #[cold]
    pub(super) fn free_sent(&mut self, id: BlockId, context: Option<&Context>) -> Option<usize> {
        let sent = self.sends.entry(id).or_default();
        if sent.is_freed {
            return None;
        }
        (sent.is_freed, sent.context) = (true, context.cloned());
        self.keeps = true;
        Some(self.blocks[id].size)
    }

    /// Maps the first `size` bytes of another process's file; returns the address. Fails if the range has no room, or the machine
    /// refuses.
    pub fn map_foreign(&mut self, file: &File, size: usize) -> Result<usize> {
        let address = self.arena.map_file(size, file)?;
        self.foreign.insert(address, size);
        race_notes::remapped(address, size);
        Ok(address)
    }

    /// Unmaps memory that [`Pool::map_foreign`] mapped.
    pub fn unmap_foreign(&mut self, address: usize) {
        if let Some(&size) = self.foreign.get(&address)
            && self.arena.decommit(address, size).is_ok()
        {
            self.foreign.remove(&address);
        }
    }

    pub fn is_foreign(&self, address: usize) -> bool {
        self.foreign.range(..=address).next_back().is_some_and(|(start, size)| address - start < *size)
    }
}
