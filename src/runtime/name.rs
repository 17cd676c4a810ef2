//! The name of the backend: of its devices (`mychip:0`), its module (`torch.mychip`) and its environment variables
//! (`MYCHIP_PROFILE`).
//!
//! It is `rustdev`, unless a backend that is built on this crate chooses its own with [`choose`].
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::OnceLock;

use super::Error;

static NAME: OnceLock<&'static str> = OnceLock::new();

/// Names the backend. Must be called before anything else of this crate; naming it again with the same name does nothing. Fails
/// with `InvalidValue` for a name that is not of lower-case letters, digits and `_`, or that PyTorch uses for a device of its own;
/// `InvalidArgument` if the backend has another name already, also by its first use.
pub fn choose(wanted: &'static str) -> Result<(), Error> {
    let letters = |text: &str| text.bytes().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_');
    if !wanted.starts_with(|first: char| first.is_ascii_lowercase()) || !letters(wanted) {
        let text = format!("{wanted:?} is not the name of a backend: it has lower-case letters, digits and _, a letter first");
        return Err(Error::InvalidValue(text));
    }
    if TAKEN.contains(&wanted) {
        return Err(Error::InvalidValue(format!("{wanted:?} is a device type of PyTorch")));
    }
    match *NAME.get_or_init(|| wanted) {
        found if found == wanted => Ok(()),
        found => Err(Error::InvalidArgument(format!("the backend is named {found:?} already, and cannot become {wanted:?}"))),
    }
}

/// Device types of PyTorch.
const TAKEN: [&str; 18] = [
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu",
    "mtia", "xpu", "ve",
];

/// The name. After this call it cannot be chosen.
#[inline]
pub fn name() -> &'static str {
    NAME.get_or_init(|| "rustdev")
}

/// The name of an environment variable: of `PROFILE`, `RUSTDEV_PROFILE`.
pub fn variable(setting: &str) -> String {
    format!("{}_{setting}", name().to_ascii_uppercase())
}

/// A device, displayed as PyTorch shows it: `rustdev:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device<Index>(pub Index);

impl<Index: fmt::Display> fmt::Display for Device<Index> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_pytorch_would_not_take_are_refused() {
        for wanted in ["", "My", "9chips", "my chip", "cuda", "meta"] {
            assert!(matches!(choose(wanted), Err(Error::InvalidValue(_))), "{wanted}");
        }
        assert_eq!((name(), variable("PROFILE").as_str()), ("rustdev", "RUSTDEV_PROFILE"));
        assert_eq!(choose("rustdev"), Ok(()));
        assert!(matches!(choose("other"), Err(Error::InvalidArgument(_))));
        assert_eq!(Device(1).to_string(), "rustdev:1");
    }
}
