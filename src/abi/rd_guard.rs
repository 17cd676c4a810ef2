//! C ABI of the guards of PyTorch's CPU kernels (`src/operators/guards.rs`).
//!
//! The shim finds the guard of an overload once, and has it check the boxed arguments before each call of the CPU kernel. What a guard wants
//! changed of an argument, the shim changes.

use std::ffi::{CStr, c_char};
use std::ptr;

use super::rd_operator::{elements, failure, rd_value, values};
use super::{Failure, RD_INTERNAL, RD_INVALID_ARGUMENT, guard, rd_status};
use crate::operators::guards::{Argument, Change, Guard, Reader};
use crate::operators::{Dims, Format, Tensor};
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::dtype::{Complex64, Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::number::{Hub, Number};

/// The guard of an overload; it lives forever.
#[allow(non_camel_case_types)]
pub type rd_guard = Guard;

/// An argument of a schema.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_argument {
    pub name: *const c_char,
    /// Whether the operator writes to it.
    pub is_written: bool,
}

/// The argument becomes a contiguous copy.
pub const RD_CHANGE_CONTIGUOUS: i32 = 0;
/// It becomes a copy with `numbers` in the place of NaN, infinity and negative infinity.
pub const RD_CHANGE_FINITE: i32 = 1;
/// It is resized, as `out=` is, to the sizes of argument number `like`.
pub const RD_CHANGE_RESIZED: i32 = 2;

/// What a guard wants changed.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_change {
    /// `RD_CHANGE_...`.
    pub kind: i32,
    /// The number of the argument, a tensor.
    pub argument: usize,
    pub like: usize,
    pub numbers: [f64; 3],
}

/// Changes of one call at most.
pub const RD_MAX_CHANGES: usize = 4;

/// The guard of an overload of an operator (`aten::segment_reduce`), or null.
///
/// # Safety
/// `name` is NUL-terminated, and so are the names of so many readable arguments; `found` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_guard_find(
    name: *const c_char,
    arguments: *const rd_argument,
    count: usize,
    found: *mut *const rd_guard,
) -> rd_status {
    guard(|| {
        // SAFETY: the caller promises strings and so many arguments.
        let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy();
        // SAFETY: as above.
        let given = unsafe { elements::<rd_argument>(arguments.cast(), count) };
        let arguments = given.iter().map(|each| Argument { name: text(each.name).into(), is_written: each.is_written });
        let guard = Guard::find(&text(name), arguments.collect());
        let guard = guard.map_or(ptr::null(), |guard| Box::into_raw(Box::new(guard)).cast_const());
        // SAFETY: the caller promises a pointer that may be written.
        unsafe { found.write(guard) };
        Ok(())
    })
}

/// Checks the arguments of a call, one for each of the schema, and says what to change of them. Tensors are on the CPU, unless
/// `has_values` says that they have no values yet: sizes and dtypes are checked then.
///
/// # Safety
/// `bound` came from [`rd_guard_find`]; the arguments and what they point at are readable during the call, their strings are UTF-8. With
/// `has_values`, so are the elements of tensors. `changes` has [`RD_MAX_CHANGES`] writable elements, and `changed` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_guard_check(
    bound: *const rd_guard,
    arguments: *const rd_value,
    count: usize,
    has_values: bool,
    changes: *mut rd_change,
    changed: *mut usize,
) -> rd_status {
    guard(|| {
        // SAFETY: the caller promises a guard.
        let guard = unsafe { bound.as_ref() }.ok_or_else(|| Failure::new(RD_INVALID_ARGUMENT, "no guard"))?;
        let reader = has_values.then_some(&HostMemory as &dyn Reader);
        let arena = BumpArena::default();
        // SAFETY: the caller promises so many arguments and what they point at.
        let values = unsafe { values(&arena, arguments, count, true) }?;
        let found = guard.check(values, reader).map_err(failure)?;
        if found.len() > RD_MAX_CHANGES {
            return Err(Failure::new(RD_INTERNAL, format!("internal error: a guard with {} changes", found.len())));
        }
        for (index, &(argument, change)) in found.iter().enumerate() {
            // SAFETY: the caller promises so many elements.
            let slot = unsafe { changes.add(index) };
            // SAFETY: they may be written.
            unsafe { slot.write(described(argument, change)) };
        }
        // SAFETY: the caller promises a pointer that may be written.
        unsafe { changed.write(found.len()) };
        Ok(())
    })
}

fn described(argument: usize, change: Change) -> rd_change {
    let (kind, like, numbers) = match change {
        Change::Contiguous => (RD_CHANGE_CONTIGUOUS, 0, [0.0; 3]),
        Change::Finite(numbers) => (RD_CHANGE_FINITE, 0, numbers),
        Change::Resized(like) => (RD_CHANGE_RESIZED, like, [0.0; 3]),
    };
    rd_change { kind, argument, like, numbers }
}

/// Where the tensors of a call with values are.
struct HostMemory;

impl Reader for HostMemory {
    fn integers(&self, tensor: Tensor<'_>) -> Vec<i64> {
        let (dtype, mut values) = (tensor.dtype(), Vec::new());
        let read = dispatch!(dtype in ALL, T => {
            // SAFETY: `rd_guard_check` is promised that they are readable, and the dtype is T's.
            unsafe { each::<T>(tensor, |value| values.push(cast(value))) };
            Ok::<_, Error>(())
        });
        // Of another dtype the kernels take no numbers that a guard asks for.
        read.map_or_else(|_| Vec::new(), |()| values)
    }

    fn minmax(&self, tensor: Tensor<'_>) -> Option<(i64, i64)> {
        let (dtype, mut least, mut greatest) = (tensor.dtype(), i64::MAX, i64::MIN);
        let mut visit = |value: i64| (least, greatest) = (value.min(least), value.max(greatest));
        dispatch!(dtype in INTEGRAL | UNSIGNED, T => {
            // SAFETY: `rd_guard_check` is promised that they are readable, and the dtype is T's.
            unsafe { each::<T>(tensor, |value| visit(cast(value))) };
            Ok::<_, Error>(())
        })
        .ok()?;
        (least <= greatest).then_some((least, greatest))
    }

    fn is_finite(&self, tensor: Tensor<'_>) -> bool {
        let (dtype, mut is_finite) = (tensor.dtype(), true);
        let mut visit = |value: Complex64| is_finite &= value.is_finite();
        let read = dispatch!(dtype in FIELD, T => {
            // SAFETY: `rd_guard_check` is promised that they are readable, and the dtype is T's.
            unsafe { each::<T>(tensor, |value| visit(cast(value))) };
            Ok::<_, Error>(())
        });
        read.is_err() || is_finite
    }
}

/// A value as PyTorch's cast makes one of another type of it.
fn cast<T: Element, U: Number>(value: T) -> U {
    value.load_single().hub().to()
}

/// Visits the elements of a tensor in the order of its dimensions; none where it is not known where they are.
///
/// # Safety
/// They are readable, and each is a `T`.
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
            // SAFETY: the caller promises that what indices within the sizes name is readable.
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
