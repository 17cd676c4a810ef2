//! Calls of PyTorch in the scope of `rustdev/_cuda_mode.py`, which explains the mode. Each function and each getter of a tensor
//! comes here before it runs, so this must take only a fraction of a microsecond.
//!
//! The call is a C function of Python, not one of PyO3: its callees release the GIL and call this crate again, and PyO3 would
//! believe that this thread still holds the GIL.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use pyo3::{ffi, intern};

use super::frames;

/// True if "cuda" is mapped. Threads that were started in the scope keep their mode after it ends.
static IS_ON: AtomicBool = AtomicBool::new(false);

#[pyfunction]
fn cuda_mode_is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

#[pyfunction]
fn cuda_mode_switch(is_on: bool) {
    IS_ON.store(is_on, Ordering::Relaxed);
}

#[pyfunction]
fn cuda_mode_calls<'py>(
    py: Python<'py>,
    special: Bound<'py, PyAny>,
    device: Bound<'py, PyAny>,
    mapped: Bound<'py, PyAny>,
    renamed: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let state = PyTuple::new(py, [special, device, mapped, renamed])?;
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: c"call".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFast: call },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: c"Call a function with \"cuda\" mapped.".as_ptr(),
    }));
    // SAFETY: the GIL is held; the definition is never freed, and the function keeps a reference to the state.
    let function = unsafe { ffi::PyCFunction_NewEx(definition, state.as_ptr(), null_mut()) };
    // SAFETY: the call above returned a new reference, or null with an error set.
    unsafe { Bound::from_owned_ptr_or_err(py, function) }
}

/// The function that `cuda_mode_calls` makes. If it returns null, an error is set.
///
/// # Safety
/// Python calls it with the GIL held, the state, and `count` values.
unsafe extern "C" fn call(
    state: *mut ffi::PyObject,
    values: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise. PyO3 does not count this token: see the module's description.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller's promise; the function keeps the state.
    let state = unsafe { Bound::from_borrowed_ptr(py, state) };
    let values = if values.is_null() || count <= 0 {
        &[]
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(values, count.unsigned_abs()) }
    };
    // SAFETY: the caller's promise: each is an object that the caller keeps for the call.
    let value = |index: usize| values.get(index).map(|&value| unsafe { Bound::from_borrowed_ptr(py, value) });
    let result = match (value(0), value(2), value(3)) {
        (Some(func), Some(args), Some(kwargs)) => call_mapped(&state, &func, args, kwargs),
        _ => Err(PyTypeError::new_err("expected a function, types, arguments and keywords")),
    };
    match result {
        Ok(result) => result.into_ptr(),
        Err(error) => {
            error.restore(py);
            null_mut()
        }
    }
}

fn call_mapped<'py>(
    state: &Bound<'py, PyAny>,
    func: &Bound<'py, PyAny>,
    args: Bound<'py, PyAny>,
    kwargs: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = func.py();
    let args = args.cast_into::<PyTuple>()?;
    let kwargs = if kwargs.is_none() { None } else { Some(kwargs.cast_into::<PyDict>()?) };
    if !cuda_mode_is_on() {
        return func.call(args, kwargs.as_ref());
    }
    let state = State::of(state.cast::<PyTuple>()?)?;
    let result = if let Some(special) = state.special.get_item(func)? {
        special.call1((func, args, kwargs.unwrap_or_else(|| PyDict::new(py))))
    } else {
        let args = state.map_tuple(args)?;
        let kwargs = kwargs.map(|kwargs| state.map_dict(kwargs)).transpose()?;
        func.call(args, kwargs.as_ref())
    };
    result.inspect_err(|error| {
        if error.is_instance_of::<PyException>(py) {
            // If renaming fails, the error stays as it is.
            let _ = state.renamed.call1((error.value(py),));
        }
    })
}

/// The arguments of `cuda_mode_calls`.
struct State<'a, 'py> {
    special: Borrowed<'a, 'py, PyDict>,
    device: Borrowed<'a, 'py, PyAny>,
    mapped: Borrowed<'a, 'py, PyAny>,
    renamed: Borrowed<'a, 'py, PyAny>,
}

impl<'a, 'py> State<'a, 'py> {
    fn of(state: &'a Bound<'py, PyTuple>) -> PyResult<Self> {
        let item = |index| state.get_borrowed_item(index);
        Ok(Self { special: item(0)?.cast::<PyDict>()?, device: item(1)?, mapped: item(2)?, renamed: item(3)? })
    }

    /// The device that a value stands for, if it is a string or a `torch.device` of type "cuda".
    fn map(&self, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_cuda = if let Ok(name) = value.cast_exact::<PyString>() {
            is_cuda(name)
        } else if value.get_type().is(&*self.device) {
            value.getattr(intern!(value.py(), "type"))?.cast::<PyString>().is_ok_and(is_cuda)
        } else {
            false
        };
        if is_cuda { self.mapped.call1((value,)).map(Some) } else { Ok(None) }
    }

    fn map_tuple(&self, args: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let mut changed: Option<Vec<Bound<'py, PyAny>>> = None;
        for (index, value) in args.iter_borrowed().enumerate() {
            if let Some(device) = self.map(&value)? {
                changed.get_or_insert_with(|| args.iter().collect())[index] = device;
            }
        }
        match changed {
            Some(values) => PyTuple::new(args.py(), values),
            None => Ok(args),
        }
    }

    fn map_dict(&self, kwargs: Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let mut changed: Option<Bound<'py, PyDict>> = None;
        for (name, value) in kwargs.iter() {
            if let Some(device) = self.map(&value)? {
                // The caller's dictionary stays unchanged.
                let copy = match changed {
                    Some(copy) => copy,
                    None => kwargs.copy()?,
                };
                copy.set_item(name, device)?;
                changed = Some(copy);
            }
        }
        Ok(changed.unwrap_or(kwargs))
    }
}

/// True if a name is "cuda" or "cuda:" with an index.
fn is_cuda(name: &Bound<'_, PyString>) -> bool {
    name.to_str().is_ok_and(|name| name.strip_prefix("cuda").is_some_and(|rest| rest.is_empty() || rest.starts_with(':')))
}

#[pyfunction]
fn cuda_mode_is_asked_by_pytorch(py: Python<'_>, depth: usize) -> PyResult<bool> {
    let (mut left_out, mut is_asked) = (0, false);
    frames::visit(py, |frame| {
        let name = frame.getattr(intern!(py, "f_code"))?.getattr(intern!(py, "co_name"))?;
        left_out += 1;
        if left_out <= depth || name.eq(intern!(py, "__torch_function__"))? {
            return Ok(true);
        }
        let module = frame.getattr(intern!(py, "f_globals"))?.get_item(intern!(py, "__name__"));
        let module = module.and_then(|module| Ok(module.cast_into::<PyString>()?));
        is_asked = module.is_ok_and(|module| module.to_str().is_ok_and(is_pytorchs));
        Ok(false)
    })?;
    Ok(is_asked)
}

fn is_pytorchs(module: &str) -> bool {
    let (package, rest) = module.split_once('.').unwrap_or((module, ""));
    matches!(package, "torch" | "rustdev") && !rest.starts_with("testing._internal")
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: cuda_mode_is_on, cuda_mode_switch, cuda_mode_calls, cuda_mode_is_asked_by_pytorch)
}
