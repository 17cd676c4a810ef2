//! Labels: names of live blocks, which users give to tensors. Snapshots show them, and out-of-memory errors name the largest.
//!
//! A label belongs to the block and goes when the block is given back. Few blocks have one, so they live beside the records; a block's
//! flag tells whether a free has to look.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::sync::Arc;

use super::block::BlockId;
use super::caching_pool::Pool;

/// The text of a label.
pub type Label = Arc<str>;

impl Pool {
    /// Names the live block that starts at `address`, or takes its name away; `false` if there is none.
    pub fn set_label(&mut self, address: usize, label: Option<Label>) -> bool {
        let Some(id) = self.live(address) else { return false };
        self.blocks[id].labelled = label.is_some();
        match label {
            Some(label) => self.labels.insert(id, label),
            None => self.labels.remove(&id),
        };
        true
    }

    /// The name of the live block that starts at `address`.
    pub fn label(&self, address: usize) -> Option<Label> {
        self.live(address).and_then(|id| self.labels.get(&id).cloned())
    }

    /// Forgets the name of a block that is given back.
    #[cold]
    pub(super) fn forget_label(&mut self, id: BlockId) {
        self.blocks[id].labelled = false;
        self.labels.remove(&id);
    }

    /// The names and sizes of the largest live blocks that have a name, the largest first.
    pub fn largest_labels(&self, count: usize) -> Vec<(Label, usize)> {
        let mut labels: Vec<_> = self.labels.iter().map(|(&id, label)| (label.clone(), self.blocks[id].size)).collect();
        labels.sort_by(|(first, size), (second, other)| (Reverse(size), first).cmp(&(Reverse(other), second)));
        labels.truncate(count);
        labels
    }
}
