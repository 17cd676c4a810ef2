//! `_native_multi_head_attention` and `_transformer_encoder_layer_fwd`: what `nn.MultiheadAttention` and
//! `nn.TransformerEncoderLayer` call when no gradient is needed. They are composed of the operators that the modules call
//! otherwise. Attention without a mask has memory linear in the length.

use crate::call::prelude::*;

operators! {
    _: plain(multi_head_attention) => c"_native_multi_head_attention";
    _: plain(encoder_layer) => c"_transformer_encoder_layer_fwd";
}

/// The last two arguments of both operators: which elements take no part (true), and the layout of that mask.
struct Mask<'a> {
    tensor: Option<Tensor<'a>>,
    kind: Option<i64>,
}

impl<'a> Mask<'a> {
    /// The mask of scores [batch, heads, length, length], in sizes that broadcast to theirs.
    fn over(&self, call: &Call<'a>, scores: Tensor<'a>) -> Result<Option<Tensor<'a>>, CallError> {
        let Some(mask) = self.tensor else { return Ok(None) };
        let &[batch, _, length, _] = scores.sizes() else { unreachable!("scores have four dimensions") };
        let mask = call.dense(call.cast(mask, DType::Bool)?, Format::Contiguous)?;
        let kind = if mask.ndim() == 2 { self.kind } else { Some(2) };
        let (given, seen) = match kind {
            Some(0) => (vec![length, length], vec![1, 1, length, length]),
            Some(1) => (vec![batch, length], vec![batch, 1, 1, length]),
            Some(2) => (scores.sizes().to_vec(), scores.sizes().to_vec()),
            _ => return Err(CallError::CpuError),
        };
        ensure!(mask.sizes() == given);
        Ok(Some(mask.view(&seen)))
    }
}

fn linear<'a>(call: &Call<'a>, input: Tensor<'a>, weight: Tensor<'a>, bias: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
    call.operator(&callees::LINEAR, &[input.into(), weight.into(), bias.into()])
}

/// A [batch, length, heads * size] tensor as [batch, heads, length, size].
fn split_heads(tensor: Tensor<'_>, heads: i64) -> Tensor<'_> {
    let (&[batch, length, width], &[outer, row, step]) = (tensor.sizes(), tensor.strides()) else { unreachable!("checked") };
    let size = width / heads;
    tensor.within(&[batch, heads, length, size], &[outer, size * step, row, step])
}

/// The inverse of [`split_heads`], contiguous.
fn join_heads<'a>(call: &Call<'a>, tensor: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
    let (&[batch, heads, length, size], &[outer, head, row, step]) = (tensor.sizes(), tensor.strides()) else {
        unreachable!("attention has four dimensions")
    };
    let rows = tensor.within(&[batch, length, heads, size], &[outer, row, head, step]);
    Ok(call.dense(rows, Format::Contiguous)?.view(&[batch, length, heads * size]))
}

/// Query, key and value, each [batch, length, width], projected by the thirds of a weight [3 * width, width] and a bias.
fn project<'a>(
    call: &Call<'a>,
    inputs: [Tensor<'a>; 3],
    weight: Tensor<'a>,
    bias: Tensor<'a>,
) -> Result<[Tensor<'a>; 3], CallError> {
    let width = inputs[0].size_from_end(0);
    if inputs[1..].iter().all(|other| other.is_identical(inputs[0])) {
        let all = linear(call, inputs[0], weight, bias)?;
        return Ok([0, 1, 2].map(|third| all.section(2, third * width, width)));
    }
    let third = |of: Tensor<'a>, index: usize| of.section(0, index as i64 * width, width);
    let mut projected = inputs;
    for (index, place) in projected.iter_mut().enumerate() {
        *place = linear(call, *place, third(weight, index), third(bias, index))?;
    }
    Ok(projected)
}

/// Attention of [batch, heads, length, size] tensors with its weights [batch, heads, length, length].
fn attend<'a>(call: &Call<'a>, [query, key, value]: [Tensor<'a>; 3], mask: &Mask<'a>) -> Result<[Tensor<'a>; 2], CallError> {
    let scale = 1.0 / (query.size_from_end(0) as f64).sqrt();
    let scaled = call.operator(&callees::MUL_NUMBER, &[query.into(), scale.into()])?;
    let keys = call.operator(&callees::TRANSPOSE, &[key.into(), 2.into(), 3.into()])?;
    let scores = call.operator(&callees::MATMUL, &[scaled.into(), keys.into()])?;
    if let Some(mask) = mask.over(call, scores)? {
        let refused = Value::Number(Scalar::Double(f64::NEG_INFINITY));
        call.operator(&callees::MASKED_FILL_NUMBER, &[scores.into(), mask.into(), refused])?;
    }
    let weights = call.operator(&callees::SOFTMAX, &[scores.into(), 3.into(), false.into()])?;
    Ok([call.operator(&callees::MATMUL, &[weights.into(), value.into()])?, weights])
}

/// The weights and biases of the projections of attention.
#[derive(Clone, Copy)]
struct Projections<'a> {
    into: [Tensor<'a>; 2],
    out: [Tensor<'a>; 2],
    heads: i64,
}

impl<'a> Projections<'a> {
    /// Checks what PyTorch's kernel checks, and returns the result and, if they were made, the attention weights.
    fn attention(
        &self,
        call: &Call<'a>,
        inputs: [Tensor<'a>; 3],
        mask: &Mask<'a>,
        needs_weights: bool,
    ) -> Result<(Tensor<'a>, Option<Tensor<'a>>), CallError> {
        ensure!(inputs[0].ndim() == 3 && inputs.iter().all(|input| input.sizes() == inputs[0].sizes()));
        let ([weight, bias], width) = (self.into, inputs[0].size_from_end(0));
        ensure!(self.heads > 0 && width % self.heads == 0);
        ensure!(weight.sizes() == [3 * width, width] && bias.sizes() == [3 * width]);
        take_if(self.out[0].sizes() == [width, width] && self.out[1].sizes() == [width])?;
        if inputs[0].numel() == 0 {
            return Ok((call.empty(inputs[0].sizes(), inputs[0].dtype())?, None));
        }
        let heads = project(call, inputs, weight, bias)?.map(|projected| split_heads(projected, self.heads));
        let (attended, weights) = if needs_weights || mask.tensor.is_some() {
            let [attended, weights] = attend(call, heads, mask)?;
            (attended, Some(weights).filter(|_| needs_weights))
        } else {
            let [query, key, value] = heads.map(Value::Tensor);
            let options = [0.0.into(), false.into(), Value::None, Value::None]; // dropout, causal, mask, scale
            (call.operators(&callees::ATTENTION, &[&[query, key, value], &options[..]].concat(), 2)?[0], None)
        };
        Ok((linear(call, join_heads(call, attended)?, self.out[0], self.out[1])?, weights))
    }
}

/// `_native_multi_head_attention`.
pub fn multi_head_attention<'a>(arguments: &Arguments<'a>, call: &Call<'a>) -> Outcome {
    let [query, key, value, width, heads, rest @ ..] = arguments.all::<13>()?;
    let [weight, bias, out_weight, out_bias, mask, needs_weights, averages, kind] = rest;
    let inputs = [query.tensor()?, key.tensor()?, value.tensor()?];
    take_if(FLOATING.contains(inputs[0].dtype()))?;
    ensure!(width.get::<i64>()? == inputs[0].size_from_end(0));
    let projections = Projections {
        into: [weight.tensor()?, bias.tensor()?],
        out: [out_weight.tensor()?, out_bias.tensor()?],
        heads: heads.get()?,
    };
    let mask = Mask { tensor: mask.get()?, kind: kind.get()? };
    let (result, weights) = projections.attention(call, inputs, &mask, needs_weights.get()?)?;
    call.give(0, result)?;
    let Some(weights) = weights else { return Ok(()) };
    if !averages.get::<bool>()? {
        return call.give(1, weights);
    }
    let sum = call.operator(&callees::SUM, &[weights.into(), Value::Integers(&[1]), false.into(), Value::None])?;
    call.operator(&callees::DIV_NUMBER_IN_PLACE, &[sum.into(), (projections.heads as f64).into()])?;
    call.give(1, sum)
}

/// `_transformer_encoder_layer_fwd`: attention and a network of two linear layers, each with a residual connection and a
/// layer norm before (`norm_first`) or after it.
pub fn encoder_layer<'a>(arguments: &Arguments<'a>, call: &Call<'a>) -> Outcome {
    let [source, width, heads, attention @ .., mask, kind] = arguments.all::<20>()?;
    let [weight, bias, out_weight, out_bias, uses_gelu, norm_first, epsilon, rest @ ..] = attention;
    let [norm_weight, norm_bias, second_norm_weight, second_norm_bias, up_weight, up_bias, down_weight, down_bias] = rest;
    let source = source.tensor()?;
    take_if(FLOATING.contains(source.dtype()))?;
    if source.numel() == 0 {
        return call.give(0, call.operator(&callees::CLONE, &[source.into(), Value::None])?);
    }
    ensure!(source.ndim() == 3 && width.get::<i64>()? == source.size_from_end(0));
    let projections = Projections {
        into: [weight.tensor()?, bias.tensor()?],
        out: [out_weight.tensor()?, out_bias.tensor()?],
        heads: heads.get()?,
    };
    let mask = Mask { tensor: mask.get()?, kind: kind.get()? };
    let norm_first = norm_first.get::<bool>()?;
    let norm_if = |wanted: bool, input: Tensor<'a>, weight: &Value<'a>, bias: &Value<'a>| {
        let sizes = Value::Integers(&[width.get()?]);
        if wanted {
            call.operator(&callees::LAYER_NORM, &[input.into(), sizes, *weight, *bias, *epsilon, true.into()])
        } else {
            Ok(input)
        }
    };
    let add = |sum: Tensor<'a>, other: Tensor<'a>| call.operator(&callees::ADD_IN_PLACE, &[sum.into(), other.into(), 1.into()]);

    let input = norm_if(norm_first, source, norm_weight, norm_bias)?;
    let (attended, _) = projections.attention(call, [input; 3], &mask, false)?;
    let middle = norm_if(!norm_first, add(attended, source)?, norm_weight, norm_bias)?;
    let input = norm_if(norm_first, middle, second_norm_weight, second_norm_bias)?;
    let inner = linear(call, input, up_weight.tensor()?, up_bias.tensor()?)?;
    let inner = if uses_gelu.get()? {
        call.operator(&callees::GELU_IN_PLACE, &[inner.into(), Value::Text("none")])?
    } else {
        call.operator(&callees::RELU_IN_PLACE, &[inner.into()])?
    };
    let outer = linear(call, inner, down_weight.tensor()?, down_bias.tensor()?)?;
    call.give(0, norm_if(!norm_first, add(outer, middle)?, second_norm_weight, second_norm_bias)?)
}
