//! Events: points in streams that other streams and the host wait for.
//!
//! Each recording is a separate value. So recording an event again does not disturb those that wait for the previous recording, and
//! destroying a pending event is harmless.
#![forbid(unsafe_code)]

use std::io;

use super::config::config;
use super::debugging::schedule;
use super::graph::capture::Point;
use super::shared::file::Place;
use super::shared::page::{Awaited, Page};
use super::stream::Stream;
use super::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering};
use super::task::recording::Recording;
use super::task::{Closure, Task};
use super::{Error, device, sanitizer};

/// Where an event was recorded.
#[derive(Clone, Debug)]
enum Mark {
    /// Behind what was on a stream.
    Queued(Arc<Recording>),
    /// In the capture of a graph.
    Captured(Point),
}

/// A mark that can be recorded again and again; what waits for it waits for the recording of that moment.
#[derive(Debug)]
pub struct Event {
    device: usize,
    timing: bool,
    mark: Mutex<Option<Mark>>,
    /// What other processes see of it, and the number there of the latest recording of this process.
    page: OnceLock<Arc<Page>>,
    own: AtomicU64,
}

impl Event {
    /// An event of a device; `timing`: whether it can be asked for elapsed time.
    pub fn new(device: usize, timing: bool) -> Self {
        Self { device, timing, mark: Mutex::default(), page: OnceLock::new(), own: AtomicU64::new(0) }
    }

    /// The index of its device.
    pub fn device(&self) -> usize {
        self.device
    }

    fn mark(&self) -> Option<Mark> {
        self.mark.lock().clone()
    }

    /// The latest recording, for a call that needs to know when it is reached.
    fn recording(&self, call: &str) -> Result<Option<Arc<Recording>>, Error> {
        match self.mark() {
            None => Ok(None),
            Some(Mark::Queued(recording)) => Ok(Some(recording)),
            Some(Mark::Captured(point)) => Err(point.refuse(call)),
        }
    }

    /// Lets other processes see the event; where they find it. `records`: whether they see the latest recording too.
    ///
    /// # Errors
    /// `InvalidArgument` for an event with timing and for one that was recorded in a capture; `Internal` where the system refuses.
    pub fn share(&self, records: bool) -> Result<Place, Error> {
        if self.timing {
            return Err(Error::InvalidArgument("an event of several processes has no timing".to_owned()));
        }
        if self.page.get().is_none() {
            let recording = self.recording("Event.ipc_handle()")?;
            let page = Arc::new(Page::new().map_err(|error| cannot_share(&error))?);
            if let (true, Some(recording)) = (records, recording) {
                let stream = recording.stream();
                if let Some(stream) = device::find_stream(stream.device(), stream.id()) {
                    self.announce(&page, stream)?;
                }
            }
            // An event is shared by one thread at a time, or the first one's page stays.
            let _ = self.page.set(page);
        }
        self.page.get().map_or_else(|| Err(Error::Internal("the event has no page".to_owned())), |page| Ok(page.place()))
    }

    /// Makes it the event of another process.
    ///
    /// # Errors
    /// `InvalidArgument` if that process has ended or has deleted it, or this event has a page already.
    pub fn open(&self, place: Place) -> Result<(), Error> {
        let gone = |error: &io::Error| {
            let process = place.process.id();
            Error::InvalidArgument(format!("the event of process {process} cannot be opened, it may have been deleted: {error}"))
        };
        let page = Arc::new(Page::open(place).map_err(|error| gone(&error))?);
        self.page.set(page).map_err(|_| Error::InvalidArgument("the event belongs to a process already".to_owned()))
    }

    /// Lets other processes see a recording on the stream, behind what is on it now.
    fn announce(&self, page: &Arc<Page>, stream: &'static Stream) -> Result<(), Error> {
        let announced = page.announce();
        self.own.store(announced.number(), Ordering::Release);
        // Reached by the task's drop, which comes even if the stream has failed.
        let reach = Closure::new(move || {
            let _ = &announced;
            Ok(())
        });
        let number = stream.enqueue(Task::new("event_record", 0, reach), false)?;
        // Nobody here learns that another process waits.
        if schedule::is_on() { stream.run_until(number) } else { Ok(()) }
    }

    /// The latest recording, if it is one of another process.
    fn awaited(&self) -> Option<Awaited> {
        let awaited = self.page.get()?.latest()?;
        (awaited.number() != self.own.load(Ordering::Acquire)).then_some(awaited)
    }

    /// Marks the end of what is on the stream now, or of what it has recorded while it captures.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream of another device, for one that captures where other processes see the event, and if the capture
    /// was invalidated.
    pub fn record(&self, stream: &'static Stream) -> Result<(), Error> {
        if stream.device() != self.device {
            return Err(Error::InvalidArgument(format!(
                "an event of device rustdev:{} cannot be recorded on {stream:?}",
                self.device
            )));
        }
        if let Some(page) = self.page.get() {
            stream.refuse_capturing(|| "recording an event of several processes".to_owned())?;
            self.record_now(stream)?;
            return self.announce(page, stream);
        }
        if let Some(capture) = stream.capture() {
            *self.mark.lock() = Some(Mark::Captured(capture.point(stream)?));
            return Ok(());
        }
        self.record_now(stream)
    }

    /// As [`Event::record`] of a stream of the event's device, whether it captures or not.
    fn record_now(&self, stream: &'static Stream) -> Result<(), Error> {
        *self.mark.lock() = Some(Mark::Queued(stream.record(self.timing)?));
        Ok(())
    }

    /// Holds back what is put on the stream from now on until the latest recording is reached; no effect if never recorded. Where the
    /// event was recorded in a capture, the stream joins that.
    ///
    /// # Errors
    /// As [`Stream::submit`]. `InvalidArgument` where one of stream and event takes part in a capture that the other does not.
    pub fn block(&self, stream: &'static Stream) -> Result<(), Error> {
        if let Some(awaited) = self.awaited() {
            stream.refuse_capturing(|| "waiting for an event of another process".to_owned())?;
            return stream.enqueue(Task::leave("event_wait", Arc::new(awaited)), config().launch_blocking).map(|_| ());
        }
        match self.mark() {
            None => sanitizer::waits_for_nothing(Some((stream.device(), stream.id()))),
            Some(Mark::Captured(point)) => point.block(stream),
            Some(Mark::Queued(recording)) => stream.wait_behind(recording),
        }
    }

    /// Whether the latest recording is reached; true if never recorded.
    ///
    /// # Errors
    /// `InvalidArgument` if it was recorded in a capture; `TaskFailed` if its process ended before.
    pub fn query(&self) -> Result<bool, Error> {
        if let Some(awaited) = self.awaited() {
            return awaited.query();
        }
        let Some(recording) = self.recording("Event.query()")? else { return Ok(true) };
        let is_counted = recording.is_counted();
        if is_counted {
            sanitizer::host_waits(recording.clock());
        } else if schedule::is_on() {
            schedule::after_query(recording.stream());
        }
        Ok(is_counted)
    }

    /// Waits for the latest recording.
    ///
    /// # Errors
    /// A failure of the stream that it was recorded on, `TaskFailed` if its process ended before; `InvalidArgument` if it was recorded in
    /// a capture.
    pub fn synchronize(&self) -> Result<(), Error> {
        if let Some(awaited) = self.awaited() {
            return awaited.synchronize();
        }
        let Some(recording) = self.recording("Event.synchronize()")? else { return Ok(()) };
        sanitizer::host_waits(recording.clock());
        if !recording.is_counted() {
            recording.stream().run_until(recording.number())?;
        }
        recording.stream().raise()
    }

    /// Milliseconds from this event's latest recording to that of `end`, with microsecond resolution.
    ///
    /// # Errors
    /// `InvalidArgument` unless both have timing, are of one device, and are recorded and reached.
    pub fn elapsed(&self, end: &Self) -> Result<f64, Error> {
        let refuse = |text: &str| Err(Error::InvalidArgument(text.to_owned()));
        if !self.timing || !end.timing {
            return refuse("elapsed_time needs events that were created with enable_timing=True");
        }
        if self.device != end.device {
            return refuse("elapsed_time needs two events of the same device");
        }
        let call = "Event.elapsed_time()";
        let (Some(first), Some(second)) = (self.recording(call)?, end.recording(call)?) else {
            return refuse("elapsed_time needs both events to be recorded first");
        };
        if !first.is_done() || !second.is_done() {
            return refuse("elapsed_time needs both events to be completed: synchronize first");
        }
        let (Some(first), Some(second)) = (first.instant(), second.instant()) else {
            return Err(Error::Internal("a recording with timing has no time".to_owned()));
        };
        let microseconds = match second.checked_duration_since(first) {
            Some(forward) => forward.as_secs_f64() * 1e6,
            None => -first.duration_since(second).as_secs_f64() * 1e6,
        };
        Ok(microseconds.round() / 1e3)
    }
}

fn cannot_share(error: &io::Error) -> Error {
    Error::Internal(format!("the system refuses a page for an event of several processes: {error}"))
}
