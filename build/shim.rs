//! Compiles `shim/` into one static library and tells cargo how to link it with torch.
//!
//! The library is linked whole: nothing refers to the objects that register operators, and the linker would drop them.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::lists;
use crate::objects;
use crate::torch;

const SHIM: &str = "shim";
const LIBRARY: &str = "rustdev_shim";

/// Compiles, archives and links.
///
/// # Errors
/// The sentence for the user: see [`torch::find`]; or there is no C++ compiler, or it fails.
pub fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed={SHIM}");
    let torch = torch::find()?;
    println!("cargo::rustc-env=RUSTDEV_TORCH_VERSION={}", torch.version);

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let generated = out.join("include");
    lists::write(&generated).map_err(|error| format!("{} cannot be written: {error}", generated.display()))?;
    let compiler = compiler(&torch, &generated)?;
    let sources = sources(Path::new(SHIM)).map_err(|error| format!("{SHIM}/ cannot be read: {error}"))?;
    let objects = objects::compile(&compiler, &torch.version, &sources, &out.join("objects"))?;
    cc::Build::new().cargo_metadata(false).objects(objects).try_compile(LIBRARY).map_err(|error| error.to_string())?;

    let libraries = torch.root.join("lib");
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static:+whole-archive={LIBRARY}");
    // By linker arguments: for a search path of cargo's, maturin would want patchelf to write the rpath once more.
    println!("cargo::rustc-link-arg=-L{}", libraries.display());
    for library in ["torch_cpu", "c10", "stdc++"] {
        println!("cargo::rustc-link-arg=-l{library}");
    }
    // Beside torch in site-packages for an installed wheel; where torch was at build time for an editable install.
    println!("cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN/../torch/lib:{}", libraries.display());
    Ok(())
}

fn compiler(torch: &torch::Torch, generated: &Path) -> Result<cc::Tool, String> {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").opt_level(2).debug(false).pic(true).warnings(false).cargo_metadata(false);
    build.flag("-Wall").flag("-fvisibility=hidden").define("USE_KINETO", None).include(SHIM).include(generated);
    for directory in ["include", "include/torch/csrc/api/include", "include/kineto"] {
        build.flag("-isystem").flag(torch.root.join(directory));
    }
    println!("cargo::rerun-if-env-changed=CXX");
    println!("cargo::rerun-if-env-changed=CXXFLAGS");
    let missing = |reason: &dyn std::fmt::Display| {
        format!("rustdev needs a C++20 compiler, and there is none ({reason}): install g++ 11 or newer, or name one in CXX")
    };
    let tool = build.try_get_compiler().map_err(|error| missing(&error))?;
    match tool.to_command().arg("--version").output() {
        Ok(output) if output.status.success() => Ok(tool),
        Ok(output) => Err(missing(&format_args!("`{}`: {}", tool.path().display(), output.status))),
        Err(error) => Err(missing(&format_args!("`{}`: {error}", tool.path().display()))),
    }
}

/// Every `.cpp` under `directory`, in an order that does not depend on the file system.
fn sources(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "cpp") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
