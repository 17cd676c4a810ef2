//! Events: points in streams that other streams and the host wait for.
//!
//! Each recording is a separate value. Recording an event again therefore does not affect waits for the previous recording, and
//! destroying a pending event is harmless.
#![forbid(unsafe_code)]

use std::io;

use super::config::config;
use super::debugging::{clock, schedule};
use super::graph::capture::{Capture, Point};
use super::name::Device;
use super::shared::file::Place;
use super::shared::page::{Awaited, Page};
use super::stream::Stream;
use super::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering};
use super::task::recording::Recording;
use super::task::{Closure, DrainableStream, Task};
use super::{Error, device, observers, sanitizer};

/// The latest recording of an event.
#[derive(Clone, Debug)]
enum Mark {
    /// On a stream, after its previous tasks.
    Queued(Arc<Recording>),
    Captured(Point),
}

/// A point of a stream that can be recorded again; a wait applies to the recording that is the latest when the wait is issued.
#[derive(Debug)]
pub struct Event {
    device: usize,
    timing: bool,
    mark: Mutex<Option<Mark>>,
    /// The page through which other processes see the event, and the number on it of this process's latest recording.
    page: OnceLock<Arc<Page>>,
    own: AtomicU64,
}

impl Event {
    /// An event of a device. `timing`: it can measure elapsed time.
    pub fn new(device: usize, timing: bool) -> Self {
        Self { device, timing, mark: Mutex::default(), page: OnceLock::new(), own: AtomicU64::new(0) }
    }

    pub fn device(&self) -> usize {
        self.device
    }

    fn mark(&self) -> Option<Mark> {
        self.mark.lock().clone()
    }

    /// The latest recording, for a call that must know when it is reached.
    fn recording(&self, call: &str) -> Result<Option<Arc<Recording>>, Error> {
        match self.mark() {
            None => Ok(None),
            Some(Mark::Queued(recording)) => Ok(Some(recording)),
            Some(Mark::Captured(point)) => Err(point.refuse(call)),
        }
    }

    /// Shares the event with other processes; returns the place of its page. `records`: publish the latest recording, too. Fails
    /// with `InvalidArgument` for an event with timing and for one that was recorded in a capture; `Internal` if the system refuses
    /// the page.
    pub fn share(&self, records: bool) -> Result<Place, Error> {
        if self.timing {
            return Err(Error::InvalidArgument("an event of several processes has no timing".to_owned()));
        }
        if self.page.get().is_none() {
            let recording = self.recording("Event.ipc_handle()")?;
            let refused = |error| Error::Internal(format!("the system refuses a page for an event of several processes: {error}"));
            let page = Arc::new(Page::new().map_err(refused)?);
            if let (true, Some(recording)) = (records, recording) {
                let stream = recording.stream;
                if let Ok(stream) = device::find_stream(stream.device(), stream.id()) {
                    self.announce(&page, stream)?;
                }
            }
            // If two threads share the event at once, the page of the first one stays.
            let _ = self.page.set(page);
        }
        self.page.get().map_or_else(|| Err(Error::Internal("the event has no page".to_owned())), |page| Ok(page.place))
    }

    /// Makes this the event of another process. Fails with `InvalidArgument` if that process has ended or deleted the event, or if
    /// this event has a page already.
    pub fn open(&self, place: Place) -> Result<(), Error> {
        let gone = |error: &io::Error| {
            let process = place.process.id;
            Error::InvalidArgument(format!("the event of process {process} cannot be opened, it may have been deleted: {error}"))
        };
        let page = Arc::new(Page::open(place).map_err(|error| gone(&error))?);
        self.page.set(page).map_err(|_| Error::InvalidArgument("the event belongs to a process already".to_owned()))
    }

    /// Publishes a recording on the stream, after its current tasks, to other processes.
    fn announce(&self, page: &Arc<Page>, stream: &'static Stream) -> Result<(), Error> {
        let announced = page.announce();
        self.own.store(announced.number.into(), Ordering::Release);
        // The drop of the task marks the recording as reached; it happens even if the stream has failed.
        let reach = Closure::new(move || {
            let _ = &announced;
            Ok(())
        });
        let number = stream.enqueue(Task::new("event_record", 0, reach), false)?;
        // The schedule does not learn that another process waits, so the task runs now.
        if observers::is_scheduled() { stream.run_until(number) } else { Ok(()) }
    }

    /// The latest recording, if it belongs to another process.
    fn awaited(&self) -> Option<Awaited> {
        let awaited = self.page.get()?.latest()?;
        (u64::from(awaited.number) != self.own.load(Ordering::Acquire)).then_some(awaited)
    }

    /// Records the event after the stream's current tasks or, if the stream captures, after what it has recorded. Fails with
    /// `InvalidArgument` for a stream of another device, for a capturing stream if other processes see the event, and if the
    /// capture was invalidated.
    pub fn record(&self, stream: &'static Stream) -> Result<(), Error> {
        if stream.device() != self.device {
            return Err(Error::InvalidArgument(format!(
                "an event of device {} cannot be recorded on {stream:?}",
                Device(self.device)
            )));
        }
        if let Some(page) = self.page.get() {
            stream.refuse_capturing(|| "recording an event of several processes".to_owned())?;
            self.record_now(stream)?;
            return self.announce(page, stream);
        }
        if let Some(capture) = Capture::of(stream) {
            *self.mark.lock() = Some(Mark::Captured(capture.point(stream)?));
            return Ok(());
        }
        self.record_now(stream)
    }

    /// As [`Event::record`] for a stream of the event's device, whether or not it captures.
    fn record_now(&self, stream: &'static Stream) -> Result<(), Error> {
        *self.mark.lock() = Some(Mark::Queued(stream.record(self.timing)?));
        Ok(())
    }

    /// Makes further tasks of the stream wait for the latest recording; no effect if never recorded. If the event was recorded in a
    /// capture, the stream joins the capture. Fails as [`Stream::submit`] does, and with `InvalidArgument` if the stream captures
    /// and the event was recorded outside of its capture, or if the event's capture has ended.
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

    /// True if the latest recording is reached or the event was never recorded. Fails with `InvalidArgument` if it was recorded in
    /// a capture; `TaskFailed` if its process ended before reaching it.
    pub fn query(&self) -> Result<bool, Error> {
        if let Some(awaited) = self.awaited() {
            return awaited.query();
        }
        let Some(recording) = self.recording("Event.query()")? else { return Ok(true) };
        recording.stream.raise_sticky()?;
        let is_counted = recording.is_counted();
        if is_counted && !clock::is_reached(&recording) {
            return Ok(false);
        }
        if is_counted {
            sanitizer::host_waits(recording.clock.as_ref());
        } else if observers::is_scheduled() {
            schedule::after_query(recording.stream);
        }
        Ok(is_counted)
    }

    /// Waits for the latest recording. Fails with a failure of the stream that it was recorded on; `TaskFailed` if its process
    /// ended before reaching it; `InvalidArgument` if it was recorded in a capture.
    pub fn synchronize(&self) -> Result<(), Error> {
        if let Some(awaited) = self.awaited() {
            return awaited.synchronize();
        }
        let Some(recording) = self.recording("Event.synchronize()")? else { return Ok(()) };
        sanitizer::host_waits(recording.clock.as_ref());
        clock::host_waits_for_recording(&recording);
        if !recording.is_counted() {
            recording.stream.run_until(recording.number())?;
        }
        recording.stream.raise()
    }

    /// Milliseconds from this event's latest recording to the latest recording of `end`, with microsecond resolution. Simulated, if
    /// the clock of a profile was on at both. Fails with `InvalidArgument` unless both events have timing, belong to one device,
    /// and have recordings that are reached.
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
        let simulated = [&first, &second].map(|recording| clock::host_waits_for_recording(recording));
        if let [Some(first), Some(second)] = simulated {
            return Ok(((second as f64 - first as f64) / 1e3).round() / 1e3);
        }
        let (Some(first), Some(second)) = (first.instant.get().copied(), second.instant.get().copied()) else {
            return Err(Error::Internal("a recording with timing has no time".to_owned()));
        };
        let microseconds = match second.checked_duration_since(first) {
            Some(forward) => forward.as_secs_f64() * 1e6,
            None => -first.duration_since(second).as_secs_f64() * 1e6,
        };
        Ok(microseconds.round() / 1e3)
    }
}
