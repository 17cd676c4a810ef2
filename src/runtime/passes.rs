//! [`Passes`]: threads that hold a pass, and one that is exclusive. Nobody holds a pass while a thread is exclusive.
//!
//! A pass is refused only while a thread is exclusive, not while one wants to be: that one waits for a moment without passes.
#![forbid(unsafe_code)]

use super::sync::{Condvar, Mutex, MutexGuard, unlocked, wait};

#[derive(Debug, Default)]
pub struct Passes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub struct State {
    passes: usize,
    is_exclusive: bool,
    /// The number of threads that want to be exclusive.
    wanting: usize,
}

impl Passes {
    /// Takes a pass; waits while a thread is exclusive.
    pub fn take(&self) {
        while !self.try_take() {
            unlocked(|unlocked| {
                let mut state = self.state.lock();
                while state.is_exclusive {
                    state = wait(&self.changed, state, unlocked);
                }
            });
        }
    }

    /// Takes a pass, unless a thread is exclusive.
    pub fn try_take(&self) -> bool {
        let mut state = self.state.lock();
        state.passes += usize::from(!state.is_exclusive);
        !state.is_exclusive
    }

    /// Ends a pass.
    pub fn give_back(&self) {
        let mut state = self.state.lock();
        state.passes -= 1;
        if state.passes == 0 && state.wanting > 0 {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for a moment without passes and makes this thread exclusive. `sleep` waits for a change; false: it gives up.
    pub fn exclude<'a>(
        &'a self,
        mut sleep: impl FnMut(&'a Condvar, MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool),
    ) -> bool {
        let mut state = self.state.lock();
        state.wanting += 1;
        let mut goes_on = true;
        while goes_on && (state.passes > 0 || state.is_exclusive) {
            (state, goes_on) = sleep(&self.changed, state);
        }
        state.wanting -= 1;
        state.is_exclusive |= goes_on;
        goes_on
    }

    /// Ends the exclusivity of this thread.
    pub fn admit(&self) {
        self.state.lock().is_exclusive = false;
        self.changed.notify_all();
    }
}
