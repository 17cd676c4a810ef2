//! Negative log likelihood loss, of rows or images of log probabilities. Targets are Long or Byte; ignored targets add 0 to the
//! loss and to the total weight. Sums are computed in `f64` over fixed blocks of rows, so that the bits do not depend on the
//! threads.

pub mod elementwise;

use std::borrow::Cow;

use crate::tensor::loops::block_results;
use crate::tensor::prelude::*;
use crate::tuning::sharing::LOSS_PIECE;

signature! {
    /// `aten::nll_loss_forward` and `aten::nll_loss2d_forward`. Operands [out, total weight, x (N, C, H, W), target (N, H, W),
    /// weight?]; out has the target's sizes without a reduction, else one element; scalars [reduction, ignored target].
    nll_loss_forward(out, total_weight; x, target, weight?)[reduction, ignored] in FLOATING => |launch, E| forward::<E>(launch);
    /// `aten::nll_loss_backward` and `aten::nll_loss2d_backward`. Operands [grad of x (N, C * positions), grad, target (N,
    /// positions), total weight, weight?], where grad has the target's sizes without a reduction, else one element; scalars those
    /// of [`nll_loss_forward`], then C.
    nll_loss_backward(grad_x; grad, target, total_weight, weight?)[reduction, ignored, classes] in FLOATING =>
        |launch, E| backward::<E>(launch);
}

/// The values of `at::Reduction`.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// The targets, and the weights of the classes.
struct Classes<'a, T> {
    targets: Cow<'a, [i64]>,
    weights: Option<Vec<T>>,
    ignored: i64,
    count: usize,
    reduction: i64,
}

impl<'a, T: Element + Number> Classes<'a, T> {
    /// Reads the scalars of [`nll_loss_forward`], which are also the first ones of [`nll_loss_backward`].
    fn new(launch: &Launch<'a>, targets: View<'a>, count: usize, weights: Option<View<'a>>) -> Result<Self, Error> {
        let nll_loss_forward::Scalars { reduction, ignored } = nll_loss_forward::Scalars::of(launch)?;
        let weights = weights.map(|weights| Ok::<_, Error>(Values::<T>::new(weights)?.to_vec())).transpose()?;
        let (reduction, ignored) = (reduction.to(), ignored.to());
        let targets = if let Some(slice) = Row::flat(&targets)?.as_slice().filter(|_| targets.dtype() == DType::Long) {
            Cow::Borrowed(slice)
        } else {
            Cow::Owned(Values::new(targets)?.to_vec())
        };
        Ok(Self { targets, weights, ignored, count, reduction })
    }

    /// The class at a position and its weight; `None` if the target is ignored.
    #[inline]
    fn at(&self, position: usize) -> Result<Option<(usize, T)>, Error> {
        let target = self.targets[position];
        if target == self.ignored {
            return Ok(None);
        }
        let class = usize::try_from(target).ok().filter(|&class| class < self.count);
        let class = class.ok_or_else(|| Error::new(format!("Target {target} is out of bounds.")))?;
        Ok(Some((class, self.weights.as_ref().map_or(T::ONE, |weights| weights[class]))))
    }
}

fn forward<E: Element<Acc: Field>>(launch: &Launch<'_>) -> Result<(), Error> {
    let nll_loss_forward::Operands { out, total_weight, x: input, target, weight } = nll_loss_forward::Operands::of(launch)?;
    if input.ndim() != 4 || target.ndim() != 3 {
        return Err(Error::new(format!("targets {:?} of {:?}", target.sizes(), input.sizes())));
    }
    let classes = Classes::<E::Acc>::new(launch, target, input.size(1), weight)?;
    let (height, width) = (target.size(1), target.size(2));
    let flat = Row::flat(&input).ok();
    let value = |row: usize, class: usize, col: usize| match &flat {
        Some(flat) => flat.load::<E>(((row / height * classes.count + class) * height + row % height) * width + col),
        None => Row::of(&input, &[row / height, class, row % height]).load::<E>(col),
    };
    // Visits the losses of a row of targets: column, loss, weight.
    let losses = |row: usize, visit: &mut dyn FnMut(usize, E::Acc, E::Acc)| -> Result<(), Error> {
        for col in 0..width {
            match classes.at(row * width + col)? {
                None => visit(col, E::Acc::ZERO, E::Acc::ZERO),
                Some((class, weight)) => {
                    visit(col, value(row, class, col).load().neg().mul(weight), weight);
                }
            }
        }
        Ok(())
    };
    let failure = Failure::default();
    let mut totals = ValuesMut::<f64>::new(total_weight)?;
    if classes.reduction == NONE {
        rows::for_each(out, launch.cost(), &|index, mut row| {
            let position = index[0] * height + index[1];
            failure.note(losses(position, &mut |col, loss, _| row.store(col, E::store(loss))));
        });
        totals.set(0, 0.0);
        return failure.result();
    }
    let (rows, grain) = (target.size(0) * height, LOSS_PIECE.div_ceil(width.max(1)));
    let sums = block_results(rows.div_ceil(grain), launch.cost() * (grain * width) as f64, &|block| {
        let mut sums = [0.0; 2];
        for row in block * grain..((block + 1) * grain).min(rows) {
            failure.note(losses(row, &mut |_, loss, weight| {
                sums[0] += loss.hub().to::<f64>();
                sums[1] += weight.hub().to::<f64>();
            }));
        }
        sums
    });
    failure.result()?;
    let [loss, weight] = sums.into_iter().fold([0.0; 2], |all, block| [all[0] + block[0], all[1] + block[1]]);
    ValuesMut::<f64>::new(out)?.set(0, if classes.reduction == MEAN { loss / weight } else { loss });
    totals.set(0, weight);
    Ok(())
}

fn backward<E: Element<Acc: Field>>(launch: &Launch<'_>) -> Result<(), Error> {
    let nll_loss_backward::Operands { grad_x: output, grad, target, total_weight, weight } =
        nll_loss_backward::Operands::of(launch)?;
    let count = nll_loss_backward::Scalars::of(launch)?.classes.to::<i64>() as usize;
    if output.ndim() != 2 || target.ndim() != 2 || output.size(1) != count * target.size(1) {
        return Err(Error::new(format!("targets {:?} of {:?}", target.sizes(), output.sizes())));
    }
    let classes = Classes::<E::Acc>::new(launch, target, count, weight)?;
    let grads = Values::<E::Acc>::new(grad)?;
    let total = Values::<E::Acc>::new(total_weight)?.get(0);
    let width = target.size(1);
    let failure = Failure::default();
    rows::for_each(output, launch.cost(), &|index, mut row| {
        row.zero(0, count * width);
        failure.note((0..width).try_for_each(|col| {
            let position = index[0] * width + col;
            if let Some((class, weight)) = classes.at(position)? {
                let grad = if classes.reduction == NONE { grads.get(position) } else { grads.get(0) };
                let grad = if classes.reduction == MEAN { grad.div(total) } else { grad };
                row.store(class * width + col, E::store(grad.mul(weight).neg()));
            }
            Ok(())
        }));
    });
    failure.result()
}
