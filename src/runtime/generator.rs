//! Random generators: Philox 4x32-10, whose state is a seed and an offset.
//!
//! A kernel's numbers are reserved at its submission, so they depend on the order of submission, not on how streams and threads
//! run. Several `PyTorch` generators, and graphs that draw at each replay, may share one state.
#![forbid(unsafe_code)]

use super::Error;
use super::sync::Mutex;

/// The number of 32-bit numbers in a Philox block.
pub const BLOCK: u64 = 4;

/// The state from which a kernel draws. The offset counts 32-bit numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhiloxState {
    pub seed: u64,
    pub offset: u64,
}

/// The state of a generator.
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

    /// The current state.
    pub fn state(&self) -> PhiloxState {
        *self.0.lock()
    }

    /// Sets the state.
    pub fn set_state(&self, state: PhiloxState) {
        *self.0.lock() = state;
    }

    /// Sets the offset and keeps the seed.
    pub fn set_offset(&self, offset: u64) {
        self.0.lock().offset = offset;
    }
}

/// Checks that an offset is at the start of a block.
///
/// # Errors
/// `InvalidArgument` for an offset inside a block.
pub fn check_offset(offset: u64) -> Result<(), Error> {
    if offset.is_multiple_of(BLOCK) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("offset must be a multiple of {BLOCK}, got {offset}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_in_whole_blocks() {
        let generator = Generator::new(PhiloxState { seed: 7, offset: 8 });
        let offsets: Vec<_> = [4, 1, 0, 5, 8].iter().map(|&numbers| generator.advance(numbers).offset).collect();
        assert_eq!(offsets, [8, 12, 16, 16, 24]);
        assert_eq!(generator.state(), PhiloxState { seed: 7, offset: 32 });
    }

    #[test]
    fn an_offset_leaves_the_seed() {
        let generator = Generator::new(PhiloxState { seed: 7, offset: 8 });
        generator.set_offset(4);
        assert_eq!(generator.state(), PhiloxState { seed: 7, offset: 4 });
        generator.set_state(PhiloxState { seed: 1, offset: 0 });
        assert_eq!(generator.advance(4), PhiloxState { seed: 1, offset: 0 });
    }

    #[test]
    fn offsets_are_multiples_of_a_block() {
        assert!(check_offset(0).is_ok() && check_offset(8).is_ok());
        assert_eq!(check_offset(6).unwrap_err().to_string(), "offset must be a multiple of 4, got 6");
    }
}
