//! C ABI of the guards of PyTorch's CPU kernels (`src/call/guards.rs`).
//!
//! The shim calls a guard with the boxed arguments before each call of the CPU kernel, and makes the change to an argument that
//! it asks for.

use std::ffi::CStr;
use std::ptr;

use super::rd_fallback::rd_argument;
use super::rd_operator::{failure, rd_guard, rd_value, values};
use super::{guard, rd_status};
use crate::call::guards::{Argument, Change, Guard, Reader};
use crate::call::tensors::{Dims, Format, Tensor};
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::dtype::ALL;
use crate::tensor::{Complex64, DTypeSet, Element, Error, FIELD, Hub, INTEGRAL, Number, UNSIGNED, dispatch};

/// The kernel gets the arguments as they are.
pub const RD_CHANGE_NONE: i32 = 0;
/// The argument is replaced by a contiguous copy.
pub const RD_CHANGE_CONTIGUOUS: i32 = 1;
/// The argument is replaced by a copy with `numbers` in place of NaN, infinity and negative infinity.
pub const RD_CHANGE_FINITE: i32 = 2;

/// A change to an argument that a guard asks for.
#[repr(C)]
pub struct rd_change {
    /// `RD_CHANGE_...`.
    pub kind: i32,
    /// The number of the argument, which is a tensor.
    pub argument: usize,
    pub numbers: [f64; 3],
}

/// The guard of an overload of an operator (`aten::segment_reduce`), if it has one.
pub(super) fn guard_of(operator: &CStr, arguments: &[rd_argument]) -> Option<Guard> {
    let argument = |given: &rd_argument| Argument { name: given.name.lossy().into(), is_written: given.is_written };
    Guard::find(&operator.to_string_lossy(), arguments.iter().map(argument).collect())
}

/// Checks the arguments of a call, one for each argument of the schema, and writes the change to make. Tensors are on the CPU.
///
/// # Safety
/// The arguments and what they point at are readable during the call, including the elements of tensors; strings are UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_guard_check(
    bound: &rd_guard,
    arguments: *const rd_value,
    count: usize,
    change: &mut rd_change,
) -> rd_status {
    guard(|| {
        let arena = BumpArena::default();
        // SAFETY: the caller promises `count` arguments and what they point at.
        let values = unsafe { values(&arena, arguments, count, true) }?;
        *change = match bound.check(values, Some(&HostMemory)).map_err(failure)? {
            None => rd_change { kind: RD_CHANGE_NONE, argument: 0, numbers: [0.0; 3] },
            Some(Change { argument, numbers: None }) => rd_change { kind: RD_CHANGE_CONTIGUOUS, argument, numbers: [0.0; 3] },
            Some(Change { argument, numbers: Some(numbers) }) => rd_change { kind: RD_CHANGE_FINITE, argument, numbers },
        };
        Ok(())
    })
}

/// Reads elements of host tensors; its users have been promised that the elements are readable.
pub(super) struct HostMemory;

impl Reader for HostMemory {
    fn integers(&self, tensor: Tensor<'_>) -> Vec<i64> {
        let mut values = Vec::new();
        // For other dtypes, the kernels do not take numbers that a guard checks.
        each_in(ALL, tensor, |value| values.push(value));
        values
    }

    fn minmax(&self, tensor: Tensor<'_>) -> Option<(i64, i64)> {
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        each_in(INTEGRAL.and(UNSIGNED), tensor, |value: i64| (least, greatest) = (value.min(least), value.max(greatest)));
        (least <= greatest).then_some((least, greatest))
    }

    fn is_finite(&self, tensor: Tensor<'_>) -> bool {
        let mut is_finite = true;
        each_in(FIELD, tensor, |value: Complex64| is_finite &= value.is_finite());
        is_finite
    }
}

/// Visits the elements of a tensor, cast as PyTorch casts them; none if its dtype is not one of these, which are of `ALL`.
fn each_in<U: Number>(dtypes: DTypeSet, tensor: Tensor<'_>, mut visit: impl FnMut(U)) {
    let dtype = tensor.dtype();
    if dtypes.contains(dtype) {
        let _ = dispatch!(dtype in ALL, T => {
            // SAFETY: the callers of `rd_guard_check` and `rd_fallback_check_sparse` promise readable elements; the dtype is T's.
            unsafe { each::<T>(tensor, |value| visit(value.load_single().hub().to())) };
            Ok::<_, Error>(())
        });
    }
}

/// Visits the elements of a tensor in row-major order; none if its address is unknown.
///
/// # Safety
/// The elements are readable, and each is a `T`.
unsafe fn each<T: Element>(tensor: Tensor<'_>, mut visit: impl FnMut(T)) {
    let is_dense = tensor.is_dense(Format::Contiguous);
    let (sizes, strides): (Dims, Dims) = if is_dense {
        (Dims::from_slice(&[tensor.numel()]), Dims::from_slice(&[1]))
    } else {
        (tensor.sizes().into(), tensor.strides().into())
    };
    if tensor.address() == 0 || tensor.numel() == 0 {
        return;
    }
    let begin = ptr::with_exposed_provenance::<T>(tensor.address());
    let last = sizes.len() - 1;
    let mut index = Dims::from_elem(0, last);
    let mut row = 0;
    for _ in 0..sizes[..last].iter().product() {
        for column in 0..sizes[last] {
            let element = begin.wrapping_offset((row + column * strides[last]) as isize);
            // SAFETY: the caller promises that elements at indices within the sizes are readable.
            visit(unsafe { element.read_unaligned() });
        }
        for dim in (0..last).rev() {
            index[dim] += 1;
            row += strides[dim];
            if index[dim] < sizes[dim] {
                break;
            }
            row -= index[dim] * strides[dim];
            index[dim] = 0;
        }
    }
}
