//! Hardware that takes four tasks of a stream at a time, and ends them when and in which order the test says. Tasks of urgent
//! streams run in the call that submits them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rustdev::hardware::{self, DeviceMemory, Hardware, HardwareTask, Properties, Reservation, Transfer};
use rustdev::runtime::device;
use rustdev::runtime::event::Event;
use rustdev::runtime::graph::capture::{Capture, Mode};
use rustdev::runtime::pools::private_pool::{PrivatePool, new_number};
use rustdev::runtime::stream::Stream;
use rustdev::runtime::task::{Closure, Task};
use rustdev::runtime::trace::{self, Outcome};

const DEPTH: usize = 4;

/// A task of this name makes the hardware panic.
const PANICS: &str = "the hardware panics";

/// The tasks of a stream, and how many came in each call.
type Handed = (Vec<HardwareTask>, Vec<usize>);

#[derive(Debug, Default)]
struct Manual {
    /// By stream.
    handed: Mutex<HashMap<i64, Handed>>,
    depth: usize,
}

impl Hardware for Manual {
    fn properties(&self) -> Properties {
        Properties { name: "manual".to_owned(), devices: 1, memory: 1 << 30 }
    }

    fn reserve(&self, _device: usize, length: usize) -> io::Result<Box<dyn DeviceMemory>> {
        Ok(Box::new(Reservation::new(length)?))
    }

    fn copy(&self, _transfer: Transfer, task: HardwareTask) {
        self.launch(task);
    }

    fn launch(&self, task: HardwareTask) {
        self.submit(vec![task]);
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn submit(&self, tasks: Vec<HardwareTask>) {
        assert!(tasks.iter().all(|task| task.name() != PANICS), "out of order");
        if tasks[0].priority() < 0 {
            return tasks.into_iter().for_each(end);
        }
        let mut handed = self.handed.lock().unwrap();
        let (all, calls) = handed.entry(tasks[0].stream()).or_default();
        calls.push(tasks.len());
        all.extend(tasks);
        assert!(all.len() <= DEPTH, "{all:?}");
    }
}

fn end(mut task: HardwareTask) {
    let outcome = task.run();
    task.finish(outcome);
}

fn manual() -> &'static Manual {
    static MANUAL: OnceLock<Arc<Manual>> = OnceLock::new();
    MANUAL.get_or_init(|| {
        let refusal = hardware::install(Arc::new(Manual::default())).unwrap_err();
        assert!(refusal.message().contains("its depth is 0"), "{refusal}");
        let manual = Arc::new(Manual { depth: DEPTH, ..Manual::default() });
        hardware::install(Arc::clone(&manual) as Arc<dyn Hardware>).unwrap();
        manual
    })
}

fn stream(priority: i32) -> &'static Stream {
    manual();
    device::get(0).unwrap().create_stream(priority)
}

/// The number of tasks that the hardware has of a stream.
fn count(stream: &Stream) -> usize {
    manual().handed.lock().unwrap().get(&stream.id()).map_or(0, |(tasks, _)| tasks.len())
}

/// Takes a task of a stream from the hardware.
fn take(stream: &Stream, index: usize) -> HardwareTask {
    manual().handed.lock().unwrap().get_mut(&stream.id()).unwrap().0.remove(index)
}

/// Ends what the hardware has and gets of a stream.
fn end_all(stream: &Stream) {
    while count(stream) > 0 {
        end(take(stream, 0));
    }
}

/// The numbers of tasks that came in each call.
fn calls(stream: &Stream) -> Vec<usize> {
    manual().handed.lock().unwrap()[&stream.id()].1.clone()
}

fn counting(name: &'static str, ran: &Arc<AtomicUsize>) -> Task {
    let ran = Arc::clone(ran);
    let run = move || {
        ran.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    Task::new(name, 100, Closure::new(run))
}

#[test]
fn tasks_are_counted_in_order_whatever_the_order_of_their_ends() {
    let (stream, ran) = (stream(0), Arc::default());
    let event = Event::new(0, true);
    for number in 0..6 {
        stream.submit(counting("task", &ran)).unwrap();
        if number == 1 {
            event.record(stream).unwrap();
        }
    }
    assert_eq!((count(stream), stream.completed()), (DEPTH, 0));
    end(take(stream, 2));
    assert_eq!((count(stream), stream.completed()), (DEPTH, 0), "its place is free, and the count waits for the first");
    end(take(stream, 1));
    assert_eq!((count(stream), stream.completed()), (DEPTH, 0));
    assert!(!event.query().unwrap());
    end(take(stream, 0));
    // Three tasks, and the event behind the second.
    assert_eq!((count(stream), stream.completed()), (3, 4));
    assert!(event.query().unwrap());
    end(take(stream, 2));
    end(take(stream, 1));
    assert_eq!(stream.completed(), 4);
    end(take(stream, 0));
    assert_eq!((count(stream), stream.completed()), (0, 7));
    stream.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 6);
}

#[test]
fn what_is_ready_at_once_comes_in_one_call() {
    let (stream, ran) = (stream(0), Arc::default());
    let (gate, opened) = channel::<()>();
    let wait = move || {
        // It returns when the sender is dropped.
        let _ = opened.recv();
        Ok(())
    };
    stream.submit(Task::host("held", Closure::new(wait))).unwrap();
    for _ in 0..DEPTH + 1 {
        stream.submit(counting("task", &ran)).unwrap();
    }
    drop(gate);
    while count(stream) == 0 {
        thread::yield_now();
    }
    end_all(stream);
    stream.synchronize().unwrap();
    assert_eq!(calls(stream), [DEPTH, 1]);
}

#[test]
fn a_replay_comes_in_few_calls() {
    let (stream, ran) = (stream(0), Arc::default());
    let capture = Capture::begin(stream, PrivatePool::new(new_number()), Mode::Relaxed).unwrap();
    (0..DEPTH + 2).for_each(|_| stream.submit(counting("node", &ran)).unwrap());
    let before = device::exchange_stream(stream);
    let graph = capture.end().unwrap();
    device::exchange_stream(before);
    graph.replay(stream).unwrap();
    graph.replay(stream).unwrap();
    assert_eq!(calls(stream), [DEPTH]);
    end_all(stream);
    stream.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2 * (DEPTH + 2));
}

#[test]
fn tasks_in_flight_behind_a_dropped_one_are_skipped() {
    let (stream, ran) = (stream(0), Arc::default());
    let trace = trace::start().unwrap();
    ["first", "dropped", "behind", "behind", "later"].into_iter().for_each(|name| stream.submit(counting(name, &ran)).unwrap());
    end(take(stream, 0));
    assert!(!take(stream, 0).is_skipped(), "dropped here");
    assert_eq!(count(stream), 3);
    let task = take(stream, 0);
    assert!(task.is_skipped());
    end(task);
    end_all(stream);
    let failure = stream.synchronize().unwrap_err();
    assert!(failure.message().contains("dropped failed") && failure.message().contains("the hardware dropped it"), "{failure}");
    assert_eq!((ran.load(Ordering::Relaxed), stream.completed()), (1, 5));
    let trace = trace::stop(trace).unwrap();
    let rows = (0..trace.count()).filter_map(|index| trace.row(index));
    let outcomes: Vec<_> = rows.filter(|row| row.task.stream.id() == stream.id()).map(|row| row.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Failed, Outcome::NotRun, Outcome::NotRun, Outcome::NotRun]);
}

#[test]
fn hardware_that_panics_fails_what_it_was_given() {
    let (stream, ran) = (stream(0), Arc::default());
    stream.submit(counting(PANICS, &ran)).unwrap();
    let failure = stream.synchronize().unwrap_err();
    assert!(failure.message().contains(PANICS), "{failure}");
    stream.submit(counting("after", &ran)).unwrap();
    end_all(stream);
    stream.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

/// Each task ends inside the call that submits it. If that call were nested in the previous one, the stack would overflow.
#[test]
fn a_long_queue_needs_no_deep_stack() {
    let (stream, ran) = (stream(-1), Arc::new(AtomicUsize::new(0)));
    let (gate, opened) = channel::<()>();
    let wait = move || {
        // It returns when the sender is dropped.
        let _ = opened.recv();
        Ok(())
    };
    stream.submit(Task::host("held", Closure::new(wait))).unwrap();
    for _ in 0..2000 {
        stream.submit(counting("count", &ran)).unwrap();
    }
    let body = move || {
        drop(gate);
        stream.synchronize()
    };
    thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2000);
}

/// The two ends of a stream: one thread submits, several end tasks, in any order.
#[test]
fn several_threads_end_tasks_while_another_submits() {
    let (stream, ran) = (stream(0), Arc::new(AtomicUsize::new(0)));
    let total = 3000;
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let ran = Arc::clone(&ran);
            thread::spawn(move || {
                while ran.load(Ordering::Relaxed) < total {
                    let mut handed = manual().handed.lock().unwrap();
                    let tasks = handed.get_mut(&stream.id()).map(|(tasks, _)| tasks);
                    let task = tasks.and_then(|tasks| (!tasks.is_empty()).then(|| tasks.remove(number % tasks.len())));
                    drop(handed);
                    task.map_or_else(thread::yield_now, end);
                }
            })
        })
        .collect();
    let event = Event::new(0, false);
    for number in 0..total {
        stream.submit(counting("task", &ran)).unwrap();
        if number % 7 == 0 {
            event.record(stream).unwrap();
        }
        if number % 500 == 0 {
            event.synchronize().unwrap();
        }
    }
    stream.synchronize().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(ran.load(Ordering::Relaxed), total);
}
