//! Conditional compilation that cargo cannot express.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Enables locks that the thread sanitizer can follow: src/runtime/sync/pthread.rs.
    if env::var("CARGO_CFG_SANITIZE").is_ok_and(|sanitizers| sanitizers.split(',').any(|name| name == "thread")) {
        println!("cargo::rustc-cfg=tsan");
    }
    if env::var_os("CARGO_FEATURE_NATIVE").is_some() {
        println!("cargo::rustc-cfg=only_isa=\"{}\"", best_isa());
    }
}

/// The best instruction set of this machine, detected as in `src/simd.rs`.
#[cfg(target_arch = "x86_64")]
fn best_isa() -> &'static str {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq");
    match (avx2, avx512) {
        (true, true) => "avx512",
        (true, false) => "avx2",
        _ => "portable",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best_isa() -> &'static str {
    "portable"
}
