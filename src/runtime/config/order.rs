//! [`Order`]: the order of tasks that `RUSTDEV_SCHEDULE` asks for.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io;
use std::str::FromStr;

use crate::runtime::Error;

pub(super) const ACCEPTS: &str = "random:SEED, lazy, eager or reverse-priority";

/// Which task runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every task at its submission, or as soon as what it waits for is done.
    Eager,
    /// No task before somebody waits for it.
    Lazy,
    /// As a generator of random numbers with that seed chooses.
    Random(u64),
    /// Of the streams that could go on, the one of the lowest priority, and among those the one made last.
    ReversePriority,
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let seed = |text: &str| text.strip_prefix("random:")?.parse().ok().map(Self::Random);
        match text {
            "eager" => Ok(Self::Eager),
            "lazy" => Ok(Self::Lazy),
            "reverse-priority" => Ok(Self::ReversePriority),
            _ => seed(text).ok_or_else(|| Error::InvalidValue(format!("{text:?} is not valid: it accepts {ACCEPTS}"))),
        }
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Eager => f.write_str("eager"),
            Self::Lazy => f.write_str("lazy"),
            Self::Random(seed) => write!(f, "random:{seed}"),
            Self::ReversePriority => f.write_str("reverse-priority"),
        }
    }
}

/// Opens the file that tells of each task that has run.
pub(in crate::runtime) fn open_log(path: &str) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}
