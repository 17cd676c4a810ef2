//! Processors and memory of this process: the machine's, or the container's limits.
#![forbid(unsafe_code)]

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// Where neither the system nor a container says how much memory there is.
const UNKNOWN_MEMORY: u64 = 8 << 30;

/// The cores that this process may use: affinity and cgroup quotas counted.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(super::MAX_THREADS)
}

/// Bytes of memory: the machine's, or the cgroup's limit where that is less.
pub fn memory() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.chain(machine).min().unwrap_or(UNKNOWN_MEMORY)
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// The files that may limit a process of these control groups (the text of `/proc/self/cgroup`), its own group's and its parents'.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|ancestor| Path::new(root).join(ancestor).join(file)));
    }
    files
}

/// The instruction sets of this processor that kernels are built for, as (name, name). NEON, which every AArch64 has, is `portable` there.
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
    // A build for one processor has one of them (feature `native`).
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
    fn total_memory_is_in_kibibytes() {
        assert_eq!(meminfo_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16384 << 10));
        assert_eq!(meminfo_total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn both_generations_of_control_groups_are_asked_up_to_the_root() {
        let second = limit_files("0::/a/b\n");
        let expected = ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(second, expected.map(PathBuf::from));
        let first = limit_files("4:cpu,memory:/a\n3:cpuset:/a\n");
        let expected = ["/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        assert_eq!(first, expected.map(PathBuf::from));
    }
}
