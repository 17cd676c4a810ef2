//! The shared-memory page of an event that several processes use. It holds the event's latest recordings.
//!
//! The page begins with two 4-byte words: the count of recordings and the number of the latest one. Entries of 16 bytes follow,
//! used by the recordings in a ring. An entry holds the process that records and, once the recording is reached, its number. A
//! process writes the entry before it publishes the recording as the latest.
//!
//! A waiter reads one entry. If the entry holds a later recording, the awaited one was reached earlier, or the waiter is 254
//! recordings behind.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Result;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::file::{self, Place};
use super::process::Process;
use crate::runtime::memory::system::Words;
use crate::runtime::sync::{Arc, Unlocked, unlocked};
use crate::runtime::task::{DrainableStream, Lease, LeaseHolder};
use crate::runtime::{Error, blocking_pool, exit};

const BYTES: usize = 4096;
/// Entries after the first 16 bytes.
const ENTRIES: u32 = BYTES as u32 / 16 - 1;
/// How often a waiting thread checks whether the recording process has ended.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Page {
    /// Stays open as long as the event exists: other processes open the page through it.
    _file: File,
    /// Where other processes find the page.
    pub place: Place,
    words: Words,
    process: Process,
}

impl Page {
    pub fn new() -> Result<Self> {
        Self::over(file::create(c"rustdev-event", BYTES)?)
    }

    /// The page of another process.
    pub fn open(place: Place) -> Result<Self> {
        Self::over(place.open()?)
    }

    fn over(file: File) -> Result<Self> {
        let process = Process::current()?;
        let (place, words) = (Place::of(&file, process)?, Words::map(&file, BYTES)?);
        Ok(Self { _file: file, place, words, process })
    }

    /// Publishes a recording of this process as the latest.
    pub fn announce(self: &Arc<Self>) -> Announced {
        let count = self.words.short(0).fetch_add(1, Ordering::Relaxed);
        // Number 0 means that there is no recording.
        let number = count.wrapping_add(1).max(1);
        let announced = Announced { page: Arc::clone(self), number };
        self.words.long(process_of(number)).store(self.process.word(), Ordering::Relaxed);
        // Release: pairs with the load in `latest`, so that a thread that sees the number sees the process.
        self.words.short(1).store(number, Ordering::Release);
        announced
    }

    /// The latest recording; `None` if there is none.
    pub fn latest(self: &Arc<Self>) -> Option<Awaited> {
        let number = self.words.short(1).load(Ordering::Acquire);
        (number != 0).then(|| Awaited { page: Arc::clone(self), number })
    }
}

fn process_of(number: u32) -> usize {
    2 + 2 * (number % ENTRIES) as usize
}

fn reached_of(number: u32) -> usize {
    2 * (process_of(number) + 1)
}

/// A recording that is reached when this value is dropped.
#[derive(Debug)]
pub struct Announced {
    page: Arc<Page>,
    pub number: u32,
}

impl Drop for Announced {
    fn drop(&mut self) {
        let word = self.page.words.short(reached_of(self.number));
        // Release: pairs with the load in `is_reached`, so that the work before the recording is visible.
        word.store(self.number, Ordering::Release);
        file::wake(word);
    }
}

/// A recording to wait for.
#[derive(Clone, Debug)]
pub struct Awaited {
    page: Arc<Page>,
    pub number: u32,
}

impl Awaited {
    fn reached(&self) -> u32 {
        self.page.words.short(reached_of(self.number)).load(Ordering::Acquire)
    }

    fn is_reached(&self) -> bool {
        self.reached().wrapping_sub(self.number) < u32::MAX / 2
    }

    /// Fails if the recording process has ended without reaching it.
    fn check(&self) -> std::result::Result<(), Error> {
        let process = Process::of_word(self.page.words.long(process_of(self.number)).load(Ordering::Relaxed));
        if process.is_alive() || self.is_reached() {
            return Ok(());
        }
        Err(Error::TaskFailed(format!("process {} ended before it reached an event that is waited for", process.id)))
    }

    /// True if the recording is reached. Fails with `TaskFailed` if it never will be.
    pub fn query(&self) -> std::result::Result<bool, Error> {
        if self.is_reached() { Ok(true) } else { self.check().map(|()| self.is_reached()) }
    }

    /// Waits until the recording is reached or its process ends. Fails with `TaskFailed` if it never will be reached.
    pub fn synchronize(&self) -> std::result::Result<(), Error> {
        if self.is_reached() { Ok(()) } else { unlocked(|unlocked| self.wait(unlocked)) }
    }

    fn wait(&self, unlocked: &Unlocked) -> std::result::Result<(), Error> {
        while !self.is_reached() && !exit::is_exiting() {
            let seen = self.reached();
            if !self.is_reached() {
                file::sleep_while(self.page.words.short(reached_of(self.number)), seen, LOOK, unlocked);
            }
            if !self.is_reached() {
                self.check()?;
            }
        }
        Ok(())
    }
}

impl LeaseHolder for Awaited {
    fn is_over(&self) -> bool {
        self.is_reached()
    }

    fn keep(&self, stream: &'static dyn DrainableStream, lease: Lease) {
        let awaited = self.clone();
        blocking_pool::spawn("rustdev-event", move |unlocked| {
            let outcome = awaited.wait(unlocked);
            stream.go_on(lease, outcome.err().as_ref().map(|error| error as &dyn std::fmt::Display));
        });
    }
}
