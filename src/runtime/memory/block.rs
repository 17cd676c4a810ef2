//! Blocks: contiguous parts of a segment. A block is free, held by the caller, or waiting for another stream.
//!
//! Records live in one slab and refer to each other by index, so that splitting and coalescing move no memory and unused records
//! are reused. Two doubly linked lists run through them: the neighbours by address within the segment, and the free list of a free
//! block.

#![forbid(unsafe_code)]

/// The index of a block record, counted from 1.
pub type BlockId = u32;

pub const NONE: BlockId = 0;

/// Which kind of segment a block belongs to; the value is its index in [`super::stats::PerKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Segments of 2 MiB for requests of at most 1 MiB.
    #[default]
    Small = 1,
    /// Segments of 20 MiB and more.
    Large = 2,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// In a free list.
    #[default]
    Free,
    /// Held by the caller.
    Allocated,
    /// In the front cache: freed by the caller, not yet in a free list. See [`super::front_cache`].
    InFrontCache,
    /// Freed by the caller, but tasks of other streams may still use it.
    Pending,
    /// The record itself is unused.
    Vacant,
}

/// One block. Sizes and addresses are bytes.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub struct Block {
    /// The first byte's address.
    pub address: usize,
    /// The length in bytes, a multiple of 512.
    pub size: usize,
    pub requested: usize,
    /// While free: the clock of its lists when it became free. Garbage collection takes the oldest first.
    pub born: u64,
    /// While free and a whole segment: the number of tasks that its stream had been given when it became so.
    pub position: u64,
    /// The neighbour at the lower address, in the same segment.
    pub before: BlockId,
    /// The neighbour at the higher address, in the same segment.
    pub after: BlockId,
    /// The previous block of the free list.
    pub list_before: BlockId,
    /// The next block of the free list.
    pub list_after: BlockId,
    /// The index of its free lists.
    pub owner: u32,
    /// While pending: the number of other streams that are not done with it.
    pub waits: u32,
    pub kind: Kind,
    pub state: State,
    /// True if other streams were recorded as users since its allocation.
    pub shared: bool,
    /// True if a context was captured at its allocation.
    pub traced: bool,
    pub labelled: bool,
    /// True if other processes may use it: see [`super::sent`].
    pub sent: bool,
}

impl Block {
    pub fn segment(address: usize, size: usize, owner: u32, kind: Kind) -> Self {
        Self { address, size, owner, kind, ..Self::default() }
    }

    /// True if it shares its segment with other blocks.
    #[inline]
    pub fn is_split(&self) -> bool {
        self.before != NONE || self.after != NONE
    }
}

#[derive(Debug, Default)]
pub struct Blocks {
    records: Vec<Block>,
    vacant: Vec<BlockId>,
}

impl Blocks {
    #[inline]
    pub fn insert(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.vacant.pop() {
            self[id] = block;
            return id;
        }
        self.records.push(block);
        self.records.len() as BlockId
    }

    #[inline]
    pub fn remove(&mut self, id: BlockId) {
        self[id].state = State::Vacant;
        self.vacant.push(id);
    }

    /// The record; `None` if the index was never used.
    #[inline]
    pub fn get(&self, id: BlockId) -> Option<&Block> {
        self.records.get((id as usize).wrapping_sub(1))
    }

    /// Splits a block: it keeps its first `size` bytes, and the returned neighbour gets the rest.
    pub fn split(&mut self, id: BlockId, size: usize) -> BlockId {
        let block = &mut self[id];
        debug_assert!(size < block.size);
        let mut rest = Block::segment(block.address + size, block.size - size, block.owner, block.kind);
        rest.before = id;
        rest.after = block.after;
        block.size = size;
        let after = block.after;
        let rest = self.insert(rest);
        self[id].after = rest;
        if after != NONE {
            self[after].before = rest;
        }
        rest
    }

    /// Coalesces a block with its neighbour at the higher address, whose record is removed.
    pub fn join_after(&mut self, id: BlockId) {
        let next = self[id].after;
        let (size, after) = (self[next].size, self[next].after);
        let block = &mut self[id];
        block.size += size;
        block.after = after;
        if after != NONE {
            self[after].before = id;
        }
        self.remove(next);
    }
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        &self.records[id as usize - 1]
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.records[id as usize - 1]
    }
}
