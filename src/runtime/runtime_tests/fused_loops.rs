//! Loop fusion: kernels over rows run fused where their memory allows it, one after another where not.

use std::ops::Range;

use super::common::{Gate, LARGE, callback, captured, eventually, kernel, stream};
use crate::runtime::Error;
use crate::runtime::error::Cause;
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, Mutex};
use crate::runtime::task::{Row, Span, Task, Work};

/// Elements of a row: some rounds.
const ROW: usize = 1_000_000;

/// What was done: the work's number and the piece, in order.
type Log = Arc<Mutex<Vec<(usize, Range<usize>)>>>;

/// A work over a row that writes down what it does.
struct Noted {
    number: usize,
    spans: Vec<Span>,
    fails: bool,
    gate: Option<Gate>,
    log: Log,
}

impl Work for Noted {
    fn run(&mut self) -> Result<(), Cause> {
        self.run_piece(&[ROW], 0..ROW)
    }

    fn row(&self) -> Option<&dyn Row> {
        Some(self)
    }
}

impl Row for Noted {
    fn ends(&self) -> Option<Vec<usize>> {
        Some(vec![ROW])
    }

    fn spans(&self, visit: &mut dyn FnMut(Span)) {
        self.spans.iter().copied().for_each(visit);
    }

    fn run_piece(&self, ends: &[usize], range: Range<usize>) -> Result<(), Cause> {
        assert_eq!(ends, [ROW]);
        self.log.lock().push((self.number, range.clone()));
        if let Some(gate) = self.gate.as_ref().filter(|_| range.start == 0) {
            gate.pass();
        }
        if self.fails && range.contains(&(ROW / 2)) { Err("half is enough".into()) } else { Ok(()) }
    }
}

const NAMES: [&str; 3] = ["first", "second", "third"];

/// A task that writes floats from an address on, and reads those at another.
fn task(number: usize, written: usize, read: usize, log: &Log) -> Task {
    let span = |begin, write| Span { begin, end: begin + 4 * ROW, entry: Some(0), size: 4, write };
    let spans = vec![span(written, true), span(read, false)];
    Task::new(NAMES[number], LARGE, Noted { number, spans, fails: false, gate: None, log: Arc::clone(log) })
}

/// Submits tasks behind a closed gate, opens it and waits for all.
fn run(stream: &'static Stream, tasks: Vec<Task>) -> Result<(), Error> {
    let gate = Gate::default();
    let held = gate.clone();
    stream.submit(kernel(move || held.pass()))?;
    for task in tasks {
        stream.submit(task)?;
    }
    gate.open();
    stream.synchronize()
}

/// The place in the log of each work's first and last piece, after a look at all of them: each work does every element once.
fn turns(log: &Log, works: usize) -> Vec<(usize, usize)> {
    let log = log.lock();
    let turns = (0..works).map(|number| {
        let mut pieces: Vec<_> = log.iter().filter(|(of, _)| *of == number).map(|(_, piece)| piece.clone()).collect();
        pieces.sort_by_key(|piece| piece.start);
        assert_eq!((pieces[0].start, pieces.last().unwrap().end), (0, ROW));
        assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start), "{pieces:?}");
        let is_own = |(of, _): &(usize, _)| *of == number;
        (log.iter().position(is_own).unwrap(), log.iter().rposition(is_own).unwrap())
    });
    turns.collect()
}

#[test]
fn works_over_the_same_row_take_turns() {
    let log = Log::default();
    let tasks = vec![task(0, 0x1000_0000, 0x2000_0000, &log), task(1, 0x3000_0000, 0x1000_0000, &log)];
    run(stream(), tasks).unwrap();
    let turns = turns(&log, 2);
    assert!(turns[1].0 < turns[0].1, "the second work begins before the first ends: {turns:?}");
    let log = log.lock();
    let entry = |number, piece: &Range<usize>| log.iter().position(|(of, done)| (*of, done) == (number, piece)).unwrap();
    let mut pieces = log.iter().filter(|(number, _)| *number == 0).map(|(_, piece)| piece);
    assert!(pieces.all(|piece| entry(0, piece) < entry(1, piece)), "in order at each piece");
}

#[test]
fn works_that_meet_at_other_elements_are_done_one_after_the_other() {
    let log = Log::default();
    let tasks = vec![
        task(0, 0x1000_0000, 0x2000_0000, &log),
        task(1, 0x3000_0000, 0x1000_0010, &log),
        task(2, 0x5000_0000, 0x3000_0000, &log),
    ];
    run(stream(), tasks).unwrap();
    let turns = turns(&log, 3);
    assert!(turns[0].1 < turns[1].0, "{turns:?}");
    assert!(turns[2].0 < turns[1].1, "those behind go together again: {turns:?}");
}

#[test]
fn what_lies_between_two_works_stays_there() {
    let log = Log::default();
    let noted = Arc::clone(&log);
    let between = callback(move || noted.lock().push((2, 0..ROW)));
    run(stream(), vec![task(0, 0x1000_0000, 0x2000_0000, &log), between, task(1, 0x1000_0000, 0x2000_0000, &log)]).unwrap();
    let turns = turns(&log, 3);
    assert!(turns[0].1 < turns[2].0 && turns[2].1 < turns[1].0, "{turns:?}");
}

#[test]
fn a_work_that_comes_late_catches_up() {
    let log = Log::default();
    let (stream, gate) = (stream(), Gate::default());
    let span = Span { begin: 0x1000_0000, end: 0x1000_0000 + 4 * ROW, entry: Some(0), size: 4, write: true };
    let held = Noted { number: 0, spans: vec![span], fails: false, gate: Some(gate.clone()), log: Arc::clone(&log) };
    stream.submit(Task::new(NAMES[0], LARGE, held)).unwrap();
    eventually("the first work", || !log.lock().is_empty());
    stream.submit(task(1, 0x1000_0000, 0x2000_0000, &log)).unwrap();
    gate.open();
    stream.synchronize().unwrap();
    let turns = turns(&log, 2);
    assert!(turns[1].0 < turns[0].1, "they go on together: {turns:?}");
}

#[test]
fn the_work_that_fails_is_named_and_stops_the_others() {
    let log = Log::default();
    let span = Span { begin: 0x1000_0000, end: 0x1000_0000 + 4 * ROW, entry: Some(0), size: 4, write: true };
    let failing = Noted { number: 1, spans: vec![span], fails: true, gate: None, log: Arc::clone(&log) };
    let tasks =
        vec![task(0, 0x1000_0000, 0x2000_0000, &log), Task::new(NAMES[1], LARGE, failing), task(2, 0x1000_0000, 0x2000_0000, &log)];
    let stream = stream();
    let error = run(stream, tasks).unwrap_err().to_string();
    assert!(error.contains("second failed") && error.contains("half is enough"), "{error}");
    assert!(!log.lock().iter().any(|(number, piece)| *number == 2 && piece.contains(&(ROW / 2))));
    assert_eq!(stream.completed(), stream.submitted());
    stream.submit(kernel(|| ())).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn successive_kernels_of_a_graph_are_one_task() {
    let own = stream();
    let graph = captured(own, || (0..10).for_each(|_| own.submit(kernel(|| {})).unwrap()));
    graph.replay(own).unwrap();
    assert_eq!(own.submitted(), 1);
    own.synchronize().unwrap();
}

#[test]
fn nodes_of_a_graph_are_fused_at_each_replay() {
    let (log, own) = (Log::default(), stream());
    let graph = captured(own, || {
        for (number, written, read) in [(0, 0x1000_0000, 0x2000_0000), (1, 0x3000_0000, 0x1000_0000), (2, 0x5000_0000, 0x3000_0010)]
        {
            own.submit(task(number, written, read, &log)).unwrap();
        }
    });
    for _ in 0..2 {
        graph.replay(own).unwrap();
        own.synchronize().unwrap();
        let turns = turns(&log, 3);
        assert!(turns[1].0 < turns[0].1, "the second work begins before the first ends: {turns:?}");
        assert!(turns[1].1 < turns[2].0, "the third meets other elements: {turns:?}");
        log.lock().clear();
    }
}

#[test]
fn a_node_that_fails_in_step_is_named() {
    let (log, own) = (Log::default(), stream());
    let span = Span { begin: 0x1000_0000, end: 0x1000_0000 + 4 * ROW, entry: Some(0), size: 4, write: true };
    let failing = Noted { number: 1, spans: vec![span], fails: true, gate: None, log: Arc::clone(&log) };
    let graph = captured(own, || {
        own.submit(task(0, 0x1000_0000, 0x2000_0000, &log)).unwrap();
        own.submit(Task::new(NAMES[1], LARGE, failing)).unwrap();
    });
    graph.replay(own).unwrap();
    let error = own.synchronize().unwrap_err().to_string();
    assert!(error.contains("second: half is enough"), "{error}");
}
