//! C ABI of copies between any dtypes, strides and devices, and of fills.
//!
//! A copy is one launch of the kernel `copy_`. Between two devices it runs on the source's current stream; two events order it
//! after and before the work of the destination's current stream.

use std::ffi::CStr;
use std::ptr;

use super::rd_device::current_stream;
use super::rd_launch::{rd_scalar, scalar};
use super::rd_operator::{Host, failure, operands, rd_tensor, tensor};
use super::{Failure, RD_INVALID_ARGUMENT, guard, rd_status, rd_text};
use crate::call::callees::kernel;
use crate::call::{Format, Input, Tensor};
use crate::runtime::event::Event;
use crate::runtime::stream::Stream;
use crate::runtime::{Error, pools};
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::{MAX_DIMS, Op};

/// Enqueues a copy of a non-empty tensor to another tensor of the same sizes; at least one of the two is on a device. For a copy
/// from or to the host, `wait` names the operator that waits for it. If `wait` is null, the call does not wait, and pinned memory
/// is kept until the stream has passed the copy.
///
/// # Safety
/// The tensors' sizes and strides are readable, and their memory meets the contract of
/// [`rd_launch`](super::rd_launch::rd_launch).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_copy(target: &rd_tensor, source: &rd_tensor, wait: rd_text) -> rd_status {
    guard(|| {
        let arena = BumpArena::default();
        // SAFETY: the caller promises a tensor.
        let target = unsafe { tensor(&arena, target, true) }?;
        // SAFETY: as above.
        let source = unsafe { tensor(&arena, source, true) }?;
        let [to, from] = [target, source].map(Tensor::device);
        let enqueue = |device: i32| {
            // SAFETY: the caller's promise.
            unsafe { launch(&arena, kernel!(c"copy_"), target, &[Input::Tensor(source)], device) }
        };
        if to == from {
            return enqueue(to);
        }
        if to >= 0 && from >= 0 {
            let (ahead, behind) = (current_stream(to)?, current_stream(from)?);
            order(ahead, behind)?;
            enqueue(from)?;
            return order(behind, ahead);
        }
        let (device, host) = if to < 0 { (from, target) } else { (to, source) };
        enqueue(device)?;
        Ok(finish(current_stream(device)?, host, wait.given())?)
    })
}

/// Enqueues the write of a number to every element of a non-empty tensor of a device; null: of zeros.
///
/// # Safety
/// The tensor's sizes and strides are readable, and its memory meets the contract of [`rd_launch`](super::rd_launch::rd_launch).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fill(target: &rd_tensor, number: Option<&rd_scalar>) -> rd_status {
    guard(|| {
        let arena = BumpArena::default();
        // SAFETY: the caller's promise.
        let target = unsafe { tensor(&arena, target, true) }?.distinct();
        let number = number.map(scalar).transpose()?.map(Input::Number);
        let op = if number.is_some() { kernel!(c"fill_") } else { kernel!(c"zero_") };
        // SAFETY: as above.
        unsafe { launch(&arena, op, target, number.as_slice(), target.device()) }
    })
}

/// Makes a stream wait for the current tasks of another one.
fn order(ahead: &'static Stream, waiting: &'static Stream) -> Result<(), Failure> {
    let event = Event::new(ahead.device(), false);
    event.record(ahead)?;
    Ok(event.block(waiting)?)
}

/// Waits for a copy, or keeps the host memory until the stream has passed it.
fn finish(stream: &'static Stream, host: Tensor<'_>, wait: Option<&CStr>) -> Result<(), Error> {
    match wait {
        Some(name) => stream.synchronize_for(|| name.to_string_lossy().into_owned()),
        None => pools::record_host_stream(ptr::with_exposed_provenance_mut(host.address()), stream),
    }
}

/// True if a tensor and another one have the same layout without gaps, so that a launch can ignore sizes and strides.
#[inline]
fn is_plain(target: Tensor<'_>, source: Tensor<'_>) -> bool {
    let have_flags = target.flags().0 | source.flags().0 != 0;
    if have_flags || !target.has_sizes(source.sizes()) {
        return false;
    }
    let are_contiguous = target.is_dense(Format::Contiguous) && source.is_dense(Format::Contiguous);
    are_contiguous || (target.strides() == source.strides() && target.fills_memory())
}

/// Enqueues a kernel with one output on the current stream of a device.
///
/// # Safety
/// As [`rd_launch`](super::rd_launch::rd_launch), for the tensors' memory.
#[inline]
unsafe fn launch(arena: &BumpArena, op: &'static Op, target: Tensor<'_>, inputs: &[Input<'_>], device: i32) -> Result<(), Failure> {
    let source = inputs.first().and_then(Input::tensor);
    check(target)?;
    source.map_or(Ok(()), check)?;
    let dense_numel = if is_plain(target, source.unwrap_or(target)) { target.numel() } else { 0 };
    let operands = operands(arena, &[Some(target)], inputs, &dense_numel);
    // SAFETY: the caller's promise.
    unsafe { Host::enqueue(op, target.dtype(), device, (operands, 1), dense_numel, &[]) }.map_err(failure)
}

/// Refuses a tensor that cannot be an operand.
#[inline]
fn check(tensor: Tensor<'_>) -> Result<(), Failure> {
    let refused = |text: String| Err(Failure::new(RD_INVALID_ARGUMENT, text));
    match (tensor.ndim(), tensor.address()) {
        (ndim, _) if ndim > MAX_DIMS => refused(format!("{ndim} dimensions; at most {MAX_DIMS}")),
        (_, 0) => refused("an operand has no memory".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, Flags};

    #[test]
    fn plain_copies_are_of_all_bytes_in_order() {
        let tensor = |sizes: &[i64], strides: &[i64]| Tensor::leaked(1, DType::Float, 0, sizes, strides);
        let (rows, columns) = (tensor(&[2, 3], &[3, 1]), tensor(&[2, 3], &[1, 2]));
        assert!(is_plain(rows, rows) && is_plain(columns, columns) && !is_plain(rows, columns));
        let gaps = tensor(&[2, 3], &[4, 1]);
        assert!(!is_plain(gaps, gaps) && !is_plain(rows, tensor(&[3, 2], &[2, 1])));
        assert!(!is_plain(rows, rows.with_flags(Flags::CONJ)) && !is_plain(rows.with_flags(Flags::HOST), rows));
        // The stride of a dimension of one element does not count.
        assert!(is_plain(tensor(&[1, 3], &[7, 1]), tensor(&[1, 3], &[3, 1])));
    }
}
