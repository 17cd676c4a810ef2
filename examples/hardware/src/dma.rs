//! Copies through a staging buffer of limited size, at the speed of the device.

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustdev::hardware::Transfer;

use crate::Counts;
use crate::speed::Speed;

/// Shorter waits poll the clock, because a sleep would take longer.
const SLEEPABLE: Duration = Duration::from_micros(200);

pub fn wait_until(deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > SLEEPABLE { thread::sleep(left - SLEEPABLE / 2) } else { thread::yield_now() }
    }
}

/// Copies the bytes of a transfer, after its latency; returns when the last one has arrived.
pub fn copy(transfer: &Transfer, staging: &mut [u8], speed: &Speed, counts: &Counts) {
    let begin = Instant::now();
    let mut done = 0;
    while done < transfer.bytes {
        let part = &mut staging[..speed.staging.min(transfer.bytes - done)];
        let source = with_exposed_provenance::<u8>(transfer.source + done);
        // SAFETY: the runtime promises the bytes of a transfer from its submission to the end of its task, and that no other
        // task writes them; the staging buffer is this engine's.
        unsafe { source.copy_to_nonoverlapping(part.as_mut_ptr(), part.len()) };
        counts.staged.fetch_add(1, Ordering::Relaxed);
        wait_until(begin + speed.time_of(done + part.len()));
        let target = with_exposed_provenance_mut::<u8>(transfer.target + done);
        // SAFETY: as above, for writing; no other task reads or writes them.
        unsafe { target.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        done += part.len();
    }
    let direction = match (transfer.from.is_host(), transfer.to.is_host()) {
        (true, _) => &counts.bytes_to_device,
        (false, true) => &counts.bytes_to_host,
        (false, false) => &counts.bytes_within,
    };
    direction.fetch_add(transfer.bytes as u64, Ordering::Relaxed);
}
