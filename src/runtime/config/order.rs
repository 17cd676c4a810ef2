//! [`Order`]: the order of tasks that `RUSTDEV_SCHEDULE` asks for.

use std::fs::File;
use std::io;
use std::str::FromStr;

use crate::runtime::Error;

pub(super) const ACCEPTS: &str = "random:SEED, lazy, eager or reverse-priority";

/// The rule that chooses the next task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every task runs at its submission, or as soon as its dependencies are done.
    Eager,
    /// No task runs before somebody waits for it.
    Lazy,
    /// A random generator with that seed chooses.
    Random(u64),
    /// Of the streams that could proceed, the one with the lowest priority; among equals, the one created last.
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

/// Opens the file that logs each executed task.
pub(in crate::runtime) fn open_log(path: &str) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}
