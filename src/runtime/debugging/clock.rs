//! The clock of a profile: what the program's tasks would take on a card, beside or instead of their computation.
//!
//! Each submission gives its task to the [simulation](engine), with a duration from the [roofline], and advances the host's time.
//! Times depend on the program, the profile and the [roofline] alone, not on this machine. Recordings of events have a moment in
//! the simulated time, and the entries of a trace have simulated times.

pub mod collective;
pub mod engine;
pub mod roofline;

use std::time::Duration;

use collective::{Pattern, Ranks};
use engine::{ENGINES, Engine, Job, Moment, Simulation, TrackKey, WHOLE};
use roofline::Float32;

use crate::runtime::config::{Profile, config};
use crate::runtime::memory::Timeline;
use crate::runtime::observers::CLOCK;
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, LazyLock, Mutex, OnceLock};
use crate::runtime::task::demand::Demand;
use crate::runtime::task::recording::Recording;
use crate::runtime::task::{Payload, Task};
use crate::runtime::trace::{self, Kind, Mark};
use crate::runtime::{Error, observers};

static CLOCK_STATE: LazyLock<Mutex<Option<Clock>>> = LazyLock::new(|| Mutex::new(None));
/// The function that tells whether products of float32, or convolutions if its argument is true, may use TF32.
pub static FLOAT32: OnceLock<fn(bool) -> bool> = OnceLock::new();

#[derive(Debug)]
struct Clock {
    profile: &'static Profile,
    simulation: Simulation,
    flops: u64,
    kernels: u64,
}

/// The counts of a clock. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The time of the host.
    pub host: u64,
    /// For each device that was used: its index, and the busy times of kernels, copies in, copies out, and links.
    pub devices: Vec<(usize, [u64; ENGINES])>,
    /// Floating-point operations, as `torch.utils.flop_counter` counts them.
    pub flops: u64,
    /// Kernels, copies and fills.
    pub kernels: u64,
}

/// Starts the clock of a profile, at 0. Fails with `InvalidArgument` while a clock runs.
pub fn begin(profile: &'static Profile) -> Result<(), Error> {
    let mut state = CLOCK_STATE.lock();
    if let Some(clock) = &*state {
        return Err(Error::InvalidArgument(format!("the clock of {} runs already", clock.profile.name)));
    }
    *state = Some(Clock { profile, simulation: Simulation::default(), flops: 0, kernels: 0 });
    trace::set_host(0);
    observers::set(CLOCK, true);
    Ok(())
}

/// Ends the clock, after all its work; returns what it has counted, `None` if no clock runs.
pub fn end() -> Option<Report> {
    finish();
    let clock = CLOCK_STATE.lock().take()?;
    observers::set(CLOCK, false);
    Some(clock.report())
}

/// The counts of the running clock; `None` if none runs.
pub fn report() -> Option<Report> {
    CLOCK_STATE.lock().as_ref().map(Clock::report)
}

/// The profile of the clock that runs.
pub fn profile() -> Option<&'static Profile> {
    CLOCK_STATE.lock().as_ref().map(|clock| clock.profile)
}

/// The host waits for everything.
pub fn finish() {
    with(|clock| {
        let tracks: Vec<_> = clock.simulation.tracks().collect();
        for track in tracks {
            clock.simulation.wait_for_track(track);
        }
    });
}

fn with<R>(change: impl FnOnce(&mut Clock) -> R) -> Option<R> {
    let mut state = CLOCK_STATE.lock();
    let clock = state.as_mut()?;
    let result = change(clock);
    trace::set_host(clock.simulation.host());
    Some(result)
}

/// The moment of a recording; `None` if the recording is older than the clock.
fn moment(recording: &Recording) -> Option<&Moment> {
    if observers::has(CLOCK) { recording.moment.get() } else { None }
}

/// A task is about to be queued.
pub(super) fn submit(stream: &'static Stream, task: &Task) {
    let key = stream.key();
    let priority = stream.priority();
    match &task.payload {
        Payload::Kernel(work) => {
            let mut demands = Vec::new();
            let is_replay = work.demands(task.name(), &mut |demand, mark| demands.push((demand, mark)));
            let [products, convolutions] = [false, true].map(|kind| FLOAT32.get().is_some_and(|is_tf32| is_tf32(kind)));
            let float32 = Float32 { products, convolutions };
            with(|clock| clock.kernels(key, priority, &demands, is_replay, float32, task.mark.as_ref()));
        }
        Payload::Host(_) => _ = with(|clock| clock.other(key, priority, 0, task.mark.clone())),
        Payload::Sleep(duration) => _ = with(|clock| clock.other(key, priority, nanoseconds(*duration), task.mark.clone())),
        Payload::Record(recording) => {
            let moment = Moment::default();
            // The recording is new.
            let _ = recording.moment.set(Arc::clone(&moment));
            with(|clock| {
                clock.simulation.spend(roofline::EVENT_NS);
                clock.simulation.record(key, priority, moment);
            });
        }
        // `wait` has told the clock of a wait, and a stream waits for other processes only in their own time.
        Payload::Wait(_) | Payload::Leave(_) => {}
    }
}

/// Further tasks of the stream come after a recording.
pub(super) fn wait(stream: &'static Stream, recording: &Recording) {
    let Some(moment) = moment(recording) else { return };
    with(|clock| {
        clock.simulation.spend(roofline::EVENT_NS);
        clock.simulation.wait(stream.key(), stream.priority(), Arc::clone(moment));
    });
}

pub(super) fn host_waits_for(stream: &dyn Timeline) {
    with(|clock| clock.simulation.wait_for_track(stream.key()));
}

/// The host waits for a recording. The moment of the recording; `None` if it is older than the clock.
pub fn host_waits_for_recording(recording: &Recording) -> Option<u64> {
    let moment = moment(recording)?;
    with(|clock| clock.simulation.wait_for_moment(moment))?
}

/// True if the stream has nothing to do at the host's time.
pub(super) fn is_idle(stream: &dyn Timeline) -> bool {
    let ask = |clock: &mut Clock| {
        clock.simulation.spend(roofline::QUERY_NS);
        clock.simulation.is_empty(stream.key())
    };
    with(ask).unwrap_or(true)
}

/// True if the recording is reached at the host's time, or older than the clock.
pub fn is_reached(recording: &Recording) -> bool {
    let Some(moment) = moment(recording) else { return true };
    with(|clock| clock.simulation.spend(roofline::QUERY_NS));
    moment.get().is_some()
}

/// A collective of the ranks with these numbers begins behind the tasks of `stream`, on the stream of its communicator. The moment
/// at which it ends; `None` if no clock runs. `bytes`: those of this rank's larger side, input or output.
pub fn collective(stream: &'static Stream, communicator: &'static Stream, name: &str, ranks: &[u64], bytes: u64) -> Option<Moment> {
    let (name, pattern) = pattern_of(name);
    let cluster = &config().cluster;
    let mark = trace::mark_call(communicator, name, Kind::Custom);
    let ended = with(|clock| {
        let simulation = &mut clock.simulation;
        simulation.spend(roofline::CALL_NS);
        let (begun, ended) = (Moment::default(), Moment::default());
        let (key, priority) = (communicator.key(), communicator.priority());
        let duration = collective::duration(clock.profile, cluster, pattern, Ranks::new(ranks, cluster), bytes);
        simulation.record(stream.key(), stream.priority(), Arc::clone(&begun));
        simulation.wait(key, priority, begun);
        let job = Job { engine: Engine::Link, share: WHOLE, duration, mark: mark.clone() };
        simulation.job(key, priority, roofline::LATENCY_NS, job);
        simulation.record(key, priority, Arc::clone(&ended));
        ended
    });
    if let Some(mark) = mark {
        mark.end(false);
        mark.submitted();
    }
    ended
}

/// Further tasks of the stream come after the moment.
pub fn wait_for(stream: &'static Stream, moment: &Moment) {
    with(|clock| clock.simulation.wait(stream.key(), stream.priority(), Arc::clone(moment)));
}

pub fn host_waits_for_moment(moment: &Moment) {
    with(|clock| clock.simulation.wait_for_moment(moment));
}

/// The name and the pattern of an operation of `torch.distributed`.
fn pattern_of(name: &str) -> (&'static str, Pattern) {
    let known = [
        ("all_gather", Pattern::Gather),
        ("reduce_scatter", Pattern::Gather),
        ("all_reduce", Pattern::AllReduce),
        ("barrier", Pattern::AllReduce),
        ("broadcast", Pattern::Broadcast),
        ("reduce", Pattern::Broadcast),
        ("gather", Pattern::Broadcast),
        ("scatter", Pattern::Broadcast),
        ("all_to_all", Pattern::AllToAll),
        ("send", Pattern::Message),
        ("recv", Pattern::Message),
    ];
    known.into_iter().find(|(known, _)| name.starts_with(known)).unwrap_or(("coalesced", Pattern::Gather))
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX >> 8)
}

impl Clock {
    fn kernels(
        &mut self,
        key: TrackKey,
        priority: i32,
        demands: &[(Demand, Option<Mark>)],
        is_replay: bool,
        float32: Float32,
        mark: Option<&Mark>,
    ) {
        let call = match demands {
            _ if is_replay => roofline::REPLAY_NS,
            [(Demand { kind: Kind::Compiled, .. }, _)] => roofline::COMPILED_CALL_NS,
            _ => roofline::CALL_NS,
        };
        self.simulation.spend(call);
        for (demand, own) in demands {
            let mark = own.as_ref().or(mark.filter(|_| !is_replay)).cloned();
            let job = Job { mark, ..roofline::job(self.profile, demand, float32) };
            self.flops += demand.products.map_or(0, |products| products.counted);
            self.kernels += 1;
            self.simulation.job(key, priority, roofline::LATENCY_NS, job);
        }
    }

    fn other(&mut self, key: TrackKey, priority: i32, duration: u64, mark: Option<Mark>) {
        self.simulation.spend(roofline::CALL_NS);
        self.simulation.job(key, priority, roofline::LATENCY_NS, Job { engine: Engine::None, share: WHOLE, duration, mark });
    }

    fn report(&self) -> Report {
        let devices = self.simulation.devices().map(|device| (device, self.simulation.busy(device))).collect();
        Report { host: self.simulation.host(), devices, flops: self.flops, kernels: self.kernels }
    }
}
