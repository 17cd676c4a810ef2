//! Random generators: Philox 4x32-10, whose state is a seed and an offset.
//!
//! A kernel's numbers are reserved at its submission, so they depend on the order of submission, not on how streams and threads
//! run. Several `PyTorch` generators, and graphs that draw at each replay, may share one state.
#![forbid(unsafe_code)]

use super::Error;
use super::sync::Mutex;

/// The number of 32-bit numbers in a Philox block.
pub const BLOCK: u64 = 4;

/// The state from which a kernel draws. The offset counts 32-bit numbers and is a multiple of 4, the size of a Philox block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhiloxState {
    pub seed: u64,
    pub offset: u64,
}

#[derive(Debug)]
pub struct Generator(Mutex<PhiloxState>);

impl Generator {
    pub const fn new(state: PhiloxState) -> Self {
        Self(Mutex::new(state))
    }

    /// Reserves this many numbers, rounded up to whole blocks. Returns the state at which they begin.
    pub fn advance(&self, numbers: u64) -> PhiloxState {
        let mut state = self.0.lock();
        let start = *state;
        state.offset = start.offset.wrapping_add(numbers.div_ceil(BLOCK).wrapping_mul(BLOCK));
        start
    }

    pub fn state(&self) -> PhiloxState {
        *self.0.lock()
    }

    pub fn set_state(&self, state: PhiloxState) {
        *self.0.lock() = state;
    }
}

/// Fails with `InvalidArgument` for an offset inside a block.
pub fn check_offset(offset: u64) -> Result<(), Error> {
    if offset.is_multiple_of(BLOCK) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("offset must be a multiple of {BLOCK}, got {offset}")))
}
