//! Reflection and replication padding, and their gradients.
//!
//! A padded dimension is a map from output indices to input indices. Gradients are gathered: an input element adds the gradients of
//! the output elements that repeat it, in index order, so that the sum does not depend on the number of threads.

use crate::tensor::loops::row::is_line;
use crate::tensor::prelude::*;
use crate::tuning::sharing::GRAIN;

signature! {
    /// `aten::reflection_padNd`: the input mirrored beyond its edges. Operands [out, input] of one dtype; scalars [padding before
    /// the last dimension, before the last but one, ...].
    reflection_pad(out; input)[last, ..others] in ANY => |launch| pad(launch, reflect);
    /// `aten::replication_padNd`: the input's edges repeated. Operands and scalars as for [`reflection_pad`].
    replication_pad(out; input)[last, ..others] in ANY => |launch| pad(launch, replicate);
    /// `aten::reflection_padNd_backward`. Operands [input's gradient, output's gradient]; scalars as for [`reflection_pad`].
    reflection_pad_backward(out; grad)[last, ..others] in FIELD => |launch| pad_backward(launch, reflect);
    /// `aten::replication_padNd_backward`. Operands and scalars as for [`reflection_pad_backward`].
    replication_pad_backward(out; grad)[last, ..others] in FIELD => |launch| pad_backward(launch, replicate);
}

/// The maximum number of dimensions; PyTorch pads three, beside those of samples and channels.
const DIMS: usize = 8;
/// Nanoseconds of one thread per element of a gradient.
const GRADIENT_COST: f64 = 1.5;

/// Maps an index that may lie outside `size` elements to one inside.
type Rule = fn(i64, i64) -> i64;

fn reflect(position: i64, size: i64) -> i64 {
    let position = position.abs();
    if position < size { position } else { 2 * (size - 1) - position }
}

fn replicate(position: i64, size: i64) -> i64 {
    position.clamp(0, size - 1)
}

/// For each dimension, the input index of every output index.
struct Maps {
    maps: Vec<Vec<usize>>,
    /// The range of indices of each output dimension that are not padding.
    middles: Vec<(usize, usize)>,
}

impl Maps {
    fn new(launch: &Launch<'_>, padded: View<'_>, inner: View<'_>, rule: Rule) -> Result<Self, Error> {
        let ndim = inner.ndim();
        if padded.ndim() != ndim || !(1..=DIMS).contains(&ndim) || padded.dtype() != inner.dtype() {
            return Err(Error::new(format!("{:?} from {:?}", padded.sizes(), inner.sizes())));
        }
        let (mut maps, mut middles) = (Vec::with_capacity(ndim), Vec::with_capacity(ndim));
        for dim in 0..ndim {
            let before = launch.scalar_or(ndim - 1 - dim, Scalar::Long(0)).to::<i64>();
            let (size, end) = (inner.sizes()[dim], padded.sizes()[dim]);
            middles.push((before.clamp(0, end) as usize, (before + size).clamp(0, end) as usize));
            let positions = (0..end).map(|position| rule(position - before, size));
            let map: Option<Vec<usize>> =
                positions.map(|position| usize::try_from(position).ok().filter(|&position| position < size as usize)).collect();
            maps.push(map.ok_or_else(|| Error::new(format!("padding of {before} before {size} elements")))?);
        }
        Ok(Self { maps, middles })
    }
}

fn pad(launch: &Launch<'_>, rule: Rule) -> Result<(), Error> {
    let reflection_pad::Operands { out: output, input } = reflection_pad::Operands::of(launch)?;
    if output.numel() == 0 {
        return Ok(());
    }
    let maps = Maps::new(launch, *output, input, rule)?;
    match output.dtype().size() {
        1 => pad_rows::<u8>(output, input, &maps),
        2 => pad_rows::<u16>(output, input, &maps),
        4 => pad_rows::<u32>(output, input, &maps),
        8 => pad_rows::<u64>(output, input, &maps),
        _ => pad_rows::<Complex64>(output, input, &maps),
    }
}

/// Pads rows of elements of `T`'s size; or whole planes of rows, if they are small and contiguous in both operands.
fn pad_rows<T: Element>(output: Output<'_>, input: View<'_>, Maps { maps, middles }: &Maps) -> Result<(), Error> {
    let (last, above) = maps.split_last().ok_or_else(|| Error::new("no dimensions"))?;
    let (begin, end) = middles[above.len()];
    let edges: Vec<(usize, usize)> = (0..begin).chain(end.max(begin)..last.len()).map(|at| (at, last[at])).collect();
    let pad_edges = |row: &mut [T], from: &[T]| {
        for &(at, source) in &edges {
            row[at] = from[source];
        }
    };
    let pad_row = |row: &mut [T], from: &[T]| {
        if begin < end {
            row[begin..end].copy_from_slice(&from[last[begin]..][..end - begin]);
        }
        pad_edges(row, from);
    };
    let plane = above.len().saturating_sub(1);
    let is_small = above.last().is_some_and(|map| map.len() * last.len() <= GRAIN);
    let is_whole = [*output, input].iter().all(|view| is_line(view, plane));
    let outer = if is_small && is_whole { plane } else { above.len() };
    let (padded, width) = (last.len(), *input.sizes().last().ok_or_else(|| Error::new("no dimensions"))? as usize);
    let cost = 0.05 * output.dtype().size() as f64;
    rows::for_each_line(output, outer, cost, &|index, mut lines| {
        let mut source = [0; DIMS];
        for ((source, map), &at) in source.iter_mut().zip(above).zip(index) {
            *source = map[at];
        }
        let from = Row::of(&input, &source[..outer]);
        let middle = above.get(outer).map(|map| (map, middles[outer])).filter(|&(_, (top, bottom))| top < bottom && begin < end);
        if let Some((map, (top, bottom))) = middle {
            let (to, source) = ((top * padded + begin, padded), (map[top] * width + last[begin], width));
            lines.copy_lines(to, &from, source, (end - begin, bottom - top));
        }
        match (lines.as_slice_mut::<T>().zip(from.as_slice::<T>()), above.get(outer)) {
            (Some((plane, from)), Some(map)) => {
                let (top, bottom) = middle.map_or((0, 0), |(_, middle)| middle);
                for (row, &source) in plane.chunks_exact_mut(padded).zip(map).take(bottom).skip(top) {
                    pad_edges(row, &from[source * width..][..width]);
                }
                for row in (0..top).chain(bottom..map.len()) {
                    // Most rows of padding repeat a row of the middle, which is complete.
                    match (top..bottom).nth(map[row].wrapping_sub(map[top])) {
                        Some(same) => plane.copy_within(same * padded..(same + 1) * padded, row * padded),
                        None => pad_row(&mut plane[row * padded..][..padded], &from[map[row] * width..][..width]),
                    }
                }
            }
            (Some((row, from)), None) => pad_row(row, from),
            (None, Some(map)) => {
                let positions = map.iter().flat_map(|&source| last.iter().map(move |&at| source * width + at));
                positions.enumerate().for_each(|(at, source)| lines.store(at, from.load::<T>(source)));
            }
            (None, None) => last.iter().enumerate().for_each(|(at, &source)| lines.store(at, from.load::<T>(source))),
        }
    });
    Ok(())
}

/// For each input index of a dimension, the output indices that repeat it, in ascending order.
fn shown(map: &[usize], size: usize) -> Vec<Vec<usize>> {
    let mut positions = vec![Vec::new(); size];
    for (position, &at) in map.iter().enumerate() {
        positions[at].push(position);
    }
    positions
}

fn pad_backward(launch: &Launch<'_>, rule: Rule) -> Result<(), Error> {
    let reflection_pad_backward::Operands { out: output, grad } = reflection_pad_backward::Operands::of(launch)?;
    if output.numel() == 0 {
        return Ok(());
    }
    let Maps { maps, .. } = Maps::new(launch, grad, *output, rule)?;
    let (last, outer) = maps.split_last().ok_or_else(|| Error::new("no dimensions"))?;
    let shown: Vec<Vec<Vec<usize>>> = outer.iter().enumerate().map(|(dim, map)| shown(map, output.size(dim))).collect();
    let (dtype, cols) = (output.dtype(), output.size(outer.len()));
    dispatch!(dtype in FIELD, T => {
        rows::for_each(output, GRADIENT_COST, &|index, mut row| {
            let mut sums = vec![<T as Element>::Acc::ZERO; cols];
            for_each_source(&shown, index, &mut |source| {
                let from = Row::of(&grad, source);
                for (at, &position) in last.iter().enumerate() {
                    sums[position] = sums[position].add(from.load::<T>(at).load());
                }
            });
            sums.into_iter().enumerate().for_each(|(at, sum)| row.store(at, T::store(sum)));
        });
        Ok(())
    })
}

/// Calls `visit` with every combination of the output indices that repeat `index` in each dimension, the last dimension fastest.
fn for_each_source(shown: &[Vec<Vec<usize>>], index: &[usize], visit: &mut dyn FnMut(&[usize])) {
    let ndim = index.len();
    let lists = |dim: usize| &shown[dim][index[dim]];
    if (0..ndim).any(|dim| lists(dim).is_empty()) {
        return;
    }
    let (mut turns, mut source) = ([0; DIMS], [0; DIMS]);
    loop {
        (0..ndim).for_each(|dim| source[dim] = lists(dim)[turns[dim]]);
        visit(&source[..ndim]);
        let Some(dim) = (0..ndim).rev().find(|&dim| turns[dim] + 1 < lists(dim).len()) else {
            return;
        };
        turns[dim] += 1;
        turns[dim + 1..ndim].fill(0);
    }
}
