//! The GIL, which the runtime releases while it waits.

use std::mem::transmute;

use libc::{RTLD_DEFAULT, dlsym};
use pyo3::exceptions::PyImportError;
use pyo3::ffi::{PyGILState_Ensure, PyGILState_GetThisThreadState, PyGILState_Release, PyGILState_STATE, PyThreadState};
use pyo3::prelude::*;

use crate::runtime::sync::{OnceLock, UNLOCK};

/// Returns the Python state of the holder of the GIL, or null. Up to Python 3.11, the holder is that of the whole process.
type Holder = unsafe extern "C" fn() -> *mut PyThreadState;

static HOLDER: OnceLock<Holder> = OnceLock::new();

/// The body of a wait, wrapped as `Send` for `detach`.
struct Carried<'a>(&'a mut dyn FnMut());

// SAFETY: `detach` calls it on the thread that created it.
unsafe impl Send for Carried<'_> {}

impl Carried<'_> {
    fn run(self) {
        (self.0)();
    }
}

/// Makes every wait of the runtime release the GIL.
pub(super) fn register() -> PyResult<()> {
    // The stable ABI lacks such a function. The second name is for Python before 3.13.
    let names = [c"PyThreadState_GetUnchecked", c"_PyThreadState_UncheckedGet"];
    // SAFETY: the names are NUL-terminated.
    let found = names.iter().map(|name| unsafe { dlsym(RTLD_DEFAULT, name.as_ptr()) }).find(|symbol| !symbol.is_null());
    let symbol = found.ok_or_else(|| PyImportError::new_err("rustdev: this Python does not say which thread holds its lock"))?;
    // SAFETY: both names are functions of this signature, in every Python that has them.
    let holder = unsafe { transmute::<*mut libc::c_void, Holder>(symbol) };
    // The module may be loaded again, with the same functions.
    _ = HOLDER.set(holder);
    _ = UNLOCK.set(unlock);
    Ok(())
}

/// True if this thread holds the GIL. False before the interpreter starts and after it has ended.
pub(super) fn is_held() -> bool {
    let Some(holder) = HOLDER.get() else { return false };
    // SAFETY: this function may be called at any time, by any thread.
    let holder = unsafe { holder() };
    // SAFETY: as above.
    !holder.is_null() && holder == unsafe { PyGILState_GetThisThreadState() }
}

/// The GIL, taken by a thread that has Python state and does not hold the GIL.
struct Held(PyGILState_STATE);

impl Held {
    fn take() -> Self {
        // SAFETY: the interpreter lives, since this thread has a state of it.
        Self(unsafe { PyGILState_Ensure() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the state is of the call in `take`, which this thread made.
        unsafe { PyGILState_Release(self.0) };
    }
}

/// Runs a function with the GIL; `None` if there is no interpreter. PyO3 only knows of its own calls into Python. Torch
/// releases the GIL around each operator; if Python called that operator below a PyO3 function, PyO3 believes that the GIL is
/// still held.
pub(super) fn attach<T>(body: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _held = (has_state() && !is_held()).then(Held::take);
    Python::try_attach(body)
}

/// True if this thread has run Python.
pub(super) fn has_state() -> bool {
    // SAFETY: this function may be called at any time, by any thread; null means that the thread has no Python state.
    unsafe { !PyGILState_GetThisThreadState().is_null() }
}

fn unlock(body: &mut dyn FnMut()) {
    if !is_held() {
        return body();
    }
    let carried = Carried(body);
    // SAFETY: this thread holds the GIL, as checked above.
    let py = unsafe { Python::assume_attached() };
    py.detach(|| carried.run());
}
