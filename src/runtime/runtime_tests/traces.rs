//! Traces: each task has an entry with its times, however it runs.

use std::time::Duration;

use super::common::{Gate, LARGE, callback, captured, costing, kernel, stream};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, Mutex, MutexGuard};
use crate::runtime::task::{Closure, Task};
use crate::runtime::trace::{self, Kind, MemoryKind, Outcome, Row};

/// One trace is taken at a time, and the tests run in parallel.
static TURN: Mutex<()> = Mutex::new(());

/// The entries of a stream's tasks among those of a trace.
fn taken(stream: &'static Stream, submit: impl FnOnce()) -> Vec<Row> {
    let _turn: MutexGuard<'_, ()> = TURN.lock();
    let number = trace::start().unwrap();
    submit();
    let trace = trace::stop(number).unwrap();
    let rows = (0..trace.count()).filter_map(|index| trace.row(index));
    rows.filter(|row| std::ptr::addr_eq(row.stream, stream)).collect()
}

#[test]
fn tasks_have_times_in_order() {
    let stream = stream();
    let rows = taken(stream, || {
        stream.submit(costing(1, || ())).unwrap();
        stream.submit(kernel(|| std::thread::sleep(Duration::from_millis(2)))).unwrap();
        stream.submit(callback(|| ())).unwrap();
        stream.submit(Task::sleep(Duration::from_millis(3))).unwrap();
    });
    let kinds: Vec<_> = rows.iter().map(|row| (row.name, row.about.kind)).collect();
    assert_eq!(kinds, [("kernel", Kind::Custom), ("kernel", Kind::Custom), ("callback", Kind::Host), ("sleep", Kind::Sleep)]);
    assert!(rows.iter().all(|row| row.outcome == Outcome::Done && row.members == 1));
    assert!(rows.iter().all(|row| row.submission.0 <= row.submission.1 && row.submission.0 <= row.run.0));
    assert!(rows.windows(2).all(|pair| pair[0].run.1 <= pair[1].run.0));
    assert!(rows[1].run.1 - rows[1].run.0 >= 2_000_000);
    assert!(rows[3].run.1 - rows[3].run.0 >= 3_000_000);
}

#[test]
fn failures_and_panics_end_their_entries_and_what_is_behind_has_not_run() {
    let stream = stream();
    let rows = taken(stream, || {
        stream.submit(Task::new("panics", LARGE, Closure::new(|| panic!("no good")))).unwrap();
        stream.submit(kernel(|| ())).unwrap();
        assert!(stream.synchronize().is_err());
        stream.submit(Task::new("fails", 1, Closure::new(|| Err("no good".into())))).unwrap();
        stream.submit(callback(|| ())).unwrap();
        stream.submit(Task::sleep(Duration::from_millis(1))).unwrap();
    });
    let outcomes: Vec<_> = rows.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed, Outcome::NotRun, Outcome::Failed, Outcome::NotRun, Outcome::NotRun]);
    assert!(rows.iter().all(|row| (row.run.1 > 0) == (row.outcome == Outcome::Failed)));
    assert!(stream.synchronize().is_err(), "the failure stays for the next synchronising call");
}

#[test]
fn a_trace_that_a_task_of_the_stream_ends_says_that_it_runs() {
    let stream = stream();
    let _turn = TURN.lock();
    let number = trace::start().unwrap();
    let found = Gate::default();
    let outcome = Arc::new(Mutex::new(None));
    let (gate, told) = (found.clone(), Arc::clone(&outcome));
    stream
        .submit(callback(move || {
            let trace = trace::stop(number).unwrap();
            let row = (0..trace.count()).filter_map(|index| trace.row(index)).find(|row| row.name == "callback");
            *told.lock() = row.map(|row| (row.outcome, row.run.0 <= row.run.1));
            gate.open();
        }))
        .unwrap();
    found.pass();
    stream.synchronize().unwrap();
    assert_eq!(*outcome.lock(), Some((Outcome::Running, true)));
}

#[test]
fn a_task_submitted_before_a_trace_or_after_it_is_not_in_it() {
    let stream = stream();
    let gate = Gate::default();
    let passed = gate.clone();
    stream.submit(kernel(move || passed.pass())).unwrap();
    let rows = taken(stream, || {
        stream.submit(Task::new("inside", LARGE, Closure::new(|| Ok(())))).unwrap();
        gate.open();
    });
    stream.submit(kernel(|| ())).unwrap();
    assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), ["inside"]);
    stream.synchronize().unwrap();
}

#[test]
fn ranges_belong_to_the_thread_and_to_the_trace() {
    let stream = stream();
    let rows = taken(stream, || {
        trace::leave(false);
        trace::enter(7, true);
        trace::enter(8, true);
        trace::enter(9, false);
        stream.submit(costing(1, || ())).unwrap();
        trace::leave(false);
        stream.submit(costing(1, || ())).unwrap();
        std::thread::spawn(move || stream.submit(costing(1, || ())).unwrap()).join().unwrap();
    });
    let ids: Vec<_> = rows.iter().map(|row| (row.operator, row.range)).collect();
    assert_eq!(ids, [(9, 8), (0, 8), (0, 0)]);
    let rows = taken(stream, || stream.submit(costing(1, || ())).unwrap());
    assert_eq!((rows[0].operator, rows[0].range), (0, 0), "ranges of an earlier trace are forgotten");
}

#[test]
fn a_replay_is_a_call_and_its_nodes_have_the_times() {
    let own = stream();
    let graph = captured(own, || {
        own.submit(costing(1, || ())).unwrap();
        let slow = || {
            std::thread::sleep(Duration::from_millis(2));
            Ok(())
        };
        own.submit(Task::new("slow", LARGE, Closure::new(slow))).unwrap();
        own.submit(callback(|| ())).unwrap();
        own.submit(Task::new("fails", 1, Closure::new(|| Err("no good".into())))).unwrap();
        own.submit(costing(1, || ())).unwrap();
    });
    let rows = taken(own, || graph.replay(own, [].into_iter()).unwrap());
    assert!(own.synchronize().is_err());
    let found: Vec<_> = rows.iter().map(|row| (row.name, row.about.kind, row.replay.is_some(), row.outcome)).collect();
    let expected = [
        ("graph", Kind::Replay, false, Outcome::Done),
        ("kernel", Kind::Custom, true, Outcome::Done),
        ("slow", Kind::Custom, true, Outcome::Done),
        ("callback", Kind::Host, false, Outcome::Done),
        ("graph", Kind::Replay, false, Outcome::Failed),
        ("fails", Kind::Custom, true, Outcome::Failed),
        ("kernel", Kind::Custom, true, Outcome::NotRun),
    ];
    assert_eq!(found, expected);
    assert_eq!((rows[1].replay, rows[1].submission), (rows[2].replay, rows[0].submission));
    assert!(rows[0].run.0 <= rows[1].run.0 && rows[1].run.1 <= rows[2].run.0 && rows[2].run.1 <= rows[0].run.1);
    assert!(rows[2].run.1 - rows[2].run.0 >= 2_000_000);
}

#[test]
fn one_trace_is_taken_at_a_time() {
    let _turn = TURN.lock();
    let number = trace::start().unwrap();
    assert!(trace::start().is_err());
    assert!(trace::stop(number + 1).is_none());
    assert!(trace::stop(number).is_some());
    assert!(trace::stop(number).is_none());
    assert!(!trace::is_on());
}

#[test]
fn copies_are_named_by_their_ends() {
    let title = |from, to| Kind::Copy(from, to).title("copy_");
    assert_eq!(title(MemoryKind::Pinned, MemoryKind::Device), "Memcpy HtoD (Pinned -> Device)");
    assert_eq!(title(MemoryKind::Device, MemoryKind::Pageable), "Memcpy DtoH (Device -> Pageable)");
    assert_eq!(title(MemoryKind::Device, MemoryKind::Device), "Memcpy DtoD (Device -> Device)");
    assert_eq!(title(MemoryKind::Peer, MemoryKind::Peer), "Memcpy PtoP (Device -> Device)");
    assert_eq!(Kind::Kernel.title("add"), "add");
}
