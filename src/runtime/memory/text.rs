//! Texts for users: formatted sizes, and the message of an out-of-memory error.

#![forbid(unsafe_code)]

use super::super::name::{name, variable};
use super::caching_pool::{Refusal, Settings};
use super::label::Label;
use super::observe::Shortage;

/// Formats a number of bytes as PyTorch does.
pub fn size(bytes: usize) -> String {
    let scaled = |shift: u32, unit: &str| format!("{:.2} {unit}", bytes as f64 / (1_u64 << shift) as f64);
    match bytes {
        0..=0x400 => format!("{bytes} bytes"),
        0x401..=0x10_0000 => scaled(10, "KiB"),
        0x10_0001..=0x4000_0000 => scaled(20, "MiB"),
        _ => scaled(30, "GiB"),
    }
}

/// The most labelled blocks that an out-of-memory error names.
pub const LABELS: usize = 3;

/// The text of an out-of-memory error. `largest`: the largest labelled blocks.
pub fn out_of_memory(shortage: &Shortage, settings: &Settings, refusal: Refusal, largest: &[(Label, usize)]) -> String {
    let Shortage { device, asked, total, free, allocated, reserved } = *shortage;
    let cached = reserved.saturating_sub(allocated);
    let mut text = format!(
        "{} out of memory. Tried to allocate {}. Device {device} has a total capacity of {}, of which {} is free. {} is allocated, \
         and {} is reserved but unallocated.",
        name(),
        size(asked),
        size(total),
        size(free),
        size(allocated),
        size(cached),
    );
    let elsewhere = total.saturating_sub(free + reserved);
    if elsewhere > 0 {
        text.extend([
            " Other devices have reserved ",
            &size(elsewhere),
            &format!(" of the capacity, which all share ({}).", variable("MEMORY_LIMIT")),
        ]);
    }
    if settings.fraction < 1.0 {
        let allowed = size(settings.limit());
        text.extend([" This process may use ", &allowed, " of the capacity (set_per_process_memory_fraction)."]);
    }
    if refusal == Refusal::Machine {
        text.extend([" The machine itself refused the memory: ", &variable("MEMORY_LIMIT"), " may be set too high for it."]);
    } else if cached > allocated / 4 && cached >= asked {
        text.extend([" The free memory is fragmented: max_split_size_mb in ", &variable("ALLOC_CONF"), " may help."]);
    }
    if !largest.is_empty() {
        let names: Vec<_> = largest.iter().map(|(label, bytes)| format!("{label:?} ({})", size(*bytes))).collect();
        text.extend([" The largest labelled blocks: ", &names.join(", "), "."]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_pytorch_writes_them() {
        let cases = [(0, "0 bytes"), (1024, "1024 bytes"), (1536, "1.50 KiB"), (20 << 20, "20.00 MiB"), (3 << 30, "3.00 GiB")];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }
}
