//! `scaled_dot_product_attention`, forward and backward, of [batch, heads, length, size]. It is computed by Rust kernels or,
//! where that is faster, by PyTorch's flash attention for the CPU as a task that is cut along batch or heads. Memory is linear
//! in the lengths.

use smallvec::SmallVec;

use super::kernel::attention as kernel;
use crate::call::Cut;
use crate::call::declared;
use crate::call::operator::{Batch, Task};
use crate::call::prelude::*;
use crate::call::tasks::task;
use crate::runtime::task::demand::Products;
use crate::simd::has_float16_tiles;
use crate::tensor::Flags;

const NAME: &str = "scaled_dot_product_attention";

/// Nanoseconds that PyTorch's kernel takes for one multiplication.
const PRODUCT: f64 = 0.03;

/// PyTorch's kernel checks itself what it supports.
const LIBRARY: Task = task(None, FLOATING, Batch::None);

operators! {
    (c"_scaled_dot_product_flash_attention_for_cpu", LIBRARY): plain(forward) => c"_scaled_dot_product_flash_attention_for_cpu";
    (c"_scaled_dot_product_flash_attention_for_cpu_backward", LIBRARY): plain(backward) =>
        c"_scaled_dot_product_flash_attention_for_cpu_backward";
}

fn check_size(what: &str, tensor: Tensor<'_>, sizes: &[i64]) -> Outcome {
    let found = tensor.sizes();
    ensure!(found == sizes, "{NAME}: expected {what} to have size {sizes:?}, but got {found:?}");
    Ok(())
}

/// The operands that forward and backward share.
struct Operands<'a> {
    query: Tensor<'a>,
    key: Tensor<'a>,
    value: Tensor<'a>,
    mask: Option<Tensor<'a>>,
    is_causal: bool,
    scale: Option<f64>,
}

impl<'a> Operands<'a> {
    /// Checks the preconditions of the kernels.
    fn check(&self) -> Outcome {
        let &Self { query, key, value, .. } = self;
        for tensor in [query, key, value] {
            let (ndim, dtypes) = (tensor.ndim(), (query.dtype(), tensor.dtype()));
            ensure!(ndim == 4, "{NAME}: expected operands of 4 dimensions, but got {ndim}");
            ensure!(dtypes.0 == dtypes.1, "{NAME}: expected operands of one dtype, but got {:?} and {:?}", dtypes.0, dtypes.1);
        }
        // PyTorch's kernel divides by these sizes.
        let has_rows = |tensor: Tensor<'_>| !tensor.sizes()[1..3].contains(&0);
        ensure!([query, key, value].map(has_rows) == [true; 3], "{NAME}: an operand has no heads or rows");
        let (sizes, keys) = (query.sizes(), key.sizes());
        let wanted = [sizes[0], keys[1], keys[2], sizes[3]];
        check_size("key", key, &wanted)?;
        check_size("value", value, &wanted)?;
        let [heads, groups] = [sizes[1], keys[1]];
        ensure!(heads % groups == 0, "{NAME}: expected the {heads} heads of query to be a multiple of the {groups} of key");
        take_if(query.numel() != 0)
    }

    fn score(&self) -> DType {
        self.query.dtype().opmath()
    }

    /// True if PyTorch's kernel is faster: its products use AMX. It needs contiguous rows in the operands and in `others`.
    fn suits_library(&self, others: &[Tensor<'_>]) -> bool {
        let has_tiles = match self.query.dtype() {
            DType::BFloat16 => shim::has_amx(),
            DType::Half => shim::has_amx() && has_float16_tiles(),
            _ => false,
        };
        let own = [self.query, self.key, self.value];
        has_tiles && own.iter().chain(others).all(|tensor| tensor.strides()[3] == 1)
    }

    /// How a call with this number of products is cut; heads that share keys stay together.
    fn cut(&self, products: f64) -> Cut {
        let sizes = self.query.sizes();
        let dim = usize::from(sizes[1] == self.key.sizes()[1] && sizes[0] < sizes[1]);
        let cost = products * self.query.numel() as f64 * self.key.sizes()[2] as f64 * PRODUCT;
        // A 2-D mask applies to every batch and head.
        Cut::new(dim, sizes[dim], 3, cost as u64 + 1000)
    }

    /// Lets PyTorch's kernel compute a call with this number of products.
    fn leave_to_library(&self, call: &Call<'_>, products: u8) -> Outcome {
        let [batch, heads, rows, depth] = [0, 1, 2, 3].map(|dim| self.query.sizes()[dim].unsigned_abs());
        let (count, columns) = (batch * heads, self.key.sizes()[2].unsigned_abs());
        let dtype = self.query.dtype().torch_name();
        let counted = 2 * u64::from(products) * count * rows * columns * depth;
        let executed = if self.is_causal { counted / 2 } else { counted };
        let declared = Products { count, rows, columns, depth, executed, counted, is_attention: true, dtype };
        declared::during(declared, || call.leave_to_task(self.cut(products.into())))
    }

    /// The mask expanded to the scores, in their dtype.
    fn expanded_mask(&self, call: &Call<'a>) -> Result<Option<Tensor<'a>>, CallError> {
        let Some(mask) = self.mask else { return Ok(None) };
        let ndim = mask.ndim();
        ensure!(ndim == 2 || ndim == 4, "{NAME}: expected a mask of 2 or 4 dimensions, but got {ndim}");
        let cast = call.cast(mask, self.score())?;
        let scores = if cast.flags().has(Flags::NEG) { as_stored(call, cast)? } else { cast };
        let sizes = [&self.query.sizes()[..3], &self.key.sizes()[2..3]].concat();
        scores.expanded(&sizes).map(Some)
    }

    /// Launches the kernel; its inputs are `before`, query, key, value, `behind`, and the mask if there is one.
    fn launch(&self, call: &Call<'a>, outputs: &[Tensor<'_>], before: &[Tensor<'_>], behind: &[Tensor<'_>]) -> Outcome {
        let mask = self.expanded_mask(call)?;
        let own = [self.query, self.key, self.value];
        let mut inputs = SmallVec::<[Option<Tensor<'_>>; 8]>::new();
        for &tensor in before.iter().chain(&own).chain(behind) {
            inputs.push(Some(if tensor.flags().has(Flags::NEG) { as_stored(call, tensor)? } else { tensor }));
        }
        inputs.push(mask);
        let (is_causal, has_scale) = (self.is_causal.into(), self.scale.is_some().into());
        let scalars = kernel::Scalars { is_causal, has_scale, scale: Scalar::Double(self.scale.unwrap_or(0.0)) };
        call.launch(outputs, &inputs, &scalars.list())
    }
}

/// The tensor with its negative bit resolved.
fn as_stored<'a>(call: &Call<'a>, tensor: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    call.operator(&callees::RESOLVE_NEG, &[Value::Tensor(tensor)])
}

/// A shape [batch, heads, length, ...] with the strides of [batch, length, heads, ...], like the results of PyTorch's kernels.
fn length_first(sizes: &[i64], dtype: DType) -> Shape {
    let mut memory: Dims = sizes.into();
    memory.swap(1, 2);
    let mut strides = Format::Contiguous.strides(&memory);
    strides.swap(1, 2);
    Shape { sizes: sizes.into(), strides, dtype }
}

fn forward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (query, key, value, dropout, is_causal, mask, scale): (Tensor<'_>, _, _, f64, _, _, _) = arguments.typed()?;
    ensure!(dropout == 0.0, "{NAME}: expected no dropout, but got {dropout}");
    check_same_device(arguments.tensors(), "an operand", NAME)?;
    let operands = Operands { query, key, value, mask, is_causal, scale };
    operands.check()?;
    let shape = Shape::like(query, query.dtype());
    let out = call.output(0, &shape, Strides::Any)?;
    let sums = call.output(1, &length_first(&query.sizes()[..3], operands.score()), Strides::Any)?;
    if operands.suits_library(&[]) {
        return operands.leave_to_library(call, 2);
    }
    if out.strides()[3] == 1 {
        return operands.launch(call, &[out, sums], &[], &[]);
    }
    let rows = call.empty(&shape.sizes, shape.dtype)?;
    operands.launch(call, &[rows, sums], &[], &[])?;
    call.copy(out, rows)
}

fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, query, key, value, out, sums, _dropout, is_causal, mask, scale): (_, _, _, _, _, _, f64, _, _, _) =
        arguments.typed()?;
    check_same_device(arguments.tensors(), "an operand", NAME)?;
    let operands = Operands { query, key, value, mask, is_causal, scale };
    operands.check()?;
    check_size("grad_out", grad, operands.query.sizes())?;
    check_size("out", out, operands.query.sizes())?;
    check_size("logsumexp", sums, &operands.query.sizes()[..3])?;
    let like = |index, tensor: Tensor<'_>| call.output(index, &length_first(tensor.sizes(), tensor.dtype()), Strides::Any);
    let gradients = [like(0, operands.query)?, like(1, operands.key)?, like(2, operands.value)?];
    if operands.suits_library(&[grad, out]) {
        return operands.leave_to_library(call, 5);
    }
    operands.launch(call, &gradients, &[grad], &[out, sums])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(sizes: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, DType::BFloat16, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    fn cut_of(query: &[i64], key: &[i64]) -> (i64, i64, u64) {
        let [query, key, value] = [query, key, key].map(tensor);
        let operands = Operands { query, key, value, mask: None, is_causal: false, scale: None };
        operands.check().unwrap();
        let Cut { dim, size, cost, .. } = operands.cut(2.0);
        (dim, size, cost)
    }

    #[test]
    fn the_larger_of_batch_and_heads_is_cut() {
        assert_eq!(cut_of(&[2, 8, 100, 64], &[2, 8, 50, 64]), (1, 8, 1000 + (2.0 * 102_400.0 * 50.0 * PRODUCT) as u64));
        assert_eq!((cut_of(&[8, 8, 3, 4], &[8, 8, 5, 4]).0, cut_of(&[2, 8, 3, 4], &[2, 4, 5, 4]).0), (0, 0));
    }
}
