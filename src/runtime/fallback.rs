//! Rules and statistics of the CPU fallback: which operators may fall back, on which devices, and how often and how long each has
//! run.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};

use super::config::{Fallback, config};
use super::error::Error;
use super::name::{self as backend, Device};
use super::sync::{AtomicU64, LazyLock, Mutex, Ordering};

/// An operator that the fallback was called for; it lives to the end of the process.
#[derive(Debug)]
pub struct FallbackOperator {
    /// The name with namespace and overload: `aten::sort.stable`.
    name: String,
    calls: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The rules, which the program may change. A list entry names one overload (`aten::sort.stable`) or all overloads (`aten::sort`).
struct Rules {
    mode: Fallback,
    /// Operators that must never fall back.
    blocked: HashSet<String>,
    /// Operators that may fall back in every mode.
    allowed: HashSet<String>,
}

static RULES: LazyLock<Mutex<Rules>> =
    LazyLock::new(|| Mutex::new(Rules { mode: config().fallback, blocked: HashSet::new(), allowed: HashSet::new() }));

static OPERATORS: LazyLock<Mutex<BTreeMap<String, &'static FallbackOperator>>> = LazyLock::new(Mutex::default);

impl Rules {
    /// Returns true if a call of the operator needs a warning.
    fn check(&self, name: &str) -> Result<bool, Error> {
        if is_listed(&self.blocked, name) {
            let list = format!("it is on the block list of the CPU fallback (torch.{}.set_fallback_blocklist).", backend::name());
            return Err(refusal(name, &list));
        }
        match self.mode {
            Fallback::Allow => Ok(false),
            _ if is_listed(&self.allowed, name) => Ok(false),
            Fallback::Warn => Ok(true),
            Fallback::Error => {
                let settings = format!("{}, torch.{}.set_fallback_mode", backend::variable("FALLBACK"), backend::name());
                Err(refusal(name, &format!("the fallback mode 'error' forbids its CPU kernel ({settings}).")))
            }
        }
    }
}

fn is_listed(list: &HashSet<String>, name: &str) -> bool {
    let all_overloads = name.split_once('.').map_or(name, |(operator, _)| operator);
    !list.is_empty() && (list.contains(name) || list.contains(all_overloads))
}

fn refusal(name: &str, reason: &str) -> Error {
    let what = format!("Could not run '{name}' with arguments from the '{}' backend", backend::name());
    Error::Unsupported(format!("{what}: it has no kernel for this device, and {reason}"))
}

impl FallbackOperator {
    /// The operator of a name; always the same object.
    pub fn find(name: &str) -> &'static Self {
        let mut operators = OPERATORS.lock();
        operators.get(name).copied().unwrap_or_else(|| {
            let made = Self { name: name.into(), calls: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) };
            let made: &'static Self = Box::leak(Box::new(made));
            operators.insert(name.into(), made);
            made
        })
    }

    /// Returns true if a call needs a warning. Fails with `Unsupported` if the rules forbid the call.
    pub fn check(&self) -> Result<bool, Error> {
        RULES.lock().check(&self.name)
    }

    /// The name with namespace and overload.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if this argument stays on the CPU even in calls on device tensors.
    pub fn takes_host(&self, argument: &str) -> bool {
        match argument {
            "batch_sizes" => true,
            "indices" => self.name.contains("index"),
            "offsets" => self.name.contains("_nested_"),
            _ => argument.contains("lengths") || argument.starts_with("nested_"),
        }
    }

    /// The device of a call with arguments on these devices, in order; `None` if there are no devices. `with_host`: one of the
    /// tensors is on the CPU. Fails with `InvalidArgument` for several devices, except for `_foreach_` operators.
    pub fn device_of(&self, devices: &[i32], with_host: bool) -> Result<Option<i32>, Error> {
        let Some(&first) = devices.first() else { return Ok(None) };
        let other = devices.iter().find(|&&device| device != first && !self.name.contains("_foreach_"));
        let Some(other) = other.map(|other| Device(other).to_string()).or(with_host.then(|| "cpu".into())) else {
            return Ok(Some(first));
        };
        let found =
            format!("found at least two devices, {} and {other}! (when checking arguments of {})", Device(first), self.name);
        Err(Error::InvalidArgument(format!("Expected all tensors to be on the same device, but {found}")))
    }

    /// Counts a call whose kernel took `nanoseconds`.
    pub fn count(&self, nanoseconds: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// The mode for all operators; initially that of `RUSTDEV_FALLBACK`.
pub fn mode() -> Fallback {
    RULES.lock().mode
}

pub fn set_mode(mode: Fallback) {
    RULES.lock().mode = mode;
}

/// The operators that may always fall back (`allow`) or that never do, unordered.
pub fn list(allow: bool) -> Vec<String> {
    let rules = RULES.lock();
    let list = if allow { &rules.allowed } else { &rules.blocked };
    list.iter().cloned().collect()
}

/// Replaces one of the two lists.
pub fn set_list(allow: bool, names: Vec<String>) {
    let mut rules = RULES.lock();
    let list = if allow { &mut rules.allowed } else { &mut rules.blocked };
    *list = names.into_iter().collect();
}

/// Every operator that fell back since the last reset: name, calls, nanoseconds in the CPU kernel.
pub fn statistics() -> Vec<(String, u64, u64)> {
    let operators = OPERATORS.lock();
    let counted = operators.values().map(|operator| {
        (operator.name.clone(), operator.calls.load(Ordering::Relaxed), operator.nanoseconds.load(Ordering::Relaxed))
    });
    counted.filter(|&(_, calls, _)| calls != 0).collect()
}

pub fn reset_statistics() {
    for operator in OPERATORS.lock().values() {
        operator.calls.store(0, Ordering::Relaxed);
        operator.nanoseconds.store(0, Ordering::Relaxed);
    }
}
