//! Order between streams: one stream records, another waits for the recording.
#![forbid(unsafe_code)]

use super::Stream;
use crate::runtime::config::config;
use crate::runtime::sync::Arc;
use crate::runtime::task::Task;
use crate::runtime::task::recording::Recording;
use crate::runtime::{Error, sanitizer};

impl Stream {
    /// Puts a recording on the stream, whether or not it captures.
    pub(in crate::runtime) fn record(&'static self, timing: bool) -> Result<Arc<Recording>, Error> {
        let recording = Arc::new(Recording::new(self, timing, sanitizer::clock(self)));
        recording.set_number(self.enqueue(Task::record(Arc::clone(&recording)), false)?);
        Ok(recording)
    }

    /// Makes further tasks of the stream wait for the recording.
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
