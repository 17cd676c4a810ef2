//! Launches per second of the slow device, as its `SLOW_DEVICE_` variables say; without `SLOW_DEVICE_DEPTH`, for depths 1 and 8.
//!
//! ```sh
//! cargo run --release -p slow_device --example launches
//! ```

use std::env;
use std::error::Error;
use std::process::Command;
use std::time::Instant;

use rustdev::runtime::device;
use rustdev::runtime::task::{Closure, Task};
use slow_device::SlowDevice;
use slow_device::speed::Speed;

const LAUNCHES: u32 = 20_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    if env::var_os("SLOW_DEVICE_DEPTH").is_some() {
        return measure();
    }
    for depth in ["1", "8"] {
        Command::new(env::current_exe()?).env("SLOW_DEVICE_DEPTH", depth).status()?;
    }
    Ok(())
}

/// Prints the best of some rounds of empty kernels on one stream.
fn measure() -> Result<(), Box<dyn Error>> {
    let speed = Speed::from_environment()?;
    slow_device::install(&SlowDevice::new(speed))?;
    let stream = device::get(0).map_err(|error| error.message().to_owned())?.default_stream();
    let mut best = 0.0;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..LAUNCHES {
            stream.submit(Task::new("empty", 0, Closure::new(|| Ok(()))))?;
        }
        stream.synchronize()?;
        best = f64::max(best, f64::from(LAUNCHES) / begin.elapsed().as_secs_f64());
    }
    println!("depth {}, {:?} of latency: {best:.0} launches per second", speed.depth, speed.launch);
    Ok(())
}
