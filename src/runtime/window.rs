//! Window of a stream on hardware that takes several of its tasks at a time: the tasks that the hardware has, in order, and the
//! stream's lease while nobody hands tasks over.
//!
//! The holder of the lease hands tasks over ([`Window::admit`]). When it can do no more, it leaves the lease here
//! ([`Window::leave`]), and whoever changes what it waits for takes the lease and goes on: the thread that ends a task
//! ([`Window::end`]), or the one that submits one ([`Window::pushed`]).
//!
//! Tasks are counted as done in order, by the thread that ends the first one. As long as the window is not empty, the holder of the
//! lease counts nothing, so that the count has one writer at a time.
//!
//! Nothing is lost: `leave` checks under the lock what it waits for, and a submission finds the lease or leaves a note.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::sync::Mutex;

/// `L`: the lease. `M`: a mark between tasks, which is reached when all tasks before it are counted.
#[derive(Debug)]
pub struct Window<L, M> {
    depth: usize,
    state: Mutex<State<L, M>>,
}

#[derive(Debug)]
struct State<L, M> {
    /// What is not counted; the first entry is a task that the hardware has.
    entries: VecDeque<Entry<M>>,
    /// The number of the first entry.
    first: u64,
    on_hardware: usize,
    parked: Option<(L, Need)>,
    /// True if something was submitted that the holder of the lease may not have seen.
    has_more: bool,
}

#[derive(Debug)]
enum Entry<M> {
    OnHardware,
    /// A task that has ended, or an item that needed nothing but its turn.
    Ended,
    Mark(M),
}

/// What the holder of the lease needs to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A place in the window.
    Place,
    /// A further item.
    Item,
    /// The end of everything in the window.
    End,
}

/// The result of [`Window::leave`].
#[derive(Debug)]
pub enum Parked<L> {
    /// The window keeps the lease.
    Kept,
    /// What was needed is here.
    Again(L),
    /// The window is empty.
    Empty(L),
}

impl<L, M> Window<L, M> {
    /// A window for `depth` tasks.
    pub fn new(depth: usize) -> Self {
        let state = State { entries: VecDeque::new(), first: 0, on_hardware: 0, parked: None, has_more: false };
        Self { depth, state: Mutex::new(state) }
    }

    #[inline]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// True if it has room for several tasks.
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.depth > 1
    }

    /// True if the hardware has none of its tasks.
    pub fn is_empty(&self) -> bool {
        self.state.lock().entries.is_empty()
    }

    /// Appends a task and returns its number; `None` if there is no place.
    pub fn admit(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.on_hardware >= self.depth {
            return None;
        }
        state.on_hardware += 1;
        state.entries.push_back(Entry::OnHardware);
        Some(state.first + state.entries.len() as u64 - 1)
    }

    /// Appends an item that needs nothing but its turn, with its mark if it has one; false if the window is empty.
    pub fn pass(&self, mark: Option<M>) -> bool {
        let mut state = self.state.lock();
        let goes_behind = !state.entries.is_empty();
        if goes_behind {
            state.entries.push_back(mark.map_or(Entry::Ended, Entry::Mark));
        }
        goes_behind
    }

    /// Ends the task of that number. Calls `count` in order for each item that is done by that, with its mark. If that was what the
    /// lease waits for, returns the lease.
    pub fn end(&self, number: u64, mut count: impl FnMut(Option<M>)) -> Option<L> {
        let mut state = self.state.lock();
        let index = (number - state.first) as usize;
        state.entries[index] = Entry::Ended;
        state.on_hardware -= 1;
        while !matches!(state.entries.front(), None | Some(Entry::OnHardware)) {
            state.first += 1;
            count(match state.entries.pop_front() {
                Some(Entry::Mark(mark)) => Some(mark),
                _ => None,
            });
        }
        let (is_empty, has_place) = (state.entries.is_empty(), state.on_hardware < self.depth);
        let parked = state.parked.take_if(|(_, need)| is_empty || *need == Need::Place && has_place);
        parked.map(|(lease, _)| lease)
    }

    /// Leaves the lease here, unless what is needed is there.
    pub fn leave(&self, lease: L, need: Need) -> Parked<L> {
        let mut state = self.state.lock();
        if state.entries.is_empty() {
            return Parked::Empty(lease);
        }
        let is_met = match need {
            Need::Place => state.on_hardware < self.depth,
            Need::Item => std::mem::take(&mut state.has_more),
            Need::End => false,
        };
        if is_met {
            return Parked::Again(lease);
        }
        state.parked = Some((lease, need));
        Parked::Kept
    }

    /// Notes that something was submitted; returns the lease if it waits for that.
    #[inline]
    pub fn pushed(&self) -> Option<L> {
        if self.is_wide() { self.take_for_item() } else { None }
    }

    fn take_for_item(&self) -> Option<L> {
        let mut state = self.state.lock();
        let parked = state.parked.take_if(|(_, need)| *need == Need::Item);
        // In an empty window nobody leaves the lease.
        state.has_more = parked.is_none() && !state.entries.is_empty();
        parked.map(|(lease, _)| lease)
    }
}
