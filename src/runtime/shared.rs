//! Device memory and events shared with other processes.
//!
//! Memory of a device is private until a block of its segment is first sent. Then the segment is copied into an anonymous memory
//! file, which is mapped in its place: every pointer stays valid, and nothing runs on the devices meanwhile ([`hold_streams`],
//! [`super::gate`]). Further sends from the segment need no copy. The receiver opens the file through the sender's descriptor
//! (`/proc/<process>/fd`) and maps it into the address range of its own device ([`received`]).
//!
//! Each send has a counter in a file that both processes map ([`counters`]). The sender's pool reuses a block only when all of its
//! sends are returned or their holders have ended ([`sends`]). Files vanish with their last descriptor and mapping, so that a
//! killed process leaves nothing behind.
//!
//! An event that several processes use has a page of its own ([`page`]).

pub mod counters;
pub mod file;
mod hold_streams;
pub mod page;
pub mod process;
pub mod received;
pub mod sends;
