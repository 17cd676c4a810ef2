//! [`Arguments`] and [`Call`]: what an operator was called with, and what it can do.

use std::ffi::{CStr, CString};
use std::fmt;
use std::ops::Deref;

use smallvec::{SmallVec, smallvec};

use super::conversions;
use super::descriptor::{Dims, Format, Tensor, dims};
use super::guards::Changes;
use super::names::{self, Callee, Row};
use crate::kernels::table::Op;
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::dtype::{DType, HALVES};
use crate::tensor::launch::Scalar;
use crate::tuning::tasks::{MAX_PARTS, PART_NS};

/// Why a call is not done here.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// PyTorch's CPU kernel takes it.
    Fallback,
    /// PyTorch's composition of other operators takes it, which is registered for all backends.
    Composite,
    /// `RuntimeError`.
    Invalid(String),
    /// `IndexError`.
    Index(String),
    /// `ValueError`.
    Value(String),
    /// `TypeError`.
    Type(String),
    /// `NotImplementedError`.
    Unsupported(String),
    /// What the caller did failed, with this status and text of its own.
    Failed(i32, String),
}

/// Refuses by a `RuntimeError` what is not so.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::operators::call::Refusal::Invalid(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// Refuses by an `IndexError` what is not so.
pub fn check_index(condition: bool, text: &str) -> Outcome {
    if condition { Ok(()) } else { Err(Refusal::Index(text.into())) }
}

/// The outcome of a call.
pub type Outcome = Result<(), Refusal>;

/// One argument, as its schema has it.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Optional, and not given.
    None,
    Tensor(Tensor<'a>),
    Tensors(&'a [Tensor<'a>]),
    /// Of which some may be left out.
    OptionalTensors(&'a [Option<Tensor<'a>>]),
    Number(Scalar),
    /// An integer that no `i64` holds, as the number nearest to it.
    LargeInteger(f64),
    Scalars(&'a [Scalar]),
    Integers(&'a [i64]),
    Numbers(&'a [f64]),
    Flags(&'a [bool]),
    Text(&'a str),
    /// A random generator, by PyTorch's address of it.
    Generator(usize),
    /// That a factory is asked for.
    Device(Device),
    /// What no operator here asks for.
    Other,
}

/// A device of any kind: its number among those of `c10::DeviceType`, and an index, -1 for the current device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    pub kind: i32,
    pub index: i32,
}

impl Device {
    /// The kind of ours: `PrivateUse1`.
    pub const OURS: i32 = 20;

    /// Whether it is ours of this index, and says so.
    pub fn is(self, index: i32) -> bool {
        self == Self { kind: Self::OURS, index } && index >= 0
    }
}

fn wrong(wanted: &str, value: &Value<'_>) -> Refusal {
    Refusal::Invalid(format!("internal error: expected {wanted} as an argument, but got {value:?}"))
}

impl From<Scalar> for Value<'_> {
    fn from(number: Scalar) -> Self {
        Self::Number(number)
    }
}

impl<'a> Value<'a> {
    #[inline]
    pub fn tensor(&self) -> Result<Tensor<'a>, Refusal> {
        match self {
            Self::Tensor(tensor) => Ok(*tensor),
            _ => Err(wrong("a tensor", self)),
        }
    }

    /// A tensor that may be left out.
    pub fn optional_tensor(&self) -> Result<Option<Tensor<'a>>, Refusal> {
        match self {
            Self::None => Ok(None),
            _ => self.tensor().map(Some),
        }
    }

    /// Whether it is left out.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The tensor, if it is one.
    #[inline]
    pub fn as_tensor(&self) -> Option<Tensor<'a>> {
        if let Self::Tensor(tensor) = self { Some(*tensor) } else { None }
    }

    /// The number, if it is one; an integer that no scalar of a kernel holds is the number nearest to it.
    #[inline]
    pub fn as_number(&self) -> Option<Scalar> {
        match self {
            Self::Number(number) => Some(*number),
            Self::LargeInteger(nearest) => Some(Scalar::Double(*nearest)),
            _ => None,
        }
    }

    /// The text, if it is one.
    #[inline]
    pub fn as_text(&self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// A tensor or a number, as a kernel's input.
    pub fn input(&self) -> Result<Input<'a>, Refusal> {
        self.as_number().map_or_else(|| self.tensor().map(Input::Tensor), |number| Ok(Input::Number(number)))
    }

    /// Tensors of which some may be left out.
    pub fn optional_tensors(&self) -> Result<&'a [Option<Tensor<'a>>], Refusal> {
        match self {
            Self::OptionalTensors(tensors) => Ok(tensors),
            _ => Err(wrong("tensors", self)),
        }
    }

    #[inline]
    pub fn tensors(&self) -> Result<&'a [Tensor<'a>], Refusal> {
        match self {
            Self::Tensors(tensors) => Ok(tensors),
            _ => Err(wrong("tensors", self)),
        }
    }

    #[inline]
    pub fn integer(&self) -> Result<i64, Refusal> {
        match self {
            Self::Number(Scalar::Long(value)) => Ok(*value),
            _ => Err(wrong("an integer", self)),
        }
    }

    #[inline]
    pub fn number(&self) -> Result<Scalar, Refusal> {
        self.as_number().ok_or_else(|| wrong("a number", self))
    }

    #[inline]
    pub fn flag(&self) -> Result<bool, Refusal> {
        match self {
            Self::Number(Scalar::Bool(value)) => Ok(*value),
            _ => Err(wrong("a bool", self)),
        }
    }

    #[inline]
    pub fn double(&self) -> Result<f64, Refusal> {
        match self {
            Self::Number(Scalar::Double(value)) => Ok(*value),
            _ => Err(wrong("a floating point number", self)),
        }
    }

    #[inline]
    pub fn text(&self) -> Result<&'a str, Refusal> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err(wrong("a text", self)),
        }
    }

    #[inline]
    pub fn integers(&self) -> Result<&'a [i64], Refusal> {
        match self {
            Self::Integers(values) => Ok(values),
            _ => Err(wrong("integers", self)),
        }
    }

    pub fn flags(&self) -> Result<&'a [bool], Refusal> {
        match self {
            Self::Flags(values) => Ok(values),
            _ => Err(wrong("bools", self)),
        }
    }
}

/// An input of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    Tensor(Tensor<'a>),
    /// A tensor of the CPU without dimensions, which is read at once and broadcast over all elements.
    Immediate(Tensor<'a>),
    /// Broadcast over all elements.
    Number(Scalar),
}

impl<'a> Input<'a> {
    /// The tensor; none of a number.
    #[inline]
    pub fn tensor(&self) -> Option<Tensor<'a>> {
        match *self {
            Self::Tensor(tensor) | Self::Immediate(tensor) => Some(tensor),
            Self::Number(_) => None,
        }
    }

    /// The tensor, unless it is read at once.
    #[inline]
    pub fn in_memory(&self) -> Option<Tensor<'a>> {
        if let Self::Tensor(tensor) = *self { Some(tensor) } else { None }
    }
}

impl<'a> From<Tensor<'a>> for Input<'a> {
    fn from(tensor: Tensor<'a>) -> Self {
        Self::Tensor(tensor)
    }
}

/// The arguments of a call, the caller's outputs left out.
#[derive(Clone, Copy)]
pub struct Arguments<'a>(&'a [Value<'a>]);

impl<'a> Arguments<'a> {
    pub fn new(values: &'a [Value<'a>]) -> Self {
        Self(values)
    }

    /// All of them.
    pub fn all<const N: usize>(&self) -> Result<&'a [Value<'a>; N], Refusal> {
        let wrong = |_| Refusal::Invalid(format!("internal error: {} arguments, and {N} expected", self.0.len()));
        self.0.try_into().map_err(wrong)
    }

    /// Argument number `index`.
    pub fn tensor(&self, index: usize) -> Result<Tensor<'a>, Refusal> {
        self.0.get(index).unwrap_or(&Value::None).tensor()
    }

    /// Those that are tensors, lists of them left out.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'a>> + use<'a> {
        self.0.iter().filter_map(Value::as_tensor)
    }
}

impl<'a> Deref for Arguments<'a> {
    type Target = [Value<'a>];

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

/// A dimension counted from the start. A number is taken for a tensor of one dimension.
pub fn wrap_dim(dim: i64, ndim: usize) -> Result<usize, Refusal> {
    let count = ndim.max(1) as i64;
    if (-count..count).contains(&dim) {
        return Ok(dim.rem_euclid(count) as usize);
    }
    let range = format!("expected to be in range of [{}, {}], but got {dim}", -count, count - 1);
    Err(Refusal::Index(format!("Dimension out of range ({range})")))
}

/// The sizes that both are broadcast to.
pub fn broadcast(one: &[i64], other: &[i64]) -> Result<Dims, Refusal> {
    let ndim = one.len().max(other.len());
    let size = |sizes: &[i64], dim: usize| (dim + sizes.len()).checked_sub(ndim).map_or(1, |own| sizes[own]);
    let mut sizes: Dims = smallvec![1; ndim];
    // PyTorch tells of the last dimension that differs.
    for dim in (0..ndim).rev() {
        let (a, b) = (size(one, dim), size(other, dim));
        let text =
            format_args!("The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}");
        ensure!(a == b || a == 1 || b == 1, "{text}");
        sizes[dim] = if a == 1 { b } else { a };
    }
    Ok(sizes)
}

/// Sizes, strides and dtype of a tensor that is still to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub sizes: Dims,
    pub strides: Dims,
    pub dtype: DType,
}

impl Shape {
    /// Dense in an order.
    pub fn new(sizes: &[i64], dtype: DType, format: Format) -> Self {
        Self { sizes: dims(sizes, |size| size), strides: format.strides(sizes), dtype }
    }

    /// The same in an order.
    pub fn in_format(self, format: Format) -> Self {
        Self { strides: format.strides(&self.sizes), ..self }
    }
}

/// What a new tensor is to be like; without strides it is contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub sizes: &'a [i64],
    pub strides: Option<&'a [i64]>,
    pub dtype: DType,
}

/// What an output of the caller's (`out=`) must be like. All get their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strides {
    /// It keeps its strides where it has the sizes.
    Any = 0,
    /// It keeps them, and the operator writes to a tensor with the strides of the shape, which is copied at the end.
    Copied = 1,
    /// It gets those of the shape.
    Given = 2,
    /// As `Any`, and its elements may share memory.
    Shared = 3,
}

/// A few, without an allocation.
pub type Shapes = SmallVec<[Shape; 2]>;
pub type Tensors<'a> = SmallVec<[Tensor<'a>; 2]>;

/// How a task is cut into parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Along this dimension of the tensors that have this size in it; others are whole in every part.
    pub dim: usize,
    pub size: i64,
    /// Tensors of fewer dimensions are whole too.
    pub least_ndim: usize,
    /// Nanoseconds of one thread, of all parts.
    pub cost: u64,
    /// Whether the libraries that PyTorch calls use their own threads.
    pub takes_threads: bool,
}

impl Cut {
    /// How many parts it is worth.
    pub fn parts(&self) -> i64 {
        parts_worth(self.cost).min(self.size.max(1))
    }
}

/// How a convolution's task is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub parts: i64,
    /// Nanoseconds of one thread, of all parts.
    pub cost: u64,
    /// Along the channels that its parts do not share, those of the output forward and of the input backward; else along the batch.
    pub by_channels: bool,
    /// Of a batch of one, volumes are left to oneDNN's kernel, whatever PyTorch would choose.
    pub large_volumes: bool,
}

/// How many parts a task of a cost is worth.
pub fn parts_worth(cost: u64) -> i64 {
    (cost / PART_NS).clamp(1, MAX_PARTS) as i64
}

/// The side of a call that has PyTorch's tensors.
pub trait Caller {
    /// What PyTorch's meta that the operator is bound with says of its outputs for these arguments.
    fn meta(&self) -> Result<Shapes, Refusal>;

    /// Output number `index`: a new tensor, or the caller's.
    fn output(&self, index: usize, wanted: Wanted<'_>, strides: Strides) -> Result<Tensor<'_>, Refusal>;

    /// A new tensor for the time of the call.
    fn empty(&self, wanted: Wanted<'_>) -> Result<Tensor<'_>, Refusal>;

    /// A tensor of the call in an order of its elements, copied where it has another.
    fn dense(&self, tensor: Tensor<'_>, format: Format) -> Result<Tensor<'_>, Refusal>;

    /// Calls an operator of PyTorch, which has so many results, all of them tensors.
    fn call(&self, operator: &Callee, arguments: &[Value<'_>], results: usize) -> Result<Tensors<'_>, Refusal>;

    /// Calls the operator itself, its functional variant, with other arguments.
    fn repeat(&self, arguments: &[Value<'_>]) -> Result<Tensors<'_>, Refusal>;

    /// The outputs that the call has made so far.
    fn outputs(&self) -> Tensors<'_>;

    /// Makes a tensor of the call output number `index`: that of the functional variant, or copied to the caller's.
    fn give(&self, index: usize, tensor: Tensor<'_>) -> Outcome;

    /// Waits for a tensor of one integer and reads it; `reason` says in reports what waits.
    ///
    /// # Errors
    /// A task failed, or the stream captures.
    fn read(&self, tensor: Tensor<'_>, reason: &CStr) -> Result<i64, Refusal>;

    /// The numbers that a tensor on the CPU packs, which must be so many.
    fn numbers(&self, tensor: Tensor<'_>, count: usize) -> Result<&[Scalar], Refusal>;

    /// Tells autograd that tensors are written to.
    fn bump_versions(&self, tensors: &[Tensor<'_>]) -> Outcome;

    /// Whether the overload returns nothing: it writes to arguments alone.
    fn is_void(&self) -> bool;

    /// The value of a tensor of one element, which is waited for.
    ///
    /// # Errors
    /// A task failed, the stream captures, or there are more elements.
    fn item(&self, tensor: Tensor<'_>) -> Result<Scalar, Refusal>;

    /// Takes `count` random numbers of 32 bits of a generator (an argument of the call) and says where they begin: seed and offset, which are
    /// cells while the stream captures.
    fn draw(&self, generator: &Value<'_>, count: u64) -> Result<[Scalar; 2], Refusal>;

    /// Raises a `UserWarning`.
    fn warn(&self, text: &CStr) -> Outcome;

    /// Has PyTorch's kernel compute, as a task over the outputs, with these changes to its arguments.
    fn leave_to_task(&self, cut: Cut, changes: &Changes) -> Outcome;

    /// Has the operator's own task compute over the arguments, of which tensors may be wider than the call's, behind its outputs.
    fn divide(&self, arguments: &[Value<'_>], division: &Division) -> Outcome;

    /// Enqueues a kernel on the current stream of the tensors' device.
    fn launch(&self, op: &'static Op, compute: DType, outputs: &[Tensor<'_>], inputs: &[Input<'_>], scalars: &[Scalar]) -> Outcome;

    /// The same over lists of dense tensors on one device, each of them as one dimension. The operands are the tensors of one list after the
    /// other; those of the first `written` lists are outputs.
    fn launch_lists(&self, op: &'static Op, compute: DType, written: usize, lists: &[&[Tensor<'_>]], scalars: &[Scalar])
    -> Outcome;

    /// Whether PyTorch has MKL.
    fn has_mkl(&self) -> bool;

    /// Whether PyTorch's products of 16 bit floats use AMX.
    fn has_amx(&self) -> bool;

    /// Whether PyTorch has complex numbers of two BFloat16.
    fn has_complex_bfloat16(&self) -> bool;

    /// Whether the user asked for deterministic algorithms.
    fn is_deterministic(&self) -> bool;

    /// The dtype of floating point numbers that say none.
    fn default_dtype(&self) -> DType;
}

/// One call of an operator.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    kernel: Option<&'static Op>,
    caller: &'a (dyn Caller + 'a),
    given: &'a [Tensor<'a>],
    arena: &'a BumpArena,
}

impl<'a> Call<'a> {
    /// Of an operator with this kernel, if it is one of ours. `given`: the caller's tensors for the first outputs, as they are before the call.
    pub fn new(kernel: Option<&'static Op>, caller: &'a (dyn Caller + 'a), given: &'a [Tensor<'a>], arena: &'a BumpArena) -> Self {
        Self { kernel, caller, given, arena }
    }

    /// Memory to the end of the call.
    pub fn arena(&self) -> &'a BumpArena {
        self.arena
    }

    /// The name of its kernel; empty where it has none.
    pub fn kernel_name(&self) -> &'static str {
        self.kernel.map_or("", Op::text)
    }

    /// Whether its kernel computes in a dtype.
    pub fn takes(&self, dtype: DType) -> bool {
        self.kernel.is_some_and(|kernel| kernel.dtypes().contains(dtype))
    }

    /// Output number `index`: a new tensor, or the caller's.
    pub fn output(&self, index: usize, shape: &Shape, strides: Strides) -> Result<Tensor<'a>, Refusal> {
        let wanted = Wanted { sizes: &shape.sizes, strides: Some(&shape.strides), dtype: shape.dtype };
        self.caller.output(index, wanted, strides)
    }

    /// The same, contiguous where it is new.
    pub fn contiguous(&self, index: usize, sizes: &[i64], dtype: DType, strides: Strides) -> Result<Tensor<'a>, Refusal> {
        self.caller.output(index, Wanted { sizes, strides: None, dtype }, strides)
    }

    /// The same with the sizes, the strides and the dtype of a tensor.
    pub fn output_like(&self, index: usize, tensor: Tensor<'_>) -> Result<Tensor<'a>, Refusal> {
        let wanted = Wanted { sizes: tensor.sizes(), strides: Some(tensor.strides()), dtype: tensor.dtype() };
        self.caller.output(index, wanted, Strides::Any)
    }

    /// The caller's tensor for output number `index`, as it was before the call; nothing where the call makes it.
    pub fn given(&self, index: usize) -> Option<Tensor<'a>> {
        self.given.get(index).copied().filter(|tensor| tensor.handle() != 0)
    }

    /// Makes a tensor of the call, or a view of one, output number `index`; it is copied to the caller's, if there is one.
    pub fn give(&self, index: usize, tensor: Tensor<'_>) -> Outcome {
        self.caller.give(index, tensor)
    }

    /// A tensor of the call in an order of its elements, copied where it has another.
    pub fn dense(&self, tensor: Tensor<'a>, format: Format) -> Result<Tensor<'a>, Refusal> {
        if tensor.is_dense(format) { Ok(tensor) } else { self.caller.dense(tensor, format) }
    }

    /// The same of a tensor that may be left out, contiguous.
    pub fn dense_given(&self, tensor: Option<Tensor<'a>>) -> Result<Option<Tensor<'a>>, Refusal> {
        tensor.map(|tensor| self.dense(tensor, Format::Contiguous)).transpose()
    }

    /// A new contiguous tensor for the time of the call.
    pub fn empty(&self, sizes: &[i64], dtype: DType) -> Result<Tensor<'a>, Refusal> {
        self.caller.empty(Wanted { sizes, strides: None, dtype })
    }

    /// A new tensor of a shape for the time of the call.
    pub fn empty_as(&self, shape: &Shape) -> Result<Tensor<'a>, Refusal> {
        self.caller.empty(Wanted { sizes: &shape.sizes, strides: Some(&shape.strides), dtype: shape.dtype })
    }

    /// The same of 0, contiguous.
    pub fn zeros(&self, sizes: &[i64], dtype: DType) -> Result<Tensor<'a>, Refusal> {
        let made = self.empty(sizes, dtype)?;
        self.operator(&names::ZERO, &[Value::Tensor(made)])
    }

    /// The only result of another operator.
    pub fn operator(&self, operator: &Callee, arguments: &[Value<'_>]) -> Result<Tensor<'a>, Refusal> {
        self.operators(operator, arguments, 1)?.pop().ok_or_else(|| Refusal::Invalid("internal error: no result".into()))
    }

    /// The results of another operator, which has so many.
    pub fn operators(&self, operator: &Callee, arguments: &[Value<'_>], results: usize) -> Result<Tensors<'a>, Refusal> {
        self.caller.call(operator, arguments, results)
    }

    /// The results of the operator itself with other arguments.
    pub fn repeat(&self, arguments: &[Value<'_>]) -> Result<Tensors<'a>, Refusal> {
        self.caller.repeat(arguments)
    }

    /// The outputs that the call has made so far.
    pub fn outputs(&self) -> Tensors<'a> {
        self.caller.outputs()
    }

    /// Copies a tensor's elements into another one, as `copy_` does.
    pub fn copy(&self, target: Tensor<'_>, source: Tensor<'_>) -> Outcome {
        let arguments = [Value::Tensor(target), Value::Tensor(source), Value::Number(Scalar::Bool(false))];
        self.operator(&names::COPY, &arguments).map(drop)
    }

    /// A tensor in another dtype, as `to` makes it.
    pub fn cast(&self, tensor: Tensor<'a>, dtype: DType) -> Result<Tensor<'a>, Refusal> {
        if tensor.dtype() == dtype {
            return Ok(tensor);
        }
        let (wanted, no) = (Value::Number(Scalar::Long(dtype as i64)), Value::Number(Scalar::Bool(false)));
        self.operator(&names::TO_DTYPE, &[Value::Tensor(tensor), wanted, no, no, Value::None])
    }

    /// Arguments with tensors of 16 bit floats in `Float`.
    pub fn widened(&self, arguments: &[Value<'a>]) -> Result<SmallVec<[Value<'a>; 10]>, Refusal> {
        let widened = |value: &Value<'a>| match value {
            Value::Tensor(tensor) if HALVES.contains(tensor.dtype()) => self.cast(*tensor, DType::Float).map(Value::Tensor),
            _ => Ok(*value),
        };
        arguments.iter().map(widened).collect()
    }

    /// Writes a number to every element, as `fill_` does.
    pub fn fill(&self, target: Tensor<'_>, number: Scalar) -> Outcome {
        self.operator(&names::FILL, &[Value::Tensor(target), Value::Number(number)]).map(drop)
    }

    /// Waits for a tensor of one integer and reads it; `reason` says in reports what waits.
    ///
    /// # Errors
    /// A task failed, or the stream captures.
    pub fn read(&self, tensor: Tensor<'_>, reason: &CStr) -> Result<i64, Refusal> {
        self.caller.read(tensor, reason)
    }

    /// The numbers that a tensor on the CPU packs, which must be so many.
    pub fn numbers(&self, tensor: Tensor<'_>, count: usize) -> Result<&'a [Scalar], Refusal> {
        self.caller.numbers(tensor, count)
    }

    /// Tells autograd that the tensors of a list are written to, which PyTorch leaves to some kernels.
    pub fn bump_versions(&self, tensors: &[Tensor<'_>]) -> Outcome {
        self.caller.bump_versions(tensors)
    }

    /// Whether the overload returns nothing: it writes to arguments alone.
    pub fn is_void(&self) -> bool {
        self.caller.is_void()
    }

    /// The value of a tensor of one element, which is waited for.
    ///
    /// # Errors
    /// A task failed, the stream captures, or there are more elements.
    pub fn item(&self, tensor: Tensor<'_>) -> Result<Scalar, Refusal> {
        self.caller.item(tensor)
    }

    /// Refuses a number that a dtype does not hold.
    pub fn check_number(&self, number: Scalar, dtype: DType) -> Outcome {
        if number.surely_fits(dtype) { Ok(()) } else { conversions::check_number(number, dtype) }
    }

    /// A tensor on the device of the call, copied there if it is elsewhere.
    pub fn on_device(&self, device: i32, tensor: Tensor<'a>) -> Result<Tensor<'a>, Refusal> {
        if tensor.device() == device {
            return Ok(tensor);
        }
        let strides = tensor.like_strides();
        let made = self.caller.empty(Wanted { sizes: tensor.sizes(), strides: Some(&strides), dtype: tensor.dtype() })?;
        self.copy(made, tensor)?;
        Ok(made)
    }

    /// With another kernel.
    pub fn with_kernel(&self, row: &Row) -> Self {
        Self { kernel: row.get(), ..*self }
    }

    /// Launches the operator's kernel; it computes in the dtype of the first output.
    pub fn launch(&self, outputs: &[Tensor<'_>], inputs: &[Tensor<'_>], scalars: &[Scalar]) -> Outcome {
        self.launch_in(outputs[0].dtype(), outputs, inputs, scalars)
    }

    /// The same in another dtype.
    pub fn launch_in(&self, compute: DType, outputs: &[Tensor<'_>], inputs: &[Tensor<'_>], scalars: &[Scalar]) -> Outcome {
        let inputs = self.arena.keep_all(inputs.len(), |index| Input::Tensor(inputs[index]));
        self.launch_with(compute, outputs, inputs, scalars)
    }

    /// The same, where inputs may be numbers.
    pub fn launch_with(&self, compute: DType, outputs: &[Tensor<'_>], inputs: &[Input<'_>], scalars: &[Scalar]) -> Outcome {
        let kernel = self.kernel()?;
        check_device(kernel, outputs, inputs)?;
        self.caller.launch(kernel, compute, outputs, inputs, scalars)
    }

    /// Launches the kernel over lists of dense tensors on one device, each of them as one dimension. The operands are the tensors of one list
    /// after the other; those of the first `written` lists are outputs.
    pub fn launch_lists(&self, compute: DType, written: usize, lists: &[&[Tensor<'_>]], scalars: &[Scalar]) -> Outcome {
        self.caller.launch_lists(self.kernel()?, compute, written, lists, scalars)
    }

    /// Its kernel.
    pub fn kernel(&self) -> Result<&'static Op, Refusal> {
        self.kernel.ok_or_else(|| Refusal::Invalid("internal error: an operator without a kernel".into()))
    }

    /// Takes `count` random numbers of 32 bits of a generator, an argument of the call: its seed and offset, which are scalars of the kernel.
    pub fn draw(&self, generator: &Value<'_>, count: u64) -> Result<[Scalar; 2], Refusal> {
        self.caller.draw(generator, count)
    }

    /// Raises a `UserWarning`.
    pub fn warn(&self, text: &str) -> Outcome {
        self.caller.warn(&CString::new(text).unwrap_or_default())
    }

    /// Leaves the call to PyTorch's kernel as a task, behind its outputs, with these changes to its arguments.
    pub fn leave_to_task(&self, cut: Cut, changes: &Changes) -> Outcome {
        self.caller.leave_to_task(cut, changes)
    }

    /// Has the operator's own task compute over the arguments, of which tensors may be wider than the call's, behind its outputs.
    pub fn divide(&self, arguments: &[Value<'_>], division: &Division) -> Outcome {
        self.caller.divide(arguments, division)
    }

    /// Whether PyTorch's products of 16 bit floats use AMX.
    pub fn has_amx(&self) -> bool {
        self.caller.has_amx()
    }

    /// Whether PyTorch has complex numbers of two BFloat16.
    pub fn has_complex_bfloat16(&self) -> bool {
        self.caller.has_complex_bfloat16()
    }

    /// Whether PyTorch has MKL.
    pub fn has_mkl(&self) -> bool {
        self.caller.has_mkl()
    }

    /// Whether the user asked for deterministic algorithms.
    pub fn is_deterministic(&self) -> bool {
        self.caller.is_deterministic()
    }

    /// The dtype of floating point numbers that say none.
    pub fn default_dtype(&self) -> DType {
        self.caller.default_dtype()
    }
}

/// One call of an operator that is bound with a meta of PyTorch's.
pub struct StructuredCall<'a>(Call<'a>);

impl<'a> StructuredCall<'a> {
    pub fn new(call: Call<'a>) -> Self {
        Self(call)
    }

    /// What the meta says of the outputs.
    pub fn meta(&self) -> Result<Shapes, Refusal> {
        self.0.caller.meta()
    }

    /// The only output.
    pub fn shape(&self) -> Result<Shape, Refusal> {
        self.meta()?.pop().ok_or_else(|| Refusal::Invalid("internal error: a meta without outputs".into()))
    }
}

impl<'a> Deref for StructuredCall<'a> {
    type Target = Call<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Two tensors of different devices, by their devices' names, if there are some.
fn differing<'t>(tensors: impl Iterator<Item = Tensor<'t>>) -> Option<[DeviceName; 2]> {
    let mut devices = tensors.map(Tensor::device);
    let first = devices.next()?;
    let other = devices.find(|&device| device != first)?;
    Some([first, other].map(DeviceName))
}

/// A device by its index, which is -1 for any that is not ours; displayed by its name.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceName(pub i32);

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(device) = self;
        if *device < 0 { f.write_str("cpu") } else { write!(f, "rustdev:{device}") }
    }
}

/// Refuses operands of several devices.
#[inline]
fn check_device(kernel: &Op, outputs: &[Tensor<'_>], inputs: &[Input<'_>]) -> Outcome {
    let first = outputs.first().map_or(-1, |tensor| tensor.device());
    let is_there = |input: &Input<'_>| if let Input::Tensor(tensor) = input { tensor.device() == first } else { true };
    if outputs.iter().all(|tensor| tensor.device() == first) && inputs.iter().all(is_there) {
        return Ok(());
    }
    Err(several_devices(kernel, outputs, inputs))
}

#[cold]
fn several_devices(kernel: &Op, outputs: &[Tensor<'_>], inputs: &[Input<'_>]) -> Refusal {
    let tensors = inputs.iter().filter_map(Input::in_memory);
    let [first, other] = differing(outputs.iter().copied().chain(tensors)).unwrap_or_default();
    let found = format!("found at least two devices, {first} and {other}! (operator {})", kernel.text());
    Refusal::Invalid(format!("Expected all tensors to be on the same device, but {found}"))
}

/// Refuses tensors of several devices as PyTorch refuses the arguments of that method, which it calls `what`.
pub fn check_same_device<'t>(tensors: impl Iterator<Item = Tensor<'t>>, what: &str, method: &str) -> Outcome {
    let Some([first, other]) = differing(tensors) else { return Ok(()) };
    let found =
        format!("got {what} is on {other}, different from other tensors on {first} (when checking argument in method {method})");
    Err(Refusal::Invalid(format!("Expected all tensors to be on the same device, but {found}")))
}

/// Refuses tensors of several devices as PyTorch's kernels refuse such arguments.
pub fn check_same_device_in<'t>(tensors: impl Iterator<Item = Tensor<'t>>, what: &str, method: &str) -> Outcome {
    let Some([first, other]) = differing(tensors) else { return Ok(()) };
    let found = format!("found at least two devices, {first} and {other}! (when checking argument for {what} in method {method})");
    Err(Refusal::Invalid(format!("Expected all tensors to be on the same device, but {found}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_count_from_both_ends() {
        assert_eq!((wrap_dim(-1, 3), wrap_dim(2, 3), wrap_dim(0, 0)), (Ok(2), Ok(2), Ok(0)));
        let text = "Dimension out of range (expected to be in range of [-3, 2], but got 3)";
        assert_eq!(wrap_dim(3, 3), Err(Refusal::Index(text.into())));
    }

    #[test]
    fn sizes_are_broadcast() {
        assert_eq!(broadcast(&[2, 1], &[3]), Ok(smallvec![2, 3]));
        assert_eq!(broadcast(&[], &[0, 1]), Ok(smallvec![0, 1]));
        let text = "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1";
        assert_eq!(broadcast(&[4, 2], &[3]), Err(Refusal::Invalid(text.into())));
        assert_eq!(broadcast(&[4, 2], &[5, 3]), Err(Refusal::Invalid(text.into())));
    }

    #[test]
    fn arguments_are_what_the_schema_says() {
        let values = [Value::Number(Scalar::Long(3)), Value::None, Value::Integers(&[1, 2])];
        let arguments = Arguments::new(&values);
        let [number, nothing, list] = arguments.all().expect("three arguments");
        assert_eq!((number.integer(), list.integers()), (Ok(3), Ok(&[1, 2][..])));
        assert!(nothing.optional_tensor().expect("an argument that is left out").is_none());
        assert!(number.tensor().is_err() && list.integer().is_err() && arguments.all::<2>().is_err());
    }
}
