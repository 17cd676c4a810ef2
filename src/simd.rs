//! Instruction sets: detection and dispatch ([`vectorize`]), vector math.
//!
//! A loop that should use the vector unit is a [`Leaf`]: a struct with the loop's inputs and an `#[inline(always)]` body.
//! [`vectorize`] compiles that body once per instruction set and runs the best one. Everything that the body calls must be
//! `#[inline(always)]` too and must not be passed in as a closure, or it is compiled for the baseline. Parallel outside, SIMD
//! inside: fork first, then vectorise each chunk.

pub mod convert;
pub mod float_to_int;
pub mod halves;
pub mod math;
pub mod nontemporal;
#[cfg(target_arch = "x86_64")]
pub mod register_transpose;
pub mod scalar_convert;

use crate::runtime::name::variable;
use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// The instructions of every processor of the architecture: SSE2 on x86-64, NEON on AArch64.
    Portable = 1,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2 = 2,
    /// x86-64 with AVX-512 F, BW, VL and DQ.
    Avx512 = 3,
}

impl Isa {
    /// All instruction sets, the weakest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The instruction set with this name, as `RUSTDEV_ISA` spells it; `portable` is a name on every architecture.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "portable" { Some(Self::Portable) } else { Self::ALL.into_iter().find(|isa| isa.name() == name) }
    }

    /// The name, as `RUSTDEV_ISA` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable if cfg!(target_arch = "aarch64") => "neon",
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// True if leaves are compiled for it and this machine has it.
    pub fn is_available(self) -> bool {
        self <= detect() && ONLY.is_none_or(|only| self == only)
    }
}

/// The only instruction set that leaves are compiled for, if the build has the feature `native`.
pub const ONLY: Option<Isa> = if cfg!(only_isa = "avx512") {
    Some(Isa::Avx512)
} else if cfg!(only_isa = "avx2") {
    Some(Isa::Avx2)
} else if cfg!(only_isa = "portable") {
    Some(Isa::Portable)
} else {
    None
};

/// 0 until the first use, then the current `Isa`. Racing first uses store the same value.
static CURRENT: AtomicU8 = AtomicU8::new(0);

/// The current instruction set: the best one of this machine, or the one that `RUSTDEV_ISA` names if the machine has it.
#[inline]
pub fn isa() -> Isa {
    if let Some(only) = ONLY {
        return only;
    }
    match CURRENT.load(Ordering::Relaxed) {
        3 => Isa::Avx512,
        2 => Isa::Avx2,
        1 => Isa::Portable,
        _ => first_use(),
    }
}

#[cold]
fn first_use() -> Isa {
    let isa = best_allowed();
    CURRENT.store(isa as u8, Ordering::Relaxed);
    isa
}

/// Checks that this machine runs the code that leaves are compiled to.
///
/// # Errors
/// A message for the user, if the build is for another processor.
pub fn check() -> Result<(), String> {
    match ONLY {
        Some(only) if only > detect() => Err(format!(
            "rustdev was built for processors with {} alone, and this one has {}: build it here, or for all processors (make wheel)",
            only.name(),
            detect().name()
        )),
        _ => Ok(()),
    }
}

/// The best instruction set of this machine up to the one that `RUSTDEV_ISA` names.
fn best_allowed() -> Isa {
    let best = detect();
    let forced = std::env::var(variable("ISA")).ok().and_then(|name| Isa::from_name(&name));
    forced.map_or(best, |isa| isa.min(best))
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Portable
}

/// True if the processor has AVX-512 with products of bfloat16, and `RUSTDEV_ISA` allows it.
#[cfg(target_arch = "x86_64")]
pub fn has_bfloat16_products() -> bool {
    isa() == Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
}

#[cfg(target_arch = "aarch64")]
pub fn has_bfloat16_products() -> bool {
    std::arch::is_aarch64_feature_detected!("bf16")
}

/// True if the processor has products of bfloat16; unknown on other architectures.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn has_bfloat16_products() -> bool {
    false
}

/// True if the processor has AVX-512 and AMX with products of float16, and `RUSTDEV_ISA` allows it.
#[cfg(target_arch = "x86_64")]
pub fn has_float16_tiles() -> bool {
    const AMX_FP16: u32 = 1 << 21;
    isa() == Isa::Avx512 && std::arch::x86_64::__cpuid_count(7, 1).eax & AMX_FP16 != 0
}

/// True if the processor has AMX with products of float16.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_float16_tiles() -> bool {
    false
}

/// True if the processor is Intel's, on which libraries base their choice of code.
#[cfg(target_arch = "x86_64")]
pub fn is_intel() -> bool {
    static ANSWER: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ANSWER.get_or_init(|| {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
    })
}

/// True if the processor is Intel's.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_intel() -> bool {
    false
}

/// A loop to compile for every instruction set.
pub trait Leaf {
    /// The result of the loop.
    type Output;
    /// The loop; mark it `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

/// Runs `leaf`, compiled for the current instruction set.
#[inline]
pub fn vectorize<L: Leaf>(leaf: L) -> L::Output {
    match isa() {
        // SAFETY: `isa` is at most what `detect` found on this machine, or `ONLY`, which `check` has compared with it.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(leaf) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(leaf) },
        _ => leaf.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512dq")]
#[inline]
fn run_avx512<L: Leaf>(leaf: L) -> L::Output {
    leaf.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
fn run_avx2<L: Leaf>(leaf: L) -> L::Output {
    leaf.run()
}

/// A type for each of the two values, by which a leaf's type depends on its constant.
pub struct Flag<const SET: bool>;

/// Declares functions whose bodies are compiled for every instruction set: each calls [`vectorize`] with a [`Leaf`] of its
/// arguments.
///
/// `fn name<Type: Bound; CONSTANT: usize>(arguments) { body }`; a constant may be a `bool` too. The types of arguments have no
/// named lifetimes, and each type and constant has a bound.
macro_rules! leaf {
    ($(
        $(#[$attribute:meta])*
        $vis:vis fn $name:ident$(<$($type:ident: $bound:path),* $(; $($constant:ident: $kind:tt),+)?>)?($($argument:ident: $of:ty),* $(,)?)
        $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$attribute])*
        #[inline]
        $vis fn $name$(<$($type: $bound,)* $($(const $constant: $kind),+)?>)?($($argument: $of),*) $(-> $result)? {
            struct Body<Arguments, Parameters>(Arguments, std::marker::PhantomData<Parameters>);

            impl$(<$($type: $bound,)* $($(const $constant: $kind),+)?>)? $crate::simd::Leaf
                for Body<($($of,)*), ($($($type,)* $($($crate::simd::leaf!(@marker $kind $constant),)+)?)?)>
            {
                type Output = $crate::simd::leaf!(@result $($result)?);

                #[inline(always)]
                fn run(self) -> Self::Output {
                    let Self(($($argument,)*), _) = self;
                    $body
                }
            }

            $crate::simd::vectorize(Body::<_, ($($($type,)* $($($crate::simd::leaf!(@marker $kind $constant),)+)?)?)>(($($argument,)*), std::marker::PhantomData))
        }
    )*};
    (@marker usize $constant:ident) => { [(); $constant] };
    (@marker bool $constant:ident) => { $crate::simd::Flag<$constant> };
    (@result) => { () };
    (@result $result:ty) => { $result };
}
pub(crate) use leaf;

/// Aligned to a cache line: accumulators that a loop keeps in memory must not cross cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Aligned<T>(pub T);

/// Merges all lanes by halves; their number is a power of two, at most 64.
#[inline(always)]
pub fn across<T: Copy, const N: usize>(mut lanes: [T; N], merge: impl Fn(T, T) -> T) -> T {
    const { assert!(N.is_power_of_two() && N <= 64) };
    // Each step is a call of its own, so that the compiler knows the number of lanes and keeps them in registers.
    halve(&mut lanes, 32, &merge);
    halve(&mut lanes, 16, &merge);
    halve(&mut lanes, 8, &merge);
    halve(&mut lanes, 4, &merge);
    halve(&mut lanes, 2, &merge);
    halve(&mut lanes, 1, &merge);
    lanes[0]
}

#[inline(always)]
fn halve<T: Copy, const N: usize>(lanes: &mut [T; N], half: usize, merge: &impl Fn(T, T) -> T) {
    if half < N {
        for lane in 0..half {
            lanes[lane] = merge(lanes[lane], lanes[lane + half]);
        }
    }
}

/// Prefetches the cache line at `address`, which may be any address.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not access memory, and SSE is part of the architecture.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Runs `body` once under every instruction set of this machine, up to the one that `RUSTDEV_ISA` names. Results of concurrent
/// tests do not depend on the instruction set.
#[cfg(test)]
pub fn for_each_isa(mut body: impl FnMut(Isa)) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = isa();
    let best = best_allowed();
    for isa in Isa::ALL.into_iter().filter(|isa| *isa <= best && isa.is_available()) {
        CURRENT.store(isa as u8, Ordering::Relaxed);
        body(isa);
    }
    CURRENT.store(before as u8, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    trait Digit: Default + Into<u64> {}
    impl Digit for u32 {}

    leaf! {
        fn sum<T: Digit; N: usize>(terms: &mut [T; N], base: u64) -> u64 {
            terms.iter_mut().fold(base, |sum, term| sum + std::mem::take(term).into())
        }
    }

    #[test]
    fn every_allowed_isa_of_the_machine_runs() {
        let mut seen = Vec::new();
        for_each_isa(|forced| {
            assert_eq!(isa(), forced);
            assert_eq!(sum(&mut [1u32, 2, 3], 4), 10);
            seen.push(forced);
        });
        assert_eq!(seen.first(), Some(&ONLY.unwrap_or(Isa::Portable)));
        assert_eq!(seen.last(), Some(&best_allowed()));
    }

    #[test]
    fn lanes_are_merged_by_halves() {
        let join = |left: u64, right: u64| 100 * left + right;
        assert_eq!(across([7], join), 7);
        assert_eq!(across([1, 2], join), 102);
        assert_eq!(across([1, 2, 3, 4], join), 100 * 103 + 204);
        assert_eq!(across(std::array::from_fn::<u64, 64, _>(|lane| lane as u64), |left, right| left + right), 63 * 32);
    }

    #[test]
    fn names_are_read_back() {
        for isa in Isa::ALL {
            assert_eq!(Isa::from_name(isa.name()), Some(isa));
        }
        assert_eq!(Isa::from_name("portable"), Some(Isa::Portable));
        assert_eq!(Isa::from_name("sse9"), None);
        assert_eq!(Isa::from_name("neon").is_some(), cfg!(target_arch = "aarch64"));
    }
}
