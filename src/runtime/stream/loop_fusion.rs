//! Loop fusion: successive kernels over the same row of elements run as one loop, piece by piece.
//!
//! Kernels over large tensors are bound by memory bandwidth. If the tasks at the head of a stream are [`Row`]s over equal rows, a
//! thread runs all of them on one piece while the piece is in its cache. The submitter is usually still submitting the next calls,
//! so the stream looks for more tasks after every round. A task that joins late first catches up over the part that is done.
//!
//! The nodes of a graph are known in advance: [`members`] finds those to fuse once, and [`run_all`] runs them at each replay.
//!
//! Fusion preserves the results of stream order: a piece of a later task runs after the same piece of an earlier one, and
//! [`Memory`] admits a task only if no piece accesses what a different piece of a member writes.
//!
//! A trace shows fused tasks one after another, each with its share of the time, in proportion to the costs ([`divide`]).

use std::ops::Range;
use std::sync::OnceLock;

use super::{Stream, Until};
use crate::runtime::error::Cause;
use crate::runtime::parallel_for;
use crate::runtime::sync::Ordering;
use crate::runtime::task::{Lease, Row, Span, Task};
use crate::runtime::trace::{self, Mark};
use crate::tuning::caches::FUSED_PIECE;
use crate::tuning::sharing::{FUSION_ROUND, MAX_FUSED_TASKS};

impl Stream {
    /// Runs the kernel at the head, which is a row, fused with the tasks after it. Returns how many tasks are done; the queue is
    /// not updated yet.
    pub(super) fn run_fused(&'static self, lease: &mut Lease, until: Until) -> usize {
        let most = match until {
            Until::Done(target) => {
                usize::try_from(target.saturating_sub(self.completed())).unwrap_or(MAX_FUSED_TASKS).clamp(1, MAX_FUSED_TASKS)
            }
            Until::Share | Until::Kernel => MAX_FUSED_TASKS,
        };
        let mut memory = Memory::default();
        let head = lease.waiting().iter().flatten().next().and_then(Task::row);
        let Some(ends) = head.filter(|row| memory.admit(*row)).and_then(Row::ends) else {
            lease.head().into_iter().for_each(|task| self.run_task(task));
            return 1;
        };
        let total = ends.last().copied().unwrap_or(0);
        let (mut members, mut done, mut round) = (1, 0, FUSION_ROUND);
        let mut shares = [0; MAX_FUSED_TASKS];
        while done < total {
            lease.look();
            let tasks = &lease.waiting()[..most.min(lease.waiting().len())];
            let fuses = |task: &&Task| task.row().is_some_and(|row| row.ends().as_ref() == Some(&ends) && memory.admit(row));
            let joined = members + tasks[members..].iter().flatten().take_while(fuses).count();
            self.run_pieces(&tasks[members..joined], &ends, 0..done, &mut shares[members..joined]);
            round = if joined > members { FUSION_ROUND } else { round };
            members = joined;
            // Tasks after one that cannot be fused must not join.
            let is_complete = members < tasks.len() || members == most;
            let next = if is_complete { total } else { total.min(done + round) };
            self.run_pieces(&tasks[..members], &ends, done..next, &mut shares[..members]);
            (done, round) = (next, 2 * round);
        }
        let tasks = &lease.waiting()[..members];
        if is_marked(tasks) {
            tell(&shares[..members], |number| tasks[number].as_ref()?.mark.clone());
        }
        members
    }

    /// Runs a part of the row through the tasks. `shares`: receives the time of each.
    fn run_pieces(&'static self, tasks: &[Option<Task>], ends: &[usize], range: Range<usize>, shares: &mut [u64]) {
        let Some(first) = tasks.iter().flatten().next() else { return };
        let mut failure = None;
        let begin = (!range.is_empty() && !self.failed.load(Ordering::Relaxed) && is_marked(tasks)).then(trace::now);
        self.run(first.name(), None, || {
            failure = run_fused(tasks.iter().flatten(), ends, range).err();
            Ok(())
        });
        if let Some(begin) = begin {
            let costs = tasks.iter().map(|task| task.as_ref().map_or(0, Task::cost));
            divide(trace::now().saturating_sub(begin), costs, shares);
        }
        // A panic is reported under the name of the first task.
        let (number, cause) = failure.map_or((0, None), |(number, cause)| (number, Some(cause)));
        let Some(culprit) = tasks.iter().flatten().nth(number) else { return };
        if let Some(cause) = cause {
            self.poison(culprit.name(), &cause);
        }
        if let Some(mark) = culprit.mark.as_ref().filter(|_| begin.is_some() && self.failed.load(Ordering::Relaxed)) {
            mark.fail();
        }
    }
}

fn is_marked(tasks: &[Option<Task>]) -> bool {
    tasks.iter().flatten().any(|task| task.mark.is_some())
}

/// Adds a time to `shares` in proportion to the tasks' costs, at least 1 ns each.
fn divide(time: u64, costs: impl Iterator<Item = u64> + Clone, shares: &mut [u64]) {
    let total = costs.clone().sum::<u64>() as f64;
    for (share, cost) in shares.iter_mut().zip(costs) {
        *share += ((time as f64 * cost as f64 / total.max(1.0)) as u64).max(1);
    }
}

/// Writes the times of fused tasks, which have just ended, into the trace, one after another and ending now. No task begins before
/// its submission, because tasks that joined later took no time before that. `shares`: the time of each in nanoseconds; 0 for a task
/// that did not run.
fn tell(shares: &[u64], mark: impl Fn(usize) -> Option<Mark>) {
    let mut end = trace::now();
    for (number, share) in shares.iter().enumerate().rev() {
        let begin = end.saturating_sub(*share);
        if let Some(mark) = Some(number).filter(|_| *share > 0).and_then(&mark) {
            mark.share(begin, end, shares.len());
        }
        end = begin;
    }
}

/// Runs a part of the row through the tasks; returns the first failure with the number of its task.
fn run_fused<'a>(tasks: impl Iterator<Item = &'a Task> + Clone, ends: &[usize], range: Range<usize>) -> Result<(), (usize, Cause)> {
    let total = ends.last().copied().unwrap_or(0).max(1);
    let cost: u64 = tasks.clone().map(Task::cost).sum();
    let cost = (cost as f64 * range.len() as f64 / total as f64) as u64;
    let rows: Vec<_> = tasks.filter_map(Task::row).collect();
    let failure = OnceLock::new();
    parallel_for::parallel_for(range.len().div_ceil(FUSED_PIECE), cost, &|piece| {
        let begin = range.start + piece * FUSED_PIECE;
        let piece = begin..range.end.min(begin + FUSED_PIECE);
        for (number, row) in rows.iter().enumerate() {
            if failure.get().is_some() {
                return;
            }
            if let Err(cause) = row.run_piece(ends, piece.clone()) {
                // Only the first failure is kept.
                let _ = failure.set((number, cause));
            }
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// How many tasks at the start of the iterator can be fused, and the ends of the tensors in their row; `None` if fewer than two.
pub(in crate::runtime) fn members<'a>(mut tasks: impl Iterator<Item = &'a Task>) -> Option<(usize, Vec<usize>)> {
    let mut memory = Memory::default();
    let head = tasks.next().and_then(Task::row);
    let ends = head.filter(|row| memory.admit(*row)).and_then(Row::ends)?;
    let fuses = |task: &&Task| task.row().is_some_and(|row| row.ends().as_ref() == Some(&ends) && memory.admit(row));
    let count = 1 + tasks.take(MAX_FUSED_TASKS - 1).take_while(fuses).count();
    (count > 1).then_some((count, ends))
}

/// Runs tasks that [`members`] found. `mark`: makes the mark of each task from its number, if a trace is recording. Fails with the
/// number of the first task that fails, and the cause.
pub(in crate::runtime) fn run_all(
    tasks: &[Task],
    ends: &[usize],
    mark: Option<impl Fn(usize) -> Mark>,
) -> Result<(), (usize, Cause)> {
    let begin = mark.as_ref().map_or(0, |_| trace::now());
    let outcome = run_fused(tasks.iter(), ends, 0..ends.last().copied().unwrap_or(0));
    if let Some(mark) = mark {
        let mut shares = [0; MAX_FUSED_TASKS];
        divide(trace::now().saturating_sub(begin), tasks.iter().map(Task::cost), &mut shares);
        tell(&shares[..tasks.len()], |number| Some(mark(number)));
        if let Err((number, _)) = &outcome {
            mark(*number).fail();
        }
    }
    outcome
}

#[derive(Default)]
struct Memory {
    /// Sorted; spans that differ only in `write` are merged.
    spans: Vec<Span>,
}

impl Memory {
    /// Adds a task's memory, unless one of its pieces would access what a different piece of some task writes.
    ///
    /// Overlapping spans must be the same elements of the same tensor of the row, unless nothing is written there: then a piece
    /// shares elements only with the same piece of other tasks.
    fn admit(&mut self, row: &dyn Row) -> bool {
        let mut spans = self.spans.clone();
        row.spans(&mut |span| spans.push(span));
        // A stable sort, which is fast because the spans are nearly sorted.
        spans.sort();
        spans.dedup_by(|later, kept| {
            let is_same = Span { write: false, ..*later } == Span { write: false, ..*kept };
            if is_same {
                kept.write |= later.write;
            }
            is_same
        });
        let is_apart = are_apart(&spans);
        if is_apart {
            self.spans = spans;
        }
        is_apart
    }
}

/// True if no overlap of two spans is written. `spans`: sorted, without duplicates.
fn are_apart(spans: &[Span]) -> bool {
    // The ends of all previous spans and of the written ones.
    let (mut reach, mut written) = (0, 0);
    spans.iter().all(|span| {
        let is_apart = span.begin >= written && !(span.write && (span.begin < reach || span.entry.is_none()));
        reach = reach.max(span.end);
        written = if span.write { written.max(span.end) } else { written };
        is_apart
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_elements_may_be_written_and_met() {
        let span = |begin, end, entry, write| Span { begin, end, entry: Some(entry), size: 4, write };
        assert!(are_apart(&[span(0, 16, 0, true), span(16, 32, 1, true)]));
        assert!(are_apart(&[span(0, 16, 0, false), span(0, 32, 1, false)]), "nothing is written");
        assert!(!are_apart(&[span(0, 16, 0, false), span(0, 16, 1, true)]), "another entry reads it");
        assert!(!are_apart(&[span(0, 16, 0, true), span(8, 24, 0, false)]), "other elements of the entry");
        assert!(!are_apart(&[span(0, 64, 0, false), span(8, 16, 0, false), span(20, 24, 0, true)]), "behind a short one");
        assert!(!are_apart(&[span(0, 64, 0, true), span(8, 16, 0, false), span(20, 24, 0, false)]), "inside of a long one");
        let shared = Span { entry: None, ..span(0, 4, 0, true) };
        assert!(!are_apart(&[shared]), "every piece would write it");
    }
}
