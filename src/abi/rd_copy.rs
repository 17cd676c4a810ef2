//! C ABI of copies between any dtypes, strides and devices.
//!
//! A copy is one launch of the kernel `copy_`. Between two devices it runs on the source's current stream; two events order it
//! after and before the work of the destination's current stream.

use std::ffi::{CStr, c_char};
use std::ptr;

use super::rd_device::device_index;
use super::rd_launch::Launched;
use super::rd_operator::{line, operand, rd_tensor, tensor};
use super::{Failure, RD_INTERNAL, RD_INVALID_ARGUMENT, guard, rd_status};
use crate::operators::callees::kernel;
use crate::operators::{Format, Tensor};
use crate::runtime::event::Event;
use crate::runtime::stream::Stream;
use crate::runtime::{Error, device, pools};
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::launch::Scalar;
use crate::tensor::view::MAX_DIMS;

/// Enqueues a copy of a non-empty tensor to another tensor of the same sizes; at least one of the two is on a device. For a copy
/// from or to the host, `wait` names the operator that waits for it. If `wait` is null, the call does not wait, and pinned memory
/// is kept until the stream has passed the copy.
///
/// # Safety
/// Both tensors are readable, with sizes and strides, and their memory meets the contract of
/// [`rd_launch`](super::rd_launch::rd_launch); `wait` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_copy(target: *const rd_tensor, source: *const rd_tensor, wait: *const c_char) -> rd_status {
    guard(|| {
        let arena = BumpArena::default();
        // SAFETY: the caller promises a tensor.
        let target = unsafe { described(&arena, target) }?;
        // SAFETY: as above.
        let source = unsafe { described(&arena, source) }?;
        let [to, from] = [target, source].map(Tensor::device);
        let enqueue = |device: i32| {
            // SAFETY: the caller's promise.
            unsafe { launch(&arena, target, source, device) }
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
        // SAFETY: the caller promises that `wait` is null or a string.
        let wait = (!wait.is_null()).then(|| unsafe { CStr::from_ptr(wait) });
        Ok(finish(current_stream(device)?, host, wait)?)
    })
}

/// # Safety
/// `given` is readable, with sizes and strides, for the arena's lifetime.
#[inline]
unsafe fn described(arena: &BumpArena, given: *const rd_tensor) -> Result<Tensor<'_>, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { &*given };
    // SAFETY: as above.
    unsafe { tensor(arena, given, true) }
}

fn current_stream(device: i32) -> Result<&'static Stream, Error> {
    Ok(device::current_stream(device_index(device)?))
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

/// True if both tensors have the same layout without gaps, so that the copy can ignore sizes and strides.
fn is_plain(target: Tensor<'_>, source: Tensor<'_>) -> bool {
    let have_flags = target.flags().0 | source.flags().0 != 0;
    if have_flags || !target.has_sizes(source.sizes()) {
        return false;
    }
    let are_contiguous = target.is_dense(Format::Contiguous) && source.is_dense(Format::Contiguous);
    are_contiguous || (target.strides() == source.strides() && target.fills_memory())
}

/// Enqueues the kernel on the current stream of a device.
///
/// # Safety
/// As [`rd_launch`](super::rd_launch::rd_launch), for the tensors' memory.
#[inline]
unsafe fn launch(arena: &BumpArena, target: Tensor<'_>, source: Tensor<'_>, device: i32) -> Result<(), Failure> {
    let tensors = [target, source];
    check(&tensors)?;
    let dense_numel = if is_plain(target, source) { target.numel() } else { 0 };
    let view = |tensor| if dense_numel > 0 { line(tensor, &dense_numel) } else { operand(arena, tensor) };
    let operands = tensors.map(view);
    let launched = Launched {
        op: kernel!(c"copy_"),
        device,
        compute: target.dtype(),
        num_outputs: 1,
        dense_numel,
        operands: &operands[..],
        num_scalars: 0,
        scalar: |index: usize| -> Result<Scalar, Failure> {
            Err(Failure::new(RD_INTERNAL, format!("a copy has no scalar {index}")))
        },
    };
    // SAFETY: the caller's promise.
    unsafe { launched.launch() }
}

/// Refuses tensors that cannot be operands.
fn check(tensors: &[Tensor<'_>]) -> Result<(), Failure> {
    let refused = |text: String| Err(Failure::new(RD_INVALID_ARGUMENT, text));
    for tensor in tensors {
        if tensor.ndim() > MAX_DIMS {
            return refused(format!("{} dimensions; at most {MAX_DIMS}", tensor.ndim()));
        }
        if tensor.address() == 0 {
            return refused("an operand has no memory".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::super::rd_device::rd_init;
    use super::super::rd_launch::RD_OPERAND_HOST;
    use super::super::{RD_OK, RD_UNSUPPORTED};
    use super::*;
    use crate::tensor::dtype::DType;
    use crate::tensor::view::Flags;

    fn given(data: *mut c_void, dtype: DType, device: i32, sizes: &[i64], strides: &[i64]) -> rd_tensor {
        let (sizes, strides, ndim) = (sizes.as_ptr(), strides.as_ptr(), sizes.len() as i32);
        let flags = if device < 0 { RD_OPERAND_HOST } else { 0 };
        rd_tensor { handle: ptr::null_mut(), data, sizes, strides, ndim, dtype: dtype as i32, device, flags }
    }

    fn copy(target: &rd_tensor, source: &rd_tensor, wait: Option<&CStr>) -> rd_status {
        assert_eq!(rd_init(), RD_OK);
        // SAFETY: the tensors outlive the synchronisation that each test ends with.
        unsafe { rd_copy(target, source, wait.map_or(ptr::null(), CStr::as_ptr)) }
    }

    #[test]
    fn elements_are_copied_between_layouts_and_dtypes() {
        let (mut source, mut doubles, mut floats) = ([1_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [0_f64; 6], [0_f32; 6]);
        let from = given(source.as_mut_ptr().cast(), DType::Float, 0, &[2, 3], &[3, 1]);
        let to = given(doubles.as_mut_ptr().cast(), DType::Double, 0, &[2, 3], &[3, 1]);
        assert_eq!(copy(&to, &from, None), RD_OK);
        let to = given(floats.as_mut_ptr().cast(), DType::Float, 0, &[2, 3], &[1, 2]);
        assert_eq!(copy(&to, &from, None), RD_OK);
        device::get(0).unwrap().synchronize().unwrap();
        assert_eq!((doubles, floats), ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
    }

    #[test]
    fn a_copy_to_the_host_is_waited_for() {
        let (mut source, mut target) = ([1_i64, 2, 3], [0_i64; 3]);
        let from = given(source.as_mut_ptr().cast(), DType::Long, 0, &[3], &[1]);
        let to = given(target.as_mut_ptr().cast(), DType::Long, -1, &[3], &[1]);
        assert_eq!(copy(&to, &from, Some(c"a copy")), RD_OK);
        assert_eq!(target, source);
    }

    #[test]
    fn tensors_without_memory_are_refused() {
        let mut source = [1_f32];
        let from = given(source.as_mut_ptr().cast(), DType::Float, 0, &[1], &[1]);
        let to = given(ptr::null_mut(), DType::Float, 0, &[1], &[1]);
        assert_eq!(copy(&to, &from, None), RD_INVALID_ARGUMENT);
        let unknown = rd_tensor { dtype: 1000, ..from };
        assert_eq!(copy(&unknown, &from, None), RD_UNSUPPORTED);
    }

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
