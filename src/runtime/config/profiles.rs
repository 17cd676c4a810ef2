//! GPUs that the devices can imitate.
#![forbid(unsafe_code)]

const GIB: u64 = 1 << 30;

/// The properties of a GPU that programs query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name that `RUSTDEV_PROFILE` accepts.
    pub name: &'static str,
    /// The name that the GPU reports.
    pub gpu: &'static str,
    /// The compute capability.
    pub capability: (u32, u32),
    /// The memory in bytes.
    pub memory: u64,
}

const fn profile(name: &'static str, gpu: &'static str, capability: (u32, u32), gibibytes: u64) -> Profile {
    Profile { name, gpu, capability, memory: gibibytes * GIB }
}

pub static PROFILES: [Profile; 7] = [
    profile("t4-16g", "Tesla T4", (7, 5), 16),
    profile("v100-16g", "Tesla V100-SXM2-16GB", (7, 0), 16),
    profile("a100-40g", "NVIDIA A100-SXM4-40GB", (8, 0), 40),
    profile("a100-80g", "NVIDIA A100-SXM4-80GB", (8, 0), 80),
    profile("l4-24g", "NVIDIA L4", (8, 9), 24),
    profile("rtx4090-24g", "NVIDIA GeForce RTX 4090", (8, 9), 24),
    profile("h100-80g", "NVIDIA H100 80GB HBM3", (9, 0), 80),
];

/// All profiles by name, in the form that `choice` takes.
pub fn by_name() -> [(&'static str, &'static Profile); 7] {
    PROFILES.each_ref().map(|profile| (profile.name, profile))
}
