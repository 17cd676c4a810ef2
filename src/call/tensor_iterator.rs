//! Elementwise kernels over broadcast operands, by the rules of PyTorch's TensorIterator.

use smallvec::SmallVec;

use super::dtypes::{can_cast, is_whole};
use super::shim::shim;
use super::tensors::{Dims, Format, Tensor, copied, dims, iteration_order, joint_strides, strides_in_order};
use super::{Call, CallError, Input, Outcome, Shape, Strides, broadcast, check_devices, ensure};
use crate::tensor::{DType, Scalar};

/// How the dtypes of operands are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// All operands have one dtype.
    Same,
    /// Like `Same`; the inputs are treated as ones of this dtype.
    As(DType),
    /// Inputs are promoted to this dtype; the result is cast to the output's dtype.
    Cast(DType),
    /// Inputs are promoted to their common dtype; the result is cast to the output's dtype.
    Common,
    /// Like `Common`; integers are promoted to the default dtype.
    Floating,
    /// Inputs are promoted; the output is Bool, or an `out=` tensor of any dtype.
    Compared,
    /// Inputs have any dtype; the output has this one, or is an `out=` tensor of any dtype.
    Result(DType),
}

/// How the operands of an operator are combined.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub types: Types,
    /// True if one input may be a 0-dim CPU tensor.
    pub takes_host_number: bool,
    /// True if the output may overlap with itself and with inputs.
    pub may_overlap: bool,
}

impl Rule {
    /// Tensors of one device without overlapping memory.
    pub const fn new(types: Types) -> Self {
        Self { types, takes_host_number: false, may_overlap: false }
    }

    /// Like `new`; one input may be a 0-dim CPU tensor.
    pub const fn with_host_number(types: Types) -> Self {
        Self { takes_host_number: true, ..Self::new(types) }
    }
}

/// Tensors of one dtype, which is the output's, too.
pub const SAME: Rule = Rule::new(Types::Same);

/// The checked operands of an elementwise kernel.
pub struct Elementwise<'a> {
    inputs: &'a [Input<'a>],
    sizes: &'a [i64],
    given: Option<Tensor<'a>>,
    may_overlap: bool,
    /// The dtype that the kernel computes in.
    compute: DType,
    /// The output's dtype.
    dtype: DType,
    /// True if the kernel gets the two inputs in the other order.
    is_swapped: bool,
}

impl<'a> Elementwise<'a> {
    /// Inputs combined by a rule.
    pub fn of(rule: Rule, inputs: &[Input<'a>], given: Option<Tensor<'a>>, call: &Call<'_>) -> Result<Self, CallError> {
        let tensors = || inputs.iter().filter_map(Input::tensor);
        if let Some(out) = given.filter(|_| !rule.may_overlap) {
            out.check_no_internal_overlap()?;
            tensors().filter(|input| !out.is_identical(*input)).try_for_each(|input| out.check_no_partial_overlap(input))?;
        }
        let first = tensors().next().ok_or_else(|| CallError::Invalid("internal error: no operand".into()))?;
        let sizes = common_sizes(first, tensors())?;
        if let Some(out) = given {
            let is_input = || tensors().any(|input| input.handle() == out.handle());
            let own = out.sizes();
            ensure!(out.has_sizes(sizes) || !is_input(), "output with shape {own:?} doesn't match the broadcast shape {sizes:?}");
        }
        let compute = compute_dtype(rule.types, inputs, given, call)?;
        let number = if rule.takes_host_number { host_number(inputs)? } else { None };
        let in_memory = || inputs.iter().filter_map(Input::in_memory);
        check_devices(given.into_iter().chain(in_memory().filter(|input| Some(input.handle()) != number)))?;
        let of_new = match rule.types {
            Types::Compared => DType::Bool,
            Types::Result(dtype) => dtype,
            _ => compute,
        };
        let dtype = given.map_or(of_new, Tensor::dtype);
        if matches!(rule.types, Types::Common | Types::Floating | Types::Cast(_)) {
            check_cast(compute, dtype)?;
        }
        let as_read = |index: usize| match inputs[index] {
            Input::Tensor(tensor) if Some(tensor.handle()) == number => Input::Immediate(tensor),
            other => other,
        };
        let inputs = first.arena().keep_all(inputs.len(), as_read);
        Ok(Self { inputs, sizes, given, may_overlap: rule.may_overlap, compute, dtype, is_swapped: false })
    }

    /// The dtype that the kernel computes in.
    pub fn compute(&self) -> DType {
        self.compute
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The operands with another dtype for the output, if the call makes it. Fails if results cannot be cast to this dtype.
    pub fn with_dtype(self, dtype: DType) -> Result<Self, CallError> {
        if self.given.is_some() {
            return Ok(self);
        }
        check_cast(self.compute, dtype)?;
        Ok(Self { dtype, ..self })
    }

    /// The common sizes that all inputs are broadcast to.
    pub fn sizes(&self) -> &'a [i64] {
        self.sizes
    }

    /// The shape of a new output, in the inputs' order of dimensions.
    pub fn shape(&self) -> Shape {
        let strides = self.strides().unwrap_or_else(|| Format::Contiguous.strides(self.sizes));
        self.shape_of(strides)
    }

    fn shape_of(&self, strides: Dims) -> Shape {
        Shape { sizes: dims(self.sizes, |size| size), strides, dtype: self.dtype }
    }

    /// The shape of a new output in the order of a tensor, if that has the common sizes; else as in `shape`.
    pub fn shape_like(&self, tensor: Tensor<'_>) -> Shape {
        if tensor.has_sizes(self.sizes) { self.shape_of(tensor.like_strides()) } else { self.shape() }
    }

    /// The strides of a new output; `None` stands for a contiguous one.
    fn strides(&self) -> Option<Dims> {
        let sizes = self.sizes;
        let all: Option<SmallVec<[Tensor<'_>; 3]>> =
            self.inputs.iter().map(|input| input.tensor().filter(|tensor| tensor.has_sizes(sizes))).collect();
        if let Some(all) = all {
            return Some(joint_strides(&all));
        }
        let tensors = self.inputs.iter().filter_map(|input| input.tensor()?.expand(sizes));
        let strides: SmallVec<[&[i64]; 3]> = tensors.map(Tensor::strides).collect();
        let order = iteration_order(sizes, &strides);
        if order.iter().rev().copied().eq(0..sizes.len()) {
            return None;
        }
        Some(strides_in_order(sizes, &order))
    }

    /// Makes output number 0, or prepares the caller's `out=` tensor.
    pub fn output(&self, call: &Call<'a>) -> Result<Tensor<'a>, CallError> {
        if let Some(out) = self.given.filter(|out| out.has_sizes(self.sizes)) {
            return Ok(out);
        }
        let strides = if self.may_overlap { Strides::Shared } else { Strides::Any };
        let wanted = if self.are_contiguous() { None } else { self.strides() };
        match wanted {
            None => call.contiguous(0, self.sizes, self.dtype, strides),
            Some(wanted) => call.output(0, &self.shape_of(wanted), strides),
        }
    }

    /// True if a new output is certainly contiguous: all inputs are contiguous tensors of the common sizes, apart from numbers.
    fn are_contiguous(&self) -> bool {
        let is_dense = |tensor: Tensor<'_>| tensor.has_sizes(self.sizes) && tensor.is_dense(Format::Contiguous);
        let is_number = |input: &Input<'_>| input.tensor().is_none_or(|tensor| tensor.ndim() == 0);
        let mut others = self.inputs.iter().filter(|input| !is_number(input));
        if others.clone().count() == self.inputs.len() {
            return others.all(|input| input.tensor().is_some_and(is_dense));
        }
        // In combination with numbers, the strides of dimensions of size 1 count as well.
        others.all(|input| input.tensor().is_some_and(|tensor| is_dense(tensor) && tensor.has_contiguous_strides()))
    }

    /// Like `output`; a new output has the order of a tensor, if that has the common sizes.
    pub fn output_like(&self, call: &Call<'a>, tensor: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
        let shape = if self.given.is_some() { self.shape() } else { self.shape_like(tensor) };
        call.output(0, &shape, Strides::Any)
    }

    /// Launches the call's kernel into an output of the common sizes.
    pub fn launch(&self, call: &Call<'_>, out: Tensor<'_>, scalars: &[Scalar]) -> Outcome {
        match *self.inputs {
            [first, second] if self.is_swapped => launch_in(call, self.compute, out, &[second, first], scalars),
            _ => launch_in(call, self.compute, out, self.inputs, scalars),
        }
    }

    /// The operands for a kernel that gets the two inputs in the other order.
    pub fn swapped(self) -> Self {
        Self { is_swapped: true, ..self }
    }
}

/// An error if results of dtype `compute` cannot be cast to `dtype`.
pub fn check_cast(compute: DType, dtype: DType) -> Outcome {
    let is_held = dtype == compute || can_cast(compute, dtype);
    ensure!(is_held, "result type {compute:?} can't be cast to the desired output type {dtype:?}");
    Ok(())
}

/// The dtype that operands are computed in.
fn compute_dtype(types: Types, inputs: &[Input<'_>], given: Option<Tensor<'_>>, call: &Call<'_>) -> Result<DType, CallError> {
    let dtypes = || inputs.iter().filter_map(|input| input.tensor().map(Tensor::dtype));
    let first = dtypes().next().ok_or_else(|| CallError::Invalid("internal error: no operand".into()))?;
    let expected = if let Types::As(dtype) = types { dtype } else { first };
    match types {
        Types::Result(_) => return Ok(first),
        Types::Cast(dtype) => return Ok(dtype),
        Types::Same | Types::As(_) => {
            let others = dtypes().filter(|_| types == Types::Same);
            for dtype in given.map(Tensor::dtype).into_iter().chain(others) {
                ensure!(dtype == expected, "Found dtype {dtype:?} but expected {expected:?}");
            }
            return Ok(expected);
        }
        Types::Common | Types::Floating | Types::Compared => {}
    }
    let is_plain = |input: &Input<'_>| input.tensor().is_some_and(|tensor| tensor.dtype() == first);
    let has_dims = |input: &Input<'_>| input.tensor().is_some_and(|tensor| tensor.ndim() > 0);
    let is_same = inputs.iter().all(is_plain) && inputs.iter().any(has_dims);
    let common = if is_same { first } else { call.result_type(inputs)? };
    let default = || shim().and_then(|shim| DType::from_number((shim.default_dtype)())).unwrap_or(DType::Float);
    Ok(if types == Types::Floating && is_whole(common) { default() } else { common })
}

/// The handle of the input that is a 0-dim CPU tensor, if there is one. An error if there are several.
fn host_number(inputs: &[Input<'_>]) -> Result<Option<usize>, CallError> {
    let tensors = inputs.iter().filter_map(Input::in_memory);
    let mut numbers = tensors.filter(|tensor| tensor.is_host() && tensor.ndim() == 0);
    let first = numbers.next();
    ensure!(numbers.next().is_none(), "Trying to pass too many CPU scalars to non-CPU kernel!");
    Ok(first.map(Tensor::handle))
}

/// The sizes that all tensors are broadcast to.
fn common_sizes<'a>(first: Tensor<'a>, tensors: impl Iterator<Item = Tensor<'a>>) -> Result<&'a [i64], CallError> {
    let mut sizes = first.sizes();
    for tensor in tensors {
        if !tensor.has_sizes(sizes) {
            let both = broadcast(sizes, tensor.sizes())?;
            sizes = copied(first.arena(), &both);
        }
    }
    Ok(sizes)
}

/// Launches the call's kernel into a tensor, over inputs that are broadcast to its sizes. It computes in the output's dtype. An
/// empty output needs no launch.
pub fn launch(call: &Call<'_>, out: Tensor<'_>, inputs: &[Input<'_>], scalars: &[Scalar]) -> Outcome {
    launch_in(call, out.dtype(), out, inputs, scalars)
}

/// Like `launch`, but the kernel computes in dtype `compute`.
fn launch_in(call: &Call<'_>, compute: DType, out: Tensor<'_>, inputs: &[Input<'_>], scalars: &[Scalar]) -> Outcome {
    if out.numel() == 0 && call.takes(compute) {
        return Ok(());
    }
    let sizes = out.sizes();
    if inputs.iter().filter_map(Input::in_memory).all(|tensor| tensor.has_sizes(sizes)) {
        return call.launch_with(compute, &[Some(out)], inputs, scalars);
    }
    let operands = out.arena().try_keep_all(inputs.len(), |index| match inputs[index] {
        Input::Tensor(tensor) => tensor.expanded(sizes).map(Input::Tensor),
        other => Ok(other),
    })?;
    call.launch_with(compute, &[Some(out)], operands, scalars)
}
