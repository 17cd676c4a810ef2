//! Quarantine: freed blocks that stay out of the pool until newer ones displace them, oldest first.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use super::guarded_blocks::GuardedBlock;
use crate::runtime::sync::{Arc, AtomicBool};

/// The most bytes in the quarantine, over all devices.
const CAPACITY: usize = 16 << 20;

/// A freed block.
pub struct Freed {
    pub block: GuardedBlock,
    /// The source line of the free.
    pub place: String,
    /// Becomes true when its poison is written.
    pub poisoned: Arc<AtomicBool>,
}

/// The freed blocks.
#[derive(Default)]
pub struct Quarantine {
    order: VecDeque<usize>,
    blocks: BTreeMap<usize, Freed>,
    bytes: usize,
}

impl Quarantine {
    pub const fn new() -> Self {
        Self { order: VecDeque::new(), blocks: BTreeMap::new(), bytes: 0 }
    }

    /// Adds a block.
    pub fn put(&mut self, address: usize, freed: Freed) {
        self.bytes += freed.block.length;
        self.order.push_back(address);
        self.blocks.insert(address, freed);
    }

    /// Removes the oldest block if the capacity is exceeded, or if `all` are to go.
    pub fn take(&mut self, all: bool) -> Option<(usize, Freed)> {
        if self.bytes <= if all { 0 } else { CAPACITY } {
            return None;
        }
        let address = self.order.pop_front()?;
        let freed = self.blocks.remove(&address)?;
        self.bytes -= freed.block.length;
        Some((address, freed))
    }

    /// A freed block that overlaps a range, with its address; the one with the highest address below the range's end.
    pub fn overlapping(&self, begin: usize, end: usize) -> Option<(usize, &Freed)> {
        let (&address, freed) = self.blocks.range(..end).next_back()?;
        (begin < address + freed.block.bytes).then_some((address, freed))
    }
}
