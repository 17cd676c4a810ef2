//! Stops all streams for a moment, so that nothing writes to device memory.
//!
//! The holder first becomes [exclusive](gate). Then each stream gets a task at which it stops. A stream that waits at a host
//! function, at an event of another process, or for memory cannot reach that task; it can continue only under a [`gate::Pass`],
//! which nobody gets meanwhile.
#![forbid(unsafe_code)]

use std::time::Instant;

use crate::runtime::latch::Latch;
use crate::runtime::stream::registry;
use crate::runtime::sync::Arc;
use crate::runtime::task::{DrainableStream, Lease, LeaseHolder, Task};
use crate::runtime::{Error, blocking_pool, gate};

type Held = Latch<(&'static dyn DrainableStream, Lease)>;

impl LeaseHolder for Held {
    fn is_over(&self) -> bool {
        self.is_open()
    }

    fn keep(&self, stream: &'static dyn DrainableStream, lease: Lease) {
        if let Err((stream, lease)) = self.wait((stream, lease)) {
            blocking_pool::spawn("rustdev-host", move |_| stream.go_on(lease, None));
        }
    }
}

/// Resumes the streams when dropped.
struct Release {
    held: Arc<Held>,
    exclusive: Option<gate::Exclusive>,
}

impl Drop for Release {
    fn drop(&mut self) {
        let streams = self.held.open();
        // Resuming takes a pass, so exclusivity ends first.
        self.exclusive = None;
        for (stream, lease) in streams {
            stream.go_on(lease, None);
        }
    }
}

/// Runs `body` while nothing writes to device memory. `None`: other threads did not stop writing before the deadline.
pub fn alone<R>(deadline: Instant, body: impl FnOnce() -> R) -> Result<Option<R>, Error> {
    let Some(exclusive) = gate::exclusive(deadline) else { return Ok(None) };
    let release = Release { held: Arc::new(Held::default()), exclusive: Some(exclusive) };
    let streams = registry::streams().collect::<Vec<_>>();
    let mut numbers = Vec::with_capacity(streams.len());
    for stream in streams {
        numbers.push((stream, stream.enqueue(Task::leave("hold", Arc::clone(&release.held) as Arc<dyn LeaseHolder>), false)?));
    }
    for (stream, number) in numbers {
        stream.run_until_stuck(number, false);
    }
    Ok(Some(body()))
}
