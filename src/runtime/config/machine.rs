//! Processors and memory of this process, within the limits of its container.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// Assumed if neither the system nor a container reports the memory size.
const UNKNOWN_MEMORY: u64 = 8 << 30;
/// The least budget of a process, even if less is available, so that the first few tensors fit.
const LEAST_BUDGET: u64 = 64 << 20;

/// The number of cores that this process may use, given its affinity and cgroup quotas.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(super::MAX_THREADS)
}

/// Bytes of memory that the devices of one of `processes` processes may use together: four fifths of the available memory, divided
/// by the processes, so that an allocation is refused before the system kills the process.
pub fn budget(processes: u64) -> u64 {
    (available() / 5 * 4 / processes).max(LEAST_BUDGET)
}

/// Bytes that are available now: the machine's or, if less, what the control groups allow.
fn available() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |file: &Path| fs::read_to_string(file).ok();
    let groups = control_groups(&groups).into_iter().filter_map(|(folder, files)| files.room(&folder, &read));
    groups.chain(machine).min().unwrap_or(UNKNOWN_MEMORY)
}

/// The available bytes in the text of `/proc/meminfo`.
fn available_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// The files in which a control group reports its memory.
#[derive(Debug, PartialEq)]
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    /// The lines of `memory.stat` with the bytes of the page cache, which the system reclaims when needed.
    cached: [&'static str; 2],
}

const SECOND: GroupFiles = GroupFiles { limit: "memory.max", usage: "memory.current", cached: ["inactive_file ", "active_file "] };
const FIRST: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cached: ["total_inactive_file ", "total_active_file "],
};

impl GroupFiles {
    /// The bytes that a group's limit leaves; `None` without a limit.
    fn room(&self, folder: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
        let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
        let limit = number(self.limit)?;
        let statistics = read(&folder.join("memory.stat")).unwrap_or_default();
        let of_line = |line: &str| self.cached.iter().find_map(|name| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let cached: u64 = statistics.lines().filter_map(of_line).sum();
        Some(limit.saturating_sub(number(self.usage).unwrap_or_default().saturating_sub(cached)))
    }
}

/// The folders of the control groups that may limit a process, from the text of `/proc/self/cgroup`: its own groups and their
/// ancestors.
fn control_groups(groups: &str) -> Vec<(PathBuf, &'static GroupFiles)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (root, files) = match controllers {
            "" => ("/sys/fs/cgroup", &SECOND),
            list if list.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", &FIRST),
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        found.extend(group.ancestors().map(|ancestor| (Path::new(root).join(ancestor), files)));
    }
    found
}

/// The instruction sets that this processor has and kernels are built for, as (name, name). On AArch64, which always has NEON,
/// `portable` uses it, too.
pub fn instruction_sets() -> Vec<(&'static str, &'static str)> {
    #[cfg(target_arch = "x86_64")]
    let (avx2, avx512) = (
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c"),
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq"),
    );
    #[cfg(not(target_arch = "x86_64"))]
    let (avx2, avx512) = (false, false);
    let neon = cfg!(target_arch = "aarch64");
    // A build for a single instruction set (feature `native`) contains only that one.
    let portable = !cfg!(any(only_isa = "avx2", only_isa = "avx512"));
    let avx2 = avx2 && !cfg!(any(only_isa = "portable", only_isa = "avx512"));
    let avx512 = avx512 && !cfg!(any(only_isa = "portable", only_isa = "avx2"));
    let sets = [("portable", portable), ("neon", neon), ("avx2", avx2), ("avx512", avx512)];
    sets.into_iter().filter(|(_, there)| *there).map(|(name, _)| (name, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_in_kibibytes() {
        assert_eq!(available_in("MemTotal: 32768 kB\nMemAvailable:       16384 kB\n"), Some(16384 << 10));
        assert_eq!(available_in("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn each_process_gets_its_part_of_four_fifths() {
        let (one, three) = (budget(1), budget(3));
        assert!(one <= available() + (1 << 30) && three <= one / 2, "{one} {three}");
        assert_eq!(budget(u64::MAX), LEAST_BUDGET);
    }

    #[test]
    fn both_generations_of_control_groups_are_asked_up_to_the_root() {
        let second = control_groups("0::/a/b\n");
        let expected = ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"];
        assert_eq!(second, expected.map(|folder| (PathBuf::from(folder), &SECOND)));
        let first = control_groups("4:cpu,memory:/a\n3:cpuset:/a\n");
        let expected = ["/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory/"];
        assert_eq!(first, expected.map(|folder| (PathBuf::from(folder), &FIRST)));
    }

    #[test]
    fn a_group_leaves_its_limit_less_what_is_used_and_not_cached() {
        let read = |file: &Path| {
            let text = match file.to_str()? {
                "/one/memory.max" | "/two/memory.limit_in_bytes" => "1000\n",
                "/one/memory.current" | "/two/memory.usage_in_bytes" => "700\n",
                "/one/memory.stat" => "anon 1\ninactive_file 200\nactive_file 100\nfile 9\n",
                "/two/memory.stat" => "inactive_file 5\ntotal_inactive_file 50\n",
                "/free/memory.max" => "max\n",
                "/tight/memory.max" => "10\n",
                "/tight/memory.current" => "20\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let room = |files: &GroupFiles, folder| files.room(Path::new(folder), &read);
        assert_eq!((room(&SECOND, "/one"), room(&FIRST, "/two")), (Some(600), Some(350)));
        assert_eq!((room(&SECOND, "/free"), room(&SECOND, "/tight"), room(&SECOND, "/none")), (None, Some(0), None));
    }
}
