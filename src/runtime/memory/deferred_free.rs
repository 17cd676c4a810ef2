//! Deferred frees: freed blocks that tasks of other streams may still use.
//!
//! A block waits for a *position* of a stream: the number of tasks that had been submitted to the stream when the block was freed.
//! Positions of a stream only grow, so the queue of each stream is in the order in which its blocks become reusable, and checking
//! the heads is enough. `suspend` of `caching_pool.rs` puts a block into the queues, and `reclaim` takes it back.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::Timeline;

struct Queue<T> {
    timeline: &'static dyn Timeline,
    items: VecDeque<(u64, T)>,
}

/// The waiting items of a pool; an item that waits for several streams is in several queues.
#[derive(Default)]
pub struct Waiting<T> {
    queues: Vec<Queue<T>>,
}

impl<T: Copy> Waiting<T> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Makes `item` wait for all tasks submitted to the stream so far; `false` if they are done already.
    pub fn push(&mut self, timeline: &'static dyn Timeline, item: T) -> bool {
        let position = timeline.submitted();
        if timeline.completed() >= position {
            return false;
        }
        match self.queues.iter_mut().find(|queue| same(queue.timeline, timeline)) {
            Some(queue) => queue.items.push_back((position, item)),
            None => self.queues.push(Queue { timeline, items: VecDeque::from([(position, item)]) }),
        }
        true
    }

    /// Removes the waits that are over and returns their items, an item once per wait.
    pub fn take_completed(&mut self) -> Vec<T> {
        let mut done = Vec::new();
        for queue in &mut self.queues {
            let completed = queue.timeline.completed();
            let count = queue.items.iter().take_while(|(position, _)| *position <= completed).count();
            done.extend(queue.items.drain(..count).map(|(_, item)| item));
        }
        self.queues.retain(|queue| !queue.items.is_empty());
        done
    }

    /// The streams that are waited for.
    pub fn timelines(&self) -> Vec<&'static dyn Timeline> {
        self.queues.iter().map(|queue| queue.timeline).collect()
    }
}

pub fn same(one: &dyn Timeline, other: &dyn Timeline) -> bool {
    one.key() == other.key()
}
