//! C ABI of the random generators.
//!
//! A state has shared ownership: PyTorch generators and graphs that draw from it hold shares. The functions that read or change it
//! also work in a forked child, and do not start the runtime.

use std::ffi::{CStr, c_char};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::AtomicU64;

use super::rd_device::current_stream;
use super::rd_launch::{RD_SCALAR_CELL, rd_scalar};
use super::{Failure, catch, guard, rd_status};
pub use crate::runtime::generator::PhiloxState as rd_philox_state;
use crate::runtime::generator::{self, Generator};
use crate::runtime::graph::capture::{self, Capture};
use crate::runtime::rng;
use crate::runtime::sync::Arc;
use crate::tensor::DType;

/// The state of a generator, opaque to C.
pub type rd_generator = Generator;

/// The generator behind a handle; the caller keeps its share.
///
/// # Safety
/// `generator` came from [`rd_generator_create`] or [`rd_generator_share`], and is not released before the result is dropped.
unsafe fn borrow(generator: *const rd_generator) -> ManuallyDrop<Arc<Generator>> {
    // SAFETY: the caller's promise: `Arc::into_raw` made the pointer, and `ManuallyDrop` does not release the share.
    ManuallyDrop::new(unsafe { Arc::from_raw(generator) })
}

/// A new state; the caller releases it with [`rd_generator_release`].
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_create(state: rd_philox_state) -> *const rd_generator {
    Arc::into_raw(Arc::new(Generator::new(state)))
}

/// Another share in a state; the caller releases it with [`rd_generator_release`].
///
/// # Safety
/// `generator` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_generator_share(generator: *const rd_generator) -> *const rd_generator {
    // SAFETY: the caller's promise.
    Arc::into_raw(Arc::clone(&*unsafe { borrow(generator) }))
}

/// Releases a share.
///
/// # Safety
/// `generator` came from [`rd_generator_create`] or [`rd_generator_share`] and was not released before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_generator_release(generator: *const rd_generator) {
    // SAFETY: the caller passes a pointer that `Arc::into_raw` made.
    drop(unsafe { Arc::from_raw(generator) });
}

/// The current state.
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_state(generator: &rd_generator) -> rd_philox_state {
    generator.state()
}

/// Fails if this thread's current stream of the device captures, and invalidates that capture.
fn refuse_capturing(device: i32, what: &str) -> Result<(), Failure> {
    if !capture::is_under_way() {
        return Ok(());
    }
    Ok(current_stream(device)?.refuse_capturing(|| what.to_owned())?)
}

/// Sets the seed and the offset, a multiple of 4. Fails while this thread's current stream of the device captures; `what` names
/// the change in that error.
///
/// # Safety
/// `what` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_generator_set_state(
    generator: &rd_generator,
    device: i32,
    state: rd_philox_state,
    what: *const c_char,
) -> rd_status {
    catch(|| {
        generator::check_offset(state.offset)?;
        // SAFETY: the caller's promise.
        refuse_capturing(device, &unsafe { CStr::from_ptr(what) }.to_string_lossy())?;
        generator.set_state(state);
        Ok(())
    })
}

/// Reserves this many 32-bit numbers, rounded up to whole Philox blocks, for a kernel that is not captured. Writes the state at
/// which they begin. Fails while this thread's current stream of the device captures.
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_advance(
    generator: &rd_generator,
    device: i32,
    numbers: u64,
    start: &mut rd_philox_state,
) -> rd_status {
    catch(|| {
        refuse_capturing(device, "reading the state of a generator")?;
        *start = generator.advance(numbers);
        Ok(())
    })
}

/// Reserves this many numbers for a launch on this thread's current stream of the device, and writes its two scalars, seed and
/// offset. If the stream captures, nothing is reserved, and the scalars are cells that each replay sets.
///
/// # Safety
/// `generator` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_generator_draw(
    generator: *const rd_generator,
    device: i32,
    numbers: u64,
    seed: &mut rd_scalar,
    offset: &mut rd_scalar,
) -> rd_status {
    guard(|| {
        let stream = current_stream(device)?;
        // SAFETY: the caller's promise.
        let generator = unsafe { borrow(generator) };
        [*seed, *offset] = match Capture::of(stream) {
            None => {
                let rd_philox_state { seed, offset } = generator.advance(numbers);
                [seed, offset].map(number)
            }
            Some(capture) => {
                let cell = capture.draw(&generator, numbers)?;
                [&cell.seed, &cell.offset].map(address)
            }
        };
        Ok(())
    })
}

fn number(value: u64) -> rd_scalar {
    let integer = value as i64;
    rd_scalar { dtype: DType::Long as i32, integer, real: integer as f64, imaginary: 0.0 }
}

fn address(place: &'static AtomicU64) -> rd_scalar {
    rd_scalar { dtype: RD_SCALAR_CELL, integer: ptr::from_ref(place).expose_provenance() as i64, real: 0.0, imaginary: 0.0 }
}

/// Reserves one Philox block and derives from it the seed of a CPU generator, for a CPU kernel that draws instead of a device
/// kernel.
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_derive_seed(generator: &rd_generator) -> u64 {
    let rd_philox_state { seed, offset } = generator.advance(generator::BLOCK);
    rng::derived_seed(seed, offset)
}
