//! Injected faults: out-of-memory errors, tasks that fail, hang or write a wrong bit, slow copies, lost ranks.
//!
//! Occasions are counted when a task is submitted or memory is requested, so that they do not depend on threads. The list in force
//! at its submission applies to a task. A fault is injected by wrapping the task's work; the code that runs tasks is unaware of
//! faults. Tasks of a graph are counted at each replay.

use super::Wrapped;
use crate::runtime::config::fault_list::{Fault, FaultList, When};
use crate::runtime::error::Cause;
use crate::runtime::observers::{self, FAULTS};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::runtime::task::{DrainableStream, Lease, LeaseHolder, Task, Work};
use crate::runtime::trace::Kind;
use crate::runtime::{Error, rng};

/// The pushed lists that were not removed; the last one is in force.
static LISTS: Mutex<Vec<Arc<Injection>>> = Mutex::new(Vec::new());
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The streams that are at a hanging task.
static HANGING: Mutex<Vec<(&'static dyn DrainableStream, Lease)>> = Mutex::new(Vec::new());

/// A list with the occasion counts of its faults.
struct Injection {
    number: u64,
    list: FaultList,
    occasions: Vec<AtomicU64>,
}

/// An occurrence of a fault, with a description for the user.
struct Strike {
    text: String,
    random: u64,
}

/// Puts a list in force instead of the previous one; returns its number. Fails with `InvalidValue` for a malformed list.
pub fn push(text: &str) -> Result<u64, Error> {
    let list = FaultList::parse(text).map_err(Error::InvalidValue)?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let occasions = list.faults.iter().map(|_| AtomicU64::new(0)).collect();
    let mut lists = LISTS.lock();
    lists.push(Arc::new(Injection { number, list, occasions }));
    observers::set(FAULTS, true);
    Ok(number)
}

/// Removes a list. If it was in force, the previous one is again.
pub fn remove(number: u64) {
    let mut lists = LISTS.lock();
    lists.retain(|list| list.number != number);
    observers::set(FAULTS, !lists.is_empty());
}

fn in_force() -> Option<Arc<Injection>> {
    if observers::has(FAULTS) { LISTS.lock().last().cloned() } else { None }
}

impl Injection {
    /// Counts an occasion for each matching fault; returns those that occur now.
    fn strikes(&self, concerns: impl Fn(&Fault) -> bool) -> Vec<(&Fault, Strike)> {
        let faults = self.list.faults.iter().enumerate().filter(|(_, (fault, ..))| concerns(fault));
        faults.filter_map(|(index, (fault, when, text))| Some((fault, self.strike(index, *when, text)?))).collect()
    }

    fn strike(&self, index: usize, when: When, text: &str) -> Option<Strike> {
        let occasion = self.occasions[index].fetch_add(1, Ordering::Relaxed) + 1;
        let [first, second, third, _] = rng::block(self.list.seed, occasion, index as u64).map(u64::from);
        let (happens, seed) = match when {
            When::Run(count) => (count == occasion, String::new()),
            When::From(count) => (count <= occasion, String::new()),
            When::Chance(chance) => ((first as f64) < chance * 2f64.powi(32), format!(", seed={}", self.list.seed)),
            When::Always => (true, String::new()),
        };
        happens.then(|| Strike { text: format!("injected by {text}{seed}"), random: second << 32 | third })
    }
}

/// Counts a request for device memory; returns the reason if it must be refused.
pub(in crate::runtime) fn shortage() -> Option<String> {
    let strikes = in_force()?;
    let strikes = strikes.strikes(|fault| *fault == Fault::Shortage);
    strikes.into_iter().next().map(|(_, strike)| strike.text)
}

/// Counts a collective of a rank in this process. If the rank is lost, returns true if its process ends, false if it no longer takes
/// part in collectives, with a text for the user.
pub fn loss(rank: u64) -> Option<(bool, String)> {
    let list = in_force()?;
    let strikes = list.strikes(|fault| matches!(fault, Fault::Silence(other) | Fault::Exit(other) if *other == rank));
    strikes.into_iter().next().map(|(fault, strike)| (matches!(fault, Fault::Exit(_)), strike.text))
}

/// Counts a task that is being submitted; returns the task with its faults.
pub(in crate::runtime) fn arm(stream: &'static Stream, mut task: Task) -> Result<Task, Error> {
    let Some(list) = in_force().filter(|_| task.has_work()) else { return Ok(task) };
    let (name, copies) = (task.name(), is_host_copy(&task));
    for (fault, strike) in list.strikes(|fault| concerns(fault, name, copies)) {
        task = match fault {
            Fault::Delay(duration) => {
                stream.enqueue(Task::sleep(*duration), false)?;
                task
            }
            Fault::Failure(_) => {
                task.with_work(|work| Wrapped { work, run: move |_: &mut dyn Work| Err(strike.text.clone().into()) })
            }
            Fault::BitFlip(_) if observers::is_dry() => task,
            Fault::BitFlip(_) => task.with_work(|work| Wrapped {
                work,
                run: move |work: &mut dyn Work| work.run().inspect(|()| work.flip_bit(strike.random)),
            }),
            Fault::Hang(_) => Task::leave(name, Arc::new(Hang { _task: Mutex::new(task) })),
            Fault::Shortage | Fault::Silence(_) | Fault::Exit(_) => task,
        };
    }
    Ok(task)
}

fn concerns(fault: &Fault, name: &str, copies: bool) -> bool {
    match fault {
        Fault::Shortage | Fault::Silence(_) | Fault::Exit(_) => false,
        Fault::Delay(_) => copies,
        Fault::BitFlip(None) => true,
        Fault::Failure(other) | Fault::Hang(other) | Fault::BitFlip(Some(other)) => other == name,
    }
}

fn is_host_copy(task: &Task) -> bool {
    task.about().is_some_and(|about| matches!(about.kind, Kind::Copy(from, to) if from.is_host() || to.is_host()))
}

/// Runs the work of a graph's task, which is counted here.
pub(in crate::runtime) fn run_node(name: &str, work: &mut dyn Work) -> Result<(), Cause> {
    let Some(list) = in_force() else { return work.run() };
    let is_meant = |fault: &Fault| matches!(fault, Fault::Failure(_) | Fault::BitFlip(_)) && concerns(fault, name, false);
    let strikes = list.strikes(is_meant);
    if let Some((_, strike)) = strikes.iter().find(|(fault, _)| matches!(fault, Fault::Failure(_))) {
        return Err(strike.text.clone().into());
    }
    work.run()?;
    for (_, strike) in strikes {
        work.flip_bit(strike.random);
    }
    Ok(())
}

/// A hanging task: its stream waits until [`end_hang`]. The original task is dropped then.
struct Hang {
    _task: Mutex<Task>,
}

impl LeaseHolder for Hang {
    fn is_over(&self) -> bool {
        false
    }

    fn keep(&self, stream: &'static dyn DrainableStream, lease: Lease) {
        if stream.skips() {
            return stream.go_on(lease, None);
        }
        HANGING.lock().push((stream, lease));
    }
}

/// Ends the task at which a stream hangs, with a failure; `false` if it does not hang.
pub(in crate::runtime) fn end_hang(stream: &'static Stream, text: &str) -> bool {
    let hanging = {
        let mut hanging = HANGING.lock();
        let position = hanging.iter().position(|(other, _)| std::ptr::addr_eq(*other, stream));
        position.map(|position| hanging.swap_remove(position))
    };
    hanging.map(|(stream, lease)| stream.go_on(lease, Some(&text))).is_some()
}
