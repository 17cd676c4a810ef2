//! Traces: each task has an entry with its times, however it runs.

use std::time::Duration;

use super::common::{Gate, LARGE, callback, captured, costing, kernel, stream, urgent_stream};
use crate::runtime::activities::{Activities, Activity, Type};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, Mutex, MutexGuard};
use crate::runtime::task::{Closure, Task};
use crate::runtime::trace::{self, Kind, MemoryKind, Outcome, Row, Trace};

/// One trace is taken at a time, and the tests run in parallel.
static TURN: Mutex<()> = Mutex::new(());

/// The trace of what is submitted.
fn traced(submit: impl FnOnce()) -> Arc<Trace> {
    let _turn: MutexGuard<'_, ()> = TURN.lock();
    let number = trace::start().unwrap();
    submit();
    trace::stop(number).unwrap()
}

/// The entries of a stream's tasks among those of a trace.
fn taken(stream: &'static Stream, submit: impl FnOnce()) -> Vec<Row> {
    let trace = traced(submit);
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
    // A tenth less than they slept: the system's clock is adjusted while it runs.
    assert!(rows[1].run.1 - rows[1].run.0 >= 1_800_000);
    assert!(rows[3].run.1 - rows[3].run.0 >= 2_700_000);
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
    let rows = taken(own, || graph.replay(own).unwrap());
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
    assert!(rows[2].run.1 - rows[2].run.0 >= 1_800_000);
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

/// The activities of some types of what this thread submits, on the lines of `stream` and of this thread.
fn drawn(stream: &'static Stream, types: &[Type], submit: impl FnOnce()) -> Vec<Activity> {
    let trace = traced(submit);
    let thread = i64::from(crate::runtime::affinity::thread());
    let is_own = |activity: &Activity| activity.resource == if activity.kind == Type::Call { thread } else { stream.id() };
    Activities::new(trace, types.to_vec()).filter(is_own).collect()
}

/// The notes of an activity, as one text.
fn notes(activity: &Activity) -> String {
    let notes = activity.notes.iter().filter(|note| note.key != c"correlation" && note.key != c"stream");
    let notes: Vec<_> = notes.map(|note| format!("{} {}", note.key.to_str().unwrap(), note.value.to_str().unwrap())).collect();
    notes.join(", ")
}

#[test]
fn a_task_is_a_call_and_a_run_with_an_arrow_and_a_range_is_drawn_around() {
    let stream = urgent_stream();
    let types = [Type::Kernel, Type::Copy, Type::Fill, Type::Range, Type::Call];
    let drawn = drawn(stream, &types, || {
        trace::enter(7, true);
        trace::enter(8, true);
        trace::enter(9, false);
        stream.submit(costing(1, || ())).unwrap();
        trace::leave(false);
        trace::leave(true);
        stream.submit(Task::new("fails", 1, Closure::new(|| Err("no good".into())))).unwrap();
        stream.submit(costing(1, || ())).unwrap();
    });
    assert!(stream.synchronize().is_err());
    let found: Vec<_> = drawn.iter().map(|activity| (activity.kind, activity.name.to_str().unwrap(), activity.linked)).collect();
    let line = format!("stream {} (high priority)", stream.id());
    let expected = [
        (Type::Call, "rd_stream_submit", 9),
        (Type::Kernel, "kernel", 9),
        (Type::Call, "rd_stream_submit", 7),
        (Type::Kernel, "fails", 7),
        (Type::Call, "rd_stream_submit", 7),
        (Type::Range, "", 7),
        (Type::Range, "", 8),
        (Type::Line, &line, 0),
    ];
    assert_eq!(found, expected);
    let described: Vec<_> = drawn[..5].iter().map(notes).collect();
    let expected = [
        "task kernel",
        "device 0, tier custom",
        "task fails",
        "device 0, tier custom, outcome failed",
        "task kernel, outcome not run",
    ];
    assert_eq!(described, expected);
    assert!(drawn[0].id > 0 && drawn[0].id == drawn[1].id && drawn[2].id > drawn[0].id);
    assert!(drawn[..5].iter().all(|activity| activity.arrow == activity.id));
    assert_eq!((drawn[5].run, drawn[6].run), ((drawn[1].run.0, drawn[3].run.1), drawn[1].run));
}

#[test]
fn a_replay_is_one_call_with_an_arrow_to_each_node() {
    let own = stream();
    let graph = captured(own, || (0..2).for_each(|_| own.submit(costing(1, || ())).unwrap()));
    let drawn = drawn(own, &[Type::Kernel, Type::Call], || graph.replay(own).unwrap());
    own.synchronize().unwrap();
    let kinds: Vec<_> = drawn.iter().map(|activity| activity.kind).collect();
    assert_eq!(kinds, [Type::Call, Type::Kernel, Type::Kernel, Type::Line]);
    let call = drawn[0].id;
    let numbers: Vec<_> = drawn[..3].iter().map(|activity| (activity.id - call, activity.arrow)).collect();
    assert_eq!(numbers, [(0, call), (1, call), (2, call)]);
}

#[test]
fn activities_of_types_that_are_not_asked_for_are_left_out() {
    let stream = stream();
    let copies = drawn(stream, &[Type::Copy, Type::Range], || {
        stream.submit(costing(1, || ())).unwrap();
    });
    stream.synchronize().unwrap();
    assert!(copies.is_empty());
}
