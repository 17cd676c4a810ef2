//! Events: failures, captured events.

use super::common::{LARGE, captured, failing, stopped, stream};
use crate::runtime::event::Event;

#[test]
fn events_behind_a_failure_complete_and_raise_it() {
    let (stream, other) = (stream(), stream());
    let event = Event::new(0, true);
    let gate = stopped(stream);
    stream.submit(failing("broken", LARGE)).unwrap();
    event.record(stream).unwrap();
    event.block(other).unwrap();
    gate.open();
    other.synchronize().unwrap();
    assert!(event.synchronize().unwrap_err().message().starts_with("broken failed"));
    assert_eq!(event.synchronize(), Ok(()));
}

#[test]
fn captured_events_have_no_moment() {
    let own = stream();
    let event = Event::new(0, true);
    let graph = captured(own, || event.record(own).unwrap());
    assert!(graph.is_empty());
    assert!(event.query().is_err() && event.synchronize().is_err() && event.elapsed(&event).is_err());
    assert!(event.block(stream()).unwrap_err().to_string().contains("has ended"));
}
