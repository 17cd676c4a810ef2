//! Labels: names of live blocks, which users give to tensors. Snapshots show them, and out-of-memory errors name the largest.
//!
//! A label belongs to a block and is removed when the block is freed. Few blocks have one, so labels are stored beside the block
//! records; a flag in the record tells whether a free must remove one.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::sync::Arc;

use super::caching_pool::Pool;

pub type Label = Arc<str>;

impl Pool {
    /// Sets or removes the label of the live block that starts at `address`; `false` if there is none.
    pub fn set_label(&mut self, address: usize, label: Option<Label>) -> bool {
        let Some(id) = self.live(address) else { return false };
        self.blocks[id].labelled = label.is_some();
        match label {
            Some(label) => self.labels.insert(id, label),
            None => self.labels.remove(&id),
        };
        true
    }

    /// The label of the live block that starts at `address`.
    pub fn label(&self, address: usize) -> Option<Label> {
        self.live(address).and_then(|id| self.labels.get(&id).cloned())
    }

    /// The labels and sizes of the largest labelled live blocks, largest first.
    pub fn largest_labels(&self, count: usize) -> Vec<(Label, usize)> {
        let mut labels: Vec<_> = self.labels.iter().map(|(&id, label)| (label.clone(), self.blocks[id].size)).collect();
        labels.sort_by(|(first, size), (second, other)| (Reverse(size), first).cmp(&(Reverse(other), second)));
        labels.truncate(count);
        labels
    }
}
