//! Environment variables, read once. They begin with the backend's [name]: `RUSTDEV_`. An invalid value is refused with the
//! variable's name and the values that it accepts.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::Error;
use super::hardware::{self, Properties};
use super::memory::arena;
use super::name::{self, variable};
use super::sync::OnceLock;

mod alloc_conf;
mod cluster;
pub(super) mod fault_list;
pub(super) mod machine;
pub mod order;
mod profiles;

use fault_list::FaultList;
use order::Order;

pub use super::hardware::MAX_DEVICES;
pub use alloc_conf::AllocConf;
pub use cluster::Cluster;
pub use profiles::{PROFILES, Profile, find as find_profile};

pub const MAX_THREADS: usize = 1024;

/// Two in the crate's own tests, which need copies between devices.
const DEFAULT_DEVICES: usize = if cfg!(test) { 2 } else { 1 };

/// The settings, which variables name behind the [prefix](name::variable).
const KNOWN: [&str; 21] = [
    "ALLOC_CONF",
    "AUTOGRAD_THREADS",
    "CLOCK",
    "CLUSTER",
    "COMPUTE",
    "DEVICE_COUNT",
    "ERRORS",
    "FALLBACK",
    "FAULTS",
    "FILL",
    "ISA",
    "LAUNCH_BLOCKING",
    "MEMORY_LIMIT",
    "NCCL",
    "NUM_THREADS",
    "PROFILE",
    "SANITIZE",
    "SCHEDULE",
    "SCHEDULE_LOG",
    "TIMEOUT",
    "VISIBLE_DEVICES",
];

/// The policy for operators without a kernel: `RUSTDEV_FALLBACK`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The operator runs on the CPU kernel.
    #[default]
    Allow = 0,
    /// The operator runs on the CPU kernel, with a warning.
    Warn = 1,
    /// The operator is refused.
    Error = 2,
}

/// What happens when a race is found: `RUSTDEV_SANITIZE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RaceMode {
    /// The report is printed to stderr, once for each pair of source lines.
    #[default]
    Warn,
    /// The call that completes the race raises.
    Error,
}

#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "settings that do not depend on each other")]
pub struct Config {
    /// `RUSTDEV_DEVICE_COUNT`, else the hardware's number, else one for each process that `torchrun` starts on the machine, else
    /// one. If `RUSTDEV_VISIBLE_DEVICES` is set, the number of devices that it lists: all devices are identical.
    pub device_count: usize,
    /// Bytes of each device: `RUSTDEV_MEMORY_LIMIT`, else the memory of `RUSTDEV_PROFILE`, else the hardware's, else, in a dry run,
    /// what the address space has room for. `None` if the devices share the machine's available memory ([`machine::budget`]).
    pub memory_limit: Option<u64>,
    /// The number of processes that share the machine: `LOCAL_WORLD_SIZE`, which `torchrun` sets.
    pub processes: u64,
    /// `RUSTDEV_NUM_THREADS` at start.
    pub num_threads: usize,
    pub launch_blocking: bool,
    pub autograd_threads: bool,
    /// `RUSTDEV_COMPUTE=none`: the process is a dry run.
    pub is_dry: bool,
    /// `RUSTDEV_CLOCK=profile`: the clock of the profile runs.
    pub is_clocked: bool,
    /// `RUSTDEV_CLUSTER`: the machine of the profile's devices.
    pub cluster: Cluster,
    /// `RUSTDEV_ERRORS=sticky`: failures of tasks stay.
    pub sticky_errors: bool,
    /// `RUSTDEV_FALLBACK` at start.
    pub fallback: Fallback,
    /// `RUSTDEV_NCCL`: what happens to ranks that call different collectives, if their calls are compared.
    pub nccl: Option<&'static str>,
    /// `RUSTDEV_FILL=nan`: new blocks hold NaN.
    pub fill_nan: bool,
    /// `RUSTDEV_SANITIZE=memory`.
    pub sanitize_memory: bool,
    /// `RUSTDEV_ISA`: the instruction set to use, one that this processor has.
    pub isa: Option<&'static str>,
    /// `RUSTDEV_PROFILE`: the GPU that the devices imitate.
    pub profile: Option<&'static Profile>,
    /// `RUSTDEV_ALLOC_CONF`, else `PYTORCH_ALLOC_CONF`.
    pub alloc_conf: AllocConf,
    /// `RUSTDEV_FAULTS`, a well-formed list.
    pub faults: Option<String>,
    pub timeout: Option<Duration>,
    /// `RUSTDEV_SCHEDULE` at start.
    pub schedule: Option<Order>,
    /// `RUSTDEV_SCHEDULE_LOG`: the file that logs the tasks in their order of execution.
    pub schedule_log: Option<String>,
    /// `RUSTDEV_SANITIZE`: what happens when a race is found; `None` if the race detector is off at start.
    pub sanitize: Option<RaceMode>,
}

static CONFIG: OnceLock<Result<Config, Error>> = OnceLock::new();

/// Reads the environment on the first call. Fails with `InvalidValue` for a malformed or unknown variable; every call returns the
/// same error.
pub fn init() -> Result<&'static Config, Error> {
    let variables = || std::env::vars_os().map(|(name, value)| (lossy(&name), lossy(&value)));
    let read = CONFIG.get_or_init(|| Config::parse(hardware::properties(), variables()));
    read.as_ref().map_err(Clone::clone)
}

/// The settings of this process. Panics if the environment is malformed; [`init`] reports that first.
#[inline]
pub fn config() -> &'static Config {
    match CONFIG.get() {
        Some(Ok(config)) => config,
        _ => init().expect("the environment was checked by init"),
    }
}

fn lossy(text: &std::ffi::OsStr) -> String {
    text.to_string_lossy().into_owned()
}

impl Config {
    /// Parses variables into settings, for the installed hardware or this processor. Fails with `InvalidValue` for the first
    /// variable that is malformed or unknown, or asks for more than the hardware has.
    pub fn parse(hardware: Option<&Properties>, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, Error> {
        let mut config =
            Self { device_count: hardware.map_or(DEFAULT_DEVICES, |hardware| hardware.devices), processes: 1, ..Self::default() };
        let (mut openmp, mut pytorch, mut limit, mut visible) = (None, None, None, None);
        let (mut own_alloc_conf, mut own_count) = (false, hardware.is_some());
        let prefix = variable("");
        for (name, value) in variables {
            let Some(setting) = name.strip_prefix(&prefix) else {
                match name.as_str() {
                    "OMP_NUM_THREADS" => openmp = value.split(',').next().and_then(|first| first.trim().parse().ok()),
                    "LOCAL_WORLD_SIZE" => config.processes = value.trim().parse::<u64>().unwrap_or(1).max(1),
                    "PYTORCH_ALLOC_CONF" => pytorch = Some(value),
                    _ => {}
                }
                continue;
            };
            match setting {
                "MEMORY_LIMIT" => {
                    config.memory_limit = Some(bytes(&name, value.trim())?);
                    limit = Some(value);
                }
                "ALLOC_CONF" => {
                    own_alloc_conf = true;
                    config.alloc_conf = AllocConf::parse(&name, &value)?;
                }
                "DEVICE_COUNT" => {
                    let most = hardware.map_or(MAX_DEVICES, |hardware| hardware.devices);
                    config.device_count = whole(&name, value.trim(), most)?;
                    own_count = true;
                }
                "VISIBLE_DEVICES" => visible = Some(value),
                _ => config.set(setting, &name, value.trim())?,
            }
        }
        if let (false, Some(value)) = (own_alloc_conf, pytorch) {
            config.alloc_conf = AllocConf::parse("PYTORCH_ALLOC_CONF", &value)?;
        }
        if !own_count {
            config.device_count = usize::try_from(config.processes).unwrap_or(MAX_DEVICES).clamp(DEFAULT_DEVICES, MAX_DEVICES);
        }
        if config.num_threads == 0 {
            let asked = openmp.filter(|count| (1..=MAX_THREADS).contains(count));
            config.num_threads = asked.unwrap_or_else(machine::cores);
        }
        if let Some(value) = visible {
            config.device_count = listed(value.trim(), config.device_count)?;
        }
        let most = hardware.map(|hardware| hardware.memory);
        match (limit, config.profile) {
            (None, None) if config.is_dry && most.is_none() => config.memory_limit = unlimited(config.device_count),
            (None, None) => config.memory_limit = most,
            (None, Some(profile)) => {
                config.memory_limit = Some(profile.memory());
                config.check_memory(most, &variable("PROFILE"), &profile.name, GPUS)?;
            }
            (Some(value), _) => config.check_memory(most, &variable("MEMORY_LIMIT"), value.trim(), BYTES)?,
        }
        if config.is_clocked && config.profile.is_none() {
            let [clock, profile] = ["CLOCK", "PROFILE"].map(variable);
            return Err(Error::InvalidValue(format!("{clock}=profile needs a profile: {profile} is not set")));
        }
        Ok(config)
    }

    /// Refuses a value that asks for more memory than the address space has room for, or than the hardware has.
    fn check_memory(&self, most: Option<u64>, name: &str, value: &str, accepts: &str) -> Result<(), Error> {
        let limit = self.memory_limit.unwrap_or_default();
        match most.filter(|most| limit > *most) {
            Some(most) => Err(refused(name, value, &format!("at most the memory of the hardware, {most} bytes"))),
            None if arena::can_reserve(limit, self.device_count) => Ok(()),
            None => Err(refused(name, value, accepts)),
        }
    }

    fn set(&mut self, setting: &str, name: &str, value: &str) -> Result<(), Error> {
        match setting {
            "NUM_THREADS" => self.num_threads = whole(name, value, MAX_THREADS)?,
            "AUTOGRAD_THREADS" => self.autograd_threads = choice(name, value, &[("0", false), ("1", true)])?,
            "LAUNCH_BLOCKING" => self.launch_blocking = choice(name, value, &[("0", false), ("1", true)])?,
            "COMPUTE" => self.is_dry = choice(name, value, &[("", false), ("none", true)])?,
            "CLUSTER" => self.cluster = Cluster::parse(name, value)?,
            "ERRORS" => self.sticky_errors = choice(name, value, &[("", false), ("sticky", true)])?,
            "FALLBACK" => {
                let modes = [("allow", Fallback::Allow), ("warn", Fallback::Warn), ("error", Fallback::Error)];
                self.fallback = choice(name, value, &modes)?;
            }
            "NCCL" => self.nccl = choice(name, value, &[("", None), ("hang", Some("hang")), ("error", Some("error"))])?,
            "PROFILE" => {
                let wrong = |reason| Error::InvalidValue(format!("{name}={value:?} is not valid: {reason}"));
                self.profile = Some(profiles::find(value).map_err(wrong)?);
            }
            "CLOCK" => self.is_clocked = choice(name, value, &[("", false), ("profile", true)])?,
            "FAULTS" => {
                FaultList::parse(value).map_err(|error| Error::InvalidValue(format!("{name}: {error}")))?;
                self.faults = Some(value.to_owned());
            }
            "TIMEOUT" => self.timeout = Some(duration(name, value)?),
            "SCHEDULE" => self.schedule = Some(value.parse().map_err(|_| refused(name, value, order::ACCEPTS))?),
            "SCHEDULE_LOG" => {
                order::open_log(value).map_err(|_| refused(name, value, "a file that can be written"))?;
                self.schedule_log = Some(value.to_owned());
            }
            "FILL" => self.fill_nan = choice(name, value, &[("", false), ("nan", true)])?,
            "SANITIZE" => {
                let mut parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.try_for_each(|part| self.set_sanitizer(name, part))?;
            }
            "ISA" => self.isa = Some(choice(name, value, &machine::instruction_sets())?),
            _ => {
                let known = KNOWN.map(variable).join(", ");
                return Err(Error::InvalidValue(format!("{name} is unknown; {} reads {known}", name::name())));
            }
        }
        Ok(())
    }

    fn set_sanitizer(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let races = [("race", RaceMode::Warn), ("race:error", RaceMode::Error)].map(|(value, mode)| (value, Some(mode)));
        match choice(name, value, &[[("memory", None)].as_slice(), &races].concat())? {
            Some(mode) => self.sanitize = Some(mode),
            None => self.sanitize_memory = true,
        }
        Ok(())
    }
}

/// The most memory that the address space has room for on each device, up to 1 TiB.
fn unlimited(devices: usize) -> Option<u64> {
    (30..=40).rev().map(|bits| 1 << bits).find(|memory| arena::can_reserve(*memory, devices))
}

fn refused(name: &str, value: &str, accepts: &str) -> Error {
    Error::InvalidValue(format!("{name}={value:?} is not valid: it accepts {accepts}"))
}

fn whole(name: &str, value: &str, most: usize) -> Result<usize, Error> {
    match value.parse() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(refused(name, value, &format!("a whole number from 1 to {most}"))),
    }
}

/// The number of devices, of `count`, that a list names.
fn listed(list: &str, count: usize) -> Result<usize, Error> {
    let mut seen = [false; MAX_DEVICES];
    // A duplicate is refused like a device that does not exist.
    let is_new = |entry: &str| match entry.trim().parse::<usize>() {
        Ok(index) if index < count => !std::mem::replace(&mut seen[index], true),
        _ => false,
    };
    if list.is_empty() || list.split(',').all(is_new) {
        return Ok(seen.into_iter().filter(|seen| *seen).count());
    }
    let most = variable("DEVICE_COUNT");
    let accepts = format!("different devices below {most} ({count}), separated by commas, or nothing to have none");
    Err(refused(&variable("VISIBLE_DEVICES"), list, &accepts))
}

fn choice<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T, Error> {
    choices.iter().find(|(accepted, _)| *accepted == value).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let (named, empty): (Vec<_>, Vec<_>) =
            choices.iter().map(|(accepted, _)| *accepted).partition(|accepted| !accepted.is_empty());
        let nothing = if empty.is_empty() { "" } else { ", or nothing" };
        refused(name, value, &format!("one of {}{nothing}", named.join(", ")))
    })
}

const GPUS: &str = "a GPU whose memory the process can reserve for each device";

/// Parses a duration: seconds, or a number with a unit.
fn duration(name: &str, value: &str) -> Result<Duration, Error> {
    let (number, unit) = match value.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (value.strip_suffix('s').unwrap_or(value), 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * unit).filter(|seconds| *seconds >= 1e-3 && *seconds < 1e9);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| refused(name, value, "a time of at least 1ms: 30s, 500ms, or seconds: 30"))
}

const BYTES: &str = "a number of bytes that the process can reserve, with K, M, G or T for the multiples of 1024: 512M, 8G";

fn bytes(name: &str, value: &str) -> Result<u64, Error> {
    let number_end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(number_end);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => Some(0),
        "K" | "KB" | "KIB" => Some(10),
        "M" | "MB" | "MIB" => Some(20),
        "G" | "GB" | "GIB" => Some(30),
        "T" | "TB" | "TIB" => Some(40),
        _ => None,
    };
    let parsed = number.parse::<u64>().ok().zip(shift).and_then(|(count, shift)| count.checked_mul(1 << shift));
    parsed.filter(|bytes| *bytes > 0).ok_or_else(|| refused(name, value, BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Config, Error> {
        parse_on(None, variables)
    }

    fn parse_on(hardware: Option<&Properties>, variables: &[(&str, &str)]) -> Result<Config, Error> {
        Config::parse(hardware, variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn each_process_of_a_launcher_has_a_device_for_every_process() {
        let count = |variables: &[(&str, &str)]| parse(variables).unwrap().device_count;
        assert_eq!(count(&[("LOCAL_WORLD_SIZE", "3")]), 3);
        assert_eq!(count(&[("LOCAL_WORLD_SIZE", "1000")]), MAX_DEVICES);
        assert_eq!(count(&[("LOCAL_WORLD_SIZE", "3"), ("RUSTDEV_DEVICE_COUNT", "2")]), 2);
        assert_eq!(count(&[("LOCAL_WORLD_SIZE", "0")]), DEFAULT_DEVICES);
    }

    #[test]
    fn openmp_gives_the_thread_count_where_ours_is_not_set() {
        assert_eq!(parse(&[("OMP_NUM_THREADS", "7,2")]).unwrap().num_threads, 7);
        let default = parse(&[]).unwrap().num_threads;
        assert_eq!(parse(&[("OMP_NUM_THREADS", "many")]).unwrap().num_threads, default);
    }

    #[test]
    fn memory_sizes_have_units() {
        let cases = [
            ("4096", 4096),
            ("4096B", 4096),
            (" 8G ", 8 << 30),
            ("2k", 2 << 10),
            ("1MiB", 1 << 20),
            ("3gb", 3 << 30),
            ("4Kib", 4 << 10),
            ("1T", 1 << 40),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&[("RUSTDEV_MEMORY_LIMIT", text)]).unwrap().memory_limit, Some(expected), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [("30s", 30_000), ("1.5s", 1_500), ("500ms", 500), ("2", 2_000)] {
            assert_eq!(parse(&[("RUSTDEV_TIMEOUT", text)]).unwrap().timeout, Some(Duration::from_millis(milliseconds)));
        }
    }

    #[test]
    fn only_a_profile_limits_a_dry_run() {
        let limit = |variables: &[(&str, &str)]| parse(&[&[("RUSTDEV_COMPUTE", "none")], variables].concat()).unwrap().memory_limit;
        assert_eq!(
            (limit(&[]), limit(&[("RUSTDEV_PROFILE", "t4-16g")])),
            (Some(1 << 40), parse(&[("RUSTDEV_PROFILE", "t4-16g")]).unwrap().memory_limit)
        );
        assert_eq!(parse(&[("RUSTDEV_COMPUTE", "")]).unwrap().memory_limit, None);
    }

    #[test]
    fn hardware_says_how_many_devices_there_are_and_their_memory() {
        let hardware = Properties { name: "board".to_owned(), devices: 3, memory: 1 << 30 };
        let on = |variables: &[(&str, &str)]| parse_on(Some(&hardware), variables);
        let config = on(&[]).unwrap();
        assert_eq!((config.device_count, config.memory_limit), (3, Some(1 << 30)));
        let less = on(&[("RUSTDEV_DEVICE_COUNT", "2"), ("RUSTDEV_MEMORY_LIMIT", "512M")]).unwrap();
        assert_eq!((less.device_count, less.memory_limit), (2, Some(512 << 20)));
        for (name, value, accepts) in [
            ("RUSTDEV_DEVICE_COUNT", "4", "1 to 3"),
            ("RUSTDEV_MEMORY_LIMIT", "2G", "1073741824 bytes"),
            ("RUSTDEV_PROFILE", "a100-80g", "1073741824 bytes"),
        ] {
            let text = on(&[(name, value)]).unwrap_err().message().to_owned();
            assert!(text.contains(name) && text.contains(accepts), "{text}");
        }
    }

    #[test]
    fn refusals_name_the_variable_and_what_it_accepts() {
        let cases = [
            ("RUSTDEV_THREADS", "2", "RUSTDEV_NUM_THREADS"),
            ("RUSTDEV_DEVICE_COUNT", "0", "1 to 64"),
            ("RUSTDEV_DEVICE_COUNT", "65", "1 to 64"),
            ("RUSTDEV_DEVICE_COUNT", "two", "1 to 64"),
            ("RUSTDEV_NUM_THREADS", "-1", "1 to 1024"),
            ("RUSTDEV_MEMORY_LIMIT", "lots", "512M, 8G"),
            ("RUSTDEV_MEMORY_LIMIT", "0", "512M, 8G"),
            ("RUSTDEV_MEMORY_LIMIT", "", "512M, 8G"),
            ("RUSTDEV_MEMORY_LIMIT", "8iB", "512M, 8G"),
            ("RUSTDEV_MEMORY_LIMIT", "8iiBB", "512M, 8G"),
            ("RUSTDEV_MEMORY_LIMIT", "8Gi", "512M, 8G"),
            ("RUSTDEV_MEMORY_LIMIT", "8 G", "512M, 8G"),
            ("RUSTDEV_MEMORY_LIMIT", "8000000T", "can reserve"),
            ("RUSTDEV_MEMORY_LIMIT", "18446744073709551615", "can reserve"),
            ("RUSTDEV_MEMORY_LIMIT", "99999999999T", "512M, 8G"),
            ("RUSTDEV_LAUNCH_BLOCKING", "yes", "0, 1"),
            ("RUSTDEV_AUTOGRAD_THREADS", "2", "0, 1"),
            ("RUSTDEV_COMPUTE", "all", "none"),
            ("RUSTDEV_FALLBACK", "maybe", "allow, warn, error"),
            ("RUSTDEV_SANITIZE", "races", "race, race:error"),
            ("RUSTDEV_ISA", "mmx", "it accepts one of"),
            ("RUSTDEV_PROFILE", "t5", "t4-16g"),
            ("RUSTDEV_PROFILE", "/no such directory/a.toml", "cannot be read"),
            ("RUSTDEV_NCCL", "wait", "hang, error"),
            ("RUSTDEV_CLOCK", "wall", "profile"),
            ("RUSTDEV_CLOCK", "profile", "RUSTDEV_PROFILE is not set"),
            ("RUSTDEV_VISIBLE_DEVICES", "2", "RUSTDEV_DEVICE_COUNT (2)"),
            ("RUSTDEV_VISIBLE_DEVICES", "0,0", "separated by commas"),
            ("RUSTDEV_VISIBLE_DEVICES", "0,", "separated by commas"),
            ("RUSTDEV_VISIBLE_DEVICES", "-1", "separated by commas"),
            ("RUSTDEV_ALLOC_CONF", "colour:red", "max_split_size_mb"),
            ("RUSTDEV_FAULTS", "oom:0", "\"oom:0\" is not valid"),
            ("RUSTDEV_TIMEOUT", "0", "30s, 500ms"),
            ("RUSTDEV_TIMEOUT", "30m", "30s, 500ms"),
            ("RUSTDEV_TIMEOUT", "inf", "30s, 500ms"),
            ("RUSTDEV_SCHEDULE", "random", "random:SEED, lazy"),
            ("RUSTDEV_SCHEDULE", "", "random:SEED, lazy"),
            ("RUSTDEV_SCHEDULE_LOG", "/no such directory/log", "a file"),
        ];
        for (name, value, accepts) in cases {
            let text = parse(&[(name, value)]).unwrap_err().message().to_owned();
            assert!(text.contains(name) && text.contains(accepts), "{text}");
        }
    }

    #[test]
    fn our_allocator_settings_come_before_pytorchs() {
        let both = [("PYTORCH_ALLOC_CONF", "max_split_size_mb:32"), ("RUSTDEV_ALLOC_CONF", "max_split_size_mb:64")];
        assert_eq!(parse(&both).unwrap().alloc_conf.max_split_size, Some(64 << 20));
        assert_eq!(parse(&both[..1]).unwrap().alloc_conf.max_split_size, Some(32 << 20));
    }
}
