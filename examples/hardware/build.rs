//! Links the extension module (feature `python`) with the torch that rustdev's shim is compiled against, as rustdev's own build does for its
//! module. The rest of the crate needs no build script.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const LOCATE: &str = "import importlib.util, os; print(os.path.dirname(importlib.util.find_spec('torch').origin))";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_PYTHON").is_some()
        && let Err(message) = link()
    {
        println!("cargo::error={message}");
    }
}

fn link() -> Result<(), String> {
    for variable in ["PYO3_PYTHON", "VIRTUAL_ENV"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let python = python();
    let output = Command::new(&python).args(["-c", LOCATE]).output().map_err(|error| format!("{}: {error}", python.display()))?;
    if !output.status.success() {
        return Err(format!("{} has no torch: {}", python.display(), String::from_utf8_lossy(&output.stderr)));
    }
    let libraries = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib");
    println!("cargo::rustc-link-arg-cdylib=-L{}", libraries.display());
    for library in ["torch_cpu", "c10", "stdc++"] {
        println!("cargo::rustc-link-arg-cdylib=-l{library}");
    }
    println!("cargo::rustc-link-arg-cdylib=-Wl,-rpath,$ORIGIN/../torch/lib:{}", libraries.display());
    Ok(())
}

fn python() -> PathBuf {
    if let Some(python) = env::var_os("PYO3_PYTHON") {
        return python.into();
    }
    env::var_os("VIRTUAL_ENV").map_or_else(|| "python3".into(), |environment| Path::new(&environment).join("bin/python"))
}
