//! Tests in child processes: exit with work pending, another number of threads. Each case runs this test binary again.

use std::process::{Command, exit};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{callback, kernel, stream};
use crate::runtime::exit as end;
use crate::runtime::parallel_for::{num_threads, parallel_for, set_num_threads};
use crate::runtime::sync::{Arc, AtomicUsize, Ordering};
use crate::runtime::task::Task;

/// Where cargo reads the emulator that it runs programs of another architecture by.
const RUNNER: &str = if cfg!(target_arch = "aarch64") {
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER"
} else {
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"
};

/// Runs an ignored test of this file in a process of its own.
#[track_caller]
fn alone(name: &str) {
    let start = Instant::now();
    let test = format!("{}::{name}", module_path!().split_once("::").map_or("", |(_, path)| path));
    let output = this_program().args(["--ignored", "--exact", &test, "--nocapture"]).output().expect("the test binary runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("running 1 test"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// The test binary, run by the emulator that cargo runs it by.
fn this_program() -> Command {
    let program = std::env::current_exe().expect("the test binary");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

#[test]
fn a_process_ends_with_work_pending() {
    alone("end_with_work_pending");
}

#[test]
#[ignore = "ends its process"]
fn end_with_work_pending() {
    for index in 0..6 {
        let stream = stream();
        stream.submit(kernel(|| thread::sleep(Duration::from_millis(30)))).unwrap();
        stream.submit(callback(|| thread::sleep(Duration::from_millis(30)))).unwrap();
        if index % 2 == 0 {
            stream.submit(Task::sleep(Duration::from_secs(100))).unwrap();
        }
        stream.submit(kernel(|| thread::sleep(Duration::from_secs(100)))).unwrap();
    }
    exit(0);
}

#[test]
fn a_wait_after_the_end_has_begun_returns() {
    alone("wait_after_the_end_has_begun");
}

#[test]
#[ignore = "nothing works on the compute threads afterwards"]
fn wait_after_the_end_has_begun() {
    let stream = stream();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |mark: usize| {
        let ran = Arc::clone(&ran);
        move || _ = ran.fetch_add(mark, Ordering::Relaxed)
    };
    stream.submit(callback(|| thread::sleep(Duration::from_millis(20)))).unwrap();
    stream.submit(kernel(count(1))).unwrap();
    stream.submit(callback(count(100))).unwrap();
    end::begin();
    stream.submit(kernel(count(1))).unwrap();
    stream.submit(callback(count(100))).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2, "kernels run on the waiting thread, callbacks no more");
}

#[test]
fn any_number_of_threads_does() {
    alone("numbers_of_threads");
}

#[test]
#[ignore = "changes the number of threads"]
fn numbers_of_threads() {
    for count in [1, 4, 2, 1, 3] {
        set_num_threads(count);
        assert_eq!(num_threads(), count);
        let total = Arc::new(AtomicUsize::new(0));
        let streams = [(); 6].map(|()| stream());
        for round in 0..120 {
            let total = Arc::clone(&total);
            let body = move || parallel_for(8, 300_000, &|_| _ = total.fetch_add(1, Ordering::Relaxed));
            streams[round % 6].submit(kernel(body)).unwrap();
        }
        for stream in streams {
            stream.synchronize().unwrap();
        }
        assert_eq!(total.load(Ordering::Relaxed), 960);
    }
}

#[test]
fn sleeps_overlap_even_with_one_compute_thread() {
    alone("sleeps_with_one_compute_thread");
}

#[test]
#[ignore = "changes the number of threads"]
fn sleeps_with_one_compute_thread() {
    set_num_threads(1);
    let (time, start) = (Duration::from_millis(400), Instant::now());
    let streams = [(); 16].map(|()| stream());
    for stream in streams {
        stream.submit(Task::sleep(time)).unwrap();
    }
    assert!(!streams[15].query().unwrap(), "submitting sleeps waits for them");
    for stream in streams {
        stream.synchronize().unwrap();
    }
    assert!((time..16 * time).contains(&start.elapsed()), "{:?}", start.elapsed());
}
