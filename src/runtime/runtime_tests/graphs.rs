//! Captures and replays: what runs when, in which order, and what is refused.

use std::thread;
use std::time::Duration;

use super::common::{Gate, callback, captured, costing, end, kernel, pool, stream};
use crate::runtime::event::Event;
use crate::runtime::generator::{Generator, PhiloxState};
use crate::runtime::graph::Graph;
use crate::runtime::graph::capture::{Capture, Mode};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::runtime::task::{Closure, Task};
use crate::runtime::{Error, device};

fn replay(graph: &Graph, on: &'static Stream) {
    graph.replay(on).unwrap();
}

/// Notes names in the order in which tasks of these names run.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn kernel(&self, name: &'static str) -> Task {
        let log = self.clone();
        costing(100, move || log.0.lock().push(name))
    }

    fn callback(&self, name: &'static str) -> Task {
        let log = self.clone();
        callback(move || log.0.lock().push(name))
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock())
    }
}

#[test]
fn nothing_runs_at_capture_and_everything_at_each_replay() {
    let (own, other, log) = (stream(), stream(), Log::default());
    let graph = captured(own, || {
        assert!(own.is_capturing());
        own.submit(log.kernel("first")).unwrap();
        own.submit(log.callback("host")).unwrap();
        own.submit(Task::sleep(Duration::from_millis(1))).unwrap();
        own.submit(log.kernel("last")).unwrap();
        assert_eq!((log.take(), own.submitted()), (vec![], 0));
    });
    assert!(!own.is_capturing() && !graph.is_empty());
    for on in [own, own, other] {
        replay(&graph, on);
        on.synchronize().unwrap();
        assert_eq!(log.take(), ["first", "host", "last"]);
    }
    own.submit(log.kernel("after")).unwrap();
    own.synchronize().unwrap();
    assert_eq!(log.take(), ["after"]);
}

#[test]
fn successive_kernels_are_one_task() {
    let own = stream();
    let graph = captured(own, || (0..10).for_each(|_| own.submit(kernel(|| {})).unwrap()));
    replay(&graph, own);
    assert_eq!(own.submitted(), 1);
    own.synchronize().unwrap();
}

#[test]
fn replays_on_two_streams_follow_each_other() {
    let (own, other, gate) = (stream(), stream(), Gate::default());
    let running = Arc::new(AtomicUsize::new(0));
    let (held, counted) = (gate.clone(), Arc::clone(&running));
    let graph = captured(own, || {
        let body = move || {
            assert_eq!(counted.fetch_add(1, Ordering::AcqRel), 0, "two replays at once");
            held.pass();
            counted.fetch_sub(1, Ordering::AcqRel);
        };
        own.submit(callback(body)).unwrap();
    });
    replay(&graph, own);
    replay(&graph, other);
    thread::sleep(Duration::from_millis(5));
    assert_eq!(running.load(Ordering::Acquire), 1);
    gate.open();
    own.synchronize().unwrap();
    other.synchronize().unwrap();
}

#[test]
fn events_are_edges() {
    let (own, side, log) = (stream(), stream(), Log::default());
    let event = Event::new(0, false);
    let graph = captured(own, || {
        own.submit(log.kernel("root")).unwrap();
        event.record(own).unwrap();
        event.block(side).unwrap();
        assert!(side.is_capturing());
        side.submit(log.kernel("side")).unwrap();
        own.submit(log.kernel("own")).unwrap();
        event.record(side).unwrap();
        event.block(own).unwrap();
        own.submit(log.kernel("joined")).unwrap();
    });
    assert!(!side.is_capturing());
    let text = graph.dump();
    for edge in ["n0 -> n1;", "n0 -> n2;", "n1 -> n3;", "n2 -> n3;"] {
        assert!(text.contains(edge), "{edge} is not in {text}");
    }
    assert!(!text.contains("n1 -> n2"), "{text}");
    replay(&graph, own);
    own.synchronize().unwrap();
    assert_eq!(log.take(), ["root", "side", "own", "joined"]);
}

#[test]
fn a_stream_that_is_not_joined_is_refused() {
    let (own, side) = (stream(), stream());
    let event = Event::new(0, false);
    let capture = Capture::begin(own, pool(), Mode::ThreadLocal).unwrap();
    event.record(own).unwrap();
    event.block(side).unwrap();
    side.submit(kernel(|| {})).unwrap();
    let text = end(&capture, own).unwrap_err().to_string();
    assert!(text.contains("was not joined") && text.contains(&format!("{side:?}")), "{text}");
    assert!(!own.is_capturing() && !side.is_capturing());
    side.synchronize().unwrap();
}

/// A call that has to be refused while the stream captures.
type Refused = fn(&'static Stream) -> Result<(), Error>;

#[test]
fn what_waits_is_refused_and_invalidates() {
    let refusals: [(&str, Refused); 4] = [
        ("Stream.synchronize()", Stream::synchronize),
        ("Stream.query()", |own| own.query().map(drop)),
        ("device rustdev:0", |_| device::get(0).unwrap().synchronize()),
        ("outside of the capture", |own| {
            let event = Event::new(0, false);
            event.record(stream()).unwrap();
            event.block(own)
        }),
    ];
    for (name, refused) in refusals {
        let own = stream();
        let capture = Capture::begin(own, pool(), Mode::ThreadLocal).unwrap();
        let text = refused(own).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("is not permitted while a stream is capturing"), "{text}");
        assert!(own.submit(kernel(|| {})).unwrap_err().to_string().contains("was invalidated"));
        assert!(end(&capture, own).unwrap_err().to_string().contains(name));
        own.submit(kernel(|| {})).unwrap();
        own.synchronize().unwrap();
    }
}

#[test]
fn the_mode_says_who_may_wait_for_the_device() {
    let device = device::get(0).unwrap();
    for (mode, here, elsewhere) in [(Mode::ThreadLocal, false, true), (Mode::Relaxed, true, true)] {
        let own = stream();
        let capture = Capture::begin(own, pool(), mode).unwrap();
        assert_eq!(thread::spawn(|| device.synchronize().is_ok()).join().unwrap(), elsewhere, "{mode:?}");
        assert_eq!(device.synchronize().is_ok(), here, "{mode:?}");
        capture.abort();
    }
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

#[test]
fn captures_do_not_mix() {
    let (own, other) = (stream(), stream());
    let capture = Capture::begin(own, pool(), Mode::Relaxed).unwrap();
    assert!(Capture::begin(own, pool(), Mode::Relaxed).unwrap_err().to_string().contains("is capturing already"));
    let second = Capture::begin(other, pool(), Mode::Relaxed).unwrap();
    let event = Event::new(0, false);
    event.record(own).unwrap();
    assert!(event.block(other).unwrap_err().to_string().contains("another capture"));
    assert!(end(&second, other).is_err());
    assert!(capture.end().unwrap_err().to_string().contains("another stream"));
    assert!(own.is_capturing());
    end(&capture, own).unwrap();
}

#[test]
fn a_failure_names_its_task_and_ends_the_replay() {
    let (own, log) = (stream(), Log::default());
    let graph = captured(own, || {
        own.submit(Task::new("broken", 1, Closure::new(|| Err("no good".into())))).unwrap();
        own.submit(log.kernel("after")).unwrap();
    });
    replay(&graph, own);
    let text = own.synchronize().unwrap_err().to_string();
    assert!(text.contains("broken: no good"), "{text}");
    assert_eq!(log.take(), [""; 0]);
    own.synchronize().unwrap();
}

#[test]
fn each_replay_draws_what_the_same_calls_would() {
    let own = stream();
    let drawn = Arc::new(Mutex::new(Vec::new()));
    let capture = Capture::begin(own, pool(), Mode::ThreadLocal).unwrap();
    let generators = [7, 9].map(|seed| Arc::new(Generator::new(PhiloxState { seed, offset: 8 })));
    for (index, numbers) in [(0, 4), (1, 4), (0, 8), (0, 4)] {
        let (cell, drawn) = (capture.draw(&generators[index], numbers).unwrap(), Arc::clone(&drawn));
        let body = move || drawn.lock().push((cell.seed.load(Ordering::Relaxed), cell.offset.load(Ordering::Relaxed)));
        own.submit(kernel(body)).unwrap();
    }
    let graph = end(&capture, own).unwrap();
    assert_eq!(generators.each_ref().map(|generator| generator.state().offset), [8, 8], "a capture takes none");
    graph.replay(own).unwrap();
    graph.replay(own).unwrap();
    own.synchronize().unwrap();
    let expected = |first, second| [(7, first), (9, second), (7, first + 4), (7, first + 12)];
    assert_eq!(*drawn.lock(), [expected(8, 8), expected(24, 12)].concat());
    assert_eq!(generators.each_ref().map(|generator| generator.state().offset), [40, 16]);
    drop(graph);
    assert_eq!(generators.each_ref().map(Arc::strong_count), [1, 1]);
}

#[test]
fn a_graph_that_is_dropped_ends_its_replays_first() {
    let (own, gate, log) = (stream(), Gate::default(), Log::default());
    let held = gate.clone();
    let graph = captured(own, || {
        own.submit(callback(move || held.pass())).unwrap();
        own.submit(log.kernel("last")).unwrap();
    });
    replay(&graph, own);
    drop(graph);
    gate.open();
    own.synchronize().unwrap();
    assert_eq!(log.take(), ["last"]);
}
