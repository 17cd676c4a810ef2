//! Holding all streams, so that for a moment nothing writes to device memory.
//!
//! Who holds is [exclusive](gate) first. Then each stream gets a task at which it stands still. A stream that stands at a host function, at
//! an event of another process or at memory is short of cannot get there: whoever lets it go on takes a [`gate::Pass`] first.
#![forbid(unsafe_code)]

use std::time::Instant;

use crate::runtime::latch::Latch;
use crate::runtime::sync::Arc;
use crate::runtime::task::{Drained, Keeper, Lease, Task};
use crate::runtime::{Error, blocking_pool, device, gate};

/// Where the streams stand.
type Held = Latch<(&'static dyn Drained, Lease)>;

impl Keeper for Held {
    fn is_over(&self) -> bool {
        self.is_open()
    }

    fn keep(&self, stream: &'static dyn Drained, lease: Lease) {
        if let Err((stream, lease)) = self.wait((stream, lease)) {
            blocking_pool::spawn("rustdev-host", move |_| stream.go_on(lease, None));
        }
    }
}

/// Lets the streams go on when dropped.
struct Release {
    held: Arc<Held>,
    exclusive: Option<gate::Exclusive>,
}

impl Drop for Release {
    fn drop(&mut self) {
        let streams = self.held.open();
        // Going on takes a pass.
        self.exclusive = None;
        for (stream, lease) in streams {
            stream.go_on(lease, None);
        }
    }
}

/// Does something while nothing writes to device memory. `None`: others did not stop writing before the deadline.
///
/// # Errors
/// As [`Stream::submit`](crate::runtime::stream::Stream::submit).
pub fn alone<R>(deadline: Instant, body: impl FnOnce() -> R) -> Result<Option<R>, Error> {
    let Some(exclusive) = gate::exclusive(deadline) else { return Ok(None) };
    let release = Release { held: Arc::new(Held::default()), exclusive: Some(exclusive) };
    let streams = device::all().iter().flat_map(device::Device::streams).collect::<Vec<_>>();
    let mut numbers = Vec::with_capacity(streams.len());
    for stream in streams {
        numbers.push((stream, stream.enqueue(Task::leave("hold", Arc::clone(&release.held) as Arc<dyn Keeper>), false)?));
    }
    for (stream, number) in numbers {
        stream.stand_still(number);
    }
    Ok(Some(body()))
}
