//! Events: marks in streams that other streams and the host wait for.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::Error;
use super::stream::Stream;
use super::sync::{Arc, Mutex, OnceLock};
use super::task::Task;

/// One recording of an event on a stream.
#[derive(Debug)]
pub struct Recording {
    stream: &'static Stream,
    instant: OnceLock<Instant>,
}

impl Recording {
    pub(super) fn complete(&self) {
        let _ = self.instant.set(Instant::now());
    }

    fn is_done(&self) -> bool {
        self.instant.get().is_some()
    }
}

/// A mark that can be recorded again and again; what waits for it waits for the recording of that moment.
#[derive(Debug)]
pub struct Event {
    device: usize,
    timing: bool,
    recording: Mutex<Option<Arc<Recording>>>,
}

impl Event {
    /// An event of a device; `timing`: whether it can be asked for elapsed time.
    pub fn new(device: usize, timing: bool) -> Self {
        Self {
            device,
            timing,
            recording: Mutex::default(),
        }
    }

    /// The index of its device.
    pub fn device(&self) -> usize {
        self.device
    }

    fn recording(&self) -> Option<Arc<Recording>> {
        self.recording.lock().clone()
    }

    /// Marks the end of what is on the stream now.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream of another device.
    pub fn record(&self, stream: &'static Stream) -> Result<(), Error> {
        if stream.device() != self.device {
            return Err(Error::InvalidArgument(format!(
                "an event of device rustdev:{} cannot be recorded on a stream of device rustdev:{}",
                self.device,
                stream.device()
            )));
        }
        let recording = Arc::new(Recording {
            stream,
            instant: OnceLock::new(),
        });
        stream.submit(Task::record(Arc::clone(&recording)))?;
        *self.recording.lock() = Some(recording);
        Ok(())
    }

    /// Holds back what is put on the stream from now on until the latest recording is reached; no effect if never recorded.
    ///
    /// # Errors
    /// As [`Stream::submit`].
    pub fn block(&self, stream: &'static Stream) -> Result<(), Error> {
        match self.recording() {
            Some(recording) if !recording.is_done() => stream.submit(Task::wait(recording)),
            _ => Ok(()),
        }
    }

    /// Whether the latest recording is reached; true if never recorded.
    pub fn query(&self) -> bool {
        self.recording().is_none_or(|recording| recording.is_done())
    }

    /// Waits for the latest recording.
    ///
    /// # Errors
    /// A failure of the stream that it was recorded on.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.recording()
            .map_or(Ok(()), |recording| recording.stream.synchronize())
    }

    /// Milliseconds from this event's latest recording to that of `end`.
    ///
    /// # Errors
    /// `InvalidArgument` unless both have timing, are of one device, and are recorded and reached.
    pub fn elapsed(&self, end: &Self) -> Result<f64, Error> {
        let refuse = |text: &str| Err(Error::InvalidArgument(text.to_owned()));
        if !self.timing || !end.timing {
            return refuse("elapsed_time needs events created with enable_timing=True");
        }
        if self.device != end.device {
            return refuse("elapsed_time needs two events of one device");
        }
        let (Some(first), Some(second)) = (self.recording(), end.recording()) else {
            return refuse("elapsed_time needs both events to be recorded first");
        };
        let (Some(first), Some(second)) = (first.instant.get(), second.instant.get()) else {
            return refuse("elapsed_time needs both events to be completed: synchronize first");
        };
        let microseconds = if second >= first {
            second.duration_since(*first).as_secs_f64() * 1e6
        } else {
            -first.duration_since(*second).as_secs_f64() * 1e6
        };
        Ok(microseconds.round() / 1e3)
    }
}
