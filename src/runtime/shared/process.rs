//! Identity and liveness of a process. Process ids are reused, so the start time is part of the identity.

use std::fs;
use std::io::{Error, Result};

/// The 0-based index of the start time among the fields of `/proc/<process>/stat` after the name.
const START: usize = 19;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub id: u32,
    /// The low bits of its start time, in clock ticks since boot.
    start: u32,
}

impl Process {
    /// This process. Fails if there is no `/proc`.
    pub fn current() -> Result<Self> {
        let id = std::process::id();
        start_of(id).map(|start| Self { id, start })
    }

    /// Both parts in one word, which is neither 0 nor close to `u64::MAX`.
    pub fn word(self) -> u64 {
        u64::from(self.id) << 32 | u64::from(self.start)
    }

    /// The process that a word encodes.
    pub fn of_word(word: u64) -> Self {
        Self { id: (word >> 32) as u32, start: word as u32 }
    }

    /// True if the process has not ended. A zombie counts as ended.
    pub fn is_alive(self) -> bool {
        // SAFETY: the call takes only numbers, and returns a descriptor that is closed below.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, self.id as libc::pid_t, 0) } as libc::c_int;
        if descriptor < 0 && Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
            return false;
        }
        let is_same = start_of(self.id).is_ok_and(|start| start == self.start);
        if descriptor < 0 {
            return is_same;
        }
        let mut ended = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry is passed with its count, and a timeout of 0.
        let count = unsafe { libc::poll(&raw mut ended, 1, 0) };
        // SAFETY: the descriptor was opened above and is known to nobody else.
        unsafe { libc::close(descriptor) };
        is_same && count == 0
    }
}

fn start_of(id: u32) -> Result<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name is in parentheses and may contain anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let start = fields.split_ascii_whitespace().nth(START).and_then(|field| field.parse::<u64>().ok());
    start.map(|start| start as u32).ok_or_else(|| Error::other("/proc/<process>/stat has no time of the start"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_alive_until_it_ends_and_a_later_one_is_another() {
        let this = Process::current().unwrap();
        assert!(this.is_alive());
        assert_eq!(Process::of_word(this.word()), this);
        assert!(!Process { start: this.start.wrapping_add(1), ..this }.is_alive());
    }

    #[test]
    fn a_killed_process_is_not_alive_before_and_after_its_parent_asked() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process { id: child.id(), start: start_of(child.id()).unwrap() };
        assert!(process.is_alive());
        child.kill().unwrap();
        while process.is_alive() {
            std::thread::yield_now();
        }
        assert!(std::path::Path::new(&format!("/proc/{}", child.id())).exists(), "nobody has asked for it yet");
        child.wait().unwrap();
        assert!(!process.is_alive());
    }
}
