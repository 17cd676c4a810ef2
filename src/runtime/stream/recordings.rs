//! Order between streams: recordings that one puts on itself and another waits for.
#![forbid(unsafe_code)]

use super::Stream;
use crate::runtime::config::config;
use crate::runtime::sync::Arc;
use crate::runtime::task::Task;
use crate::runtime::task::recording::Recording;
use crate::runtime::{Error, sanitizer};

impl Stream {
    /// Puts a recording on the stream, whether it captures or not.
    pub(in crate::runtime) fn record(&'static self, timing: bool) -> Result<Arc<Recording>, Error> {
        let recording = Arc::new(Recording::new(self, timing, sanitizer::clock(self)));
        recording.set_number(self.enqueue(Task::record(Arc::clone(&recording)), false)?);
        Ok(recording)
    }

    /// Holds back what is put on the stream from now on until the recording is reached.
    ///
    /// # Errors
    /// As [`Stream::submit`]; `InvalidArgument` while the stream captures.
    pub(in crate::runtime) fn wait_behind(&'static self, recording: Arc<Recording>) -> Result<(), Error> {
        self.refuse_capturing(|| "waiting for an event that was recorded outside of the capture".to_owned())?;
        sanitizer::order(self, recording.clock());
        if recording.is_done() {
            return Ok(());
        }
        self.enqueue(Task::wait(recording), config().launch_blocking).map(|_| ())
    }
}
