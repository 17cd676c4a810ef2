//! Gathers and scatters along a dimension: gather, index_select, take and its inverse `put_`; all variants of scatter, index_add,
//! index_copy, index_reduce, index_fill_.

use crate::call::addressing::{Addressing, Operation, Update, warn_of_shared_elements};
use crate::call::prelude::*;

operators! {
    c"scatter": structured(scatter) =>
        c"scatter.src", c"scatter_.src", c"scatter.src_out" | c"scatter.value", c"scatter_.value", c"scatter.value_out";
    c"scatter_reduce": structured(scatter) =>
        c"scatter.reduce", c"scatter_.reduce", c"scatter.reduce_out" | c"scatter.value_reduce", c"scatter_.value_reduce",
        c"scatter.value_reduce_out" | c"scatter_reduce.two", c"scatter_reduce_.two", c"scatter_reduce.two_out";
    c"scatter_add": structured(scatter) => c"scatter_add", c"scatter_add_", c"scatter_add.out";
    c"index_add": structured(scatter) => c"index_add", c"index_add_", c"index_add.out";
    c"index_copy": structured(scatter) => c"index_copy", c"index_copy_", c"index_copy.out";
    c"index_reduce": structured(scatter) => c"index_reduce", c"index_reduce_", c"index_reduce.out";
    c"index_fill": plain(typed!(index_fill)) => c"index_fill_.int_Scalar";
    c"index_fill": plain(typed!(index_fill_tensor)) => c"index_fill_.int_Tensor";
    c"gather": structured(typed!(gather)) => c"gather", c"gather.out";
    c"index_select": plain(typed!(select)) => c"index_select", c"index_select.out";
    c"take": plain(typed!(take)) => c"take", c"take.out";
    c"put": plain(typed!(put)) => c"put_";
}

/// True for the dtypes of indices.
pub fn is_index(tensor: Tensor<'_>) -> bool {
    [DType::Long, DType::Int].contains(&tensor.dtype())
}

/// True if the meta function of gather would accept the index.
fn has_usual_index(input: Tensor<'_>, dim: i64, index: Tensor<'_>) -> bool {
    let (sizes, wanted) = (input.sizes(), index.sizes());
    let Ok(dim) = wrap_dim(dim, sizes.len()) else { return false };
    let is_usual = |other: usize| wanted[other] > 0 && (other == dim || wanted[other] <= sizes[other]);
    is_index(index) && !sizes.is_empty() && sizes.len() == wanted.len() && (0..sizes.len()).all(is_usual)
}

/// The meta function takes 0.4 us, a third of a small call: calls that are clearly valid skip it.
pub fn gather(call: &Call<'_>, input: Tensor<'_>, dim: i64, index: Tensor<'_>, _sparse: bool) -> Outcome {
    if call.given(0).is_some() || !has_usual_index(input, dim, index) {
        call.meta()?;
    }
    let out = call.contiguous(0, index.sizes(), input.dtype(), Strides::Any)?;
    Addressing::each_element(input, dim, index)?.load(call, out, input)
}

pub fn select(call: &Call<'_>, input: Tensor<'_>, dim: i64, index: Tensor<'_>) -> Outcome {
    let (at, count) = (wrap_dim(dim, input.ndim())?, index.numel());
    let has_slots = input.sizes().get(at).map_or(count == 1, |&size| count == 0 || size > 0);
    ensure!(is_index(index) && index.ndim() <= 1 && has_slots && call.has_dtype(0, input.dtype()));
    call.check_given_apart([input, index])?;
    let mut sizes = Dims::from(input.sizes());
    if let Some(size) = sizes.get_mut(at) {
        *size = count;
    }
    let out = call.contiguous(0, &sizes, input.dtype(), Strides::Any)?;
    Addressing::each_slice(input, dim, index)?.load(call, out, input)
}

/// `take`: indices into the flattened tensor.
pub fn take(call: &Call<'_>, input: Tensor<'_>, index: Tensor<'_>) -> Outcome {
    let has_slots = input.numel() != 0 || index.numel() == 0;
    ensure!(index.dtype() == DType::Long && has_slots && call.has_dtype(0, input.dtype()));
    call.check_given_apart([input, index])?;
    let out = call.contiguous(0, index.sizes(), input.dtype(), Strides::Any)?;
    let dense = call.dense(input, Format::Contiguous)?;
    Addressing::flat(dense, index).load(call, out, dense)
}

pub fn put(call: &Call<'_>, input: Tensor<'_>, index: Tensor<'_>, source: Tensor<'_>, accumulate: bool) -> Outcome {
    let own = input.dtype();
    let has_slots = input.numel() != 0 || index.numel() == 0;
    ensure!(index.dtype() == DType::Long && own == source.dtype() && source.numel() == index.numel() && has_slots);
    call.check_given_apart([index, source])?;
    take_if(!accumulate || FLOATING.and(INTEGRAL).and(BOOL).and(COMPLEX).contains(own))?;
    let out = call.contiguous(0, input.sizes(), own, Strides::Any)?;
    let index = call.dense(index, Format::Contiguous)?.view(source.sizes());
    let dense = call.dense(out, Format::Contiguous)?;
    let operation = if accumulate { Operation::Add } else { Operation::Store };
    Addressing::flat(dense, index).update(call, dense, Input::Tensor(source), operation.into())?;
    if dense.address() == out.address() { Ok(()) } else { call.copy(out, dense) }
}

// ---- scatter ----

impl From<&str> for Operation {
    /// The operation of a reduction's name, which the meta function has checked.
    fn from(reduce: &str) -> Self {
        match reduce {
            "amax" => Self::Maximum,
            "amin" => Self::Minimum,
            "prod" | "multiply" => Self::Multiply,
            _ => Self::Add,
        }
    }
}

/// The output, initialised with the target's elements.
fn started<'a>(call: &Call<'a>, target: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    let out = call.contiguous(0, target.sizes(), target.dtype(), Strides::Any)?;
    if call.given(0).is_none() && out.numel() != 0 {
        call.with_kernel(kernel!(c"copy_")).launch(&[out], &[target], &[])?;
    } else if out.handle() != target.handle() {
        call.copy(out, target)?;
    }
    Ok(out)
}

/// Divides sums by the numbers of their terms.
fn divide(call: &Call<'_>, sums: Tensor<'_>, counts: Tensor<'_>) -> Outcome {
    call.operator(&callees::CLAMP_MIN_IN_PLACE, &[Value::Tensor(counts), 1.into()])?;
    let operands = [Value::Tensor(sums), Value::Tensor(counts), Value::Text("floor")];
    if FLOATING.and(COMPLEX).contains(sums.dtype()) {
        call.operator(&callees::DIV_IN_PLACE, &operands[..2]).map(drop)
    } else {
        call.operator(&callees::DIV_ROUNDED_IN_PLACE, &operands).map(drop)
    }
}

/// Every variant, which PyTorch's meta function checks. The kernel's name tells whether an index addresses an element or a slice.
/// Behind the source come a factor, or the name of a reduction and whether the old values take part.
pub fn scatter(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let ((target, dim, index, source), name): ((Tensor<'_>, _, _, Input<'_>), _) =
        (arguments.first(4).typed()?, call.kernel_name());
    let (mut update, mut is_mean) = (Update::from(Operation::Store), false);
    match arguments[4..] {
        [Value::Text(reduce), ref includes_self @ ..] => {
            (update.operation, is_mean) = (reduce.into(), reduce == "mean");
            update.excludes_self = !includes_self.first().map_or(Ok(true), Value::get)?;
        }
        [factor] => {
            (update.operation, update.factor) = (Operation::Add, factor.get()?);
            call.check_number(update.factor, source.dtype())?;
        }
        _ if name == "scatter_add" => update.operation = Operation::Add,
        _ => {}
    }
    call.meta()?;
    if let Input::Number(number) = source {
        call.check_number(number, target.dtype())?;
    }
    let out = started(call, target)?;
    // Only a mean is rounded, not its sum or its count.
    let wide = if is_mean { out.dtype().opmath() } else { out.dtype() };
    let sums = call.cast(out, wide)?;
    let source = if let Input::Tensor(source) = source { Input::Tensor(call.cast(source, wide)?) } else { source };
    let address = if name.starts_with("index") { Addressing::each_slice } else { Addressing::each_element };
    address(sums, dim, index)?.update(call, sums, source, update)?;
    if is_mean {
        let counts = call.empty(sums.sizes(), wide.real())?;
        call.fill(counts, Scalar::Long((!update.excludes_self).into()))?;
        address(counts, dim, index)?.update(call, counts, Input::Number(Scalar::Long(1)), Operation::Add.into())?;
        divide(call, sums, counts)?;
    }
    if wide == out.dtype() { Ok(()) } else { call.copy(out, sums) }
}

// ---- index_fill_ ----

/// `index_fill_` with a number, or with the only element of a tensor.
pub fn index_fill(call: &Call<'_>, target: Tensor<'_>, dim: i64, index: Tensor<'_>, source: Input<'_>) -> Outcome {
    if let Input::Number(number) = source {
        ensure!(target.dtype().is_complex() || !matches!(number, Scalar::Complex(..)));
        call.check_number(number, target.dtype())?;
    }
    ensure!(index.dtype() == DType::Long && index.ndim() <= 1);
    target.check_no_overlap(index)?;
    warn_of_shared_elements(call, target, "index_fill_", "tensor[mask] = scalar")?;
    Addressing::each_slice(target, dim, index)?.update(call, target, source, Operation::Store.into())
}

/// `index_fill_` with a 0-dim tensor. A value on another device or of another dtype is read on the host, so that it can be
/// checked during the call.
pub fn index_fill_tensor(call: &Call<'_>, target: Tensor<'_>, dim: i64, index: Tensor<'_>, value: Tensor<'_>) -> Outcome {
    ensure!(value.ndim() == 0);
    if value.device() != target.device() || value.dtype() != target.dtype() {
        return index_fill(call, target, dim, index, Input::Number(call.item(value)?));
    }
    let is_shared = value.may_share_memory(target);
    let format = (Format::Contiguous as i64).into();
    let value = if is_shared { call.operator(&callees::CLONE, &[value.into(), format])? } else { value };
    index_fill(call, target, dim, index, Input::Tensor(value))
}
