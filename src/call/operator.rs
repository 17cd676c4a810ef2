//! [`Operator`]: an operator that is bound in Rust, with its ATen names, its kernel, and the function that prepares calls.

use std::ffi::CStr;

use super::guards::Guard;
use super::pointwise::Pointwise;
use super::{Arguments, Call, CallError, Outcome, take_if, tasks};
pub use crate::tensor::op::c;
use crate::tensor::{ANY, DTypeSet, Op};

/// The items along the first dimension of a task's tensors: a task may be cut into parts along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    None,
    Images,
    Matrices,
}

/// PyTorch's CPU kernel as a task of the stream.
#[derive(Clone, Copy)]
pub struct Task {
    /// The overload that the task runs; if there is none, the functional one, whose results are copied.
    pub out: Option<&'static CStr>,
    /// The dtypes of the first operand that PyTorch's kernel takes.
    pub dtypes: DTypeSet,
    pub batch: Batch,
    /// True if 16 bit floats are computed in `Float` and rounded, as on other accelerators, where the CPU kernel lacks the
    /// dtype.
    pub widens: bool,
    /// True if the guard also checks values, inside the task.
    pub guarded: bool,
}

/// The function that serves a call.
pub enum Run {
    Plain(fn(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome),
    /// Uses a PyTorch meta function, which is looked up when the operator is bound: its own or, if given, that of an operator
    /// with the same arguments.
    Structured(Option<&'static CStr>, fn(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome),
    /// Elementwise over broadcast operands.
    Pointwise(Pointwise),
}

/// For which calls with dense operands of one shape and dtype, or Python numbers, the shim may launch the kernel of a pointwise
/// operator itself. No such call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseCalls {
    /// No call: the operator serves all of them.
    Never = 0,
    /// Floating-point tensors; the result has their dtype.
    Floating = 1,
    /// Floating-point or integer tensors; the result has their dtype.
    Numeric = 2,
    /// Like `Numeric`, with a Bool result.
    Boolean = 3,
    /// Like `Numeric`, with a Bool result, if the other operand is a number.
    Number = 4,
    /// Like `Floating`, with the scalar 0.
    Quotient = 5,
    /// A Bool tensor and two floating-point or integer tensors; the result has the dtype of the two.
    Choice = 6,
}

/// How a call is prepared, and which calls are accepted.
pub struct Implementation {
    pub run: Run,
    /// True if the first tensor may have any dtype; the function checks itself what the kernel can compute in.
    pub any_dtype: bool,
    /// True if tensors may be on any device; the function checks devices itself.
    pub any_device: bool,
    /// For pointwise operators whose kernel gets all arguments that are no tensors; else `None`.
    pub dense: Option<DenseCalls>,
}

/// The code that computes an operator.
pub enum Kernel {
    Row(&'static Op),
    Task(Task),
    /// A row or a task; the function decides for each call, by default for the row.
    Either(&'static Op, Task),
    /// Other operators, for any dtype.
    Others,
    /// A function of the shim that runs as a task, which the call divides: `shim/ops/convolution.cpp`.
    Divided,
}

pub struct Operator {
    /// The overloads, without `aten::` for PyTorch's own library: the functional variant first, then those that write to
    /// arguments.
    pub names: &'static [&'static CStr],
    /// If this does not take the dtype of a call's first tensor, the fallback serves the call.
    pub kernel: Kernel,
    pub prepare: Implementation,
}

impl Operator {
    /// The row of the operator table, if a kernel of the table computes the operator.
    pub fn row(&self) -> Option<&'static Op> {
        match &self.kernel {
            Kernel::Row(row) | Kernel::Either(row, _) => Some(row),
            Kernel::Task(_) | Kernel::Others | Kernel::Divided => None,
        }
    }

    /// The name of the tier that computes the operator; `None` for a Rust kernel.
    pub fn tier(&self) -> Option<&'static CStr> {
        match self.kernel {
            Kernel::Row(_) | Kernel::Either(..) => None,
            Kernel::Task(_) | Kernel::Divided => Some(c"aten"),
            Kernel::Others => Some(c"composite"),
        }
    }

    /// The accepted dtypes of the first tensor.
    pub fn dtypes(&self) -> DTypeSet {
        match &self.kernel {
            Kernel::Row(_) | Kernel::Either(..) => self.row().map_or(DTypeSet::of(&[]), Op::dtypes),
            Kernel::Task(task) => task.dtypes,
            Kernel::Others | Kernel::Divided => ANY,
        }
    }

    /// The operator whose meta function a call uses.
    pub fn meta(&self) -> Option<&'static CStr> {
        match self.prepare.run {
            Run::Plain(_) | Run::Pointwise(_) => None,
            Run::Structured(other, _) => Some(other.unwrap_or(self.names[0])),
        }
    }

    /// True if the operator accepts the call: the first tensor, if any, is on a rustdev device and has an accepted dtype, and a
    /// task's other tensors are on the same device. Always true for operators that check this themselves.
    fn takes(&self, arguments: &Arguments<'_>) -> bool {
        if self.prepare.any_device || matches!(self.kernel, Kernel::Divided) {
            return true;
        }
        let mut tensors = arguments.tensors();
        let Some(first) = tensors.next() else { return true };
        let takes = |dtype| self.prepare.any_dtype || self.dtypes().contains(dtype);
        if first.device() < 0 || !takes(first.dtype()) {
            return false;
        }
        !matches!(self.kernel, Kernel::Task(..)) || tensors.all(|tensor| tensor.device() == first.device())
    }

    /// Serves a call. `guard`: the guard of PyTorch's kernel, if a task computes the operator and has one.
    pub fn run(&self, arguments: &Arguments<'_>, call: Call<'_>, guard: Option<&Guard>) -> Outcome {
        if let Kernel::Task(task) = &self.kernel
            && let Some(dtype) = tasks::rounded_dtype(task, arguments)
        {
            return tasks::run_widened(dtype, arguments, &call);
        }
        take_if(self.takes(arguments))?;
        match &self.kernel {
            Kernel::Task(task) => tasks::run(self, task, arguments, call, guard),
            _ => self.prepare_call(arguments, call),
        }
    }

    /// Checks a call, makes its outputs, and launches its kernels; a task's kernel is left to the caller.
    pub fn prepare_call(&self, arguments: &Arguments<'_>, call: Call<'_>) -> Outcome {
        match self.prepare.run {
            Run::Plain(run) | Run::Structured(_, run) => run(arguments, &call),
            Run::Pointwise(operator) => operator.run(arguments, &call),
        }
    }
}

/// Serves calls without a meta function.
pub const fn plain(run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Implementation {
    Implementation { run: Run::Plain(run), any_dtype: false, any_device: false, dense: None }
}

/// Serves calls with the operator's own meta function.
pub const fn structured(run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Implementation {
    Implementation { run: Run::Structured(None, run), any_dtype: false, any_device: false, dense: None }
}

/// Serves calls with the meta function of another operator, which has the same arguments.
pub const fn structured_as(meta: &'static CStr, run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Implementation {
    Implementation { run: Run::Structured(Some(meta), run), any_dtype: false, any_device: false, dense: None }
}

/// The function checks dtypes itself.
pub const fn any_dtype(prepare: Implementation) -> Implementation {
    Implementation { any_dtype: true, ..prepare }
}

/// Elementwise over broadcast operands; dtypes and devices are checked there.
pub const fn pointwise(operator: Pointwise) -> Implementation {
    Implementation { run: Run::Pointwise(operator), any_dtype: true, any_device: true, dense: Some(DenseCalls::Never) }
}

/// The function checks dtypes and devices itself.
pub const fn any_device(prepare: Implementation) -> Implementation {
    Implementation { any_dtype: true, any_device: true, ..prepare }
}

/// Leaves every call to PyTorch's composite implementation, although there is a CPU kernel, too.
pub const COMPOSITION: Implementation = any_device(plain(|_, _| Err(CallError::Composite)));

/// Lines of operators: kernel, function of a call, overloads. In place of a kernel's name stand `_` for an operator that calls
/// others, a name and a [`Task`] for [`Kernel::Either`], and `divided` for [`Kernel::Divided`].
macro_rules! operators {
    ($($kernel:tt: $prepare:expr => $($($name:literal),+)|+;)*) => {
        pub static OPERATORS: [$crate::call::operator::Operator; [$($(stringify!($($name)+)),+),*].len()] = [$($(
            $crate::call::operator::Operator {
                names: &[$($name),+],
                kernel: $crate::call::operator::operators!(@kernel $kernel),
                prepare: $prepare,
            },
        )+)*];
    };
    (@kernel _) => { $crate::call::operator::Kernel::Others };
    (@kernel divided) => { $crate::call::operator::Kernel::Divided };
    (@kernel ($name:literal, $task:expr)) => { $crate::call::operator::Kernel::Either($crate::tensor::Op::named($name), $task) };
    (@kernel $name:literal) => { $crate::call::operator::Kernel::Row($crate::tensor::Op::named($name)) };
}
pub(crate) use operators;
