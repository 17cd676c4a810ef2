//! [`Arguments`] and [`Call`]: the arguments of an operator call, and the functions that serve it.

#![forbid(unsafe_code)]

pub(crate) mod addressing;
pub mod callees;
pub mod declared;
pub(crate) mod dtypes;
pub mod guards;
pub mod operator;
pub(crate) mod pointwise;
pub(crate) mod prelude;
pub mod shim;
pub(crate) mod tasks;
pub(crate) mod tensor_iterator;
pub(crate) mod tensor_lists;
pub(crate) mod tensors;

use std::ffi::CStr;
use std::fmt;
use std::ops::Deref;

use smallvec::{SmallVec, smallvec};

use crate::runtime::name::Device;
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::{DType, HALVES, Op, Scalar};
use crate::tuning::tasks::{MAX_PARTS, PART_NS};
use callees::Callee;
pub use tensors::{Dims, Format, Tensor, contiguous_strides, copied, dims};

/// Why a call is refused, or who else must serve it.
#[derive(Debug, PartialEq)]
pub enum CallError {
    /// PyTorch's CPU kernel serves the call.
    Fallback,
    /// PyTorch's composite implementation, which is registered for all back ends, serves the call.
    Composite,
    /// PyTorch's CPU kernel refuses the arguments as well. It raises its error, even where the rules forbid the fallback.
    CpuError,
    /// `RuntimeError`.
    Invalid(String),
    /// `ValueError`.
    Value(String),
    /// `IndexError`.
    Index(String),
    /// `NotImplementedError`.
    Unsupported(String),
    /// A function of the shim failed with this status and raises this message itself.
    Failed(i32, String),
}

/// Returns a `RuntimeError` unless the condition holds. Without a text, the error is that of PyTorch's CPU kernel, which must check
/// the condition itself.
macro_rules! ensure {
    ($condition:expr) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::call::CallError::CpuError);
        }
    };
    ($condition:expr, $($text:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::call::CallError::Invalid(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

pub type Outcome = Result<(), CallError>;

/// Leaves a call to the fallback unless the condition holds.
#[inline]
pub fn take_if(condition: bool) -> Outcome {
    if condition { Ok(()) } else { Err(CallError::Fallback) }
}

/// One argument of a call, typed as in the operator's schema.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// An optional argument that is absent.
    None,
    Tensor(Tensor<'a>),
    Tensors(&'a [Tensor<'a>]),
    /// A list of tensors, some of which may be absent.
    OptionalTensors(&'a [Option<Tensor<'a>>]),
    Number(Scalar),
    /// An integer beyond `i64`, as the `f64` nearest to it.
    LargeInteger(f64),
    Scalars(&'a [Scalar]),
    Integers(&'a [i64]),
    Numbers(&'a [f64]),
    Flags(&'a [bool]),
    Text(&'a str),
    /// The address of a `c10::GeneratorImpl`.
    Generator(usize),
    /// An argument of a type that no operator reads.
    Other,
}

macro_rules! to_value {
    ($($type:ty: $value:ident => $variant:expr;)*) => {$(
        impl<'a> From<$type> for Value<'a> {
            fn from($value: $type) -> Self {
                $variant
            }
        }
    )*};
}

to_value! {
    Tensor<'a>: tensor => Self::Tensor(tensor);
    Scalar: number => Self::Number(number);
    bool: flag => Self::Number(Scalar::Bool(flag));
    i64: number => Self::Number(Scalar::Long(number));
    f64: number => Self::Number(Scalar::Double(number));
}

/// A type that an argument converts to. `Option` stands for an argument that may be absent.
pub trait FromValue<'a>: Sized {
    /// Fails if the argument has another type, or the dtype is unknown.
    fn from_value(value: &Value<'a>) -> Result<Self, CallError>;
}

macro_rules! from_value {
    ($($type:ty: $($pattern:pat => $value:expr),+;)*) => {$(
        impl<'a> FromValue<'a> for $type {
            #[inline]
            fn from_value(value: &Value<'a>) -> Result<Self, CallError> {
                match *value {
                    $($pattern => Ok($value),)+
                    _ => Err(wrong::<Self>(value)),
                }
            }
        }
    )*};
}

from_value! {
    Tensor<'a>: Value::Tensor(tensor) => tensor;
    &'a [Tensor<'a>]: Value::Tensors(tensors) => tensors;
    &'a [Option<Tensor<'a>>]: Value::OptionalTensors(tensors) => tensors;
    bool: Value::Number(Scalar::Bool(flag)) => flag;
    i64: Value::Number(Scalar::Long(number)) => number;
    f64: Value::Number(Scalar::Double(number)) => number;
    // An integer beyond `i64` becomes the nearest `f64`.
    Scalar: Value::Number(number) => number, Value::LargeInteger(nearest) => Self::Double(nearest);
    &'a str: Value::Text(text) => text;
    &'a [i64]: Value::Integers(values) => values;
    &'a [f64]: Value::Numbers(values) => values;
    &'a [Scalar]: Value::Scalars(values) => values;
    &'a [bool]: Value::Flags(values) => values;
    [bool; 3]: Value::Flags(&[one, two, three]) => [one, two, three];
}

impl<'a> FromValue<'a> for Value<'a> {
    #[inline]
    fn from_value(value: &Value<'a>) -> Result<Self, CallError> {
        Ok(*value)
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    #[inline]
    fn from_value(value: &Value<'a>) -> Result<Self, CallError> {
        if let Value::None = value { Ok(None) } else { value.get().map(Some) }
    }
}

impl<'a> FromValue<'a> for Input<'a> {
    fn from_value(value: &Value<'a>) -> Result<Self, CallError> {
        value.as_number().map_or_else(|| value.get().map(Self::Tensor), |number| Ok(Self::Number(number)))
    }
}

impl<'a> FromValue<'a> for DType {
    fn from_value(value: &Value<'a>) -> Result<Self, CallError> {
        let number: i64 = value.get()?;
        let known = i32::try_from(number).ok().and_then(Self::from_number);
        known.ok_or_else(|| CallError::Unsupported(format!("unknown dtype {number}")))
    }
}

#[cold]
fn wrong<T>(value: &Value<'_>) -> CallError {
    CallError::Invalid(format!("internal error: expected {} as an argument, but got {value:?}", std::any::type_name::<T>()))
}

impl<'a> Value<'a> {
    /// The value, which must have this type.
    #[inline]
    pub fn get<T: FromValue<'a>>(&self) -> Result<T, CallError> {
        T::from_value(self)
    }

    #[inline]
    pub fn tensor(&self) -> Result<Tensor<'a>, CallError> {
        self.get()
    }

    /// True if the argument is absent.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    #[inline]
    pub fn as_tensor(&self) -> Option<Tensor<'a>> {
        if let Self::Tensor(tensor) = self { Some(*tensor) } else { None }
    }

    /// The number, if it is one; an integer beyond `i64` becomes the nearest `f64`.
    #[inline]
    pub fn as_number(&self) -> Option<Scalar> {
        match self {
            Self::Number(number) => Some(*number),
            Self::LargeInteger(nearest) => Some(Scalar::Double(*nearest)),
            _ => None,
        }
    }

    #[inline]
    pub fn as_text(&self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    Tensor(Tensor<'a>),
    /// A 0-dim CPU tensor, which is read during the launch and broadcast over all elements.
    Immediate(Tensor<'a>),
    /// A number, broadcast over all elements.
    Number(Scalar),
    /// The place of an optional input that is not given.
    Absent,
}

impl<'a> Input<'a> {
    /// The tensor; `None` for a number, or if the input is absent.
    #[inline]
    pub fn tensor(&self) -> Option<Tensor<'a>> {
        match *self {
            Self::Tensor(tensor) | Self::Immediate(tensor) => Some(tensor),
            Self::Number(_) | Self::Absent => None,
        }
    }

    /// The dtype; that of `torch.tensor(number)` with double precision for a number. An absent input counts as a Bool.
    pub fn dtype(&self) -> DType {
        match *self {
            Self::Tensor(tensor) | Self::Immediate(tensor) => tensor.dtype(),
            Self::Number(Scalar::Bool(_)) | Self::Absent => DType::Bool,
            Self::Number(Scalar::Long(_) | Scalar::Cell(_)) => DType::Long,
            Self::Number(Scalar::Double(_)) => DType::Double,
            Self::Number(Scalar::Complex(..)) => DType::ComplexDouble,
        }
    }

    /// The priority in type promotion: 0 for numbers, 1 for tensors without dimensions, 2 for others.
    pub fn rank(&self) -> i32 {
        self.tensor().map_or(0, |tensor| if tensor.ndim() > 0 { 2 } else { i32::from(!tensor.is_wrapped_number()) })
    }

    /// The tensor, unless it is an immediate operand.
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

impl<'a> From<Option<Tensor<'a>>> for Input<'a> {
    fn from(tensor: Option<Tensor<'a>>) -> Self {
        tensor.map_or(Self::Absent, Self::Tensor)
    }
}

/// The arguments of a call without its `out=` tensors.
#[derive(Clone, Copy)]
pub struct Arguments<'a>(&'a [Value<'a>]);

impl<'a> Arguments<'a> {
    pub fn new(values: &'a [Value<'a>]) -> Self {
        Self(values)
    }

    /// All arguments; an error if there are not exactly `N`.
    pub fn all<const N: usize>(&self) -> Result<&'a [Value<'a>; N], CallError> {
        let wrong = |_| CallError::Invalid(format!("internal error: {} arguments, and {N} expected", self.0.len()));
        self.0.try_into().map_err(wrong)
    }

    /// All arguments as a tuple.
    pub fn typed<P: Parameters<'a>>(&self) -> Result<P, CallError> {
        P::of(self)
    }

    /// The first `count` arguments, or all if there are fewer.
    pub fn first(&self, count: usize) -> Self {
        Self(&self.0[..count.min(self.0.len())])
    }

    /// Argument number `index`.
    pub fn tensor(&self, index: usize) -> Result<Tensor<'a>, CallError> {
        self.0.get(index).unwrap_or(&Value::None).tensor()
    }

    /// The arguments that are tensors; lists of tensors are skipped.
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

/// The arguments of a call as a tuple of their types.
pub trait Parameters<'a>: Sized {
    fn of(arguments: &Arguments<'a>) -> Result<Self, CallError>;
}

/// A function that serves a call, with the arguments of the operator's schema as parameters.
pub trait Serve<'a, P> {
    fn serve(self, arguments: &Arguments<'a>, call: &Call<'a>) -> Outcome;
}

macro_rules! parameters {
    ($($($name:ident: $type:ident)+;)*) => {$(
        impl<'a, $($type: FromValue<'a>),+> Parameters<'a> for ($($type,)+) {
            #[inline]
            fn of(arguments: &Arguments<'a>) -> Result<Self, CallError> {
                let [$($name),+] = arguments.all()?;
                Ok(($($name.get()?,)+))
            }
        }

        impl<'a, F: Fn(&Call<'a>, $($type),+) -> Outcome, $($type: FromValue<'a>),+> Serve<'a, ($($type,)+)> for F {
            #[inline]
            fn serve(self, arguments: &Arguments<'a>, call: &Call<'a>) -> Outcome {
                let ($($name,)+) = Parameters::of(arguments)?;
                self(call, $($name),+)
            }
        }
    )*};
}

parameters! {
    a: A;
    a: A b: B;
    a: A b: B c: C;
    a: A b: B c: C d: D;
    a: A b: B c: C d: D e: E;
    a: A b: B c: C d: D e: E g: G;
    a: A b: B c: C d: D e: E g: G h: H;
    a: A b: B c: C d: D e: E g: G h: H i: I;
    a: A b: B c: C d: D e: E g: G h: H i: I j: J;
    a: A b: B c: C d: D e: E g: G h: H i: I j: J k: K;
}

/// A function with the arguments as parameters as one that gets [`Arguments`].
macro_rules! typed {
    ($function:expr) => {
        |arguments, call| $crate::call::Serve::serve($function, arguments, call)
    };
}
pub(crate) use typed;

/// A dimension counted from the start; negative ones count from the end. A 0-dim tensor counts as 1-D.
pub fn wrap_dim(dim: i64, ndim: usize) -> Result<usize, CallError> {
    let count = ndim.max(1) as i64;
    if (-count..count).contains(&dim) {
        return Ok(dim.rem_euclid(count) as usize);
    }
    let range = format!("expected to be in range of [{}, {}], but got {dim}", -count, count - 1);
    Err(CallError::Index(format!("Dimension out of range ({range})")))
}

/// The sizes that both are broadcast to.
pub fn broadcast(one: &[i64], other: &[i64]) -> Result<Dims, CallError> {
    let ndim = one.len().max(other.len());
    let size = |sizes: &[i64], dim: usize| (dim + sizes.len()).checked_sub(ndim).map_or(1, |own| sizes[own]);
    let mut sizes: Dims = smallvec![1; ndim];
    // PyTorch reports the last dimension that differs.
    for dim in (0..ndim).rev() {
        let (a, b) = (size(one, dim), size(other, dim));
        let text =
            format_args!("The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}");
        ensure!(a == b || a == 1 || b == 1, "{text}");
        sizes[dim] = if a == 1 { b } else { a };
    }
    Ok(sizes)
}

/// Sizes, strides and dtype of a tensor that does not exist yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub sizes: Dims,
    pub strides: Dims,
    pub dtype: DType,
}

impl Shape {
    /// The shape of a dense tensor in a memory format.
    pub fn new(sizes: &[i64], dtype: DType, format: Format) -> Self {
        Self { sizes: dims(sizes, |size| size), strides: format.strides(sizes), dtype }
    }

    /// The shape of `empty_like` for a tensor, in a dtype.
    pub fn like(tensor: Tensor<'_>, dtype: DType) -> Self {
        Self { sizes: dims(tensor.sizes(), |size| size), strides: tensor.like_strides(), dtype }
    }
}

/// A request for a tensor; without strides it is contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub sizes: &'a [i64],
    pub strides: Option<&'a [i64]>,
    pub dtype: DType,
}

/// How an `out=` tensor of the caller is prepared. It is resized to the requested sizes in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strides {
    /// The `out=` tensor keeps its strides if it already has the right sizes.
    Any = 0,
    /// The `out=` tensor keeps its strides; the operator writes to a temporary with the shape's strides, which is copied to it at
    /// the end.
    Copied = 1,
    /// The `out=` tensor gets the strides of the shape.
    Given = 2,
    /// Like `Any`, and elements of the `out=` tensor may share memory.
    Shared = 3,
}

/// Lists that hold two items without an allocation.
pub type Shapes = SmallVec<[Shape; 2]>;
pub type Tensors<'a> = SmallVec<[Tensor<'a>; 2]>;

/// How a task is cut into parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Cut {
    /// Each part gets a slice along this dimension of every tensor that has size `size` in it. Other tensors are whole.
    pub dim: i64,
    pub size: i64,
    /// Tensors with fewer dimensions are whole, too.
    pub least_ndim: i64,
    pub parts: i64,
    /// Nanoseconds on one thread, summed over the parts.
    pub cost: u64,
    /// True if the libraries that PyTorch calls use their own threads.
    pub takes_threads: bool,
}

impl Cut {
    /// A cut into as many parts as are worth the cost, without threads of libraries.
    pub fn new(dim: usize, size: i64, least_ndim: i64, cost: u64) -> Self {
        let parts = parts_worth(cost).min(size.max(1));
        Self { dim: dim as i64, size, least_ndim, parts, cost, takes_threads: false }
    }
}

/// How a convolution's task is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Partition {
    pub parts: i64,
    /// Nanoseconds on one thread, summed over the parts.
    pub cost: u64,
    /// Divide along the channels that the parts do not share: output channels forward, input channels backward. Otherwise
    /// divide along the batch.
    pub by_channels: bool,
    /// 3-D convolutions of a batch of one use oneDNN's kernel, whatever PyTorch would choose.
    pub large_volumes: bool,
}

/// The number of parts that a task of this cost is worth.
pub fn parts_worth(cost: u64) -> i64 {
    (cost / PART_NS).clamp(1, MAX_PARTS) as i64
}

/// Requests of a call to the shim, which holds PyTorch's tensors.
pub trait Caller {
    /// Returns a tensor of the call, or a view of one, as output number `index`, or copies it to the caller's `out=` tensor.
    fn give(&self, index: usize, tensor: Tensor<'_>) -> Outcome;

    /// Waits for a one-element integer tensor and reads it; `reason` names the wait in reports.
    ///
    /// `in_dry_run`: the value in a dry run, which has computed none. Checks hold there, and the sizes of results follow one rule:
    /// **n elements give n results**. All elements of a mask are true, all values are different, and each is repeated once; the
    /// values that `bincount` counts are 0 to n - 1. Fails if a task failed, or the stream is being captured.
    fn read(&self, tensor: Tensor<'_>, reason: &CStr, in_dry_run: i64) -> Result<i64, CallError>;

    /// Waits for a one-element tensor and reads it. Fails if a task failed, the stream is being captured, or the tensor has several
    /// elements.
    fn item(&self, tensor: Tensor<'_>) -> Result<Scalar, CallError>;

    /// An error if the dtype cannot represent the number.
    fn check_number(&self, number: Scalar, dtype: DType) -> Outcome;

    /// The dtype that operands are promoted to: `at::native::result_type`, called in the shim (`shim/operator_call.cpp`).
    fn result_type(&self, operands: &[Input<'_>]) -> Result<DType, CallError>;

    /// Bumps the autograd version counters of the tensors of a list, which PyTorch leaves to some kernels.
    fn bump_versions(&self, tensors: &[Tensor<'_>]) -> Outcome;

    /// Reserves `count` 32-bit random numbers of a generator, an argument of the call. Returns its seed and offset, scalars of
    /// the kernel. These are cells while the stream is being captured.
    fn reserve(&self, generator: Value<'_>, count: u64) -> Result<[Scalar; 2], CallError>;

    /// Raises a `UserWarning`.
    fn warn(&self, text: &str) -> Outcome;

    /// Lets PyTorch's CPU kernel compute the outputs as a task.
    fn leave_to_task(&self, cut: Cut) -> Outcome;

    /// Lets the operator's own task compute over the arguments and write the call's outputs. Tensors may be wider than the
    /// call's.
    fn divide(&self, arguments: &[Value<'_>], division: &Partition) -> Outcome;

    /// True if the overload returns nothing and only writes to its arguments.
    fn is_void(&self) -> bool;

    // Requests that make tensors or launch kernels; [`Call`] has functions for them.

    /// Runs the meta function that the operator is bound with on the call's arguments and describes its outputs.
    fn meta(&self) -> Result<Shapes, CallError>;

    /// Makes output number `index`, or prepares the caller's `out=` tensor.
    fn output(&self, index: usize, wanted: Wanted<'_>, strides: Strides) -> Result<Tensor<'_>, CallError>;

    /// A new temporary that lives to the end of the call.
    fn empty(&self, wanted: Wanted<'_>) -> Result<Tensor<'_>, CallError>;

    /// The tensor in a memory format, copied if necessary.
    fn dense(&self, tensor: Tensor<'_>, format: Format) -> Result<Tensor<'_>, CallError>;

    /// Calls an operator, or the functional variant of this one, which returns at most `results` tensors.
    fn call(&self, operator: Option<&Callee>, arguments: &[Value<'_>], results: usize) -> Result<Tensors<'_>, CallError>;

    /// The outputs that the call has made so far.
    fn outputs(&self) -> Tensors<'_>;

    /// Reads the packed numbers of a CPU tensor, which must hold exactly `count`.
    fn numbers(&self, tensor: Tensor<'_>, count: usize) -> Result<&[Scalar], CallError>;

    /// Enqueues a kernel on the current stream of the tensors' device. Each operand has its place, whether it is given or not.
    fn launch(
        &self,
        op: &'static Op,
        compute: DType,
        outputs: &[Option<Tensor<'_>>],
        inputs: &[Input<'_>],
        scalars: &[Scalar],
    ) -> Outcome;

    /// As [`Call::launch_lists`].
    fn launch_lists(&self, op: &'static Op, compute: DType, written: usize, lists: &[&[Tensor<'_>]], scalars: &[Scalar])
    -> Outcome;
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
    /// `kernel`: the operator's kernel, if it has one. `given`: the caller's `out=` tensors for the first outputs, as before
    /// the call.
    pub fn new(kernel: Option<&'static Op>, caller: &'a (dyn Caller + 'a), given: &'a [Tensor<'a>], arena: &'a BumpArena) -> Self {
        Self { kernel, caller, given, arena }
    }

    /// Memory that lives to the end of the call.
    pub fn arena(&self) -> &'a BumpArena {
        self.arena
    }

    /// The name of the operator's kernel, or an empty string.
    pub fn kernel_name(&self) -> &'static str {
        self.kernel.map_or("", Op::text)
    }

    /// True if the operator's kernel computes in this dtype.
    pub fn takes(&self, dtype: DType) -> bool {
        self.kernel.is_some_and(|kernel| kernel.dtypes().contains(dtype))
    }

    /// The outputs' shapes, computed by the PyTorch meta function that the operator is bound with.
    pub fn meta(&self) -> Result<Shapes, CallError> {
        self.caller.meta()
    }

    /// The shape of the only output, by PyTorch's meta function.
    pub fn shape(&self) -> Result<Shape, CallError> {
        self.meta()?.pop().ok_or_else(|| CallError::Invalid("internal error: a meta without outputs".into()))
    }

    /// Makes output number `index`, or prepares the caller's `out=` tensor.
    pub fn output(&self, index: usize, shape: &Shape, strides: Strides) -> Result<Tensor<'a>, CallError> {
        let wanted = Wanted { sizes: &shape.sizes, strides: Some(&shape.strides), dtype: shape.dtype };
        self.caller.output(index, wanted, strides)
    }

    /// Like `output`; a new tensor is contiguous.
    pub fn contiguous(&self, index: usize, sizes: &[i64], dtype: DType, strides: Strides) -> Result<Tensor<'a>, CallError> {
        self.caller.output(index, Wanted { sizes, strides: None, dtype }, strides)
    }

    /// Like `output`, with the sizes, strides and dtype of a tensor.
    pub fn output_like(&self, index: usize, tensor: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
        let wanted = Wanted { sizes: tensor.sizes(), strides: Some(tensor.strides()), dtype: tensor.dtype() };
        self.caller.output(index, wanted, Strides::Any)
    }

    /// An output with the sizes of a tensor, and its order of dimensions in memory.
    pub fn output_in_order_of(&self, index: usize, tensor: Tensor<'_>, dtype: DType) -> Result<Tensor<'a>, CallError> {
        let strides = (!tensor.is_dense(Format::Contiguous)).then(|| tensor.like_strides());
        self.caller.output(index, Wanted { sizes: tensor.sizes(), strides: strides.as_deref(), dtype }, Strides::Any)
    }

    /// The caller's `out=` tensor for output number `index`, as before the call; `None` if the call makes the output.
    pub fn given(&self, index: usize) -> Option<Tensor<'a>> {
        self.given.get(index).copied().filter(|tensor| tensor.handle() != 0)
    }

    /// An error if the caller's tensor for the first output overlaps itself or an operand.
    pub fn check_given_apart<'t>(&self, operands: impl IntoIterator<Item = Tensor<'t>>) -> Outcome {
        let Some(out) = self.given(0) else { return Ok(()) };
        out.check_no_internal_overlap()?;
        operands.into_iter().try_for_each(|operand| out.check_no_overlap(operand))
    }

    /// True if the caller gives no tensor for output number `index`, or one of this dtype.
    pub fn has_dtype(&self, index: usize, dtype: DType) -> bool {
        self.given(index).is_none_or(|out| out.dtype() == dtype)
    }

    /// The tensor in a memory format, copied if necessary.
    pub fn dense(&self, tensor: Tensor<'a>, format: Format) -> Result<Tensor<'a>, CallError> {
        if tensor.is_dense(format) { Ok(tensor) } else { self.caller.dense(tensor, format) }
    }

    /// The optional tensor, copied if it is not contiguous.
    pub fn dense_given(&self, tensor: Option<Tensor<'a>>) -> Result<Option<Tensor<'a>>, CallError> {
        tensor.map(|tensor| self.dense(tensor, Format::Contiguous)).transpose()
    }

    /// The optional tensors, copied where they are not contiguous.
    pub fn all_dense<const N: usize>(&self, mut tensors: [Option<Tensor<'a>>; N]) -> Result<[Option<Tensor<'a>>; N], CallError> {
        for tensor in &mut tensors {
            *tensor = self.dense_given(*tensor)?;
        }
        Ok(tensors)
    }

    /// A new contiguous temporary that lives to the end of the call.
    pub fn empty(&self, sizes: &[i64], dtype: DType) -> Result<Tensor<'a>, CallError> {
        self.caller.empty(Wanted { sizes, strides: None, dtype })
    }

    /// A new temporary of a shape that lives to the end of the call.
    pub fn empty_as(&self, shape: &Shape) -> Result<Tensor<'a>, CallError> {
        self.caller.empty(Wanted { sizes: &shape.sizes, strides: Some(&shape.strides), dtype: shape.dtype })
    }

    /// A new contiguous temporary of zeros that lives to the end of the call.
    pub fn zeros(&self, sizes: &[i64], dtype: DType) -> Result<Tensor<'a>, CallError> {
        let made = self.empty(sizes, dtype)?;
        self.operator(&callees::ZERO, &[Value::Tensor(made)])
    }

    /// Calls another operator and returns its only result.
    pub fn operator(&self, operator: &Callee, arguments: &[Value<'_>]) -> Result<Tensor<'a>, CallError> {
        self.operators(operator, arguments, 1)?.pop().ok_or_else(|| CallError::Invalid("internal error: no result".into()))
    }

    /// Calls another operator and returns its results.
    pub fn operators(&self, operator: &Callee, arguments: &[Value<'_>], results: usize) -> Result<Tensors<'a>, CallError> {
        self.caller.call(Some(operator), arguments, results)
    }

    /// Calls the functional variant of this operator with other arguments and returns its results.
    pub fn repeat(&self, arguments: &[Value<'_>]) -> Result<Tensors<'a>, CallError> {
        self.caller.call(None, arguments, usize::MAX)
    }

    /// The outputs that the call has made so far.
    pub fn outputs(&self) -> Tensors<'a> {
        self.caller.outputs()
    }

    /// Copies a tensor's elements into another one, as `copy_` does.
    pub fn copy(&self, target: Tensor<'_>, source: Tensor<'_>) -> Outcome {
        self.operator(&callees::COPY, &[target.into(), source.into(), false.into()]).map(drop)
    }

    /// The tensor in another dtype, converted as by `to`.
    pub fn cast(&self, tensor: Tensor<'a>, dtype: DType) -> Result<Tensor<'a>, CallError> {
        if tensor.dtype() == dtype {
            return Ok(tensor);
        }
        let wanted = dtype as i64;
        self.operator(&callees::TO_DTYPE, &[tensor.into(), wanted.into(), false.into(), false.into(), Value::None])
    }

    /// The arguments, with tensors of 16 bit floats converted to `Float`.
    pub fn widened(&self, arguments: &[Value<'a>]) -> Result<SmallVec<[Value<'a>; 10]>, CallError> {
        let widened = |value: &Value<'a>| match value {
            Value::Tensor(tensor) if HALVES.contains(tensor.dtype()) => self.cast(*tensor, DType::Float).map(Value::Tensor),
            _ => Ok(*value),
        };
        arguments.iter().map(widened).collect()
    }

    /// Resizes a tensor without a warning, as PyTorch does for some `out=` tensors.
    pub fn resize(&self, tensor: Tensor<'_>, sizes: &[i64]) -> Result<Tensor<'a>, CallError> {
        self.operator(&callees::RESIZE, &[Value::Tensor(tensor), Value::Integers(sizes), Value::None])
    }

    /// Writes a number to every element, as `fill_` does.
    pub fn fill(&self, target: Tensor<'_>, number: Scalar) -> Outcome {
        self.operator(&callees::FILL, &[Value::Tensor(target), Value::Number(number)]).map(drop)
    }

    /// Reads the packed numbers of a CPU tensor, which must hold exactly `count`.
    pub fn numbers(&self, tensor: Tensor<'_>, count: usize) -> Result<&'a [Scalar], CallError> {
        self.caller.numbers(tensor, count)
    }

    /// The tensor, copied to the device unless it is already there.
    pub fn on_device(&self, device: i32, tensor: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
        if tensor.device() == device {
            return Ok(tensor);
        }
        let made = self.empty_as(&Shape::like(tensor, tensor.dtype()))?;
        self.copy(made, tensor)?;
        Ok(made)
    }

    pub fn with_kernel(&self, kernel: &'static Op) -> Self {
        Self { kernel: Some(kernel), ..*self }
    }

    /// Launches the operator's kernel, which computes in the dtype of the first output that is given, unless all outputs are empty.
    /// Optional operands are options of tensors, each at its place.
    pub fn launch<'t>(
        &self,
        outputs: &[impl Copy + Into<Option<Tensor<'t>>>],
        inputs: &[impl Copy + Into<Input<'t>>],
        scalars: &[Scalar],
    ) -> Outcome {
        let dtype = outputs.iter().find_map(|&output| output.into()).map_or(DType::Byte, Tensor::dtype);
        self.launch_in(dtype, outputs, inputs, scalars)
    }

    /// Like `launch`, but the kernel computes in dtype `compute`.
    pub fn launch_in<'t>(
        &self,
        compute: DType,
        outputs: &[impl Copy + Into<Option<Tensor<'t>>>],
        inputs: &[impl Copy + Into<Input<'t>>],
        scalars: &[Scalar],
    ) -> Outcome {
        let outputs = self.arena.keep_all(outputs.len(), |index| outputs[index].into());
        if outputs.iter().flatten().all(|output| output.numel() == 0) {
            return Ok(());
        }
        let inputs = self.arena.keep_all(inputs.len(), |index| inputs[index].into());
        // Absent inputs at the end are left out, so that more records hold their operands without an allocation.
        let given = inputs.iter().rposition(|input| !matches!(input, Input::Absent)).map_or(0, |last| last + 1);
        self.launch_with(compute, outputs, &inputs[..given], scalars)
    }

    /// Like `launch_in`; inputs may be numbers, too.
    pub fn launch_with(&self, compute: DType, outputs: &[Option<Tensor<'_>>], inputs: &[Input<'_>], scalars: &[Scalar]) -> Outcome {
        let kernel = self.kernel()?;
        check_one_device(outputs.iter().copied().flatten().chain(inputs.iter().filter_map(Input::in_memory)), |[first, other]| {
            format!("found at least two devices, {first} and {other}! (operator {})", kernel.text())
        })?;
        self.caller.launch(kernel, compute, outputs, inputs, scalars)
    }

    /// Launches the kernel over lists of dense tensors on one device, each of them as a 1-D operand. The operands are the
    /// lists' tensors, one list after the other; those of the first `written` lists are outputs.
    pub fn launch_lists(&self, compute: DType, written: usize, lists: &[&[Tensor<'_>]], scalars: &[Scalar]) -> Outcome {
        self.caller.launch_lists(self.kernel()?, compute, written, lists, scalars)
    }

    /// The operator's kernel; an error if it has none.
    pub fn kernel(&self) -> Result<&'static Op, CallError> {
        self.kernel.ok_or_else(|| CallError::Invalid("internal error: an operator without a kernel".into()))
    }
}

impl<'a> Deref for Call<'a> {
    type Target = dyn Caller + 'a;

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.caller
    }
}

/// A device index, -1 for any device that is not rustdev's; displayed as the device's name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct DeviceName(i32);

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(device) = self;
        if *device < 0 { f.write_str("cpu") } else { Device(device).fmt(f) }
    }
}

/// An error unless all tensors are on one device. `found` says in PyTorch's words where the first one and another one are.
#[inline]
fn check_one_device<'t>(tensors: impl Iterator<Item = Tensor<'t>>, found: impl FnOnce([DeviceName; 2]) -> String) -> Outcome {
    let mut devices = tensors.map(Tensor::device);
    let first = devices.next().unwrap_or(-1);
    let Some(other) = devices.find(|&device| device != first) else { return Ok(()) };
    let found = found([first, other].map(DeviceName));
    Err(CallError::Invalid(format!("Expected all tensors to be on the same device, but {found}")))
}

/// An error unless all tensors are on one device, as from a TensorIterator: with a rustdev device first.
pub fn check_devices<'t>(tensors: impl Iterator<Item = Tensor<'t>> + Clone) -> Outcome {
    let common = tensors.clone().find(|tensor| tensor.device() >= 0);
    check_one_device(common.into_iter().chain(tensors), |[first, other]| {
        format!("found at least two devices, {first} and {other}!")
    })
}

/// An error unless all tensors are on one device. The message is that of PyTorch's check of argument `what` of `method`.
pub fn check_same_device<'t>(tensors: impl Iterator<Item = Tensor<'t>>, what: &str, method: &str) -> Outcome {
    check_one_device(tensors, |[first, other]| {
        format!("got {what} is on {other}, different from other tensors on {first} (when checking argument in method {method})")
    })
}

/// An error unless all tensors are on one device. The message is that of PyTorch's kernels.
pub fn check_same_device_in<'t>(tensors: impl Iterator<Item = Tensor<'t>>, what: &str, method: &str) -> Outcome {
    check_one_device(tensors, |[first, other]| {
        format!("found at least two devices, {first} and {other}! (when checking argument for {what} in method {method})")
    })
}
