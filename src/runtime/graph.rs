//! Graphs: tasks that are recorded once and replayed by one call.
//!
//! While a stream captures ([`capture`]), its tasks become nodes of a graph instead of running. The nodes are kept in the order of
//! recording across all streams of the capture. An edge always points from an earlier node to a later one, so this order respects
//! every edge. A replay runs the nodes in this order on one stream. Successive kernels form one task of that stream, which saves
//! queue operations; each kernel still divides over the threads. Host functions and sleeps are tasks of their own, because they
//! must not occupy a compute thread. With installed hardware, each kernel is a task of its own, too.
//!
//! Replays of one graph never overlap, whatever streams they run on, because they share memory. A replay on another stream than the
//! previous one waits for that one.
//!
//! The graph keeps the memory that its nodes use. Blocks of its private memory ([`crate::runtime::pools::private_pool`]) and pinned
//! host memory ([`hold`]) are released when the graph is destroyed and its last replay has run.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt::{self, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::debugging::faults;
use super::error::{Cause, panic_text};
use super::hardware;
use super::name::Device;
use super::pools::private_pool::PrivatePool;
use super::stream::{Stream, loop_fusion};
use super::sync::{Arc, Mutex, unlocked};
use super::task::demand::{Demand, Visit};
use super::task::{Access, Payload, Shape, Task, Transfer, Work};
use super::trace::{self, About, Kind, Mark, Nodes};
use super::{Error, observers, sanitizer};

pub mod capture;
pub mod graph_rng;
pub mod hold;

use capture::Recorded;
use graph_rng::{Draws, Generators};
use hold::Hold;

/// One recorded task.
pub(super) struct Node {
    pub task: Task,
    /// The stream that it was captured on.
    pub stream: &'static Stream,
    /// The indices of the nodes that it depends on.
    pub after: Vec<usize>,
}

/// What remains of a node outside of its task, which may be running.
struct Note {
    name: &'static str,
    cost: u64,
    about: About,
    /// The demand of the node, if it is a kernel.
    demand: Option<Demand>,
    stream: &'static Stream,
    after: Vec<usize>,
}

/// A task that a replay puts on its stream.
enum Step {
    Kernels(Kernels),
    /// A kernel for installed hardware.
    Kernel(Kernel),
    /// Sets the starting states of the generators. It comes before the kernels for hardware, which may execute them without calling
    /// `run`.
    Draw,
    Host(usize),
    Sleep(Duration),
}

/// Successive kernels with their total cost and the memory that they access.
#[derive(Default)]
struct Kernels {
    parts: Vec<Part>,
    /// The nodes that a trace shows in place of the task.
    nodes: Range<usize>,
    cost: u64,
    accesses: Vec<Access>,
}

/// A kernel that is a task of its own. Its accesses and transfer are stored beside it, because the tasks are locked while others
/// run.
struct Kernel {
    node: usize,
    accesses: Vec<Access>,
    transfer: Option<Transfer>,
}

/// The kernels that a replay runs at once.
enum Part {
    One(usize),
    /// Kernels to fuse ([`loop_fusion`]), and the ends of the tensors in their row.
    Fused(Range<usize>, Vec<usize>),
}

/// A recorded graph, ready to be replayed. Clones refer to the same graph.
#[derive(Clone)]
pub struct Graph(Arc<Program>);

struct Program {
    device: usize,
    /// The tasks of the nodes, in order. The replay that runs holds the lock, even during host functions: no other thread may wait
    /// for it.
    tasks: Mutex<Vec<Task>>,
    notes: Vec<Note>,
    steps: Vec<Step>,
    generators: Generators,
    /// The stream of the latest replay and the number of its last task there.
    latest: Mutex<Option<(&'static Stream, u64)>>,
    pool: u64,
    /// The private pools that the graph keeps in use.
    _pools: Vec<PrivatePool>,
    _held: Option<Hold>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph of {} steps on device {}", self.0.steps.len(), Device(self.0.device))
    }
}

impl Graph {
    fn new(device: usize, pool: u64, recorded: Recorded) -> Self {
        let Recorded { nodes, generators, pools, hold, .. } = recorded;
        let steps = steps(&nodes, generators.count() > 0);
        let note = |Node { task, stream, after }: Node| {
            let about = task.about().unwrap_or(About::kind(Kind::Custom));
            let demand = task.demand();
            (Note { name: task.name(), cost: task.cost(), about, demand, stream, after }, task)
        };
        let (notes, tasks) = nodes.into_iter().map(note).unzip();
        let (tasks, latest) = (Mutex::new(tasks), Mutex::new(None));
        Self(Arc::new(Program { device, tasks, notes, steps, generators, latest, pool, _pools: pools, _held: hold }))
    }

    pub fn device(&self) -> usize {
        self.0.device
    }

    pub fn is_empty(&self) -> bool {
        self.0.steps.is_empty()
    }

    pub fn pool(&self) -> u64 {
        self.0.pool
    }

    /// The graph in the DOT language, with a box for each node and a cluster for each stream.
    pub fn dump(&self) -> String {
        dump(&self.0.notes).unwrap_or_default()
    }

    /// Enqueues all recorded work on a stream, and advances the generators that it draws from. Fails with `InvalidArgument` for a
    /// stream of another device or one that captures; with `RUSTDEV_LAUNCH_BLOCKING`, the failure of a node.
    pub fn replay(&self, stream: &'static Stream) -> Result<(), Error> {
        let program = &self.0;
        if stream.device() != program.device {
            return Err(Error::InvalidArgument(format!("a graph of device {} cannot run on {stream:?}", Device(program.device))));
        }
        stream.refuse_capturing(|| "Graph.replay()".to_owned())?;
        let mut draws = program.generators.advance();
        if sanitizer::is_on() {
            self.check(stream)?;
        }
        // The lock is taken without the GIL, because another replay may wait for the stream while it holds the lock.
        unlocked(|_| {
            let mut latest = program.latest.lock();
            Self::follow(*latest, stream)?;
            let tasks = (0..program.steps.len()).map(|index| self.task(index, stream, &mut draws));
            stream.enqueue_all(tasks, super::config::config().launch_blocking, |number| *latest = Some((stream, number)))
        })
    }

    /// Checks a replay for races with work outside of the graph. The replay is ordered after the previous replay, whatever its
    /// stream. The check runs without the lock of the latest replay, because it captures stacks.
    fn check(&self, stream: &'static Stream) -> Result<(), Error> {
        let latest = unlocked(|_| *self.0.latest.lock());
        if let Some((before, _)) = latest {
            sanitizer::order(None, stream, Some(&sanitizer::clock(None, before)));
        }
        sanitizer::replay(stream, self.0.steps.iter().flat_map(Step::accesses).copied())
    }

    /// Makes the stream wait for the previous replay, if that was on another stream.
    fn follow(latest: Option<(&'static Stream, u64)>, stream: &'static Stream) -> Result<(), Error> {
        let Some((before, number)) = latest else { return Ok(()) };
        if std::ptr::eq(before, stream) || before.completed() >= number {
            return Ok(());
        }
        stream.wait_behind(before.record(false)?)
    }

    /// The task of a step, with its marks in the trace. The first task that may draw random numbers takes `draws`.
    fn task(&self, index: usize, stream: &'static Stream, draws: &mut Draws) -> Task {
        let replay = |draws, nodes| Replay { program: Arc::clone(&self.0), index, draws, nodes };
        match &self.0.steps[index] {
            Step::Kernels(kernels) => {
                let (mark, nodes) = self.marks(kernels, stream).unzip();
                Task::new("graph", kernels.cost, replay(std::mem::take(draws), nodes)).with_mark(mark)
            }
            Step::Kernel(Kernel { node, .. }) => {
                let Note { name, cost, .. } = self.0.notes[*node];
                Task::new(name, cost, replay(Draws::default(), None))
            }
            Step::Draw => Task::host("graph", replay(std::mem::take(draws), None)),
            Step::Host(node) => {
                let mark = trace::mark_named(stream, self.0.notes[*node].name, Kind::Host);
                Task::host("graph", replay(Draws::default(), None)).with_mark(mark)
            }
            Step::Sleep(duration) => Task::sleep(*duration),
        }
    }

    /// The marks of a task of kernels and of its nodes, if a trace is recording.
    fn marks(&self, kernels: &Kernels, stream: &'static Stream) -> Option<(Mark, Nodes)> {
        let notes = &self.0.notes[kernels.nodes.clone()];
        if notes.is_empty() {
            return None;
        }
        trace::mark_replay(stream, "graph", notes.iter().map(|note| (note.name, note.about)))
    }
}

fn dump(notes: &[Note]) -> Result<String, fmt::Error> {
    let mut text = "digraph rustdev_graph {\n  node [shape=box];\n".to_owned();
    let mut streams: Vec<&'static Stream> = Vec::new();
    for note in notes {
        if !streams.iter().any(|known| std::ptr::eq(*known, note.stream)) {
            streams.push(note.stream);
        }
    }
    for (number, stream) in streams.iter().enumerate() {
        writeln!(text, "  subgraph cluster_{number} {{\n    label=\"{stream:?}\";")?;
        for (index, Note { name, cost, .. }) in notes.iter().enumerate().filter(|(_, note)| std::ptr::eq(*stream, note.stream)) {
            writeln!(text, "    n{index} [label=\"{index}: {name}\\n{cost} ns\"];")?;
        }
        writeln!(text, "  }}")?;
    }
    for (index, note) in notes.iter().enumerate() {
        for before in &note.after {
            writeln!(text, "  n{before} -> n{index};")?;
        }
    }
    text.push_str("}\n");
    Ok(text)
}

/// Combines successive kernels into one step; with installed hardware, each kernel is a step. `draws`: true if some kernels draw
/// random numbers.
fn steps(nodes: &[Node], draws: bool) -> Vec<Step> {
    let on_hardware = hardware::is_installed();
    let mut steps = if on_hardware && draws && !nodes.is_empty() { vec![Step::Draw] } else { Vec::new() };
    let mut index = 0;
    while let Some(Node { task, .. }) = nodes.get(index) {
        let mut count = 1;
        match &task.payload {
            Payload::Kernel(_) if on_hardware => {
                let mut accesses = Vec::new();
                task.accesses(&mut |access| accesses.push(access));
                steps.push(Step::Kernel(Kernel { node: index, accesses, transfer: task.transfer() }));
            }
            Payload::Kernel(_) => {
                let part = match loop_fusion::members(nodes[index..].iter().map(|node| &node.task)) {
                    Some((members, ends)) => {
                        count = members;
                        Part::Fused(index..index + count, ends)
                    }
                    None => Part::One(index),
                };
                if !matches!(steps.last(), Some(Step::Kernels(_))) {
                    steps.push(Step::Kernels(Kernels { nodes: index..index, ..Kernels::default() }));
                }
                if let Some(Step::Kernels(kernels)) = steps.last_mut() {
                    kernels.parts.push(part);
                    kernels.nodes.end = index + count;
                    for Node { task, .. } in &nodes[index..index + count] {
                        kernels.cost += task.cost();
                        task.accesses(&mut |access| kernels.accesses.push(access));
                    }
                }
            }
            Payload::Host(_) => steps.push(Step::Host(index)),
            Payload::Sleep(duration) => steps.push(Step::Sleep(*duration)),
            // Events are edges, and a capture never records a wait for a lease holder.
            Payload::Record(_) | Payload::Wait(_) | Payload::Leave(_) => {}
        }
        index += count;
    }
    steps
}

impl Step {
    /// The memory that the step's kernels access.
    fn accesses(&self) -> &[Access] {
        match self {
            Self::Kernels(Kernels { accesses, .. }) | Self::Kernel(Kernel { accesses, .. }) => accesses,
            Self::Draw | Self::Host(_) | Self::Sleep(_) => &[],
        }
    }
}

impl Program {
    /// Runs a step. `marks`: the marks of its nodes, if a trace is recording. `is_dry`: its nodes are skipped ([`Work::skip`]).
    fn run(&self, step: &Step, marks: Option<&Nodes>, is_dry: bool) -> Result<(), Cause> {
        let mut tasks = self.tasks.lock();
        match step {
            Step::Kernels(kernels) => kernels.parts.iter().try_for_each(|part| {
                let mark = marks.map(|marks| |node: usize| marks.mark(node - kernels.nodes.start));
                run_part(&mut tasks, part, mark.as_ref(), is_dry)
            }),
            Step::Kernel(Kernel { node, .. }) | Step::Host(node) => run_one(&mut tasks[*node], None, is_dry),
            Step::Draw | Step::Sleep(_) => Ok(()),
        }
    }
}

/// Runs a kernel or fused kernels. `mark`: makes the mark of a node from its index.
fn run_part(tasks: &mut [Task], part: &Part, mark: Option<&impl Fn(usize) -> Mark>, is_dry: bool) -> Result<(), Cause> {
    let mut run = |node: usize| run_one(&mut tasks[node], mark.map(|mark| mark(node)).as_ref(), is_dry);
    match part {
        Part::One(node) => run(*node),
        Part::Fused(range, _) if is_dry || observers::is_debugging() => range.clone().try_for_each(run),
        Part::Fused(range, ends) => {
            let tasks = &tasks[range.clone()];
            let outcome = loop_fusion::run_all(tasks, ends, mark.map(|mark| |number| mark(range.start + number)));
            outcome.map_err(|(number, cause)| format!("{}: {cause}", tasks[number].name()).into())
        }
    }
}

/// `is_dry`: the task is skipped.
fn run_one(task: &mut Task, mark: Option<&Mark>, is_dry: bool) -> Result<(), Cause> {
    let name = task.name();
    let (Payload::Kernel(work) | Payload::Host(work)) = &mut task.payload else { return Ok(()) };
    let run = || match observers::is_debugging() {
        _ if is_dry => work.skip(),
        true => faults::run_node(name, &mut **work),
        false => work.run(),
    };
    if let Some(mark) = mark {
        mark.begin();
    }
    let outcome = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(|cause| format!("{name}: {cause}").into()),
        Err(panic) => Err(format!("{name}: {}", panic_text(&*panic)).into()),
    };
    if let Some(mark) = mark {
        mark.end(outcome.is_err());
    }
    outcome
}

struct Replay {
    program: Arc<Program>,
    index: usize,
    draws: Draws,
    /// The marks of its nodes, if a trace is recording.
    nodes: Option<Nodes>,
}

impl Replay {
    /// The step's kernel for installed hardware, if it is one.
    fn kernel(&self) -> Option<&Kernel> {
        if let Step::Kernel(kernel) = &self.program.steps[self.index] { Some(kernel) } else { None }
    }
}

impl Work for Replay {
    fn run(&mut self) -> Result<(), Cause> {
        self.program.generators.start(&self.draws);
        self.program.run(&self.program.steps[self.index], self.nodes.as_ref(), false)
    }

    fn skip(&mut self) -> Result<(), Cause> {
        self.program.run(&self.program.steps[self.index], self.nodes.as_ref(), true)
    }

    fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        self.program.steps[self.index].accesses().iter().copied().for_each(visit);
    }

    fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        match self.kernel() {
            Some(kernel) => self.program.tasks.lock()[kernel.node].operands(visit),
            None => self.accesses(&mut |access| visit(access, None)),
        }
    }

    fn demands(&self, _: &'static str, visit: Visit<'_>) -> bool {
        let (nodes, first) = match &self.program.steps[self.index] {
            Step::Kernels(kernels) => (kernels.nodes.clone(), kernels.nodes.start),
            Step::Kernel(Kernel { node, .. }) => (*node..node + 1, *node),
            Step::Draw | Step::Host(_) | Step::Sleep(_) => (0..0, 0),
        };
        for node in nodes {
            if let Some(demand) = self.program.notes[node].demand {
                visit(demand, self.nodes.as_ref().map(|marks| marks.mark(node - first)));
            }
        }
        true
    }

    fn about(&self) -> About {
        self.kernel().map_or(About::kind(Kind::Custom), |kernel| self.program.notes[kernel.node].about)
    }

    fn transfer(&self) -> Option<Transfer> {
        self.kernel()?.transfer
    }

    fn call(&self, visit: &mut dyn FnMut(&dyn Any)) {
        if let Some(kernel) = self.kernel()
            && let Payload::Kernel(work) = &self.program.tasks.lock()[kernel.node].payload
        {
            work.call(visit);
        }
    }
}
