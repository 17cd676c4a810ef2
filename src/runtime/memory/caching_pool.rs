//! Caching pool of one device, without its lock: the choice of a block for each request.
//!
//! A request is rounded up to 512 bytes. Requests of at most 1 MiB come from segments of 2 MiB, those below 10 MiB from segments of
//! 20 MiB; larger ones get a segment of their own, rounded to 2 MiB. This is PyTorch's documented policy. Each stream has its own
//! free lists, so that a block is reused by tasks of the same stream, in whose order no wait is needed; a private pool
//! ([`crate::runtime::pools::private_pool`]) has separate lists. A freed block that other streams used waits in one queue per such
//! stream until that stream has completed the tasks it had at the free.
//!
//! Invariants, which the model test checks after each step:
//! - the blocks of a segment follow each other without gap or overlap, and no two neighbours are both free;
//! - a block is in exactly one free list if it is free, and in none otherwise;
//! - a free block is not split exactly if it is a whole segment;
//! - the counters equal what a walk over all blocks gives.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use super::Timeline;
use super::arena::{Arena, Reserve};
use super::block::{Block, BlockId, Blocks, Kind, NONE, State};
use super::deferred_free::{Waiting, same};
use super::free_list::{FreeList, UNIT};
use super::front_cache::FrontCache;
use super::history::{Action, Context, History};
use super::label::Label;
use super::lending::Traits;
use super::sent::{Foreign, SegmentFile, Sends};
use super::shared_budget::SharedBudget;
use super::stats::Stats;
use super::system::HUGE_PAGE;
use crate::runtime::observers;
use crate::runtime::sync::Arc;
use crate::tuning::pools::{OWN_SEGMENT_BYTES, SHARED_SEGMENT_BYTES, SMALL_REQUEST_BYTES, SMALL_SEGMENT_BYTES};

/// The number of the general pool; other numbers are private pools ([`crate::runtime::pools::private_pool`]).
pub const GENERAL: u64 = 0;

/// The largest request: the size of a 47-bit address space.
const LARGEST_REQUEST: usize = 1 << 47;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The device's memory in bytes.
    pub budget: usize,
    /// The part of the budget that this process may use, at most 1.
    pub fraction: f64,
    /// Blocks of at least this size are never split.
    pub max_split_size: usize,
    /// Above this fraction of the allowed memory, old cached segments are released before new ones are committed; 0 disables it.
    pub garbage_collection_threshold: f64,
}

impl Settings {
    /// The bytes that may be reserved.
    pub fn limit(&self) -> usize {
        ((self.budget as f64 * self.fraction) as usize).min(self.budget)
    }
}

/// The reason why a request cannot be served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Garbage must be collected first.
    Garbage,
    /// The allowed memory is used up.
    Limit,
    /// The machine refuses to give more memory.
    Machine,
}

#[derive(Clone)]
pub struct Request {
    pub stream: &'static dyn Timeline,
    /// The number of the pool to allocate from.
    pub private: u64,
    /// The requested bytes, at least 1.
    pub bytes: usize,
    pub context: Option<Context>,
    /// True if garbage was already collected for this request.
    pub collected: bool,
}

/// The users of a live block.
pub struct Use {
    /// The stream that it was allocated for.
    pub owner: &'static dyn Timeline,
    pub size: usize,
    /// Other streams that were recorded on it.
    pub users: Vec<&'static dyn Timeline>,
    pub label: Option<Label>,
}

/// Free lists and clock of one stream, in the general pool or a private one.
pub(super) struct Lists {
    pub timeline: &'static dyn Timeline,
    /// The number of the pool that the lists belong to.
    pub private: u64,
    /// The number of segments that the lists own.
    pub segments: usize,
    /// True if free segments may be released because nothing uses the private pool.
    pub is_released: bool,
    /// True if blocks are handed out unsplit.
    pub keeps_whole: bool,
    pub small: FreeList,
    pub large: FreeList,
    /// Blocks of at least `max_split_size`.
    pub oversize: FreeList,
    /// Counts searches; the age of a free block is the number of searches it has survived.
    pub clock: u64,
}

/// A committed part of the arena.
pub(super) struct Segment {
    pub size: usize,
    pub kind: Kind,
    pub owner: u32,
    pub context: Option<Context>,
    /// The file that backs its memory, once one of its blocks was sent to another process.
    pub file: Option<SegmentFile>,
}

/// The pool; every access happens under its device's lock.
pub struct Pool {
    pub settings: Settings,
    /// The budget shared with other pools, if there is one.
    pub(super) shared: Option<Arc<SharedBudget>>,
    pub(super) arena: Arena,
    pub(super) blocks: Blocks,
    pub(super) lists: Vec<Lists>,
    /// The most recent result of [`Pool::owner`], which is almost always the next one.
    recent: Option<((u64, i64), u32)>,
    /// The index of the lists of a pool and stream.
    pub(super) owners: HashMap<(u64, i64), u32>,
    /// Traits of the private pools that have any.
    pub(super) traits: BTreeMap<u64, Traits>,
    /// Indices of lists that a released private pool has left.
    vacant: Vec<u32>,
    pub(super) segments: BTreeMap<usize, Segment>,
    /// The other streams recorded on blocks that have `shared` set.
    pub(super) uses: HashMap<BlockId, Vec<&'static dyn Timeline>>,
    pub(super) waiting: Waiting<BlockId>,
    pub(super) contexts: HashMap<BlockId, Context>,
    pub(super) labels: HashMap<BlockId, Label>,
    pub stats: Stats,
    pub history: History,
    pub(super) front_cache: FrontCache,
    pub(super) sends: Sends,
    /// True if a freed block stays allocated because other processes may still use it.
    pub(super) keeps: bool,
    pub(super) foreign: Foreign,
}

/// The size of the block for a request; `None` if the request is larger than any address space.
#[inline]
pub fn block_size(bytes: usize) -> Option<usize> {
    (bytes <= LARGEST_REQUEST).then(|| bytes.max(1).next_multiple_of(UNIT))
}

/// The size of a new segment for a block of `size` bytes.
pub fn segment_size(size: usize) -> usize {
    if size <= SMALL_REQUEST_BYTES {
        SMALL_SEGMENT_BYTES
    } else if size < OWN_SEGMENT_BYTES {
        SHARED_SEGMENT_BYTES
    } else {
        size.next_multiple_of(HUGE_PAGE)
    }
}

#[inline]
fn kind_of(size: usize) -> Kind {
    if size <= SMALL_REQUEST_BYTES { Kind::Small } else { Kind::Large }
}

impl Pool {
    /// An empty pool over host memory.
    #[cfg(test)]
    pub fn new(settings: Settings) -> std::io::Result<Self> {
        Self::over(settings, &super::arena::reserve)
    }

    /// An empty pool over an address range that `reserve` gives. Fails if the process may not have that much address space.
    pub fn over(settings: Settings, reserve: Reserve<'_>) -> std::io::Result<Self> {
        Ok(Self {
            settings,
            shared: None,
            arena: Arena::new(settings.budget, reserve)?,
            blocks: Blocks::default(),
            lists: Vec::new(),
            recent: None,
            owners: HashMap::new(),
            traits: BTreeMap::new(),
            vacant: Vec::new(),
            segments: BTreeMap::new(),
            uses: HashMap::new(),
            waiting: Waiting::default(),
            contexts: HashMap::new(),
            labels: HashMap::new(),
            stats: Stats { max_split_size: i64::try_from(settings.max_split_size).unwrap_or(-1), ..Stats::default() },
            history: History::default(),
            front_cache: FrontCache::default(),
            sends: Sends::default(),
            keeps: false,
            foreign: Foreign::default(),
        })
    }

    /// Serves a request from the cache or from a new segment. Returns the block's address and size.
    #[inline]
    pub fn allocate(&mut self, request: &Request) -> Result<(usize, usize), Refusal> {
        let size = block_size(request.bytes).ok_or(Refusal::Limit)?;
        if let Some(block) = self.take_from_front_cache(size, request) {
            return Ok(block);
        }
        if !self.waiting.is_empty() {
            self.reclaim();
        }
        let owner = self.owner(request.private, request.stream);
        let id = match self.find(owner, size) {
            Some(id) => id,
            None => self.grow(owner, size, request)?,
        };
        Ok(self.hand_out(id, size, request))
    }

    /// The index of the lists of a pool and stream.
    #[inline]
    fn owner(&mut self, private: u64, timeline: &'static dyn Timeline) -> u32 {
        let key = (private, timeline.id());
        match self.recent {
            Some((recent, owner)) if recent == key => owner,
            _ => self.owner_of(key, timeline),
        }
    }

    #[cold]
    fn owner_of(&mut self, key: (u64, i64), timeline: &'static dyn Timeline) -> u32 {
        let owner = *self.owners.entry(key).or_insert_with(|| {
            let (small, large, oversize) = Default::default();
            let keeps_whole = self.traits.get(&key.0).is_some_and(|traits| traits.keeps_whole);
            let (private, segments, is_released, clock) = (key.0, 0, false, 0);
            let lists = Lists { timeline, private, segments, is_released, keeps_whole, small, large, oversize, clock };
            if let Some(owner) = self.vacant.pop() {
                self.lists[owner as usize] = lists;
                return owner;
            }
            self.lists.push(lists);
            (self.lists.len() - 1) as u32
        });
        self.lists[owner as usize].is_released = false;
        self.recent = Some((key, owner));
        owner
    }

    /// Releases the segments of a private pool as they become free.
    pub fn release_private(&mut self, private: u64) {
        self.recent = None;
        self.traits.remove(&private);
        let owners = self.owners.iter().filter(|((pool, _), _)| *pool == private).map(|(_, &owner)| owner).collect::<Vec<_>>();
        for owner in owners {
            self.lists[owner as usize].is_released = true;
            self.vacate(owner);
        }
    }

    /// Makes the lists of a released private pool reusable if they own no segments.
    pub(super) fn vacate(&mut self, owner: u32) {
        let lists = &self.lists[owner as usize];
        if lists.is_released && lists.segments == 0 {
            self.owners.remove(&(lists.private, lists.timeline.id()));
            self.vacant.push(owner);
        }
    }

    /// A cached block that fits the size; it stays in its list.
    #[inline]
    pub(super) fn find(&mut self, owner: u32, size: usize) -> Option<BlockId> {
        let lists = &mut self.lists[owner as usize];
        lists.clock += 1;
        if size <= SMALL_REQUEST_BYTES {
            return lists.small.find(&self.blocks, size);
        }
        if size < self.settings.max_split_size {
            return lists.large.find(&self.blocks, size);
        }
        let found = lists.oversize.find(&self.blocks, size)?;
        (self.blocks[found].size < size.saturating_add(SHARED_SEGMENT_BYTES)).then_some(found)
    }

    /// The free list that a block belongs to while it is free.
    #[inline]
    fn list_of(&mut self, id: BlockId) -> (&mut FreeList, &mut Blocks, u64) {
        let block = &self.blocks[id];
        let lists = &mut self.lists[block.owner as usize];
        let list = match block.kind {
            Kind::Small => &mut lists.small,
            Kind::Large if block.size < self.settings.max_split_size => &mut lists.large,
            Kind::Large => &mut lists.oversize,
        };
        (list, &mut self.blocks, lists.clock)
    }

    #[inline]
    pub(super) fn enlist(&mut self, id: BlockId) {
        let (list, blocks, clock) = self.list_of(id);
        blocks[id].state = State::Free;
        blocks[id].born = clock;
        list.insert(blocks, id);
    }

    #[inline]
    pub(super) fn delist(&mut self, id: BlockId) {
        let (list, blocks, _) = self.list_of(id);
        list.remove(blocks, id);
    }

    /// Commits a segment for the size and puts it into the lists as one free block.
    #[cold]
    fn grow(&mut self, owner: u32, size: usize, request: &Request) -> Result<BlockId, Refusal> {
        // A shared budget is the machine's memory, which a dry run does not use.
        let is_unlimited = self.shared.is_some() && observers::is_dry();
        let (length, limit) = (segment_size(size), if is_unlimited { usize::MAX } else { self.settings.limit() });
        let reserved = self.stats.reserved_bytes.current() as usize;
        let threshold = self.settings.garbage_collection_threshold;
        if threshold > 0.0 && !request.collected && reserved.saturating_add(length) as f64 > threshold * limit as f64 {
            return Err(Refusal::Garbage);
        }
        if length > limit.saturating_sub(reserved) {
            return Err(Refusal::Limit);
        }
        if self.shared.as_ref().is_some_and(|shared| !shared.take(length)) {
            return Err(Refusal::Limit);
        }
        let Ok(address) = self.arena.commit(length) else {
            self.give_shared_back(length);
            return Err(Refusal::Machine);
        };
        let kind = kind_of(size);
        let id = self.blocks.insert(Block::segment(address, length, owner, kind));
        self.arena.set_start(address, id);
        self.lists[owner as usize].segments += 1;
        self.segments.insert(address, Segment { size: length, kind, owner, context: request.context.clone(), file: None });
        self.stats.segment.increase(kind as usize, 1);
        self.stats.reserved_bytes.increase(kind as usize, length);
        self.stats.num_device_alloc += 1;
        if length >= self.settings.max_split_size {
            self.stats.oversize_segments.increase(1);
        }
        self.history.record(Action::SegmentAlloc, address, length, request.stream.id(), request.context.as_ref());
        self.enlist(id);
        Ok(id)
    }

    /// Returns reserved bytes to the shared budget, if there is one.
    pub(super) fn give_shared_back(&self, bytes: usize) {
        if let Some(shared) = &self.shared {
            shared.give_back(bytes);
        }
    }

    /// Free and total bytes of the budget. Free are those that neither this pool nor one that shares the budget has reserved.
    pub fn info(&self) -> (usize, usize) {
        let budget = self.settings.budget;
        let unreserved = budget.saturating_sub(self.stats.reserved_bytes.current() as usize);
        (self.shared.as_ref().map_or(unreserved, |shared| shared.free().min(unreserved)), budget)
    }

    /// Removes a block from its list, splits off what the request does not need, and counts it.
    #[inline]
    pub(super) fn hand_out(&mut self, id: BlockId, size: usize, request: &Request) -> (usize, usize) {
        self.delist(id);
        let (was_split, whole, kind) = (self.blocks[id].is_split(), self.blocks[id].size, self.blocks[id].kind);
        let spare = whole - size;
        let keeps_whole = self.lists[self.blocks[id].owner as usize].keeps_whole;
        let splits = match kind {
            _ if keeps_whole => false,
            Kind::Small => spare > 0,
            Kind::Large => size < self.settings.max_split_size && spare > SMALL_REQUEST_BYTES,
        };
        if splits {
            let rest = self.blocks.split(id, size);
            self.arena.set_start(self.blocks[rest].address, rest);
            self.enlist(rest);
        }
        let block = &mut self.blocks[id];
        block.state = State::Allocated;
        block.requested = request.bytes;
        let (address, taken, index) = (block.address, block.size, kind as usize);
        let stats = &mut self.stats;
        let inactive = if splits { spare as i64 } else { 0 } - if was_split { whole as i64 } else { 0 };
        stats.inactive_split.change(index, i64::from(splits) - i64::from(was_split));
        stats.inactive_split_bytes.change(index, inactive);
        stats.allocation.increase(index, 1);
        stats.allocated_bytes.increase(index, taken);
        stats.active.increase(index, 1);
        stats.active_bytes.increase(index, taken);
        stats.requested_bytes.increase(index, request.bytes);
        if taken >= self.settings.max_split_size {
            stats.oversize_allocations.increase(1);
        }
        if let Some(context) = &request.context {
            self.contexts.insert(id, context.clone());
            self.blocks[id].traced = true;
        }
        self.history.record(Action::Alloc, address, taken, request.stream.id(), request.context.as_ref());
        (address, taken)
    }

    /// The allocated block that starts at an address.
    #[inline]
    pub fn live(&self, address: usize) -> Option<BlockId> {
        let id = self.arena.start(address);
        let block = self.blocks.get(id)?;
        (block.address == address && block.state == State::Allocated).then_some(id)
    }

    /// Notes that tasks of another stream use the block that starts at `address`; `false` if there is none.
    pub fn record_stream(&mut self, address: usize, timeline: &'static dyn Timeline) -> bool {
        let Some(id) = self.live(address) else { return false };
        let owner = self.lists[self.blocks[id].owner as usize].timeline;
        if same(owner, timeline) {
            return true;
        }
        self.blocks[id].shared = true;
        let uses = self.uses.entry(id).or_default();
        if !uses.iter().any(|&known| same(known, timeline)) {
            uses.push(timeline);
        }
        true
    }

    /// True if other streams or processes may use the live block that starts at `address`.
    pub fn is_shared(&self, address: usize) -> bool {
        self.live(address).is_some_and(|id| self.blocks[id].shared || self.blocks[id].sent)
    }

    /// The users of the live block that starts at `address`; `None` for blocks of private pools and blocks that other processes may
    /// use, which the owner's free alone does not make reusable.
    pub fn use_of(&self, address: usize) -> Option<Use> {
        let id = self.live(address)?;
        let block = &self.blocks[id];
        let lists = &self.lists[block.owner as usize];
        if block.sent || lists.private != GENERAL {
            return None;
        }
        let users = self.uses.get(&id).filter(|_| block.shared).cloned().unwrap_or_default();
        Some(Use { owner: lists.timeline, size: block.size, users, label: self.labels.get(&id).cloned() })
    }

    /// Frees the block that starts at `address`. Returns its size, or `None` if no live block starts there.
    #[inline]
    pub fn free(&mut self, address: usize, context: Option<&Context>) -> Option<usize> {
        let id = self.live(address)?;
        let Block { size, sent, .. } = self.blocks[id];
        if sent {
            return self.free_sent(id, context);
        }
        if !self.put_into_front_cache(id) {
            self.release_block(id, context);
        }
        Some(size)
    }

    /// Frees a live block without the front cache.
    pub(super) fn release_block(&mut self, id: BlockId, context: Option<&Context>) {
        let block = &self.blocks[id];
        let (address, size, index, owner) = (block.address, block.size, block.kind as usize, block.owner);
        let (shared, traced, labelled) = (block.shared, block.traced, block.labelled);
        self.stats.allocation.decrease(index, 1);
        self.stats.allocated_bytes.decrease(index, size);
        if size >= self.settings.max_split_size {
            self.stats.oversize_allocations.decrease(1);
        }
        self.history.record(Action::FreeRequested, address, size, self.lists[owner as usize].timeline.id(), context);
        if traced {
            self.contexts.remove(&id);
            self.blocks[id].traced = false;
        }
        if labelled {
            self.labels.remove(&id);
            self.blocks[id].labelled = false;
        }
        if !(shared && self.suspend(id)) {
            self.retire(id, context);
        }
    }

    /// Defers the free of a block until the other streams that use it are done; `false` if they already are.
    #[cold]
    fn suspend(&mut self, id: BlockId) -> bool {
        self.blocks[id].shared = false;
        let uses = self.uses.remove(&id).unwrap_or_default();
        let waits = uses.into_iter().filter(|&timeline| self.waiting.push(timeline, id)).count();
        if waits > 0 {
            self.blocks[id].state = State::Pending;
            self.blocks[id].waits = waits as u32;
        }
        waits > 0
    }

    /// Completes the deferred frees whose streams are done.
    #[cold]
    pub fn reclaim(&mut self) {
        for id in self.waiting.take_completed() {
            self.blocks[id].waits -= 1;
            if self.blocks[id].waits == 0 {
                self.retire(id, None);
            }
        }
    }

    /// Makes a block free: coalesces it with free neighbours and puts it into its list.
    #[inline]
    fn retire(&mut self, id: BlockId, context: Option<&Context>) {
        let block = &self.blocks[id];
        let (index, size, requested, address) = (block.kind as usize, block.size, block.requested, block.address);
        let (before, after) = (block.before, block.after);
        let timeline = self.lists[block.owner as usize].timeline;
        self.history.record(Action::FreeCompleted, address, size, timeline.id(), context);
        let (mut merged, mut count, mut bytes) = (id, 0, 0);
        if after != NONE && self.blocks[after].state == State::Free {
            (count, bytes) = (count - 1, bytes - self.blocks[after].size as i64);
            self.delist(after);
            self.blocks.join_after(id);
        }
        if before != NONE && self.blocks[before].state == State::Free {
            (count, bytes) = (count - 1, bytes - self.blocks[before].size as i64);
            self.delist(before);
            self.blocks.join_after(before);
            merged = before;
        }
        let is_split = self.blocks[merged].is_split();
        if is_split {
            (count, bytes) = (count + 1, bytes + self.blocks[merged].size as i64);
        } else {
            self.blocks[merged].position = timeline.submitted();
        }
        self.stats.active.decrease(index, 1);
        self.stats.active_bytes.decrease(index, size);
        self.stats.requested_bytes.decrease(index, requested);
        self.stats.inactive_split.change(index, count);
        self.stats.inactive_split_bytes.change(index, bytes);
        self.enlist(merged);
        if !is_split && self.lists[self.blocks[merged].owner as usize].is_released {
            self.release_freed(merged);
        }
    }
}
