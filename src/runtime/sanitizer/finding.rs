//! Findings: the data of a race report, and its text.

use std::fmt::Write;

use super::super::name::{self as backend, Device};
use super::detector::{COLLECTIVES, StreamKey};

/// The most Python frames per side that the text shows.
const FRAMES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Two streams, or a stream and the host, make unordered accesses to device memory.
    Unordered,
    /// Unordered accesses to a device's memory, one of them by a stream of another device.
    OtherDevice,
    /// Unordered accesses to pinned host memory.
    HostMemory,
    /// Memory is freed while another stream uses it.
    FreedInUse,
    /// A stream waits for an event that was never recorded.
    NotRecorded,
}

impl Fault {
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    /// The name, and the sentence in reports.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Unordered => ("unordered", "the same memory is used without order"),
            Self::OtherDevice => ("other-device", "memory is used without order by a stream of another device"),
            Self::HostMemory => ("host-memory", "pinned host memory is used without order"),
            Self::FreedInUse => ("freed-in-use", "memory is freed while another stream uses it"),
            Self::NotRecorded => ("event-not-recorded", "a wait for an event that was never recorded orders nothing"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub file: String,
    pub line: u32,
    pub function: String,
}

/// One of the two conflicting submissions.
#[derive(Clone, Debug)]
pub struct Side {
    pub operator: String,
    /// `None` for the host.
    pub stream: Option<StreamKey>,
    pub write: bool,
    /// Innermost first, without library frames; empty if no Python code was running.
    pub frames: Vec<Frame>,
}

/// The memory that both accesses touch.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    pub begin: usize,
    /// Exclusive.
    pub end: usize,
    /// The name that the program gave to the block.
    pub label: Option<String>,
    /// Dtype and sizes of the later access.
    pub shape: Option<String>,
    /// True if the earlier access was to a tensor that has been freed and whose memory was reused.
    pub was_freed: bool,
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub fault: Fault,
    /// The earlier submission; `None` if the fault has only one.
    pub first: Option<Side>,
    pub second: Side,
    pub memory: Extent,
}

pub fn stream_name(stream: Option<StreamKey>) -> String {
    match stream {
        None => "the host".to_owned(),
        Some((device, 0)) => format!("the default stream of {}", Device(device)),
        Some((device, COLLECTIVES)) => format!("the operations of torch.distributed on {}", Device(device)),
        Some((device, id)) => format!("stream {id} of {}", Device(device)),
    }
}

impl Side {
    fn place(&self) -> (&str, String) {
        let place = self.frames.first().map(|frame| format!("{}:{}", frame.file, frame.line));
        (&self.operator, place.unwrap_or_default())
    }

    fn describe(&self, text: &mut String, number: &str, verb: &str) {
        let _ = write!(text, "\n  {number}: {} {verb}, on {}", self.operator, stream_name(self.stream));
        if self.frames.is_empty() {
            text.push_str("\n    no Python frame");
        }
        for frame in self.frames.iter().take(FRAMES) {
            let _ = write!(text, "\n    File \"{}\", line {}, in {}", frame.file, frame.line, frame.function);
        }
    }

    fn verb(&self) -> &'static str {
        if self.write { "writes" } else { "reads" }
    }
}

impl Finding {
    /// A key that is equal for reports with the same cause in the program.
    pub fn key(&self) -> String {
        format!("{:?} {:?} {:?}", self.fault, self.first.as_ref().map(Side::place), self.second.place())
    }

    /// The advice on how to fix it.
    pub fn remedy(&self) -> String {
        let first = self.first.as_ref().and_then(|first| first.stream);
        let operator = &self.second.operator;
        if let Some((_, COLLECTIVES)) = first {
            return format!("call wait() on the work of the first before {operator}");
        }
        let first = stream_name(first);
        match (self.fault, self.second.stream) {
            (Fault::NotRecorded, _) => "record the event on the stream that is to be waited for, before the wait".to_owned(),
            (Fault::FreedInUse, None) => format!("wait for {first} before the memory is freed: stream.synchronize()"),
            (Fault::FreedInUse, Some(_)) => {
                format!("tensor.record_stream(stream) with {first}, before the tensor is freed; or have its own stream wait first")
            }
            (_, None) => format!("call synchronize() on {first}, or on an event behind the work there, before {operator}"),
            (_, Some(second)) => {
                let second = stream_name(Some(second));
                format!(
                    "call current_stream().wait_stream(other) before {operator}, where {second} is current and other is {first}"
                )
            }
        }
    }

    pub fn text(&self) -> String {
        let (name, title) = self.fault.texts();
        let mut text = format!("{} race detector: {title} [{name}]", backend::name());
        if let Some(first) = &self.first {
            first.describe(&mut text, "first", first.verb());
        }
        match self.fault {
            Fault::NotRecorded => self.second.describe(&mut text, "call", "waits"),
            Fault::FreedInUse => self.second.describe(&mut text, "second", "gives it back"),
            _ => self.second.describe(&mut text, "second", self.second.verb()),
        }
        self.memory.describe(&mut text);
        let _ = write!(text, "\n  remedy: {}", self.remedy());
        text
    }
}

impl Extent {
    fn describe(&self, text: &mut String) {
        let Self { begin, end, label, shape, was_freed } = self;
        if begin == end {
            return;
        }
        let _ = write!(text, "\n  memory: {} bytes, {begin:#x} to {end:#x}", end - begin);
        if let Some(shape) = shape {
            let _ = write!(text, ", {shape}");
        }
        if let Some(label) = label {
            let _ = write!(text, ", of {label:?}");
        }
        if *was_freed {
            text.push_str("; the first one's tensor is freed, and this one has its memory");
        }
    }
}
