//! Compiles the C++ shim against the torch of the active Python (feature `shim`), and nothing otherwise.
//!
//! The Python asked is `PYO3_PYTHON`, else the one of `VIRTUAL_ENV`, else `python3`. The build is redone when that torch changes.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "shim")]
    shim::build();
}

#[cfg(feature = "shim")]
mod shim {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// What the build needs to know of the installed torch.
    struct Torch {
        version: String,
        root: PathBuf,
        cxx11_abi: bool,
    }

    pub fn build() {
        let torch = find_torch(&python());
        println!("cargo:rerun-if-env-changed=VIRTUAL_ENV");
        println!("cargo:rerun-if-env-changed=PYO3_PYTHON");
        println!("cargo:rerun-if-env-changed=CXX");
        println!(
            "cargo:rerun-if-changed={}",
            torch.root.join("version.py").display()
        );
        println!("cargo:rustc-env=RUSTDEV_TORCH_VERSION={}", torch.version);

        let sources = sources(Path::new("shim"));
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++20")
            .flag("-O2")
            .flag_if_supported("-fvisibility=hidden")
            .warnings(false)
            .flag("-Wall")
            .flag("-Wno-unused-parameter")
            .define("USE_KINETO", None)
            .define(
                "_GLIBCXX_USE_CXX11_ABI",
                if torch.cxx11_abi { "1" } else { "0" },
            )
            .include("shim");
        for dir in ["include", "include/torch/csrc/api/include"] {
            build.flag("-isystem").flag(torch.root.join(dir));
        }
        build.files(
            sources
                .iter()
                .filter(|path| path.extension().is_some_and(|e| e == "cpp")),
        );
        build.cargo_metadata(false);
        build.compile("rustdev_shim");

        let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
        let lib = torch.root.join("lib");
        println!("cargo:rustc-link-search=native={out}");
        println!("cargo:rustc-link-lib=static:+whole-archive=rustdev_shim");
        println!("cargo:rustc-link-search=native={}", lib.display());
        println!("cargo:rustc-link-lib=dylib=torch_cpu");
        println!("cargo:rustc-link-lib=dylib=c10");
        println!("cargo:rustc-link-lib=dylib=stdc++");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
    }

    fn python() -> PathBuf {
        if let Some(python) = std::env::var_os("PYO3_PYTHON") {
            return python.into();
        }
        match std::env::var_os("VIRTUAL_ENV") {
            Some(env) => Path::new(&env).join("bin/python"),
            None => "python3".into(),
        }
    }

    fn find_torch(python: &Path) -> Torch {
        let script = "import importlib.util, pathlib, sys\n\
            spec = importlib.util.find_spec('torch')\n\
            sys.exit('no torch') if spec is None else None\n\
            root = pathlib.Path(spec.origin).parent\n\
            scope = {}\n\
            exec((root / 'version.py').read_text(), scope)\n\
            print(scope['__version__']); print(root)";
        let output = Command::new(python).args(["-c", script]).output();
        let text = match output {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).into_owned()
            }
            _ => fail(&format!(
                "rustdev needs torch in the Python it is built for ({}): install torch 2.15.0 there and build without isolation",
                python.display()
            )),
        };
        let mut lines = text.lines();
        let version = lines.next().unwrap_or_default().to_owned();
        let root = PathBuf::from(lines.next().unwrap_or_default());
        if !["2.13.", "2.14.", "2.15."]
            .iter()
            .any(|minor| version.starts_with(minor))
        {
            fail(&format!(
                "rustdev builds against torch 2.13, 2.14 and 2.15, and found torch {version}"
            ));
        }
        Torch {
            version,
            root,
            cxx11_abi: true,
        }
    }

    fn sources(dir: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut pending = vec![dir.to_owned()];
        while let Some(dir) = pending.pop() {
            println!("cargo:rerun-if-changed={}", dir.display());
            for entry in std::fs::read_dir(&dir)
                .expect("shim/ is part of the source tree")
                .flatten()
            {
                let path = entry.path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    println!("cargo:rerun-if-changed={}", path.display());
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }

    fn fail(message: &str) -> ! {
        eprintln!("error: {message}");
        std::process::exit(1);
    }
}
