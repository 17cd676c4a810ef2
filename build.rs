//! Compiles the C++ shim against the torch of the active Python (feature `shim`), and nothing otherwise.
//!
//! What can go wrong before the first file is compiled (no torch, a torch of another minor, no C++ compiler) ends the build with one
//! sentence that says what to do. The script runs again when `shim/`, the Python asked or its torch changes; objects are kept one by
//! one, so that only what changed is compiled again.

#[cfg(feature = "shim")]
#[path = "build/lists.rs"]
mod lists;
#[cfg(feature = "shim")]
#[path = "build/objects.rs"]
mod objects;
#[cfg(feature = "shim")]
#[path = "build/shim.rs"]
mod shim;
#[cfg(feature = "shim")]
#[path = "build/torch.rs"]
mod torch;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The locks that the thread sanitizer can follow: src/runtime/sync/pthread.rs.
    if std::env::var("CARGO_CFG_SANITIZE").is_ok_and(|sanitizers| sanitizers.split(',').any(|name| name == "thread")) {
        println!("cargo::rustc-cfg=tsan");
    }
    #[cfg(feature = "shim")]
    {
        println!("cargo::rerun-if-changed=build");
        if let Err(message) = shim::build() {
            println!("cargo::error={message}");
        }
    }
}
