//! Philox 4x32-10, a counter-based random number generator.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. The numbers are a function of (seed,
//! offset, index), so they do not depend on how the work is split over threads. As in CUDA's generator, `index` selects the
//! subsequence (one per element or group of four), and `offset` the position in it, in blocks of four numbers.
#![forbid(unsafe_code)]

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The four 32-bit numbers of block `offset` of subsequence `index` under `seed`. A generator's offset counts numbers, so that
/// `offset` is a quarter of it.
#[inline(always)]
pub fn block(seed: u64, offset: u64, index: u64) -> [u32; 4] {
    philox([low(offset), high(offset), low(index), high(index)], [low(seed), high(seed)])
}

/// The bijection: ten rounds over a counter of four words under a key of two words.
#[inline(always)]
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let first = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)];
    }
    counter
}

/// The seed of another generator, derived from a seed and an offset; neighbouring offsets give unrelated seeds.
pub fn derived_seed(seed: u64, offset: u64) -> u64 {
    mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(offset))
}

/// The finalizer of splitmix64.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low(value: u64) -> u32 {
    value as u32
}

#[inline(always)]
fn high(value: u64) -> u32 {
    low(value >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The known-answer tests that the paper's authors publish with Random123 (kat_vectors, philox4x32 10).
    #[test]
    fn known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        assert_eq!(philox(counter, [0xa409_3822, 0x299f_31d0]), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn words_of_seed_offset_and_index_keep_their_positions() {
        let seed = 0x299f_31d0_a409_3822;
        let answer = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
        assert_eq!(block(seed, 0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e), answer);
    }

    // The first two numbers of splitmix64 from 0 on, as its author publishes them.
    #[test]
    fn seeds_are_mixed_as_by_splitmix64() {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!([mix(step), mix(step.wrapping_mul(2))], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        assert_eq!(derived_seed(0, 4), mix(0xe220_a839_7b1d_cdaf + 4));
    }
}
