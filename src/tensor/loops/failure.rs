//! [`Failure`]: the first failure of a loop.

#![forbid(unsafe_code)]

use crate::runtime::sync::Mutex;
use crate::tensor::Error;

/// Keeps the first failure among the threads of a loop.
#[derive(Default)]
pub struct Failure(Mutex<Option<Error>>);

impl Failure {
    /// Keeps the error of `result`, if it is the first one.
    pub fn note(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.0.lock().get_or_insert(error);
        }
    }

    pub fn result(&self) -> Result<(), Error> {
        self.0.lock().take().map_or(Ok(()), Err)
    }
}
