//! Fused optimizers, in which one launch updates all parameters, and `torch.amp.GradScaler`. Step counts, learning rates given as
//! tensors, the gradient scale and `found_inf` are read on the device when the step runs.

use std::slice;

use smallvec::{SmallVec, smallvec};

use super::kernel::amp::update_scale as scale_kernel;
use crate::call::prelude::*;
use crate::call::tensor_lists::{self, List, Lists};
use crate::runtime::name as backend;

operators! {
    c"_fused_adagrad_": any_device(plain(adagrad)) => c"_fused_adagrad_", c"_fused_adagrad_.tensor_lr";
    c"_fused_adam_": any_device(plain(adam)) => c"_fused_adam_", c"_fused_adam_.tensor_lr";
    c"_fused_adamw_": any_device(plain(adam)) => c"_fused_adamw_", c"_fused_adamw_.tensor_lr";
    c"_fused_sgd_": any_device(plain(sgd)) => c"_fused_sgd_", c"_fused_sgd_.tensor_lr";
    c"_amp_foreach_non_finite_check_and_unscale_": any_device(plain(typed!(unscale))) =>
        c"_amp_foreach_non_finite_check_and_unscale_";
    c"_amp_update_scale_": any_device(plain(update_scale)) => c"_amp_update_scale_";
}

/// The learning rate: a number, or 0 and the tensor that the kernel reads.
fn rate_of<'a>(call: &Call<'_>, rate: &Value<'a>) -> Result<(Scalar, Option<Tensor<'a>>), CallError> {
    let &Value::Tensor(tensor) = rate else { return Ok((rate.get()?, None)) };
    if tensor.device() >= 0 {
        return Ok((Scalar::Double(0.0), Some(tensor)));
    }
    let numel = tensor.numel();
    ensure!(numel == 1, "a Tensor with {numel} elements cannot be converted to Scalar");
    let number = call.numbers(tensor.view(&[1]), 1)?[0];
    let is_real = !matches!(number, Scalar::Complex(_, imaginary) if imaginary != 0.0);
    ensure!(is_real, "value cannot be converted to type double without overflow");
    Ok((Scalar::Double(number.to()), None))
}

/// A one-element tensor, copied to the device if necessary. The copy lives until the kernel is queued.
fn near<'a>(call: &Call<'a>, tensor: Tensor<'a>, device: i32) -> Result<Tensor<'a>, CallError> {
    if tensor.device() == device {
        return Ok(tensor);
    }
    let copy = call.empty(tensor.sizes(), tensor.dtype())?;
    call.operator(&callees::COPY, &[copy.into(), tensor.into(), true.into()]).map(|_| copy)
}

/// The operands of an optimizer step.
struct Step<'a> {
    /// Parameters, states, gradients.
    lists: Lists<'a>,
    counts: List<'a>,
    /// The learning rate, the gradient scale and `found_inf`.
    singles: [Option<Tensor<'a>>; 3],
    settings: SmallVec<[Scalar; 8]>,
}

impl<'a> Step<'a> {
    fn check(&self, name: &str) -> Outcome {
        let (count, steps) = (self.lists[0].len(), self.counts.len());
        if let Some(other) = self.lists.iter().find(|list| list.len() != count) {
            return Err(CallError::Invalid(format!("{name}: expected lists of {count} tensors, but found one of {}", other.len())));
        }
        ensure!(steps == 0 || steps == count, "{name}: expected {count} state_steps, but found {steps}");
        let are_alike = tensor_lists::have_one_dtype(&self.lists) && tensor_lists::are_alike(&self.lists);
        let text = "parameters, gradients and states must be dense and have the same dtype, device, sizes and strides";
        ensure!(are_alike, "{name}: {text}");
        let text = "some elements of one tensor are other elements of another. Please clone() one of them first.";
        ensure!(!tensor_lists::overlap_in_part(&self.lists, self.lists.len()), "{name}: {text}");
        Ok(())
    }

    fn run(&self, call: &Call<'a>) -> Outcome {
        let Some(&parameter) = self.lists[0].first() else { return Ok(()) };
        self.check(call.kernel()?.text())?;
        let singles = self.singles.into_iter().flatten().map(|single| near(call, single, parameter.device()));
        let singles = singles.collect::<Result<SmallVec<[Tensor<'_>; 3]>, _>>()?;
        let counts = call.arena().try_keep_all(self.counts.len(), |place| near(call, self.counts[place], parameter.device()))?;
        // Gradients, the last list, are written only if they are unscaled.
        let written = self.lists.len() - usize::from(self.singles[1].is_none());
        for part in tensor_lists::parts(self.lists[0].len()) {
            let mut lists: Lists<'_> = self.lists.iter().map(|list| &list[part.clone()]).collect();
            lists.extend([counts.get(part.clone()).unwrap_or_default(), &singles]);
            let mut scalars: SmallVec<[Scalar; 12]> = smallvec![Scalar::Long(part.len() as i64)];
            scalars.extend(self.singles.iter().map(|single| Scalar::Bool(single.is_some())));
            scalars.extend_from_slice(&self.settings);
            call.launch_lists(parameter.dtype(), written, &lists, &scalars)?;
        }
        Ok(())
    }
}

/// Runs a step. `others`: numbers and flags in the order of the kernel's scalars, of which `rate` becomes number `place`. `last`:
/// the gradient scale and `found_inf`.
fn step<'a>(
    call: &Call<'a>,
    lists: Lists<'a>,
    counts: List<'a>,
    (rate, place): (&Value<'a>, usize),
    others: &[Value<'a>],
    last: [&Value<'a>; 2],
) -> Outcome {
    let (rate, rate_tensor) = rate_of(call, rate)?;
    let mut settings = others.iter().map(Value::get).collect::<Result<SmallVec<[Scalar; 8]>, _>>()?;
    settings.insert(place, rate);
    Step { lists, counts, singles: [rate_tensor, last[0].get()?, last[1].get()?], settings }.run(call)
}

pub fn adam(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [parameters, grads, means, squares, greatest, counts, rate, others @ .., scale, found] = arguments.all::<15>()?;
    let mut lists: Lists<'_> = smallvec![parameters.get()?, means.get()?, squares.get()?];
    if others[4].get()? {
        lists.push(greatest.get()?);
    }
    lists.push(grads.get()?);
    step(call, lists, counts.get()?, (rate, 0), others, [scale, found])
}

pub fn sgd(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [parameters, grads, buffers, decay, momentum, rate, dampening, nesterov, maximize, is_first, scale, found] =
        arguments.all()?;
    let mut lists: Lists<'_> = smallvec![parameters.get()?];
    if momentum.get::<f64>()? != 0.0 {
        lists.push(buffers.get()?);
    }
    lists.push(grads.get()?);
    let others = [*decay, *momentum, *dampening, *nesterov, *maximize, *is_first];
    step(call, lists, &[], (rate, 2), &others, [scale, found])
}

pub fn adagrad(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [parameters, grads, sums, counts, rate, others @ .., scale, found] = arguments.all::<11>()?;
    let lists = smallvec![parameters.get()?, sums.get()?, grads.get()?];
    step(call, lists, counts.get()?, (rate, 0), others, [scale, found])
}

/// PyTorch's checks of a one-element tensor on the device.
fn check_single(tensor: Tensor<'_>, name: &str, dtype: DType, dtype_name: &str) -> Outcome {
    ensure!(tensor.device() >= 0, "{name} must be a {} tensor.", backend::name());
    ensure!(tensor.numel() == 1, "{name} must be a 1-element tensor.");
    ensure!(tensor.dtype() == dtype, "{name} must be {dtype_name} tensor.");
    Ok(())
}

/// `_amp_foreach_non_finite_check_and_unscale_`: one launch for the gradients of each dtype. Gradients that are not dense are
/// unscaled in copies, which are written back.
pub fn unscale(call: &Call<'_>, grads: &[Tensor<'_>], found: Tensor<'_>, inverse: Tensor<'_>) -> Outcome {
    if grads.is_empty() {
        return Ok(());
    }
    check_single(inverse, "inv_scale", DType::Float, "a float")?;
    check_single(found, "found_inf", DType::Float, "a float")?;
    let (mut dense, mut copies) = (Vec::with_capacity(grads.len()), SmallVec::<[(Tensor<'_>, Tensor<'_>); 2]>::new());
    for &given in grads {
        ensure!(given.device() >= 0, "one of scaled_grads was not a {} tensor.", backend::name());
        let is_near = given.device() == found.device() && given.device() == inverse.device();
        ensure!(is_near, "scaled_grads, found_inf and inv_scale must be on one device.");
        let grad = given.distinct();
        let has_gaps = !grad.fills_memory();
        dense.push(if has_gaps { call.dense(grad, Format::Contiguous)? } else { grad });
        copies.extend(has_gaps.then(|| (grad, dense[dense.len() - 1])));
    }
    if !dense.is_sorted_by_key(|grad| grad.dtype() as i32) {
        dense.sort_by_key(|grad| grad.dtype() as i32);
    }
    for group in dense.chunk_by(|one, other| one.dtype() == other.dtype()) {
        for part in tensor_lists::parts(group.len()) {
            let scalars = [Scalar::Long(part.len() as i64)];
            let lists = [&group[part], slice::from_ref(&found), slice::from_ref(&inverse)];
            call.launch_lists(group[0].dtype(), 2, &lists, &scalars)?;
        }
    }
    copies.into_iter().try_for_each(|(grad, copy)| call.copy(grad, copy))
}

pub fn update_scale(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scale, tracker, found, growth_factor, backoff_factor, growth_interval) = arguments.typed()?;
    check_single(tracker, "growth_tracker", DType::Int, "an int")?;
    check_single(scale, "current_scale", DType::Float, "a float")?;
    check_single(found, "found_inf", DType::Float, "a float")?;
    let scalars = scale_kernel::Scalars { growth_factor, backoff_factor, growth_interval };
    call.launch(&[scale, tracker], &[found], &scalars.list())
}
