//! Report of a fault in device memory: a SIGSEGV handler that names the block and then restores the previous handler.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::guarded_blocks::describe;
use crate::runtime::pools;

static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler; only the first call has an effect.
pub fn install() {
    BEFORE.get_or_init(|| {
        // SAFETY: all zeros is a valid `sigaction`: no handler, no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut before = action;
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = report;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both structures are valid, and the handler has the signature that SA_SIGINFO asks for.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) };
        before
    });
}

/// Writes the report, then restores the previous handler, which gets the signal when the instruction faults again.
///
/// The handler allocates memory. This is safe here: no allocator accesses device memory, so the faulting thread is not inside an
/// allocator.
extern "C" fn report(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes valid signal information.
    let info = unsafe { &*info };
    // SAFETY: the signal is SIGSEGV, whose information has an address.
    let address = unsafe { info.si_addr() } as usize;
    if let Some(device) = pools::device_of(address as *const u8) {
        let known = describe(address).unwrap_or_else(|| "nothing more is known of it".to_owned());
        let text = format!(
            "rustdev: the host touched memory of device rustdev:{device} at {address:#x}: {known}. Copy it to the host first, for example with tensor.cpu()\n"
        );
        // SAFETY: the text is valid for its length.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: the action came from `sigaction`.
        unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
    }
}
