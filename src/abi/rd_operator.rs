//! C ABI of operators that are bound in Rust (`src/ops/`).
//!
//! The shim registers each overload of `rd_operators_bind` with a boxed kernel. The kernel passes the arguments as plain
//! descriptors and carries out on PyTorch's tensors what the operator asks for through `rd_caller`.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::offset_of;
use std::ptr;
use std::slice;

use super::rd_launch::{self, Launched, RD_SCALAR_CELL, rd_op, rd_scalar};
use super::{Failure, RD_FALLBACK, RD_INTERNAL, RD_INVALID_ARGUMENT, RD_INVALID_VALUE, RD_OK, RD_OUT_OF_RANGE, RD_UNSUPPORTED};
use super::{guard, rd_status};
pub use crate::call::Cut as rd_cut;
pub use crate::call::Partition as rd_division;
pub use crate::call::Strides as rd_strides;
use crate::call::callees::{CALLEES, Callee};
use crate::call::guards::Guard;
pub use crate::call::operator::DenseCalls as rd_dense;
use crate::call::operator::{Kernel, Operator};
use crate::call::{
    Arguments, Call, CallError, Caller, Format, Input, Outcome, Shape, Shapes, Tensor, Tensors, Value, Wanted, contiguous_strides,
    copied,
};
use crate::ops::bindings::{definitions, operators};
use crate::runtime::observers;
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::{Cell, DType, Flags, Layout, Op, Scalar, View};

/// From [`rd_operator_call`]: the call is to be served by PyTorch's composite implementation of the operator.
pub const RD_COMPOSITE: rd_status = 10;
/// From [`rd_operator_call`]: PyTorch's CPU kernel refuses the arguments as well, and raises its error.
pub const RD_CPU_ERROR: rd_status = 11;

/// An operator that is bound in Rust; it lives forever.
pub type rd_operator = Operator;

/// A tensor or a view of one. `handle` is its `c10::TensorImpl`, or null if this describes the shape of a tensor that does not
/// exist yet. Sizes and strides are in elements.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rd_tensor {
    pub handle: *mut c_void,
    pub data: *mut c_void,
    pub sizes: *const i64,
    pub strides: *const i64,
    pub ndim: i32,
    pub dtype: i32,
    /// The index of a rustdev device, or -1.
    pub device: i32,
    /// Any of `RD_OPERAND_CONJ`, `RD_OPERAND_NEG`, `RD_OPERAND_HOST` (on the CPU) and `RD_TENSOR_WRAPPED_NUMBER`.
    pub flags: u32,
}

/// Flag of a 0-dim tensor that stands for a Python number (PyTorch's wrapped number).
pub const RD_TENSOR_WRAPPED_NUMBER: u32 = 16;
const _: () = assert!(RD_TENSOR_WRAPPED_NUMBER == Flags::WRAPPED_NUMBER.0 as u32);

/// An argument that is absent, or an undefined tensor.
pub const RD_VALUE_NONE: i32 = 0;
/// An `rd_tensor`.
pub const RD_VALUE_TENSOR: i32 = 1;
/// An array of `count` `rd_tensor`.
pub const RD_VALUE_TENSORS: i32 = 2;
/// A number, in `scalar`.
pub const RD_VALUE_SCALAR: i32 = 3;
/// An array of `count` `int64_t`.
pub const RD_VALUE_INTEGERS: i32 = 4;
/// An array of `count` `double`.
pub const RD_VALUE_DOUBLES: i32 = 5;
/// An array of `count` `bool`.
pub const RD_VALUE_BOOLS: i32 = 6;
/// A string of `count` bytes of UTF-8.
pub const RD_VALUE_TEXT: i32 = 7;
/// Anything else.
pub const RD_VALUE_OTHER: i32 = 8;
/// A `c10::GeneratorImpl`.
pub const RD_VALUE_GENERATOR: i32 = 9;
/// An array of `count` `rd_scalar`.
pub const RD_VALUE_SCALARS: i32 = 10;
/// An array of `count` `rd_tensor`; absent ones have a null handle.
pub const RD_VALUE_OPTIONAL_TENSORS: i32 = 11;
/// A device: the integer of `scalar` is its index, or -1 for the current device.
pub const RD_VALUE_DEVICE: i32 = 12;
/// An integer beyond `int64_t`: `scalar` is the `double` nearest to it.
pub const RD_VALUE_LARGE_INTEGER: i32 = 13;

/// An argument of a call.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rd_value {
    pub kind: i32,
    pub count: usize,
    pub data: *const c_void,
    pub scalar: rd_scalar,
}

/// The guard of an overload, `src/abi/rd_guard.rs`; it lives forever.
pub type rd_guard = Guard;

/// The functions that the shim provides to a call. `context` is that of `rd_call`. A status other than `RD_OK` means that the shim
/// failed and raises the error itself.
#[repr(C)]
pub struct rd_caller {
    /// Runs the meta function that the overload is bound with on the call's arguments and describes its outputs: at most
    /// `capacity`, valid until the next call.
    pub meta: unsafe extern "C" fn(context: *mut c_void, shapes: *mut rd_tensor, capacity: usize, count: *mut usize) -> rd_status,
    /// Makes output number `index`, or prepares the caller's `out=` tensor; `strides`: `RD_STRIDES_...`. A shape without strides is
    /// contiguous. If `made->ndim` is -1, the tensor is exactly as requested and only handle, data and device are filled in.
    pub output: unsafe extern "C" fn(
        context: *mut c_void,
        index: usize,
        shape: *const rd_tensor,
        strides: i32,
        made: *mut rd_tensor,
    ) -> rd_status,
    /// Returns a tensor of the call as output number `index`, or copies it to the caller's `out=` tensor.
    pub give: unsafe extern "C" fn(context: *mut c_void, index: usize, tensor: *const rd_tensor) -> rd_status,
    /// As `output`, for a new temporary that lives to the end of the call.
    pub empty: unsafe extern "C" fn(context: *mut c_void, shape: *const rd_tensor, made: *mut rd_tensor) -> rd_status,
    /// The tensor in a memory format (`c10::MemoryFormat`), copied if necessary; it lives to the end of the call.
    pub dense: unsafe extern "C" fn(context: *mut c_void, tensor: *const rd_tensor, format: i32, made: *mut rd_tensor) -> rd_status,
    /// Calls an operator that `rd_binder.find` returned or, if `callee` is null, the functional variant of this one. The results,
    /// at most `capacity` tensors, live to the end of the call.
    pub call: unsafe extern "C" fn(
        context: *mut c_void,
        callee: *const c_void,
        arguments: *const rd_value,
        count: usize,
        results: *mut rd_tensor,
        capacity: usize,
    ) -> rd_status,
    /// Waits for a one-element tensor and reads it. `reason` names the wait in reports; null: a read by the program.
    pub read: unsafe extern "C" fn(
        context: *mut c_void,
        tensor: *const rd_tensor,
        reason: *const c_char,
        value: *mut rd_scalar,
    ) -> rd_status,
    /// Reads the packed numbers of a CPU tensor, which must hold exactly `count`.
    pub numbers:
        unsafe extern "C" fn(context: *mut c_void, tensor: *const rd_tensor, values: *mut rd_scalar, count: usize) -> rd_status,
    /// Bumps the autograd version counters of the tensors with these handles.
    pub bump_versions: unsafe extern "C" fn(context: *mut c_void, tensors: *const *mut c_void, count: usize) -> rd_status,
    /// Fails if a dtype (`c10::ScalarType`) cannot represent a number.
    pub check_number: unsafe extern "C" fn(context: *mut c_void, number: *const rd_scalar, dtype: i32) -> rd_status,
    /// The dtype that operands are promoted to. Their ranks: 0 for numbers, 1 for 0-dim tensors, 2 for other tensors.
    pub result_type: unsafe extern "C" fn(
        context: *mut c_void,
        dtypes: *const i32,
        ranks: *const i32,
        count: usize,
        dtype: *mut i32,
    ) -> rd_status,
    /// Reserves `count` 32-bit random numbers of a generator (null: the device's) and writes its seed and offset as two scalars.
    pub draw: unsafe extern "C" fn(context: *mut c_void, generator: *mut c_void, count: u64, state: *mut rd_scalar) -> rd_status,
    /// Raises a `UserWarning`.
    pub warn: unsafe extern "C" fn(context: *mut c_void, text: *const c_char) -> rd_status,
    /// Lets the operator's task (a PyTorch CPU kernel) compute the outputs.
    pub leave_to_task: unsafe extern "C" fn(context: *mut c_void, cut: *const rd_cut) -> rd_status,
    /// Lets the operator's own task compute over the given arguments (as many as the call has), divided as described; an error if
    /// the operator has no such task.
    pub divide: unsafe extern "C" fn(context: *mut c_void, arguments: *const rd_value, division: *const rd_division) -> rd_status,
}

/// A call: its inputs, and the caller's `out=` tensors for the first outputs.
#[repr(C)]
pub struct rd_call {
    pub context: *mut c_void,
    pub caller: *const rd_caller,
    pub arguments: *const rd_value,
    pub num_arguments: usize,
    pub given: *const rd_tensor,
    pub num_given: usize,
    /// True if the overload returns nothing.
    pub is_void: bool,
    /// The guard of the operator's task, or null.
    pub guard: *const rd_guard,
}

/// A PyTorch CPU kernel that runs as a task of the stream: the call checks the arguments and makes the outputs, the shim runs the
/// task.
#[repr(C)]
pub struct rd_task {
    /// The overload that the task runs, without `aten::`. Null: the functional overload, whose results are copied.
    pub out: *const c_char,
    /// The guard checks values, too, inside the task.
    pub guarded: bool,
}

/// A pointwise operator. If the operands are dense, of one shape and dtype, or Python numbers, the shim may launch the kernel
/// without calling the operator, for calls as `dense` says. Operands and scalars are the arguments in order.
#[repr(C)]
pub struct rd_pointwise {
    pub kernel: *const rd_op,
    /// `RD_DENSE_...`.
    pub dense: i32,
}

/// The functions that the shim provides while operators are bound, with their `context`.
#[repr(C)]
pub struct rd_binder {
    pub context: *mut c_void,
    /// Finds an ATen operator by its name without `aten::`; the result lives forever. Null: there is no such operator.
    pub find: unsafe extern "C" fn(context: *mut c_void, name: *const c_char) -> *const c_void,
    /// Defines an operator of rustdev's own library: its name and the rest of its schema.
    pub define: unsafe extern "C" fn(context: *mut c_void, name: *const c_char, signature: *const c_char),
    /// Binds an overload. `functional`: the name of its functional overload. `meta`: the operator whose meta function its calls
    /// use, or null. `task`: null if no PyTorch kernel computes it. `tier`: what computes it, or null for a Rust kernel.
    /// `pointwise`: null for any operator that is not pointwise.
    pub bind: unsafe extern "C" fn(
        context: *mut c_void,
        bound: &rd_operator,
        name: *const c_char,
        functional: *const c_char,
        meta: *const c_char,
        task: Option<&rd_task>,
        tier: *const c_char,
        pointwise: Option<&rd_pointwise>,
    ),
}

/// Binds every overload that is implemented in `src/ops/`. Fails if a kernel or an operator that a call names does not exist.
///
/// # Safety
/// The functions of the binder may be called with its context, and do not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_operators_bind(binder: &rd_binder) -> rd_status {
    guard(|| {
        for (name, signature) in definitions() {
            // SAFETY: the caller's promise.
            unsafe { (binder.define)(binder.context, name.as_ptr(), signature.as_ptr()) };
        }
        for callee in CALLEES {
            // SAFETY: as above.
            let found = unsafe { (binder.find)(binder.context, callee.name().as_ptr()) };
            if found.is_null() {
                return Err(Failure::new(RD_INTERNAL, format!("there is no operator {}", callee.name().to_string_lossy())));
            }
            callee.bind(found.expose_provenance());
        }
        for operator in operators() {
            let task = task_of(operator);
            let [meta, tier] = [operator.meta(), operator.tier()].map(|name| name.map_or(ptr::null(), CStr::as_ptr));
            let functional = operator.names[0].as_ptr();
            let kernel = operator.row().map_or(ptr::null(), ptr::from_ref);
            let pointwise = operator.prepare.dense.map(|dense: rd_dense| rd_pointwise { kernel, dense: dense as i32 });
            for name in operator.names {
                let (name, task, pointwise) = (name.as_ptr(), task.as_ref(), pointwise.as_ref());
                // SAFETY: as above; strings and the operator live forever.
                unsafe { (binder.bind)(binder.context, operator, name, functional, meta, task, tier, pointwise) };
            }
        }
        Ok(())
    })
}

/// The task that computes the operator; `None` if a Rust kernel does.
fn task_of(operator: &Operator) -> Option<rd_task> {
    match &operator.kernel {
        Kernel::Row(_) | Kernel::Others | Kernel::Divided => None,
        Kernel::Task(task) | Kernel::Either(_, task) => {
            Some(rd_task { out: task.out.map_or(ptr::null(), CStr::as_ptr), guarded: task.guarded })
        }
    }
}

/// Calls an operator. `RD_FALLBACK`, `RD_COMPOSITE` and `RD_CPU_ERROR`: nothing was done, and PyTorch's CPU kernel or its composite
/// implementation must serve the call, or the CPU kernel raise its error.
///
/// # Safety
/// The memory that the call points at is readable during the call; its strings are UTF-8. The functions of the caller may be called
/// with its context, do not unwind, and return tensors of the requested shapes. All tensors that the call sees or makes stay valid
/// in the stream's order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_operator_call(bound: &rd_operator, call: &rd_call) -> rd_status {
    guard(|| {
        // SAFETY: the caller promises its functions.
        let caller = unsafe { call.caller.as_ref() }.ok_or_else(|| Failure::new(RD_INVALID_ARGUMENT, "no caller"))?;
        let arena = &BumpArena::default();
        let host = Host { context: call.context, caller, arena, is_void: call.is_void, outputs: RefCell::default() };
        // A call without `out=` tensors resizes nothing, so sizes and strides need no copy.
        let lasting = call.num_given == 0;
        // SAFETY: the caller promises `num_arguments` arguments.
        let values = unsafe { values(arena, call.arguments, call.num_arguments, lasting) }?;
        // SAFETY: the caller promises `num_given` tensors.
        let outputs = unsafe { tensors(arena, call.given.cast(), call.num_given, false) }?;
        // SAFETY: the caller promises a guard, if there is one.
        let guard = unsafe { call.guard.as_ref() };
        bound.run(&Arguments::new(values), Call::new(bound.row(), &host, outputs, arena), guard).map_err(failure)
    })
}

#[cold]
pub(super) fn failure(refusal: CallError) -> Failure {
    match refusal {
        CallError::Fallback => Failure::new(RD_FALLBACK, String::new()),
        CallError::Composite => Failure::new(RD_COMPOSITE, String::new()),
        CallError::CpuError => Failure::new(RD_CPU_ERROR, String::new()),
        CallError::Invalid(text) => Failure::new(RD_INVALID_ARGUMENT, text),
        CallError::Value(text) => Failure::new(RD_INVALID_VALUE, text),
        CallError::Index(text) => Failure::new(RD_OUT_OF_RANGE, text),
        CallError::Unsupported(text) => Failure::new(RD_UNSUPPORTED, text),
        CallError::Failed(status, text) => Failure::new(status, text),
    }
}

/// # Safety
/// `data` points at `count` readable elements; it may be anything if `count` is 0.
pub(super) unsafe fn elements<'a, T>(data: *const c_void, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(data.cast(), count) }
}

/// Converts the arguments into the arena. `lasting`: their tensors' sizes and strides stay unchanged for the arena's lifetime and
/// are not copied.
///
/// # Safety
/// `data` points at `count` values. What they point at is readable and outlives the result, except sizes and strides if they are
/// not `lasting`.
pub(super) unsafe fn values(
    arena: &BumpArena,
    data: *const rd_value,
    count: usize,
    lasting: bool,
) -> Result<&[Value<'_>], Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { elements::<rd_value>(data.cast(), count) };
    // SAFETY: as above.
    arena.try_keep_all(count, |index| unsafe { value(arena, &given[index], lasting) })
}

/// # Safety
/// As [`values`].
#[inline]
unsafe fn value<'a>(arena: &'a BumpArena, given: &rd_value, lasting: bool) -> Result<Value<'a>, Failure> {
    let &rd_value { kind, count, data, ref scalar } = given;
    Ok(match kind {
        RD_VALUE_NONE => Value::None,
        RD_VALUE_SCALAR => Value::Number(rd_launch::scalar(scalar)?),
        RD_VALUE_LARGE_INTEGER => Value::LargeInteger(scalar.real),
        RD_VALUE_TENSOR => {
            // SAFETY: the caller's promise: one tensor.
            let given = unsafe { elements::<rd_tensor>(data, 1) };
            // SAFETY: as above.
            Value::Tensor(unsafe { tensor(arena, &given[0], lasting) }?)
        }
        // SAFETY: the caller promises `count` tensors.
        RD_VALUE_TENSORS => Value::Tensors(unsafe { tensors(arena, data, count, lasting) }?),
        RD_VALUE_SCALARS => {
            // SAFETY: the caller promises `count` numbers.
            let numbers = unsafe { elements::<rd_scalar>(data, count) };
            Value::Scalars(arena.try_keep_all(count, |index| rd_launch::scalar(&numbers[index]))?)
        }
        // SAFETY: as above.
        RD_VALUE_OPTIONAL_TENSORS => Value::OptionalTensors(unsafe { optional_tensors(arena, data, count, lasting) }?),
        // SAFETY: the caller promises `count` numbers.
        RD_VALUE_INTEGERS => Value::Integers(unsafe { elements(data, count) }),
        // SAFETY: as above.
        RD_VALUE_DOUBLES => Value::Numbers(unsafe { elements(data, count) }),
        // SAFETY: as above; a C++ bool has the representation of a Rust bool.
        RD_VALUE_BOOLS => Value::Flags(unsafe { elements(data, count) }),
        RD_VALUE_TEXT => {
            // SAFETY: the caller promises `count` bytes.
            let bytes = unsafe { elements::<u8>(data, count) };
            Value::Text(std::str::from_utf8(bytes).map_err(|error| Failure::new(RD_INVALID_ARGUMENT, error.to_string()))?)
        }
        RD_VALUE_GENERATOR => Value::Generator(data as usize),
        RD_VALUE_OTHER | RD_VALUE_DEVICE => Value::Other,
        _ => return Err(Failure::new(RD_INVALID_ARGUMENT, format!("an argument of kind {kind}"))),
    })
}

/// # Safety
/// `data` points at `count` readable tensors, each of which meets the contract of [`tensor`].
unsafe fn tensors(arena: &BumpArena, data: *const c_void, count: usize, lasting: bool) -> Result<&[Tensor<'_>], Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { elements::<rd_tensor>(data, count) };
    // SAFETY: as above.
    arena.try_keep_all(count, |index| unsafe { tensor(arena, &given[index], lasting) })
}

/// # Safety
/// As [`tensors`]; tensors with a null handle are not read.
unsafe fn optional_tensors(
    arena: &BumpArena,
    data: *const c_void,
    count: usize,
    lasting: bool,
) -> Result<&[Option<Tensor<'_>>], Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { elements::<rd_tensor>(data, count) };
    arena.try_keep_all(count, |index| {
        let given = &given[index];
        // SAFETY: as above.
        (!given.handle.is_null()).then(|| unsafe { tensor(arena, given, lasting) }).transpose()
    })
}

/// # Safety
/// The sizes and strides of `given` are readable and, if `lasting`, stay so for the arena's lifetime.
#[inline]
pub(super) unsafe fn tensor<'a>(arena: &'a BumpArena, given: &rd_tensor, lasting: bool) -> Result<Tensor<'a>, Failure> {
    let &rd_tensor { handle, data, sizes, strides, ndim, dtype, device, flags } = given;
    let ndim = ndim.max(0) as usize;
    // SAFETY: the caller's promise.
    let sizes = unsafe { elements::<i64>(sizes.cast(), ndim) };
    // SAFETY: as above.
    let strides = unsafe { elements::<i64>(strides.cast(), ndim) };
    let (sizes, strides) = if lasting { (sizes, strides) } else { (copied(arena, sizes), copied(arena, strides)) };
    let (place, dtype) = ((handle as usize, data as usize), rd_launch::dtype(dtype)?);
    Ok(Tensor::new(arena, place, dtype, device, Flags(flags as u8), sizes, strides))
}

/// A descriptor that borrows from `wanted`, which must outlive it.
fn described(wanted: &Wanted<'_>) -> rd_tensor {
    let strides = wanted.strides.map_or(ptr::null(), <[i64]>::as_ptr);
    rd_tensor { sizes: wanted.sizes.as_ptr(), strides, ndim: wanted.sizes.len() as i32, dtype: wanted.dtype as i32, ..NO_TENSOR }
}

/// A descriptor that borrows from the tensor, which must outlive it.
fn view(tensor: Tensor<'_>) -> rd_tensor {
    rd_tensor {
        handle: ptr::with_exposed_provenance_mut(tensor.handle()),
        data: ptr::with_exposed_provenance_mut(tensor.address()),
        sizes: tensor.sizes().as_ptr(),
        strides: tensor.strides().as_ptr(),
        ndim: tensor.ndim() as i32,
        dtype: tensor.dtype() as i32,
        device: tensor.device(),
        flags: u32::from(tensor.flags().0),
    }
}

/// Converts an argument for the shim.
fn written(arena: &BumpArena, value: &Value<'_>) -> rd_value {
    let list = |kind, count, data| rd_value { kind, count, data, scalar: to_scalar(&Scalar::Long(0)) };
    match value {
        Value::None | Value::Other | Value::OptionalTensors(_) => list(RD_VALUE_NONE, 0, ptr::null()),
        Value::Tensor(tensor) => list(RD_VALUE_TENSOR, 1, ptr::from_ref(arena.keep(view(*tensor))).cast()),
        Value::Tensors(tensors) => {
            let views = arena.keep_all(tensors.len(), |index| view(tensors[index]));
            list(RD_VALUE_TENSORS, views.len(), views.as_ptr().cast())
        }
        Value::Number(number) => rd_value { kind: RD_VALUE_SCALAR, count: 1, data: ptr::null(), scalar: to_scalar(number) },
        Value::LargeInteger(nearest) => {
            rd_value { kind: RD_VALUE_SCALAR, count: 1, data: ptr::null(), scalar: to_scalar(&Scalar::Double(*nearest)) }
        }
        Value::Scalars(numbers) => {
            let numbers = arena.keep_all(numbers.len(), |index| to_scalar(&numbers[index]));
            list(RD_VALUE_SCALARS, numbers.len(), numbers.as_ptr().cast())
        }
        Value::Integers(values) => list(RD_VALUE_INTEGERS, values.len(), values.as_ptr().cast()),
        Value::Numbers(values) => list(RD_VALUE_DOUBLES, values.len(), values.as_ptr().cast()),
        Value::Flags(values) => list(RD_VALUE_BOOLS, values.len(), values.as_ptr().cast()),
        Value::Text(text) => list(RD_VALUE_TEXT, text.len(), text.as_ptr().cast()),
        Value::Generator(address) => list(RD_VALUE_GENERATOR, 1, ptr::with_exposed_provenance(*address)),
    }
}

/// An empty descriptor.
const NO_TENSOR: rd_tensor = rd_tensor {
    handle: ptr::null_mut(),
    data: ptr::null_mut(),
    sizes: ptr::null(),
    strides: ptr::null(),
    ndim: 0,
    dtype: 0,
    device: -1,
    flags: 0,
};

/// The most outputs that a meta function may have.
const MAX_OUTPUTS: usize = 8;

/// The shim's side of the boundary.
pub(super) struct Host<'a> {
    context: *mut c_void,
    caller: &'a rd_caller,
    arena: &'a BumpArena,
    is_void: bool,
    outputs: RefCell<Tensors<'a>>,
}

impl<'a> Host<'a> {
    /// The tensor that a function of the shim makes. If that sets `ndim` to -1, the tensor is exactly as `wanted` and only its
    /// addresses and device are described.
    #[inline]
    fn made(
        &self,
        wanted: Option<Wanted<'_>>,
        ask: impl FnOnce(*mut c_void, *mut rd_tensor) -> rd_status,
    ) -> Result<Tensor<'a>, CallError> {
        let mut made = NO_TENSOR;
        checked(ask(self.context, &raw mut made))?;
        let Some(wanted) = wanted.filter(|_| made.ndim < 0) else {
            // SAFETY: the caller of `rd_operator_call` promises that its functions describe what they make.
            return unsafe { tensor(self.arena, &made, false) }.map_err(unknown);
        };
        let sizes = copied(self.arena, wanted.sizes);
        let strides = wanted.strides.map_or_else(|| contiguous_strides(self.arena, sizes), |strides| copied(self.arena, strides));
        let place = (made.handle as usize, made.data as usize);
        Ok(Tensor::new(self.arena, place, wanted.dtype, made.device, Flags(0), sizes, strides))
    }

    /// The element of a one-element tensor, as the function `read` of the shim gives it.
    fn element(&self, tensor: Tensor<'_>, reason: *const c_char) -> Result<rd_scalar, CallError> {
        let (given, mut value) = (view(tensor), to_scalar(&Scalar::Long(0)));
        // SAFETY: the caller of `rd_operator_call` promises its functions; the tensor is one of the call's.
        checked(unsafe { (self.caller.read)(self.context, &raw const given, reason, &raw mut value) })?;
        Ok(value)
    }

    /// Launches a kernel over operands, of which the first are `num_outputs` outputs. `dense_numel`: their number of elements if
    /// they are contiguous tensors of one shape, else 0.
    ///
    /// # Safety
    /// The operands are tensors of the call or elements of them, whose memory is valid in the stream's order. Outputs are tensors
    /// that the call made or is asked to write to.
    pub(super) unsafe fn enqueue(
        op: &'static Op,
        compute: DType,
        device: i32,
        (operands, num_outputs): (&[View<'_>], usize),
        dense_numel: i64,
        scalars: &[Scalar],
    ) -> Outcome {
        let (num_scalars, scalar) = (scalars.len(), |index: usize| Ok(scalars[index]));
        let launched = Launched { op, device, compute, num_outputs, dense_numel, operands, num_scalars, scalar };
        // SAFETY: the caller's promise.
        unsafe { launched.launch() }.map_err(|failure| match failure.status {
            RD_UNSUPPORTED => CallError::Unsupported(format!("\"{}\" not implemented for '{compute:?}'", op.text())),
            status => CallError::Failed(status, failure.message),
        })
    }
}

impl Caller for Host<'_> {
    fn give(&self, index: usize, tensor: Tensor<'_>) -> Outcome {
        let given = view(tensor);
        // SAFETY: as above; the tensor is one of the call's.
        checked(unsafe { (self.caller.give)(self.context, index, &raw const given) })
    }

    fn read(&self, tensor: Tensor<'_>, reason: &CStr, in_dry_run: i64) -> Result<i64, CallError> {
        let found = self.element(tensor, reason.as_ptr())?.integer;
        Ok(if observers::is_dry() { in_dry_run } else { found })
    }

    fn item(&self, tensor: Tensor<'_>) -> Result<Scalar, CallError> {
        rd_launch::scalar(&self.element(tensor, ptr::null())?).map_err(unknown)
    }

    fn check_number(&self, number: Scalar, dtype: DType) -> Outcome {
        let number = to_scalar(&number);
        // SAFETY: as above.
        checked(unsafe { (self.caller.check_number)(self.context, &raw const number, dtype as i32) })
    }

    fn result_type(&self, operands: &[Input<'_>]) -> Result<DType, CallError> {
        let mut dtype = 0;
        let dtypes = self.arena.keep_all(operands.len(), |index| operands[index].dtype() as i32);
        let ranks = self.arena.keep_all(operands.len(), |index| operands[index].rank());
        // SAFETY: as above; there is a dtype and a rank for each operand.
        checked(unsafe { (self.caller.result_type)(self.context, dtypes.as_ptr(), ranks.as_ptr(), dtypes.len(), &raw mut dtype) })?;
        rd_launch::dtype(dtype).map_err(unknown)
    }

    fn bump_versions(&self, tensors: &[Tensor<'_>]) -> Outcome {
        let handle_of = |index: usize| ptr::with_exposed_provenance_mut::<c_void>(tensors[index].handle());
        let handles = self.arena.keep_all(tensors.len(), handle_of);
        // SAFETY: as above; the tensors belong to the call.
        checked(unsafe { (self.caller.bump_versions)(self.context, handles.as_ptr(), handles.len()) })
    }

    fn reserve(&self, generator: Value<'_>, count: u64) -> Result<[Scalar; 2], CallError> {
        let generator = ptr::with_exposed_provenance_mut(if let Value::Generator(address) = generator { address } else { 0 });
        let mut state = [to_scalar(&Scalar::Long(0)); 2];
        // SAFETY: as above; the generator is an argument of the call.
        checked(unsafe { (self.caller.draw)(self.context, generator, count, state.as_mut_ptr()) })?;
        Ok([rd_launch::scalar(&state[0]).map_err(unknown)?, rd_launch::scalar(&state[1]).map_err(unknown)?])
    }

    fn warn(&self, text: &str) -> Outcome {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: as above.
        checked(unsafe { (self.caller.warn)(self.context, text.as_ptr()) })
    }

    fn leave_to_task(&self, cut: rd_cut) -> Outcome {
        // SAFETY: as above.
        checked(unsafe { (self.caller.leave_to_task)(self.context, &raw const cut) })
    }

    fn divide(&self, arguments: &[Value<'_>], division: &rd_division) -> Outcome {
        let values = self.arena.keep_all(arguments.len(), |index| written(self.arena, &arguments[index]));
        // SAFETY: as above; there are as many values as arguments, and they live to the end of the call.
        checked(unsafe { (self.caller.divide)(self.context, values.as_ptr(), division) })
    }

    fn is_void(&self) -> bool {
        self.is_void
    }

    fn meta(&self) -> Result<Shapes, CallError> {
        let (mut shapes, mut count) = ([NO_TENSOR; MAX_OUTPUTS], 0);
        // SAFETY: the caller of `rd_operator_call` promises its functions.
        checked(unsafe { (self.caller.meta)(self.context, shapes.as_mut_ptr(), MAX_OUTPUTS, &raw mut count) })?;
        let shape = |given: &rd_tensor| {
            // SAFETY: as above: the function describes `count` shapes.
            let given = unsafe { tensor(self.arena, given, true) }?;
            Ok(Shape { sizes: given.sizes().into(), strides: given.strides().into(), dtype: given.dtype() })
        };
        shapes[..count.min(MAX_OUTPUTS)].iter().map(shape).collect::<Result<_, _>>().map_err(unknown)
    }

    fn output(&self, index: usize, wanted: Wanted<'_>, strides: rd_strides) -> Result<Tensor<'_>, CallError> {
        let shape = described(&wanted);
        // SAFETY: the caller of `rd_operator_call` promises its functions.
        let made = self.made(Some(wanted), |context, made| unsafe {
            (self.caller.output)(context, index, &raw const shape, strides as i32, made)
        })?;
        self.outputs.borrow_mut().push(made);
        Ok(made)
    }

    fn empty(&self, wanted: Wanted<'_>) -> Result<Tensor<'_>, CallError> {
        let shape = described(&wanted);
        // SAFETY: as above.
        self.made(Some(wanted), |context, made| unsafe { (self.caller.empty)(context, &raw const shape, made) })
    }

    fn dense(&self, tensor: Tensor<'_>, format: Format) -> Result<Tensor<'_>, CallError> {
        let given = view(tensor);
        // SAFETY: as above; the tensor is one of the call's.
        self.made(None, |context, made| unsafe { (self.caller.dense)(context, &raw const given, format as i32, made) })
    }

    fn call(&self, operator: Option<&Callee>, arguments: &[Value<'_>], results: usize) -> Result<Tensors<'_>, CallError> {
        let operator = operator.map_or(ptr::null(), |operator| ptr::with_exposed_provenance(operator.handle()));
        let values = self.arena.keep_all(arguments.len(), |index| written(self.arena, &arguments[index]));
        let mut made = [NO_TENSOR; MAX_OUTPUTS];
        let (context, capacity) = (self.context, results.min(MAX_OUTPUTS));
        // SAFETY: as above; the values live to the end of the call.
        checked(unsafe { (self.caller.call)(context, operator, values.as_ptr(), values.len(), made.as_mut_ptr(), capacity) })?;
        let found = made.iter().take_while(|each| !each.handle.is_null());
        // SAFETY: as above.
        found.map(|each| unsafe { tensor(self.arena, each, false) }).collect::<Result<_, _>>().map_err(unknown)
    }

    fn outputs(&self) -> Tensors<'_> {
        self.outputs.borrow().iter().copied().collect()
    }

    fn numbers(&self, tensor: Tensor<'_>, count: usize) -> Result<&[Scalar], CallError> {
        let (given, mut values) = (view(tensor), vec![to_scalar(&Scalar::Long(0)); count]);
        // SAFETY: as above; there is room for `count` numbers.
        checked(unsafe { (self.caller.numbers)(self.context, &raw const given, values.as_mut_ptr(), count) })?;
        self.arena.try_keep_all(count, |index| rd_launch::scalar(&values[index])).map_err(unknown)
    }

    fn launch(
        &self,
        op: &'static Op,
        compute: DType,
        outputs: &[Option<Tensor<'_>>],
        inputs: &[Input<'_>],
        scalars: &[Scalar],
    ) -> Outcome {
        let dense_numel = if op.layout() == Layout::Elementwise { dense_numel(outputs, inputs) } else { 0 };
        let operands = operands(self.arena, outputs, inputs, &dense_numel);
        let first = outputs.iter().flatten().next();
        let first = first.ok_or_else(|| CallError::Invalid(format!("internal error: {} without outputs", op.text())))?;
        // SAFETY: the caller of `rd_operator_call` keeps its tensors valid in the stream's order.
        unsafe { Self::enqueue(op, compute, first.device(), (operands, outputs.len()), dense_numel, scalars) }
    }

    fn launch_lists(
        &self,
        op: &'static Op,
        compute: DType,
        written: usize,
        lists: &[&[Tensor<'_>]],
        scalars: &[Scalar],
    ) -> Outcome {
        let count = |lists: &[&[Tensor<'_>]]| lists.iter().map(|list| list.len()).sum::<usize>();
        let (count, num_outputs) = (count(lists), count(&lists[..written]));
        let (mut list, mut next) = (0, 0);
        let operands = self.arena.keep_all(count, |_| {
            while next == lists[list].len() {
                (list, next) = (list + 1, 0);
            }
            next += 1;
            let tensor = lists[list][next - 1];
            line(tensor, self.arena.keep(tensor.numel()))
        });
        let device = lists[0].first().map_or(-1, |tensor| tensor.device());
        // SAFETY: as in `launch`.
        unsafe { Self::enqueue(op, compute, device, (operands, num_outputs), 0, scalars) }
    }
}

/// The operands of a launch. `numel`: if positive, the number of elements of each operand of a dense launch.
#[inline]
pub(super) fn operands<'a>(
    arena: &'a BumpArena,
    outputs: &[Option<Tensor<'a>>],
    inputs: &[Input<'a>],
    numel: &'a i64,
) -> &'a [View<'a>] {
    let tensor = |tensor| if *numel > 0 { line(tensor, numel) } else { operand(arena, tensor) };
    arena.keep_all(outputs.len() + inputs.len(), |index| match index.checked_sub(outputs.len()) {
        None => outputs[index].map_or(View::ABSENT, tensor),
        Some(index) => match &inputs[index] {
            Input::Tensor(input) => tensor(*input),
            Input::Immediate(number) => host_number(*number),
            Input::Number(number) => immediate(arena.keep(to_scalar(number))),
            Input::Absent => View::ABSENT,
        },
    })
}

/// The number of elements if all operands are given and all tensors are contiguous and of one shape; else 0.
#[inline]
fn dense_numel(outputs: &[Option<Tensor<'_>>], inputs: &[Input<'_>]) -> i64 {
    let Some(Some(first)) = outputs.first() else { return 0 };
    let is_plain =
        |tensor: &Tensor<'_>| tensor.has_sizes(first.sizes()) && tensor.flags().0 == 0 && tensor.is_dense(Format::Contiguous);
    let is_plain_input = |input: &Input<'_>| match input {
        Input::Tensor(tensor) => is_plain(tensor),
        Input::Absent => false,
        _ => true,
    };
    let is_plain_output = |output: &Option<Tensor<'_>>| output.as_ref().is_some_and(is_plain);
    if outputs.iter().all(is_plain_output) && inputs.iter().all(is_plain_input) { first.numel() } else { 0 }
}

/// A tensor as an operand, with strides in bytes.
#[inline]
fn operand<'a>(arena: &'a BumpArena, tensor: Tensor<'a>) -> View<'a> {
    let (item, sizes, strides) = (tensor.dtype().size() as i64, tensor.sizes(), tensor.strides());
    let bytes = arena.keep_all(strides.len(), |dim| strides[dim] * item);
    let flags = Flags(tensor.flags().0 & (Flags::CONJ.0 | Flags::NEG.0 | Flags::HOST.0));
    // SAFETY: the caller of `rd_operator_call` promises the memory of its tensors, non-negative sizes, and one stride for each
    // size.
    unsafe { View::from_checked(ptr::with_exposed_provenance_mut(tensor.address()), tensor.dtype(), flags, sizes, bytes) }
}

/// A dense tensor of `numel` elements as a 1-D operand.
#[inline]
fn line<'a>(tensor: Tensor<'_>, numel: &'a i64) -> View<'a> {
    let (data, dtype) = (ptr::with_exposed_provenance_mut(tensor.address()), tensor.dtype());
    // SAFETY: as in `operand`; the tensor is dense, so its elements fill the memory.
    unsafe { View::from_checked(data, dtype, Flags(0), slice::from_ref(numel), dtype.size_word()) }
}

/// The refusal of an unknown dtype.
#[cold]
fn unknown(failure: Failure) -> CallError {
    CallError::Unsupported(failure.message)
}

/// An error if a function of the shim failed; the shim reports it itself.
#[inline]
fn checked(status: rd_status) -> Outcome {
    if status == RD_OK { Ok(()) } else { Err(CallError::Failed(RD_INTERNAL, String::new())) }
}

/// A 0-dim CPU tensor as an immediate operand, which is read during the launch.
fn host_number(tensor: Tensor<'_>) -> View<'_> {
    assert!(tensor.is_host() && tensor.ndim() == 0, "not a number on the host: {tensor:?}");
    let flags = Flags(tensor.flags().0 & (Flags::CONJ.0 | Flags::NEG.0) | Flags::IMMEDIATE.0);
    let data = ptr::with_exposed_provenance_mut(tensor.address());
    // SAFETY: the caller of `rd_operator_call` promises the memory of its tensors; this tensor is on the CPU and only read.
    unsafe { View::from_checked(data, tensor.dtype(), flags, &[], &[]) }
}

/// A number as an immediate operand, which is read during the launch.
fn immediate(number: &rd_scalar) -> View<'_> {
    let dtype = DType::from_number(number.dtype).unwrap_or(DType::Double);
    let is_whole = matches!(dtype, DType::Long | DType::Bool);
    let offset = if is_whole { offset_of!(rd_scalar, integer) } else { offset_of!(rd_scalar, real) };
    let data = ptr::from_ref(number).wrapping_byte_add(offset).cast::<u8>();
    // SAFETY: the field at the offset holds a number of the dtype; it is only read.
    unsafe { View::from_checked(data.cast_mut(), dtype, Flags::IMMEDIATE, &[], &[]) }
}

pub(super) fn to_scalar(value: &Scalar) -> rd_scalar {
    let number = |dtype: DType, integer, real, imaginary| rd_scalar { dtype: dtype as i32, integer, real, imaginary };
    match *value {
        Scalar::Bool(value) => number(DType::Bool, i64::from(value), f64::from(u8::from(value)), 0.0),
        Scalar::Long(value) => number(DType::Long, value, value as f64, 0.0),
        Scalar::Double(value) => number(DType::Double, 0, value, 0.0),
        Scalar::Complex(real, imaginary) => number(DType::ComplexDouble, 0, real, imaginary),
        Scalar::Cell(Cell(cell)) => {
            rd_scalar { dtype: RD_SCALAR_CELL, integer: ptr::from_ref(cell).expose_provenance() as i64, real: 0.0, imaginary: 0.0 }
        }
    }
}
