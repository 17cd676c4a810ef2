//! Counters of a process's sends: one word per send, in a file that the receivers map.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | unused |
//! | `IN_FLIGHT` | sent, and not yet received |
//! | a process ([`Process::word`]) | received, and held by that process |
//! | `RETURNED` | no longer used by the receiver |
//!
//! Only the sender hands numbers out: it changes 0 to `IN_FLIGHT`, and any other value to 0 when it takes the memory back. A
//! receiver changes `IN_FLIGHT` to its own word, and that to `RETURNED`. A message that is received twice therefore finds its word
//! taken.
//!
//! The number of a send holds the index of its word in the lower half and the count of earlier sends in the upper half.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::sync::atomic::Ordering;

use super::file::{self, Place};
use super::process::Process;
use crate::runtime::memory::system::Words;
use crate::runtime::sync::Mutex;

const IN_FLIGHT: u64 = u64::MAX;
const RETURNED: u64 = u64::MAX - 1;
/// The most sends of one process that can be held at a time. A word takes memory from its first use on.
const SENDS: usize = 1 << 20;
const BYTES: usize = SENDS * size_of::<u64>();

/// The counters of this process; `T` describes a send.
#[derive(Debug)]
pub struct Counters<T> {
    /// Stays open as long as the counters exist: receivers open the file through it.
    _file: File,
    /// Where receivers find the file.
    pub place: Place,
    words: Words,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// The sends with their numbers, by index of their word.
    sends: BTreeMap<u32, (u64, T)>,
    spare: Vec<u32>,
    count: u64,
}

impl<T> Counters<T> {
    pub fn new(process: Process) -> Result<Self> {
        let file = file::create(c"rustdev-counters", BYTES)?;
        let (place, words) = (Place::of(&file, process)?, Words::map(&file, BYTES)?);
        Ok(Self { _file: file, place, words, state: Mutex::new(State { sends: BTreeMap::new(), spare: Vec::new(), count: 0 }) })
    }

    /// The number of a new send; `None` if there are too many.
    pub fn send(&self, what: T) -> Option<u64> {
        let mut state = self.state.lock();
        let index = state.spare.pop().unwrap_or(state.sends.len() as u32);
        if index as usize >= SENDS {
            return None;
        }
        let number = state.count << 32 | u64::from(index);
        state.count += 1;
        self.words.long(index as usize).store(IN_FLIGHT, Ordering::Release);
        state.sends.insert(index, (number, what));
        Some(number)
    }

    /// Cancels a send that nobody has received; no effect on other sends.
    pub fn cancel(&self, number: u64) {
        let state = self.state.lock();
        if state.sends.get(&(number as u32)).is_some_and(|(known, _)| *known == number) {
            give_back(&self.words, number, IN_FLIGHT);
        }
    }

    /// Removes the sends that are over (returned, or held by a process that has ended) and returns their descriptions.
    pub fn take_over(&self) -> Vec<T> {
        let mut state = self.state.lock();
        let mut alive = HashMap::new();
        // Acquire: pairs with the release in `give_back`, so that the receiver's accesses are complete.
        let word = |index: u32| self.words.long(index as usize).load(Ordering::Acquire);
        let mut is_over = |word| match word {
            IN_FLIGHT => false,
            RETURNED => true,
            holder => !*alive.entry(holder).or_insert_with(|| Process::of_word(holder).is_alive()),
        };
        let over = state.sends.keys().copied().filter(|&index| is_over(word(index))).collect::<Vec<_>>();
        let mut taken = Vec::with_capacity(over.len());
        for index in over {
            self.words.long(index as usize).store(0, Ordering::Relaxed);
            taken.extend(state.sends.remove(&index).map(|(_, what)| what));
            state.spare.push(index);
        }
        taken
    }
}

/// Changes a word from `from` to `RETURNED`.
fn give_back(words: &Words, number: u64, from: u64) {
    let _ = words.long(number as u32 as usize).compare_exchange(from, RETURNED, Ordering::Release, Ordering::Relaxed);
}

/// This process's mapping of a sender's counters.
#[derive(Debug)]
pub struct Receipts {
    words: Words,
    receiver: Process,
}

impl Receipts {
    /// Maps the counters.
    pub fn open(place: Place) -> Result<Self> {
        Ok(Self { words: Words::map(&place.open()?, BYTES)?, receiver: Process::current()? })
    }

    /// Notes that this process holds a send. Fails with `AlreadyExists` if it was received before; `InvalidData` for a number out
    /// of range.
    pub fn receive(&self, number: u64) -> Result<()> {
        let index = number as u32 as usize;
        if index >= SENDS {
            return Err(ErrorKind::InvalidData.into());
        }
        let word = self.words.long(index);
        let taken = word.compare_exchange(IN_FLIGHT, self.receiver.word(), Ordering::AcqRel, Ordering::Relaxed);
        taken.map(|_| ()).map_err(|_| ErrorKind::AlreadyExists.into())
    }

    /// Returns a send that this process holds.
    pub fn give_back(&self, number: u64) {
        give_back(&self.words, number, self.receiver.word());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_is_over_when_it_is_returned_or_cancelled() {
        let counters = Counters::new(Process::current().unwrap()).unwrap();
        let receipts = Receipts::open(counters.place).unwrap();
        let [first, second, third] = ["first", "second", "third"].map(|what| counters.send(what).unwrap());
        receipts.receive(first).unwrap();
        receipts.receive(second).unwrap();
        assert_eq!(receipts.receive(first).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(receipts.receive(u64::MAX).is_err());
        assert!(counters.take_over().is_empty());
        receipts.give_back(second);
        counters.cancel(third);
        counters.cancel(first);
        assert_eq!(counters.take_over(), ["second", "third"]);
        let fourth = counters.send("fourth").unwrap();
        let again = [second, third].into_iter().find(|number| *number as u32 == fourth as u32).expect("words are used again");
        counters.cancel(again);
        assert!(counters.take_over().is_empty(), "the number of an earlier send means no later one");
    }
}
