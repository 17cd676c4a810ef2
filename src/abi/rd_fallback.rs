//! C ABI of the CPU fallback: its operators, rules and statistics, and the wait before a call.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::time::Instant;

use super::rd_device::{current_stream, device_index, small};
use super::rd_guard::{HostMemory, guard_of};
use super::rd_operator::{elements, failure, rd_guard, rd_value, values};
use super::rd_stream::rd_access;
use super::{guard, rd_status, rd_text, shield};
use crate::call::guards::{Guard, check_members, looks_at_no_index};
use crate::runtime::fallback::FallbackOperator;
use crate::runtime::sync::{LazyLock, PoisonError, RwLock};
use crate::runtime::trace::{self, Kind, Mark};
use crate::runtime::{device, sanitizer};
use crate::tensor::bump_arena::BumpArena;

/// An operator that the fallback was called for; it lives forever.
pub struct rd_fallback {
    operator: &'static FallbackOperator,
    /// The name with namespace and overload: `aten::sort.stable`.
    name: CString,
    overload: CString,
    /// The guard of its CPU kernel.
    guard: Option<Guard>,
}

/// An argument of a schema.
#[repr(C)]
pub struct rd_argument {
    pub name: rd_text,
    /// True if the operator writes to it.
    pub is_written: bool,
}

/// A running CPU kernel on this thread, opaque to C.
pub struct rd_fallback_run {
    operator: &'static FallbackOperator,
    begin: Instant,
    mark: Option<Mark>,
}

/// Operators by name without overload.
type Operators = HashMap<CString, Vec<&'static rd_fallback>>;

static FOUND: LazyLock<RwLock<Operators>> = LazyLock::new(RwLock::default);

fn find(operators: &Operators, name: &CStr, overload: &CStr) -> Option<&'static rd_fallback> {
    operators.get(name)?.iter().find(|known| known.overload.as_c_str() == overload).copied()
}

/// Finds the operator of a name with namespace (`aten::sort`) and an overload, if [`rd_fallback_make`] has made it, else null.
/// Every fallback call uses this, so that the schema is processed only once.
#[unsafe(no_mangle)]
pub extern "C" fn rd_fallback_find(name: rd_text, overload: rd_text) -> Option<&'static rd_fallback> {
    shield(None, || find(&FOUND.read().unwrap_or_else(PoisonError::into_inner), name.given()?, overload.given()?))
}

/// Makes the operator of a name and an overload with these arguments, unless another thread has made it already.
///
/// # Safety
/// `arguments` has `count` readable elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fallback_make(
    name: rd_text,
    overload: rd_text,
    arguments: *const rd_argument,
    count: usize,
    made: &mut *const rd_fallback,
) -> rd_status {
    guard(|| {
        let [name, overload] = [&name, &overload].map(|text| text.given().unwrap_or_default());
        let mut operators = FOUND.write().unwrap_or_else(PoisonError::into_inner);
        *made = find(&operators, name, overload).unwrap_or_else(|| {
            // SAFETY: the caller promises `count` arguments.
            let arguments = unsafe { elements::<rd_argument>(arguments.cast(), count) };
            let guard = guard_of(name, arguments);
            let point: &[u8] = if overload.is_empty() { b"" } else { b"." };
            let full = CString::new([name.to_bytes(), point, overload.to_bytes()].concat()).unwrap_or_default();
            let operator = FallbackOperator::find(&full.to_string_lossy());
            let made: &'static rd_fallback =
                Box::leak(Box::new(rd_fallback { operator, name: full, overload: overload.into(), guard }));
            operators.entry(name.into()).or_default().push(made);
            made
        });
        Ok(())
    })
}

/// The operator's name.
#[unsafe(no_mangle)]
pub extern "C" fn rd_fallback_name(op: &rd_fallback) -> *const c_char {
    op.name.as_ptr()
}

/// The guard of the operator's CPU kernel, or null.
#[unsafe(no_mangle)]
pub extern "C" fn rd_fallback_guard(op: &rd_fallback) -> Option<&rd_guard> {
    op.guard.as_ref()
}

/// Checks a sparse CPU tensor of a call, an argument or the parts of a future result: fails if its indices are invalid, because the
/// kernel would compute addresses from them. `members` are its layout's name, sizes, compressed indices (absent for COO), indices
/// and values.
///
/// # Safety
/// `count` members and what they point at are readable during the call, including the elements of tensors; strings are UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fallback_check_sparse(op: &rd_fallback, members: *const rd_value, count: usize) -> rd_status {
    guard(|| {
        let operator = op.operator.name();
        let name = operator.split_once('.').map_or(operator, |(name, _)| name);
        if looks_at_no_index(name) {
            return Ok(());
        }
        let arena = BumpArena::default();
        // SAFETY: the caller promises `count` members and what they point at.
        let members = unsafe { values(&arena, members, count, true) }?;
        check_members(name, members, &HostMemory).map_err(failure)
    })
}

/// True if this argument stays on the CPU even in calls on device tensors.
#[unsafe(no_mangle)]
pub extern "C" fn rd_fallback_takes_host(op: &rd_fallback, argument: rd_text) -> bool {
    shield(false, || op.operator.takes_host(&argument.lossy()))
}

/// Checks a call with arguments on these devices, in order. Writes the device of its results, and whether to warn. `with_host`: one
/// of the tensors is on the CPU. `expects_error`: the kernel is to raise its error, and the rules do not matter. Fails for several
/// devices, and with `RD_UNSUPPORTED` if the rules forbid the fallback.
///
/// # Safety
/// `devices` has `count` readable elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fallback_begin(
    op: &rd_fallback,
    devices: *const i32,
    count: usize,
    with_host: bool,
    expects_error: bool,
    device: &mut i32,
    warns: &mut bool,
) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let devices = unsafe { elements::<i32>(devices.cast(), count) };
        *device = op.operator.device_of(devices, with_host)?.unwrap_or_else(|| small(device::current()));
        *warns = !expects_error && op.operator.check()?;
        Ok(())
    })
}

/// Waits for this thread's current streams of a call's devices, and checks the kernel's accesses for races. Fails if one of the
/// streams is capturing.
///
/// # Safety
/// Both arrays have as many readable elements as stated. The addresses of accesses are compared, never dereferenced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fallback_wait(
    op: &rd_fallback,
    devices: *const i32,
    num_devices: usize,
    accesses: *const rd_access,
    num_accesses: usize,
) -> rd_status {
    guard(|| {
        let name = op.operator.name();
        // SAFETY: the caller's promise.
        let devices = unsafe { elements::<i32>(devices.cast(), num_devices) };
        for (position, &device) in devices.iter().enumerate() {
            if devices[..position].contains(&device) {
                continue;
            }
            let what = || format!("{name} (computed by PyTorch's CPU kernel, which waits for the device)");
            current_stream(device)?.synchronize_for(what)?;
        }
        // SAFETY: as above.
        for access in unsafe { elements::<rd_access>(accesses.cast(), num_accesses) } {
            sanitizer::host_touches(name, access.begin.addr(), access.end.addr(), access.write)?;
        }
        Ok(())
    })
}

/// Notes that the kernel starts on this thread, in the order of the device's current stream; ended by [`rd_fallback_run_end`].
#[unsafe(no_mangle)]
pub extern "C" fn rd_fallback_run_begin(op: &rd_fallback, device: i32) -> Option<Box<rd_fallback_run>> {
    shield(None, || {
        let operator = op.operator;
        let stream = device_index(device).ok().filter(|_| trace::is_on()).map(device::current_stream);
        let mark = stream.and_then(|stream| trace::mark_call(stream, operator.name(), Kind::Fallback));
        Some(Box::new(rd_fallback_run { operator, begin: Instant::now(), mark }))
    })
}

/// Notes that the kernel has ended; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rd_fallback_run_end(run: Option<Box<rd_fallback_run>>, failed: bool) {
    let Some(run) = run else { return };
    if let Some(mark) = &run.mark {
        mark.end(failed);
        mark.submitted();
    }
    if !failed {
        run.operator.count(run.begin.elapsed().as_nanos() as u64);
    }
}
