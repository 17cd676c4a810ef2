//! Has the shim compiled while cargo compiles the crate, and gives the extension module the name by which the shim finds it.
//!
//! `python/rustdev/build_shim.py` compiles it, against the torch of `PYO3_PYTHON` (maturin sets it), else of `VIRTUAL_ENV`, else of `python3`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints one file a line that decides which torch this Python finds.
const WATCHED: &str = "
import glob, importlib.util, os, sys
root = os.path.dirname(importlib.util.find_spec('torch').origin)
print(os.path.join(root, 'version.py'))
print(*glob.glob(os.path.join(os.path.dirname(root), 'torch-*.dist-info', 'RECORD')), sep='\\n')
for path in sys.path:
    print(*glob.glob(os.path.join(path, '*.pth')), sep='\\n')
";

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,_rustdev.abi3.so");
    // The lines of the code, for backtraces, are most of the file.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--compress-debug-sections=zlib");
    for path in ["build.rs", ".", "../python/rustdev/build_shim.py"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for variable in ["PYO3_PYTHON", "VIRTUAL_ENV", "PYTHONPATH", "CXX", "CXXFLAGS", "RUSTDEV_SHIM_OUTPUT"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if let Err(message) = build() {
        message.lines().for_each(|line| println!("cargo::error={line}"));
    }
}

/// Runs the script.
///
/// # Errors
/// The script's message.
fn build() -> Result<(), String> {
    let python = python();
    let unusable = |error: std::io::Error| {
        let shown = python.display();
        format!("rustdev is compiled against a Python's torch; `{shown}` cannot be run ({error}): activate an environment with it")
    };
    let watched = Command::new(&python).args(["-c", WATCHED]).output().map_err(unusable)?;
    for file in String::from_utf8_lossy(&watched.stdout).lines().filter(|line| !line.is_empty()) {
        println!("cargo::rerun-if-changed={file}");
    }
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let output = env::var_os("RUSTDEV_SHIM_OUTPUT").map_or_else(|| root.join("python/rustdev/_shim"), PathBuf::from);
    println!("cargo::rerun-if-changed={}", output.display());
    // Without the directory of the script on the path, whose modules have names of Python's own.
    let mut command = Command::new(&python);
    command.arg("-P").arg(root.join("python/rustdev/build_shim.py"));
    command.arg("--output").arg(output).arg("--objects").arg(root.join("target/shim"));
    let said = command.output().map_err(unusable)?;
    if said.status.success() {
        return Ok(());
    }
    Err([said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).trim().to_owned()).join("\n").trim().to_owned())
}

fn python() -> PathBuf {
    if let Some(python) = env::var_os("PYO3_PYTHON") {
        return python.into();
    }
    env::var_os("VIRTUAL_ENV").map_or_else(|| "python3".into(), |environment| Path::new(&environment).join("bin/python"))
}
