//! Hardware that runs each task inside the call that submits it: the minimal implementation of `rustdev::hardware`.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rustdev::hardware::{self, Cause, DeviceMemory, Hardware, HardwareTask, Properties, Transfer};
use rustdev::runtime::generator::{Generator, PhiloxState};
use rustdev::runtime::graph::Graph;
use rustdev::runtime::graph::capture::{Capture, Mode};
use rustdev::runtime::graph::graph_rng::Cell;
use rustdev::runtime::memory::system::{HUGE_PAGE, Reservation};
use rustdev::runtime::pools::private_pool::{PrivatePool, new_number};
use rustdev::runtime::stream::Stream;
use rustdev::runtime::task::{Closure, Task, Work};
use rustdev::runtime::trace::{self, About, Kind};
use rustdev::runtime::{Error, config, device, pools};

/// Only one trace can be active at a time.
static TRACING: Mutex<()> = Mutex::new(());

/// A task of this name makes the hardware panic.
const PANICS: &str = "the hardware panics";

/// Runs every task on the thread that submits it.
#[derive(Debug)]
struct Direct {
    devices: usize,
    memory: u64,
    handed: AtomicUsize,
    reserved: Mutex<Vec<(usize, usize)>>,
    /// The calls that launches of [`Program`] show.
    shown: Mutex<Vec<(Kind, &'static str)>>,
    /// The generator states that launches of [`Draw`] get.
    drawn: Mutex<Vec<PhiloxState>>,
}

impl Direct {
    fn new(devices: usize, memory: u64) -> Arc<Self> {
        let (handed, reserved, shown, drawn) = (AtomicUsize::new(0), Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { devices, memory, handed, reserved, shown, drawn })
    }
}

impl Hardware for Direct {
    fn properties(&self) -> Properties {
        Properties { name: "direct".to_owned(), devices: self.devices, memory: self.memory }
    }

    fn reserve(&self, device: usize, length: usize) -> io::Result<Box<dyn DeviceMemory>> {
        self.reserved.lock().unwrap().push((device, length));
        Ok(Box::new(Reservation::new(length)?))
    }

    fn copy(&self, _transfer: Transfer, task: HardwareTask) {
        self.launch(task);
    }

    fn launch(&self, mut task: HardwareTask) {
        self.handed.fetch_add(1, Ordering::Relaxed);
        assert!(task.name() != PANICS, "out of order");
        task.call(&mut |call| {
            if let (Some(Program(text)), Some(about)) = (call.downcast_ref(), task.about()) {
                self.shown.lock().unwrap().push((about.kind, text));
            }
            if let Some(Draw(cell)) = call.downcast_ref() {
                let (seed, offset) = (cell.seed.load(Ordering::Relaxed), cell.offset.load(Ordering::Relaxed));
                self.drawn.lock().unwrap().push(PhiloxState { seed, offset });
            }
        });
        let outcome = task.run();
        task.finish(outcome);
    }
}

fn direct() -> &'static Direct {
    static DIRECT: OnceLock<Arc<Direct>> = OnceLock::new();
    DIRECT.get_or_init(|| {
        for (devices, memory, reason) in [(0, 1 << 30, "0 devices"), (65, 1 << 30, "65 devices"), (1, 4096, "not 4096")] {
            let refusal = hardware::install(Direct::new(devices, memory)).unwrap_err();
            assert!(refusal.message().contains(reason), "{refusal}");
        }
        let direct = Direct::new(3, 1 << 30);
        hardware::install(Arc::clone(&direct) as Arc<dyn Hardware>).unwrap();
        direct
    })
}

fn stream() -> &'static Stream {
    direct();
    device::get(0).unwrap().create_stream(0)
}

fn task(name: &'static str, mut body: impl FnMut() + Send + 'static) -> Task {
    let run = move || {
        body();
        Ok(())
    };
    Task::new(name, 1_000_000, Closure::new(run))
}

#[test]
fn the_runtime_is_made_of_what_was_installed() {
    let direct = direct();
    assert_eq!((device::count(), config::config().memory_limit), (3, Some(1 << 30)));
    let block = pools::allocate(2, device::get(2).unwrap().default_stream(), HUGE_PAGE).unwrap();
    assert_eq!(pools::device_of(block), Some(2));
    pools::free(block);
    let reserved = direct.reserved.lock().unwrap().clone();
    assert_eq!(reserved.iter().map(|(device, _)| *device).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(reserved.iter().all(|(_, length)| length.is_multiple_of(HUGE_PAGE) && *length >= 1 << 30), "{reserved:?}");
}

#[test]
fn a_task_runs_in_the_call_that_submits_it() {
    let (stream, here) = (stream(), thread::current().id());
    let (sender, receiver) = channel();
    let before = direct().handed.load(Ordering::Relaxed);
    stream.submit(task("where", move || sender.send(thread::current().id()).unwrap())).unwrap();
    assert_eq!(receiver.try_recv(), Ok(here));
    assert!(stream.query().unwrap());
    assert!(direct().handed.load(Ordering::Relaxed) > before);
}

/// Each task ends inside the call that submits it. If that call were nested in the previous one, the stack would overflow.
#[test]
fn a_long_queue_needs_no_deep_stack() {
    let stream = stream();
    let (gate, opened) = channel::<()>();
    let wait = move || {
        // It returns when the sender is dropped.
        let _ = opened.recv();
        Ok(())
    };
    stream.submit(Task::host("held", Closure::new(wait))).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..2000 {
        let ran = Arc::clone(&ran);
        stream.submit(task("count", move || _ = ran.fetch_add(1, Ordering::Relaxed))).unwrap();
    }
    let body = move || {
        drop(gate);
        stream.synchronize()
    };
    thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2000);
}

#[test]
fn hardware_that_panics_fails_the_task() {
    let stream = stream();
    stream.submit(task(PANICS, || ())).unwrap();
    let failure = stream.synchronize().unwrap_err();
    assert!(matches!(&failure, Error::TaskFailed(text) if text.contains(PANICS)), "{failure}");
    stream.submit(task("after", || ())).unwrap();
    stream.synchronize().unwrap();
}

/// Work that the hardware may execute in its own way, like a kernel of the operator table.
struct Program(&'static str);

impl Work for Program {
    fn run(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn about(&self) -> About {
        About::kind(Kind::Compiled)
    }

    fn call(&self, visit: &mut dyn FnMut(&dyn Any)) {
        visit(self);
    }
}

/// A graph that captures what `submit` puts on the stream.
fn captured(stream: &'static Stream, submit: impl FnOnce(&Capture)) -> Graph {
    let capture = Capture::begin(stream, PrivatePool::new(new_number()), Mode::Relaxed).unwrap();
    submit(&capture);
    let before = device::exchange_stream(stream);
    let graph = capture.end().unwrap();
    device::exchange_stream(before);
    graph
}

#[test]
fn a_replay_shows_what_a_launch_shows() {
    let stream = stream();
    let graph = captured(stream, |_| stream.submit(Task::new("program", 1, Program("captured"))).unwrap());
    stream.submit(Task::new("program", 1, Program("launched"))).unwrap();
    let _tracing = TRACING.lock().unwrap();
    let trace = trace::start().unwrap();
    graph.replay(stream).unwrap();
    let trace = trace::stop(trace).unwrap();
    stream.synchronize().unwrap();
    let shown = direct().shown.lock().unwrap().clone();
    assert_eq!(shown, [(Kind::Compiled, "launched"), (Kind::Compiled, "captured")]);
    let rows: Vec<_> = (0..trace.count()).filter_map(|index| trace.row(index)).filter(|row| row.task.name == "program").collect();
    assert_eq!(rows.iter().map(|row| row.task.about.kind).collect::<Vec<_>>(), [Kind::Compiled]);
}

/// A random kernel that the hardware executes itself: as `run` is not called, its call must tell where to draw.
struct Draw(&'static Cell);

impl Work for Draw {
    fn run(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn call(&self, visit: &mut dyn FnMut(&dyn Any)) {
        visit(self);
    }
}

#[test]
fn a_call_in_a_replay_tells_where_to_draw() {
    let stream = stream();
    let generator = Arc::new(Generator::new(PhiloxState { seed: 7, offset: 100 }));
    let graph = captured(stream, |capture| {
        for numbers in [8, 4] {
            let cell = capture.draw(&generator, numbers).unwrap();
            stream.submit(Task::new("draw", 1, Draw(cell))).unwrap();
        }
    });
    graph.replay(stream).unwrap();
    graph.replay(stream).unwrap();
    stream.synchronize().unwrap();
    let drawn = direct().drawn.lock().unwrap().clone();
    assert_eq!(drawn, [100, 108, 112, 120].map(|offset| PhiloxState { seed: 7, offset }));
}

#[test]
fn a_trace_has_the_tasks_of_hardware() {
    let stream = stream();
    let _tracing = TRACING.lock().unwrap();
    let number = trace::start().unwrap();
    stream.submit(task("traced", || ())).unwrap();
    let trace = trace::stop(number).unwrap();
    let rows: Vec<_> = (0..trace.count()).filter_map(|index| trace.row(index)).filter(|row| row.task.name == "traced").collect();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].task.about.kind, Kind::Custom);
    assert!(rows[0].run.0 > 0 && rows[0].run.0 <= rows[0].run.1);
}
