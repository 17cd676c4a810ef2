//! C ABI of the random generators.
//!
//! A state has shared ownership: PyTorch generators and graphs that draw from it hold shares. The functions that read or change it
//! also work in a forked child, and do not start the runtime.

use super::rd_device::current_stream;
use super::rd_launch::rd_scalar;
use super::rd_operator::to_scalar;
use super::{Failure, catch, guard, rd_status, rd_text};
pub use crate::runtime::generator::PhiloxState as rd_philox_state;
use crate::runtime::generator::{self, Generator};
use crate::runtime::graph::capture::{self, Capture};
use crate::runtime::rng;
use crate::runtime::sync::Arc;
use crate::tensor::{Cell, Scalar};

/// A share in the state of a generator, opaque to C.
#[derive(Debug)]
pub struct rd_generator(Arc<Generator>);

/// A new state; the caller releases it with [`rd_generator_release`].
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_create(state: rd_philox_state) -> Box<rd_generator> {
    Box::new(rd_generator(Arc::new(Generator::new(state))))
}

/// Another share in a state; the caller releases it with [`rd_generator_release`].
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_share(generator: &rd_generator) -> Box<rd_generator> {
    Box::new(rd_generator(Arc::clone(&generator.0)))
}

/// Releases a share.
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_release(generator: Box<rd_generator>) {
    drop(generator);
}

/// The current state.
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_state(generator: &rd_generator) -> rd_philox_state {
    generator.0.state()
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
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_set_state(
    generator: &rd_generator,
    device: i32,
    state: rd_philox_state,
    what: rd_text,
) -> rd_status {
    catch(|| {
        generator::check_offset(state.offset)?;
        refuse_capturing(device, &what.lossy())?;
        generator.0.set_state(state);
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
        *start = generator.0.advance(numbers);
        Ok(())
    })
}

/// Reserves this many numbers for a launch on this thread's current stream of the device, and writes its two scalars, seed and
/// offset. If the stream captures, nothing is reserved, and the scalars are cells that each replay sets.
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_draw(
    generator: &rd_generator,
    device: i32,
    numbers: u64,
    seed: &mut rd_scalar,
    offset: &mut rd_scalar,
) -> rd_status {
    guard(|| {
        let scalars = match Capture::of(current_stream(device)?) {
            None => {
                let rd_philox_state { seed, offset } = generator.0.advance(numbers);
                [seed, offset].map(|value| Scalar::Long(value as i64))
            }
            Some(capture) => {
                let cell = capture.draw(&generator.0, numbers)?;
                [&cell.seed, &cell.offset].map(|place| Scalar::Cell(Cell(place)))
            }
        };
        [*seed, *offset] = scalars.map(|scalar| to_scalar(&scalar));
        Ok(())
    })
}

/// Reserves one Philox block and derives from it the seed of a CPU generator, for a CPU kernel that draws instead of a device
/// kernel.
#[unsafe(no_mangle)]
pub extern "C" fn rd_generator_derive_seed(generator: &rd_generator) -> u64 {
    let rd_philox_state { seed, offset } = generator.0.advance(generator::BLOCK);
    rng::derived_seed(seed, offset)
}
