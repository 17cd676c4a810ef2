//! The list of faults in `RUSTDEV_FAULTS` and `inject_faults`.

use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ACCEPTS: &str = "oom:N, oom:p=P, kernel:NAME:N, kernel:NAME:p=P, hang:NAME, hang:NAME:N, copy:MILLISECONDS, bitflip:NAME:N, \
    bitflip:p=P, peer:RANK:N, exit:RANK:N and seed=S, separated by commas; N counts from 1, RANK from 0, P lies between 0 and 1";

/// The longest delay of copies in milliseconds: a day.
const LONGEST: f64 = 86_400_000.0;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A request for device memory fails.
    Shortage,
    /// The task of that name fails.
    Failure(String),
    /// The task of that name never ends.
    Hang(String),
    /// Copies between host and device take longer.
    Delay(Duration),
    /// A bit of the output of the task of that name is flipped; without a name, of any task.
    BitFlip(Option<String>),
    /// The process of that rank no longer takes part in collectives.
    Silence(u64),
    /// The process of that rank exits in a collective.
    Exit(u64),
}

/// At which occasions a fault happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// At the occasion of that number, counted from 1.
    Run(u64),
    /// At the occasion of that number and all later ones.
    From(u64),
    /// At each occasion with that probability.
    Chance(f64),
    Always,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FaultList {
    /// The faults, each with its source text.
    pub faults: Vec<(Fault, When, String)>,
    pub seed: u64,
}

impl FaultList {
    /// Parses a list. Fails with a text that names the malformed part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut list = Self { faults: Vec::new(), seed: any_seed() };
        for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            list.add(part).ok_or_else(|| format!("the part {part:?} is not valid: it accepts {ACCEPTS}"))?;
        }
        Ok(list)
    }

    fn add(&mut self, part: &str) -> Option<()> {
        if let Some(seed) = part.strip_prefix("seed=") {
            self.seed = seed.parse().ok()?;
            return Some(());
        }
        let (fault, when) = one(part)?;
        self.faults.push((fault, when, part.to_owned()));
        Some(())
    }
}

fn one(part: &str) -> Option<(Fault, When)> {
    let (kind, rest) = part.split_once(':')?;
    match kind {
        "oom" => Some((Fault::Shortage, occasion(rest)?)),
        "kernel" => named(rest).map(|(name, when)| (Fault::Failure(name), when)),
        "hang" => named(rest).or_else(|| Some((task_name(rest)?, When::Run(1)))).map(|(name, when)| (Fault::Hang(name), when)),
        "copy" => Some((Fault::Delay(milliseconds(rest)?), When::Always)),
        "bitflip" if rest.starts_with("p=") => Some((Fault::BitFlip(None), occasion(rest)?)),
        "bitflip" => named(rest).map(|(name, when)| (Fault::BitFlip(Some(name)), when)),
        "peer" => ranked(rest).map(|(rank, count)| (Fault::Silence(rank), When::From(count))),
        "exit" => ranked(rest).map(|(rank, count)| (Fault::Exit(rank), When::Run(count))),
        _ => None,
    }
}

/// Parses a task name and, after the last colon, an occasion.
fn named(text: &str) -> Option<(String, When)> {
    let (name, when) = text.rsplit_once(':')?;
    Some((task_name(name)?, occasion(when)?))
}

/// A task name, in which colons occur only in pairs.
fn task_name(text: &str) -> Option<String> {
    let is_name = !text.is_empty() && !text.replace("::", "").contains(':');
    is_name.then(|| text.to_owned())
}

fn occasion(text: &str) -> Option<When> {
    match text.strip_prefix("p=") {
        Some(chance) => chance.parse().ok().filter(|chance| (0.0..=1.0).contains(chance)).map(When::Chance),
        None => count(text).map(When::Run),
    }
}

fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|count| *count > 0)
}

/// Parses a rank and an occasion number.
fn ranked(text: &str) -> Option<(u64, u64)> {
    let (rank, occasion) = text.split_once(':')?;
    Some((rank.parse().ok()?, count(occasion)?))
}

fn milliseconds(text: &str) -> Option<Duration> {
    let count: f64 = text.parse().ok()?;
    (0.0..=LONGEST).contains(&count).then(|| Duration::from_secs_f64(count / 1e3))
}

/// A seed that differs from call to call.
fn any_seed() -> u64 {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    (nanoseconds ^ u64::from(process::id()) << 32) % 1_000_000_007
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_read() {
        let list = FaultList::parse(
            "oom:3, kernel:aten::lu:p=0.5,hang:add,hang:compiled::f:2,copy:1.5,bitflip:mm:4,bitflip:p=1,seed=7,peer:1:3,exit:0:1",
        );
        let list = list.unwrap();
        let faults: Vec<_> = list.faults.iter().map(|(fault, when, _)| (fault.clone(), *when)).collect();
        let expected = [
            (Fault::Shortage, When::Run(3)),
            (Fault::Failure("aten::lu".to_owned()), When::Chance(0.5)),
            (Fault::Hang("add".to_owned()), When::Run(1)),
            (Fault::Hang("compiled::f".to_owned()), When::Run(2)),
            (Fault::Delay(Duration::from_micros(1500)), When::Always),
            (Fault::BitFlip(Some("mm".to_owned())), When::Run(4)),
            (Fault::BitFlip(None), When::Chance(1.0)),
            (Fault::Silence(1), When::From(3)),
            (Fault::Exit(0), When::Run(1)),
        ];
        assert_eq!((faults.as_slice(), list.seed), (&expected[..], 7));
        assert!(FaultList::parse("").unwrap().faults.is_empty());
    }

    #[test]
    fn what_is_malformed_is_named() {
        for part in [
            "oom",
            "oom:",
            "oom:0",
            "oom:-1",
            "oom:p=2",
            "oom:p=nan",
            "kernel:add",
            "kernel::1",
            "kernel:add:0",
            "hang:",
            "hang:a:b",
            "copy:",
            "copy:-1",
            "copy:soon",
            "bitflip:mm",
            "bitflip:p=x",
            "peer:1",
            "peer:-1:1",
            "peer:1:0",
            "exit:1:p=0.5",
            "seed=x",
            "fire:1",
            "",
        ] {
            let text = FaultList::parse(&format!("oom:1,{part}")).unwrap_err();
            assert!(text.contains(&format!("{part:?}")) && text.contains("kernel:NAME:N"), "{text}");
        }
    }
}
