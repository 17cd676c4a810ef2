//! Gives the extension module (feature `python`) the soname by which rustdev's shim finds the core.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_PYTHON").is_some() {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,_rustdev.abi3.so");
    }
}
