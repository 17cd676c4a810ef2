//! The slow device with command queues: it takes eight tasks of a stream at a time.

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{DEPTH, Memory, copy, held, host, kernel, launch, new_stream, on_device, slow_device};
use rustdev::runtime::event::Event;
use rustdev::runtime::graph::Graph;
use rustdev::runtime::graph::capture::{Capture, Mode};
use rustdev::runtime::pools::private_pool::{PrivatePool, new_number};
use rustdev::runtime::stream::Stream;
use rustdev::runtime::task::{Closure, Task};
use rustdev::runtime::{device, exit};
use rustdev::tensor::DType;
use slow_device::{Fault, SlowDevice};

const AHEAD: usize = 8;

/// The device with command queues. Every test must call this first.
fn queued() -> &'static SlowDevice {
    DEPTH.store(AHEAD, Ordering::Relaxed);
    slow_device()
}

fn stream() -> &'static Stream {
    queued();
    new_stream()
}

/// A kernel that appends a number to a list.
fn noting(seen: &Arc<Mutex<Vec<usize>>>, number: usize) -> Task {
    let seen = Arc::clone(seen);
    kernel("note", move || seen.lock().unwrap().push(number))
}

fn captured(stream: &'static Stream, submit: impl FnOnce()) -> Graph {
    let capture = Capture::begin(stream, PrivatePool::new(new_number()), Mode::Relaxed).unwrap();
    submit();
    let before = device::exchange_stream(stream);
    let graph = capture.end().unwrap();
    device::exchange_stream(before);
    graph
}

#[track_caller]
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn the_device_has_several_tasks_of_a_stream_and_runs_them_in_order() {
    let stream = stream();
    let (seen, gate) = (Arc::default(), held(stream));
    for number in 0..300 {
        stream.submit(noting(&seen, number)).unwrap();
    }
    drop(gate);
    stream.synchronize().unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..300).collect::<Vec<_>>());
    let most = queued().counts().most_ahead.load(Ordering::Relaxed);
    assert!(most > 1 && most <= AHEAD as u64, "{most}");
}

#[test]
fn a_submission_goes_ahead_without_a_completion() {
    let stream = stream();
    let (gate, opened) = channel::<()>();
    // It returns when the sender is dropped.
    stream.submit(kernel("held", move || _ = opened.recv())).unwrap();
    let before = queued().counts().launches.load(Ordering::Relaxed);
    for _ in 0..2 * AHEAD {
        stream.submit(kernel("behind", || ())).unwrap();
    }
    // Other tests launch as well.
    assert!(queued().counts().launches.load(Ordering::Relaxed) >= before + AHEAD as u64 - 1);
    assert_eq!(stream.completed(), 0);
    drop(gate);
    stream.synchronize().unwrap();
}

#[test]
fn kernels_and_copies_of_a_chain_see_what_the_previous_one_wrote() {
    let stream = stream();
    let count = 3000;
    let sizes = [count as i64];
    let (mut input, mut output) = (vec![2f32; count], vec![0f32; count]);
    let memory = [0; 2].map(|_| Memory::new(stream, 4 * count));
    let [a, b] = [0, 1].map(|index: usize| on_device(&memory[index], DType::Float, &sizes, &[1]));
    // Copies are made by one engine, kernels by the other.
    for round in 1..=20 {
        copy(stream, a, host(&mut input, DType::Float, &sizes, &[1]));
        for _ in 0..3 {
            launch(c"mul", stream, &[b, a, a]);
            launch(c"neg", stream, &[a, b]);
        }
        copy(stream, b, a);
        copy(stream, host(&mut output, DType::Float, &sizes, &[1]), b);
        if round % 5 == 0 {
            stream.synchronize().unwrap();
            // x becomes -x^2 three times, from 2: -4, -16, -256.
            assert_eq!(output, vec![-256.0; count]);
            output.fill(0.0);
        }
    }
}

#[test]
fn events_between_kernels_order_streams() {
    let streams = [stream(), new_stream(), device::get(1).unwrap().create_stream(-1)];
    let events: Vec<_> = (0..streams.len()).map(|index| Event::new(streams[index].device(), true)).collect();
    let value = Arc::new(AtomicUsize::new(0));
    let rounds = 60;
    for round in 0..rounds {
        for (index, stream) in streams.into_iter().enumerate() {
            events[(index + streams.len() - 1) % streams.len()].block(stream).unwrap();
            let value = Arc::clone(&value);
            let step = round * streams.len() + index;
            let run = move || match value.compare_exchange(step, step + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => Ok(()),
                Err(found) => Err(format!("step {step} found {found}").into()),
            };
            stream.submit(Task::new("step", 100, Closure::new(run))).unwrap();
            events[index].record(stream).unwrap();
            stream.submit(kernel("behind", || ())).unwrap();
        }
    }
    streams.into_iter().for_each(|stream| stream.synchronize().unwrap());
    assert_eq!(value.load(Ordering::Relaxed), rounds * streams.len());
    assert!(events.iter().all(|event| event.query().unwrap()));
}

#[test]
fn an_event_is_reached_before_the_kernels_behind_it() {
    let stream = stream();
    let (gate, opened) = channel::<()>();
    let event = Event::new(0, true);
    stream.submit(kernel("before", || ())).unwrap();
    event.record(stream).unwrap();
    stream.submit(kernel("held", move || _ = opened.recv())).unwrap();
    event.synchronize().unwrap();
    assert!(event.query().unwrap() && !stream.query().unwrap());
    drop(gate);
    stream.synchronize().unwrap();
}

#[test]
fn host_functions_and_sleeps_come_between_the_kernels_around_them() {
    let (stream, seen) = (stream(), Arc::default());
    for number in 0..60 {
        let task = match number % 6 {
            3 => Task::sleep(Duration::from_micros(100)),
            4 => {
                let seen: Arc<Mutex<Vec<usize>>> = Arc::clone(&seen);
                let note = move || {
                    seen.lock().unwrap().push(number);
                    Ok(())
                };
                Task::host("note", Closure::new(note))
            }
            _ => noting(&seen, number),
        };
        stream.submit(task).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..60).filter(|number| number % 6 != 3).collect::<Vec<_>>());
}

#[test]
fn tasks_behind_a_failing_one_do_not_compute() {
    for fault in [Some(Fault::Fails("an uncorrectable error of the memory".to_owned())), Some(Fault::Forgets), None] {
        let (stream, seen) = (stream(), Arc::default());
        let mut received = [7u8; 4];
        let (memory, sizes) = (Memory::new(stream, 4), [4]);
        let gate = held(stream);
        for number in 0..3 {
            stream.submit(noting(&seen, number)).unwrap();
        }
        let panics = fault.is_none();
        let fails = move || assert!(!panics, "a kernel's panic");
        if let Some(fault) = fault {
            queued().break_next("broken ahead", fault);
        }
        stream.submit(kernel("broken ahead", fails)).unwrap();
        // Some are in flight, others not yet.
        copy(stream, host(&mut received, DType::Byte, &sizes, &[1]), on_device(&memory, DType::Byte, &sizes, &[1]));
        for number in 3..30 {
            stream.submit(noting(&seen, number)).unwrap();
        }
        drop(gate);
        let failure = stream.synchronize().unwrap_err();
        assert!(failure.message().contains("broken ahead failed on"), "{failure}");
        assert_eq!((seen.lock().unwrap().as_slice(), received), (&[0, 1, 2][..], [7; 4]));
        stream.submit(noting(&seen, 30)).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 30]);
    }
}

#[test]
fn a_graph_is_replayed_on_streams_in_turn() {
    let (stream, other) = (stream(), new_stream());
    let count = 1000;
    let sizes = [count as i64];
    let (mut input, mut output) = (vec![2f32; count], vec![0f32; count]);
    let (a, b) = (Memory::new(stream, 4 * count), Memory::new(stream, 4 * count));
    let on = |memory| on_device(memory, DType::Float, &sizes, &[1]);
    let graph = captured(stream, || {
        copy(stream, on(&a), host(&mut input, DType::Float, &sizes, &[1]));
        for _ in 0..3 {
            launch(c"mul", stream, &[on(&b), on(&a), on(&a)]);
            launch(c"neg", stream, &[on(&a), on(&b)]);
        }
        copy(stream, host(&mut output, DType::Float, &sizes, &[1]), on(&a));
    });
    for round in 0..10 {
        graph.replay(if round % 4 == 3 { other } else { stream }).unwrap();
    }
    [stream, other].into_iter().for_each(|stream| stream.synchronize().unwrap());
    // SAFETY: the replays that wrote it have ended.
    let results = (0..count).map(|index| unsafe { output.as_ptr().add(index).read_volatile() });
    // x becomes -x^2 three times, from 2.
    assert!(results.into_iter().all(|result| result == -256.0));
}

#[test]
fn many_threads_submit_to_one_stream() {
    let stream = stream();
    let ran = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let ran = Arc::clone(&ran);
            thread::spawn(move || {
                for number in 0..300 {
                    let ran = Arc::clone(&ran);
                    stream.submit(kernel("count", move || _ = ran.fetch_add(1, Ordering::Relaxed))).unwrap();
                    if number % 50 == 0 {
                        stream.synchronize().unwrap();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    eventually("the end of the stream", || stream.query().unwrap());
    assert_eq!(ran.load(Ordering::Relaxed), 1200);
}

/// Runs an ignored test of this file in a process of its own, and returns what it prints.
fn alone(name: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--ignored", "--exact", name, "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("running 1 test"), "{}: {text}", output.status);
    text.into_owned()
}

#[test]
fn a_process_ends_with_tasks_in_flight() {
    let text = alone("end_with_tasks_in_flight");
    assert!(text.contains("the running task has ended") && !text.contains("after the end"), "{text}");
}

#[test]
#[ignore = "ends its process"]
fn end_with_tasks_in_flight() {
    let stream = stream();
    let (tell, told) = channel();
    let lasts = move || {
        tell.send(()).unwrap();
        while !exit::is_exiting() {
            thread::sleep(Duration::from_millis(1));
        }
        println!("the running task has ended");
    };
    stream.submit(kernel("lasts", lasts)).unwrap();
    for _ in 0..2 * AHEAD {
        stream.submit(kernel("behind", || println!("a task has begun after the end"))).unwrap();
    }
    told.recv().unwrap();
    std::process::exit(0);
}
