//! Device memory and events that other processes use.
//!
//! Memory of a device is private until a block of its segment is first sent. Then the segment is copied into a file of memory without a name,
//! which is mapped in its place: every pointer stays valid, and nothing runs on the devices meanwhile ([`hold_streams`], [`super::gate`]). From then on a
//! send costs nothing. The receiver opens the file through the sender's descriptor (`/proc/<process>/fd`) and maps it into the address range
//! of its own device ([`received`]).
//!
//! Each send has a counter in a file that both map ([`counters`]); the sender's pool gives a block out again only when all of its sends are
//! returned, or their holders have ended ([`sends`]). Files vanish with their last descriptor and mapping, so that a process that is killed
//! leaves nothing behind.
//!
//! An event for several processes has a page of its own ([`page`]).

pub mod counters;
pub mod file;
mod hold_streams;
pub mod page;
pub mod process;
pub mod received;
pub mod sends;
