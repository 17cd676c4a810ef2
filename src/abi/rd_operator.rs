//! C ABI of operators that are bound in Rust (`src/operators/`).
//!
//! The shim registers each overload of `rd_operators_bind` with a boxed kernel, which hands the arguments over as plain descriptors and does
//! with PyTorch's tensors what `rd_caller` asks for.

use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;
use std::ptr;
use std::slice;

use smallvec::SmallVec;

use super::rd_launch::{
    self, RD_OPERAND_CONJ, RD_OPERAND_IMMEDIATE, RD_OPERAND_NEG, RD_SCALAR_CELL, rd_launch_args, rd_operand, rd_scalar,
};
use super::{Failure, RD_FALLBACK, RD_INTERNAL, RD_INVALID_ARGUMENT, RD_INVALID_VALUE, RD_OK, RD_OUT_OF_RANGE, RD_UNSUPPORTED};
use super::{guard, rd_status};
use crate::kernels::table::Op;
use crate::operators::bindings::{Batch, Kernel, Operator, Run, Task, operators};
use crate::operators::call::{
    Arguments, Call, Caller, Cut, Input, Outcome, Refusal, Shape, Shapes, Strides, StructuredCall, Tensors, Value,
};
use crate::operators::names::{CALLEES, Callee, KERNELS, Row};
use crate::operators::{Format, Tensor, dims};
use crate::tensor::dtype::DType;
use crate::tensor::launch::{Cell, Scalar};
use crate::tensor::view::Flags;

/// An operator that is bound in Rust; it lives forever.
#[allow(non_camel_case_types)]
pub type rd_operator = Operator;

/// A tensor, or a view of one: `handle` is the `c10::TensorImpl` of the tensor, or null of a shape of one that is still to be made. Sizes
/// and strides are in elements.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rd_tensor {
    pub handle: *mut c_void,
    pub data: *mut c_void,
    pub sizes: *const i64,
    pub strides: *const i64,
    pub ndim: i32,
    pub dtype: i32,
    /// The index of a device of ours, or -1.
    pub device: i32,
    /// `RD_OPERAND_CONJ`, `RD_OPERAND_NEG`.
    pub flags: u32,
}

/// An argument that is not given, or an undefined tensor.
pub const RD_VALUE_NONE: i32 = 0;
/// An `rd_tensor`.
pub const RD_VALUE_TENSOR: i32 = 1;
/// `count` of `rd_tensor`.
pub const RD_VALUE_TENSORS: i32 = 2;
/// The number is in `scalar`.
pub const RD_VALUE_SCALAR: i32 = 3;
/// `count` of `int64_t`.
pub const RD_VALUE_INTEGERS: i32 = 4;
/// `count` of `double`.
pub const RD_VALUE_DOUBLES: i32 = 5;
/// `count` of `bool`.
pub const RD_VALUE_BOOLS: i32 = 6;
/// `count` bytes of UTF-8.
pub const RD_VALUE_TEXT: i32 = 7;
/// Anything else.
pub const RD_VALUE_OTHER: i32 = 8;
/// A `c10::GeneratorImpl`.
pub const RD_VALUE_GENERATOR: i32 = 9;

/// An argument of a call.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rd_value {
    pub kind: i32,
    pub count: usize,
    pub data: *const c_void,
    pub scalar: rd_scalar,
}

/// An output of the caller's keeps its strides where it has the sizes.
pub const RD_STRIDES_ANY: i32 = 0;
/// It keeps them, and the operator writes to a tensor with the strides of the shape, which is copied at the end.
pub const RD_STRIDES_COPIED: i32 = 1;
/// It gets those of the shape.
pub const RD_STRIDES_GIVEN: i32 = 2;
const _: () = assert!(
    RD_STRIDES_ANY == Strides::Any as i32
        && RD_STRIDES_COPIED == Strides::Copied as i32
        && RD_STRIDES_GIVEN == Strides::Given as i32
);

/// How a task is cut into parts: along dimension `dim` of the tensors with `least_ndim` dimensions or more that have that size in it; others
/// are whole. `cost`: nanoseconds of one thread, of all parts.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_cut {
    pub dim: i64,
    pub size: i64,
    pub least_ndim: i64,
    pub cost: u64,
}

/// What the other side does for a call; `context` is its own, a status that is not `RD_OK` its failure, which it raises itself.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_caller {
    pub context: *mut c_void,
    /// The outputs of the meta that the overload is bound with, for the arguments. At most `capacity` of them, valid to the next call.
    pub meta: unsafe extern "C" fn(context: *mut c_void, shapes: *mut rd_tensor, capacity: usize, count: *mut usize) -> rd_status,
    /// Output number `index`, new or the caller's; `strides`: `RD_STRIDES_...`.
    pub output: unsafe extern "C" fn(
        context: *mut c_void,
        index: usize,
        shape: *const rd_tensor,
        strides: i32,
        made: *mut rd_tensor,
    ) -> rd_status,
    /// The caller's tensor for output number `index`; without a handle where the call makes it.
    pub given: unsafe extern "C" fn(context: *mut c_void, index: usize, found: *mut rd_tensor) -> rd_status,
    /// A new tensor that lives to the end of the call.
    pub empty: unsafe extern "C" fn(context: *mut c_void, shape: *const rd_tensor, made: *mut rd_tensor) -> rd_status,
    /// A tensor in a memory format (`c10::MemoryFormat`), which lives to the end of the call.
    pub dense: unsafe extern "C" fn(context: *mut c_void, tensor: *const rd_tensor, format: i32, made: *mut rd_tensor) -> rd_status,
    /// Calls an operator that was found; its tensors, at most `capacity`, live to the end of the call.
    pub call: unsafe extern "C" fn(
        context: *mut c_void,
        callee: *const c_void,
        arguments: *const rd_value,
        count: usize,
        results: *mut rd_tensor,
        capacity: usize,
    ) -> rd_status,
    /// Waits for a tensor of one integer and reads it; `reason` says in reports what waits.
    pub read:
        unsafe extern "C" fn(context: *mut c_void, tensor: *const rd_tensor, reason: *const c_char, value: *mut i64) -> rd_status,
    /// Takes `count` random numbers of 32 bits of a generator (null: the device's): two scalars, its seed and offset.
    pub draw: unsafe extern "C" fn(context: *mut c_void, generator: *mut c_void, count: u64, state: *mut rd_scalar) -> rd_status,
    /// Has the operator's task compute, where that is optional.
    pub leave_to_task: unsafe extern "C" fn(context: *mut c_void, cut: *const rd_cut) -> rd_status,
}

/// What an operator's first dimension is a batch of, in `rd_task`: nothing.
pub const RD_BATCH_NONE: i32 = 0;
/// Images.
pub const RD_BATCH_IMAGES: i32 = 1;
/// Matrices.
pub const RD_BATCH_MATRICES: i32 = 2;
const _: () = assert!(
    RD_BATCH_NONE == Batch::None as i32 && RD_BATCH_IMAGES == Batch::Images as i32 && RD_BATCH_MATRICES == Batch::Matrices as i32
);

/// PyTorch's CPU kernel as a task of the stream: the call checks and makes the outputs, the shim has the task run.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_task {
    /// The overload that the task runs, without `aten::`; null: the functional one, whose results are copied.
    pub out: *const c_char,
    /// Bit `c10::ScalarType`: of the first operand.
    pub dtypes: u64,
    /// `RD_BATCH_...`.
    pub batch: i32,
    /// 16 bit floats outside `dtypes` are computed in float32 and rounded.
    pub widens: bool,
    /// The guard looks at values too, in the task.
    pub guarded: bool,
    /// A kernel of ours computes the calls that are not left to the task.
    pub optional: bool,
}

/// What the other side does while operators are bound; `context` is its own.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct rd_binder {
    pub context: *mut c_void,
    /// An operator by its name in ATen, which lives forever; null: there is none.
    pub find: unsafe extern "C" fn(context: *mut c_void, name: *const c_char) -> *const c_void,
    /// Binds an overload. `functional`: the name of the functional one; `meta`: the operator whose meta calls ask for, or null; `task`: null
    /// where a kernel of ours computes.
    pub bind: unsafe extern "C" fn(
        context: *mut c_void,
        bound: *const rd_operator,
        name: *const c_char,
        functional: *const c_char,
        meta: *const c_char,
        task: *const rd_task,
    ),
}

/// Has every overload bound that is bound here. Fails where a kernel or an operator is missing that a call names.
///
/// # Safety
/// The functions of the binder may be called with its context, and do not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_operators_bind(binder: *const rd_binder) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let binder = unsafe { &*binder };
        KERNELS.into_iter().try_for_each(check_kernel)?;
        for callee in CALLEES {
            // SAFETY: as above.
            let found = unsafe { (binder.find)(binder.context, callee.name().as_ptr()) };
            if found.is_null() {
                return Err(Failure::new(RD_INTERNAL, format!("PyTorch has no aten::{}", callee.name().to_string_lossy())));
            }
            callee.bind(found.expose_provenance());
        }
        for operator in operators() {
            let task = task_of(operator)?;
            let (task, meta) =
                (task.as_ref().map_or(ptr::null(), ptr::from_ref), operator.meta().map_or(ptr::null(), CStr::as_ptr));
            let functional = operator.names[0].as_ptr();
            for name in operator.names {
                // SAFETY: as above; the task is there during the call, the others live forever.
                unsafe { (binder.bind)(binder.context, operator, name.as_ptr(), functional, meta, task) };
            }
        }
        Ok(())
    })
}

fn check_kernel(row: &Row) -> Result<(), Failure> {
    let missing = || Failure::new(RD_INTERNAL, format!("the operator table has no {}", row.name().to_string_lossy()));
    row.get().map(drop).ok_or_else(missing)
}

/// The task that computes; nothing where a kernel of ours does.
fn task_of(operator: &Operator) -> Result<Option<rd_task>, Failure> {
    match &operator.kernel {
        Kernel::Row(row) => check_kernel(row).map(|()| None),
        Kernel::Others => Ok(None),
        Kernel::Task(task) | Kernel::Either(_, task) => {
            let &Task { out, dtypes, batch, widens, guarded } = task;
            let (out, batch) = (out.map_or(ptr::null(), CStr::as_ptr), batch as i32);
            let optional = matches!(operator.kernel, Kernel::Either(..));
            if let Kernel::Either(row, _) = &operator.kernel {
                check_kernel(row)?;
            }
            Ok(Some(rd_task { out, dtypes: dtypes.0, batch, widens, guarded, optional }))
        }
    }
}

/// Calls an operator. `RD_FALLBACK`: the call is for PyTorch's CPU kernel, and nothing was done.
///
/// # Safety
/// `bound` came from [`rd_operators_bind`]; the arguments and what they point at are readable during the call, their strings are UTF-8.
/// The functions of the caller may be called with its context, do not unwind, and what they make fits the shapes asked for. All tensors
/// that the call sees, and those that it makes, stay in the stream's order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_operator_call(
    bound: *const rd_operator,
    arguments: *const rd_value,
    count: usize,
    caller: *const rd_caller,
) -> rd_status {
    guard(|| {
        // SAFETY: the caller promises an operator.
        let operator = unsafe { bound.as_ref() }.ok_or_else(|| Failure::new(RD_INVALID_ARGUMENT, "no operator"))?;
        // SAFETY: the caller promises its functions.
        let caller = unsafe { caller.as_ref() }.ok_or_else(|| Failure::new(RD_INVALID_ARGUMENT, "no caller"))?;
        // SAFETY: the caller promises so many readable arguments.
        let given = unsafe { elements::<rd_value>(arguments.cast(), count) };
        let mut values = SmallVec::<[Value<'_>; 8]>::new();
        for value in given {
            // SAFETY: the caller promises what an argument points at.
            values.push(unsafe { read(value) }?);
        }
        let arguments = Arguments::new(&values);
        if !operator.takes(&arguments) {
            return Err(fallback());
        }
        let mut host = Host { caller };
        let mut call = Call::new(operator.row(), &mut host);
        let outcome = match operator.prepare.run {
            Run::Plain(run) => run(&arguments, &mut call),
            Run::Structured(_, run) => run(&arguments, &mut StructuredCall::new(call)),
        };
        outcome.map_err(failure)
    })
}

#[cold]
fn fallback() -> Failure {
    Failure::new(RD_FALLBACK, String::new())
}

#[cold]
pub(super) fn failure(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Fallback => fallback(),
        Refusal::Invalid(text) => Failure::new(RD_INVALID_ARGUMENT, text),
        Refusal::Index(text) => Failure::new(RD_OUT_OF_RANGE, text),
        Refusal::Value(text) => Failure::new(RD_INVALID_VALUE, text),
        Refusal::Unsupported(text) => Failure::new(RD_UNSUPPORTED, text),
        Refusal::Failed(status, text) => Failure::new(status, text),
    }
}

/// # Safety
/// `data` has `count` readable elements, or none of them is asked for.
pub(super) unsafe fn elements<'a, T>(data: *const c_void, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(data.cast(), count) }
}

/// # Safety
/// What the value points at is readable, and outlives the result.
#[inline]
pub(super) unsafe fn read<'a>(value: &rd_value) -> Result<Value<'a>, Failure> {
    let &rd_value { kind, count, data, scalar } = value;
    Ok(match kind {
        RD_VALUE_NONE => Value::None,
        RD_VALUE_SCALAR => Value::Number(rd_launch::scalar(&scalar)?),
        RD_VALUE_TENSOR => {
            // SAFETY: the caller's promise: one tensor.
            let given = unsafe { elements::<rd_tensor>(data, 1) };
            // SAFETY: as above.
            Value::Tensor(unsafe { tensor(&given[0]) }?)
        }
        // SAFETY: the caller's promise: so many tensors.
        RD_VALUE_TENSORS => Value::Tensors(unsafe { tensors(data, count) }?),
        // SAFETY: the caller's promise: so many numbers.
        RD_VALUE_INTEGERS => Value::Integers(unsafe { elements(data, count) }),
        // SAFETY: as above.
        RD_VALUE_DOUBLES => Value::Numbers(unsafe { elements(data, count) }),
        // SAFETY: as above; a bool of C++ is one of Rust.
        RD_VALUE_BOOLS => Value::Flags(unsafe { elements(data, count) }),
        RD_VALUE_TEXT => {
            // SAFETY: the caller's promise: so many bytes.
            let bytes = unsafe { elements::<u8>(data, count) };
            Value::Text(std::str::from_utf8(bytes).map_err(|error| Failure::new(RD_INVALID_ARGUMENT, error.to_string()))?)
        }
        RD_VALUE_GENERATOR => Value::Generator(data as usize),
        RD_VALUE_OTHER => Value::Other,
        _ => return Err(Failure::new(RD_INVALID_ARGUMENT, format!("an argument of kind {kind}"))),
    })
}

/// # Safety
/// `data` has `count` readable tensors, whose sizes and strides are readable.
unsafe fn tensors(data: *const c_void, count: usize) -> Result<Vec<Tensor>, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { elements::<rd_tensor>(data, count) };
    // SAFETY: as above.
    given.iter().map(|each| unsafe { tensor(each) }).collect()
}

/// # Safety
/// Its sizes and strides are readable.
#[inline]
unsafe fn tensor(given: &rd_tensor) -> Result<Tensor, Failure> {
    // SAFETY: the caller's promise.
    let shape = unsafe { shape(given) }?;
    let flags = Flags(given.flags as u8);
    Ok(Tensor::new(given.handle as usize, given.data as usize, shape.dtype, given.device, flags, shape.sizes, shape.strides))
}

/// # Safety
/// Its sizes and strides are readable.
#[inline]
unsafe fn shape(given: &rd_tensor) -> Result<Shape, Failure> {
    let ndim = given.ndim.max(0) as usize;
    // SAFETY: the caller's promise.
    let sizes = unsafe { elements::<i64>(given.sizes.cast(), ndim) };
    // SAFETY: as above.
    let strides = unsafe { elements::<i64>(given.strides.cast(), ndim) };
    Ok(Shape { sizes: dims(sizes, |size| size), strides: dims(strides, |stride| stride), dtype: rd_launch::dtype(given.dtype)? })
}

/// A descriptor of a shape, which outlives it.
fn described(shape: &Shape) -> rd_tensor {
    let Shape { sizes, strides, dtype } = shape;
    let (ndim, dtype) = (sizes.len() as i32, *dtype as i32);
    let (handle, data, sizes, strides) = (ptr::null_mut(), ptr::null_mut(), sizes.as_ptr(), strides.as_ptr());
    rd_tensor { handle, data, sizes, strides, ndim, dtype, device: -1, flags: 0 }
}

/// A descriptor of a tensor, which outlives it.
fn view(tensor: &Tensor) -> rd_tensor {
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

/// The descriptors of an argument's tensors.
fn tensors_of(value: &Value<'_>) -> Vec<rd_tensor> {
    match value {
        Value::Tensor(tensor) => vec![view(tensor)],
        Value::Tensors(tensors) => tensors.iter().map(view).collect(),
        _ => Vec::new(),
    }
}

/// An argument for the other side; `tensors`: its own.
fn written(value: &Value<'_>, tensors: &[rd_tensor]) -> rd_value {
    let nothing = Scalar::Long(0);
    let list = |kind, count, data| rd_value { kind, count, data, scalar: to_scalar(&nothing) };
    match value {
        Value::None | Value::Other => list(RD_VALUE_NONE, 0, ptr::null()),
        Value::Tensor(_) => list(RD_VALUE_TENSOR, 1, tensors.as_ptr().cast()),
        Value::Tensors(_) => list(RD_VALUE_TENSORS, tensors.len(), tensors.as_ptr().cast()),
        Value::Number(number) => rd_value { kind: RD_VALUE_SCALAR, count: 1, data: ptr::null(), scalar: to_scalar(number) },
        Value::Integers(values) => list(RD_VALUE_INTEGERS, values.len(), values.as_ptr().cast()),
        Value::Numbers(values) => list(RD_VALUE_DOUBLES, values.len(), values.as_ptr().cast()),
        Value::Flags(values) => list(RD_VALUE_BOOLS, values.len(), values.as_ptr().cast()),
        Value::Text(text) => list(RD_VALUE_TEXT, text.len(), text.as_ptr().cast()),
        Value::Generator(address) => list(RD_VALUE_GENERATOR, 1, ptr::with_exposed_provenance(*address)),
    }
}

/// No tensor.
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

/// Outputs of a meta at most.
const MAX_OUTPUTS: usize = 8;

/// The other side of the boundary.
struct Host<'a> {
    caller: &'a rd_caller,
}

impl Host<'_> {
    /// What a function of the caller's made.
    fn made(&self, ask: impl FnOnce(*mut c_void, *mut rd_tensor) -> rd_status) -> Result<Tensor, Refusal> {
        let mut made = NO_TENSOR;
        if ask(self.caller.context, &raw mut made) != RD_OK {
            return Err(failed());
        }
        // SAFETY: the caller of `rd_operator_call` promises that its functions describe what they make.
        unsafe { tensor(&made) }.map_err(|failure| Refusal::Unsupported(failure.message))
    }
}

/// What the shim knows of PyTorch.
#[cfg(feature = "shim")]
mod torch {
    // SAFETY: these are the signatures in shim/operators.cpp.
    unsafe extern "C" {
        pub safe fn rd_shim_has_mkl() -> bool;
        pub safe fn rd_shim_has_amx() -> bool;
        pub safe fn rd_shim_is_deterministic() -> bool;
    }
}

/// Without a shim there is no PyTorch.
#[cfg(not(feature = "shim"))]
mod torch {
    pub fn rd_shim_has_mkl() -> bool {
        false
    }

    pub fn rd_shim_has_amx() -> bool {
        false
    }

    pub fn rd_shim_is_deterministic() -> bool {
        false
    }
}

impl Caller for Host<'_> {
    fn meta(&mut self) -> Result<Shapes, Refusal> {
        let (mut shapes, mut count) = ([NO_TENSOR; MAX_OUTPUTS], 0);
        // SAFETY: the caller of `rd_operator_call` promises its functions.
        let status = unsafe { (self.caller.meta)(self.caller.context, shapes.as_mut_ptr(), MAX_OUTPUTS, &raw mut count) };
        if status != RD_OK {
            return Err(failed());
        }
        // SAFETY: as above: it describes so many shapes.
        let read = shapes[..count.min(MAX_OUTPUTS)].iter().map(|each| unsafe { shape(each) });
        read.collect::<Result<_, _>>().map_err(|failure: Failure| Refusal::Unsupported(failure.message))
    }

    fn output(&mut self, index: usize, shape: &Shape, strides: Strides) -> Result<Tensor, Refusal> {
        let wanted = described(shape);
        // SAFETY: the caller of `rd_operator_call` promises its functions.
        self.made(|context, made| unsafe { (self.caller.output)(context, index, &raw const wanted, strides as i32, made) })
    }

    fn given(&mut self, index: usize) -> Result<Option<Tensor>, Refusal> {
        // SAFETY: as above.
        let found = self.made(|context, found| unsafe { (self.caller.given)(context, index, found) })?;
        Ok((found.handle() != 0).then_some(found))
    }

    fn empty(&mut self, shape: &Shape) -> Result<Tensor, Refusal> {
        let wanted = described(shape);
        // SAFETY: as above.
        self.made(|context, made| unsafe { (self.caller.empty)(context, &raw const wanted, made) })
    }

    fn dense(&mut self, tensor: &Tensor, format: Format) -> Result<Tensor, Refusal> {
        let given = view(tensor);
        // SAFETY: as above; the tensor is one of the call's.
        self.made(|context, made| unsafe { (self.caller.dense)(context, &raw const given, format as i32, made) })
    }

    fn call(&mut self, operator: &Callee, arguments: &[Value<'_>], results: usize) -> Result<Tensors, Refusal> {
        let tensors: Vec<Vec<rd_tensor>> = arguments.iter().map(tensors_of).collect();
        let values: Vec<rd_value> = arguments.iter().zip(&tensors).map(|(value, tensors)| written(value, tensors)).collect();
        let mut made = [NO_TENSOR; MAX_OUTPUTS];
        let (context, capacity) = (self.caller.context, results.min(MAX_OUTPUTS));
        let operator = ptr::with_exposed_provenance(operator.handle());
        // SAFETY: as above; the values borrow from the arguments.
        let status = unsafe { (self.caller.call)(context, operator, values.as_ptr(), values.len(), made.as_mut_ptr(), capacity) };
        if status != RD_OK {
            return Err(failed());
        }
        // SAFETY: as above.
        let read = made[..capacity].iter().map(|each| unsafe { tensor(each) });
        read.collect::<Result<_, _>>().map_err(|failure: Failure| Refusal::Unsupported(failure.message))
    }

    fn read(&mut self, tensor: &Tensor, reason: &CStr) -> Result<i64, Refusal> {
        let (given, mut value) = (view(tensor), 0);
        // SAFETY: as above.
        let status = unsafe { (self.caller.read)(self.caller.context, &raw const given, reason.as_ptr(), &raw mut value) };
        if status == RD_OK { Ok(value) } else { Err(failed()) }
    }

    fn draw(&mut self, generator: &Value<'_>, count: u64) -> Result<[Scalar; 2], Refusal> {
        let address = if let &Value::Generator(address) = generator { address } else { 0 };
        let mut state = [to_scalar(&Scalar::Long(0)); 2];
        // SAFETY: as above; the generator is an argument of the call.
        let status = unsafe {
            (self.caller.draw)(self.caller.context, ptr::with_exposed_provenance_mut(address), count, state.as_mut_ptr())
        };
        if status != RD_OK {
            return Err(failed());
        }
        let unknown = |failure: Failure| Refusal::Unsupported(failure.message);
        Ok([rd_launch::scalar(&state[0]).map_err(unknown)?, rd_launch::scalar(&state[1]).map_err(unknown)?])
    }

    fn leave_to_task(&mut self, cut: Cut) -> Outcome {
        let Cut { dim, size, least_ndim, cost } = cut;
        let cut = rd_cut { dim: dim as i64, size, least_ndim: least_ndim as i64, cost };
        // SAFETY: as above.
        let status = unsafe { (self.caller.leave_to_task)(self.caller.context, &raw const cut) };
        if status == RD_OK { Ok(()) } else { Err(failed()) }
    }

    fn launch(
        &mut self,
        op: &'static Op,
        compute: DType,
        outputs: &[&Tensor],
        inputs: &[Input<'_>],
        scalars: &[Scalar],
    ) -> Outcome {
        let mut arrays = Arrays::new(outputs, inputs);
        for tensor in outputs {
            arrays.tensor(tensor);
        }
        for input in inputs {
            match input {
                Input::Tensor(tensor) => arrays.tensor(tensor),
                Input::Number(number) => arrays.number(number),
            }
        }
        let operands = &arrays.operands;
        let mut given = SmallVec::<[rd_scalar; 16]>::with_capacity(scalars.len());
        for scalar in scalars {
            given.push(to_scalar(scalar));
        }
        let scalars = given;
        let first = outputs.first().ok_or_else(|| Refusal::Invalid(format!("internal error: {} without outputs", op.text())))?;
        let args = rd_launch_args {
            operands: operands.as_ptr(),
            num_operands: operands.len(),
            num_outputs: outputs.len(),
            scalars: scalars.as_ptr(),
            num_scalars: scalars.len(),
            compute_dtype: compute as i32,
            dense_numel: 0,
        };
        // SAFETY: the operands are tensors of the call or elements of them, which the caller of `rd_operator_call` keeps in the stream's order;
        // outputs are those that it made, or that the call writes to.
        match unsafe { rd_launch::launch(op, first.device(), &args) } {
            Ok(()) => Ok(()),
            Err(Failure { status: RD_UNSUPPORTED, .. }) => {
                Err(Refusal::Unsupported(format!("\"{}\" not implemented for '{compute:?}'", op.text())))
            }
            Err(failure) => Err(Refusal::Failed(failure.status, failure.message)),
        }
    }

    fn has_mkl(&self) -> bool {
        torch::rd_shim_has_mkl()
    }

    fn has_amx(&self) -> bool {
        torch::rd_shim_has_amx()
    }

    fn is_deterministic(&self) -> bool {
        torch::rd_shim_is_deterministic()
    }
}

/// The descriptors of a launch's operands, and what they point at. That is reserved at the start, and stays where it is.
struct Arrays {
    operands: SmallVec<[rd_operand; 6]>,
    /// In bytes.
    strides: SmallVec<[i64; 24]>,
    numbers: SmallVec<[rd_scalar; 2]>,
}

impl Arrays {
    fn new(outputs: &[&Tensor], inputs: &[Input<'_>]) -> Self {
        let (mut dims, mut numbers) = (0, 0);
        for tensor in outputs {
            dims += tensor.ndim();
        }
        for input in inputs {
            match input {
                Input::Tensor(tensor) => dims += tensor.ndim(),
                Input::Number(_) => numbers += 1,
            }
        }
        Self {
            operands: SmallVec::with_capacity(outputs.len() + inputs.len()),
            strides: SmallVec::with_capacity(dims),
            numbers: SmallVec::with_capacity(numbers),
        }
    }

    #[inline]
    fn tensor(&mut self, tensor: &Tensor) {
        let item = tensor.dtype().size() as i64;
        let begin = self.strides.len();
        for &stride in tensor.strides() {
            self.strides.push(stride * item);
        }
        self.operands.push(rd_operand {
            data: ptr::with_exposed_provenance_mut(tensor.address()),
            sizes: tensor.sizes().as_ptr(),
            strides: self.strides[begin..].as_ptr(),
            ndim: tensor.ndim() as i32,
            dtype: tensor.dtype() as i32,
            flags: u32::from(tensor.flags().0) & (RD_OPERAND_CONJ | RD_OPERAND_NEG),
        });
    }

    fn number(&mut self, number: &Scalar) {
        let index = self.numbers.len();
        self.numbers.push(to_scalar(number));
        self.operands.push(immediate(&self.numbers[index]));
    }
}

/// The other side failed, and knows why.
#[cold]
fn failed() -> Refusal {
    Refusal::Failed(RD_INTERNAL, String::new())
}

/// The descriptor of a number, which is read during the launch.
fn immediate(number: &rd_scalar) -> rd_operand {
    let is_whole = [DType::Long as i32, DType::Bool as i32].contains(&number.dtype);
    let offset = if is_whole { offset_of!(rd_scalar, integer) } else { offset_of!(rd_scalar, real) };
    let data = ptr::from_ref(number).wrapping_byte_add(offset).cast::<c_void>();
    let (sizes, strides, flags) = (ptr::null(), ptr::null(), RD_OPERAND_IMMEDIATE);
    rd_operand { data: data.cast_mut(), sizes, strides, ndim: 0, dtype: number.dtype, flags }
}

fn to_scalar(value: &Scalar) -> rd_scalar {
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
