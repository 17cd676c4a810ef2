//! Compiles C++ files to objects, each only when it has to be: its command changed, or a file that its last compilation read did.
//!
//! Beside `x.o` lie `x.d`, the files read as the compiler lists them (`-MMD`: the shim's own, not the system's and torch's), and
//! `x.key`, the compiler's arguments and torch's version, dated at the start of the compilation: an edit made meanwhile counts as newer.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

/// Compiles `sources` into `directory`, as many at a time as cargo allows, and returns the objects in the same order.
///
/// # Errors
/// The sentence that names the files that do not compile; what the compiler says of them goes to stderr and to the message.
pub fn compile(compiler: &cc::Tool, torch: &str, sources: &[PathBuf], directory: &Path) -> Result<Vec<PathBuf>, String> {
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1_usize);
    let objects: Vec<PathBuf> = sources.iter().map(|source| directory.join(source).with_extension("o")).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&index| index < sources.len()) {
            if let Err(failure) = refresh(compiler, torch, &sources[index], &objects[index]) {
                failures.lock().expect("no holder panics").push(failure);
            }
        }
    };
    thread::scope(|scope| (0..jobs.min(sources.len())).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().expect("no holder panics");
    if failures.is_empty() { Ok(objects) } else { Err(failures.join("; ")) }
}

/// Brings one object up to date.
fn refresh(compiler: &cc::Tool, torch: &str, source: &Path, object: &Path) -> Result<(), String> {
    let mut command = compiler.to_command();
    command.arg("-MMD").arg("-c").arg(source);
    // The arguments alone: the environment holds what cargo and the shell change from build to build.
    let key = format!("{torch} {} {:?}", command.get_program().display(), command.get_args().collect::<Vec<_>>());
    command.arg("-o").arg(object);
    let key_file = object.with_extension("key");
    if is_current(&key, &key_file, object) {
        return Ok(());
    }
    let unwritable = |error: io::Error| format!("{} cannot be written: {error}", object.display());
    fs::create_dir_all(object.parent().expect("an object lies in a directory")).map_err(unwritable)?;
    let started = SystemTime::now();
    let output = command.output().map_err(|error| format!("{} does not compile: {error}", source.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        // Cargo shows one line for each message of a build script.
        said.lines().for_each(|line| println!("cargo::error={line}"));
        return Err(format!("{} does not compile", source.display()));
    }
    said.lines().for_each(|line| println!("cargo::warning={line}"));
    fs::write(&key_file, key).and_then(|()| File::options().write(true).open(&key_file)?.set_modified(started)).map_err(unwritable)
}

fn is_current(key: &str, key_file: &Path, object: &Path) -> bool {
    let compiled = fs::read_to_string(key_file).is_ok_and(|old| old == key) && object.exists();
    let (Ok(read), Ok(started)) = (fs::read_to_string(object.with_extension("d")), modified(key_file)) else {
        return false;
    };
    compiled && dependencies(&read).iter().all(|file| modified(file).is_ok_and(|changed| changed < started))
}

fn modified(file: &Path) -> io::Result<SystemTime> {
    fs::metadata(file)?.modified()
}

/// The files after the colon of a make rule; a backslash continues the line or escapes a space.
fn dependencies(rule: &str) -> Vec<PathBuf> {
    let files = rule.split_once(": ").map_or("", |(_, files)| files);
    let files = files.replace("\\\n", " ").replace("\\ ", "\0");
    files.split_whitespace().map(|file| file.replace('\0', " ").into()).collect()
}
