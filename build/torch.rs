//! Finds the torch to compile against: that of `PYO3_PYTHON` (maturin sets it), else of `VIRTUAL_ENV`, else of `python3`.
//!
//! torch is located, not imported: the build needs its path and version, and an import takes a second. Everything that decides
//! which torch is found is watched, so that the build is redone when the environment's torch is replaced, upgraded or moved.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The minor releases whose C++ interface `shim/torch_version.h` knows.
const SUPPORTED: [&str; 3] = ["2.13", "2.14", "2.15"];

/// Prints torch's version, its directory, and then one file a line that decides which torch this Python finds.
const LOCATE: &str = "
import glob, importlib.util, os, sys
spec = importlib.util.find_spec('torch')
if spec is None or spec.origin is None:
    sys.exit()
root = os.path.dirname(spec.origin)
version = {}
with open(os.path.join(root, 'version.py')) as file:
    exec(file.read(), version)
print(version['__version__'])
print(root)
print(os.path.join(root, 'version.py'))
print(*glob.glob(os.path.join(os.path.dirname(root), 'torch-*.dist-info', 'RECORD')), sep='\\n')
for path in sys.path:
    print(*glob.glob(os.path.join(path, '*.pth')), sep='\\n')
";

/// What the build needs to know of the installed torch.
pub struct Torch {
    /// As torch gives it, with the local part: `2.15.0+cpu`.
    pub version: String,
    /// The directory of the Python package.
    pub root: PathBuf,
}

/// Finds torch, and tells cargo what to watch.
///
/// # Errors
/// The sentence for the user: there is no such Python, it has no torch, or one that is not supported.
pub fn find() -> Result<Torch, String> {
    for variable in ["PYO3_PYTHON", "VIRTUAL_ENV", "PYTHONPATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let python = python();
    let shown = python.display();
    let output = Command::new(&python).args(["-c", LOCATE]).output().map_err(|error| {
        format!("rustdev is compiled against a Python's torch; `{shown}` cannot be run ({error}): activate an environment with it")
    })?;
    if !output.status.success() {
        return Err(format!("`{shown}` failed when asked for its torch: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let (Some(version), Some(root)) = (lines.next(), lines.next()) else {
        return Err(format!(
            "rustdev is compiled against the torch of the Python that it is for, and `{shown}` has none: install torch {} there \
             and build again, without build isolation",
            SUPPORTED[SUPPORTED.len() - 1]
        ));
    };
    for file in lines {
        println!("cargo::rerun-if-changed={file}");
    }
    if !SUPPORTED.iter().any(|minor| version.strip_prefix(minor).is_some_and(|rest| rest.starts_with('.'))) {
        return Err(format!(
            "rustdev builds against torch {}, and `{shown}` has torch {version}: install one of those and build again",
            SUPPORTED.join(", ")
        ));
    }
    Ok(Torch { version: version.to_owned(), root: root.into() })
}

fn python() -> PathBuf {
    if let Some(python) = env::var_os("PYO3_PYTHON") {
        return python.into();
    }
    env::var_os("VIRTUAL_ENV").map_or_else(|| "python3".into(), |environment| Path::new(&environment).join("bin/python"))
}
