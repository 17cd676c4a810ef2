//! [`Failure`]: the first failure of a loop.

#![forbid(unsafe_code)]

use crate::runtime::sync::Mutex;

/// Collects the first failure of a loop, from its threads.
#[derive(Default)]
pub struct Failure(Mutex<Option<String>>);

impl Failure {
    /// Keeps the error, unless there is one already.
    pub fn note(&self, result: Result<(), String>) {
        if let Err(text) = result {
            self.0.lock().get_or_insert(text);
        }
    }

    /// The error that was kept.
    ///
    /// # Errors
    /// There is one.
    pub fn result(self) -> Result<(), String> {
        self.0.into_inner().map_or(Ok(()), Err)
    }
}
