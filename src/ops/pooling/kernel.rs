//! Maximum pooling of planes, and its gradient.
//!
//! Operands are planes of one channel each, or samples in channels-last layout: (N, H * W * C), where C is 1 for planes. The
//! elements of a window are compared row by row: the first of equal maxima wins; if there are NaN, the last NaN wins. Indices count
//! the elements of a plane.

use crate::ops::movement::kernel::unfold::Windows;
use crate::tensor::loops::reduction::fold::Fold;
use crate::tensor::loops::reduction::minmax_fold::MinMax;
use crate::tensor::loops::row;
use crate::tensor::prelude::*;
use crate::tuning::algorithms::POOLED_IN_LANES;
use crate::tuning::sharing::GRAIN;

signature! {
    max_pool2d(out, positions; x)[kernel_height, kernel_width, dilation_height, dilation_width, padding_height, padding_width, stride_height, stride_width, windows_height, windows_width, height, width, channels] in REAL;
    max_pool2d_backward(grad_x; grad, positions)[channels] in REAL;
}

/// Windows that are computed in vector lanes together.
const LANES: usize = 64;

/// The maxima so far, one for each lane, and their positions.
struct Best<T> {
    values: [T; LANES],
    positions: [i32; LANES],
}

impl<T: Ordered> Best<T> {
    /// Compares every `STEP`-th element with lanes `first..first + count`. The first element is at `position`.
    #[inline(always)]
    fn every<E: Element<Acc = T>, const STEP: usize>(&mut self, first: usize, count: usize, values: &[E], position: i32) {
        let (chunks, rest) = values.as_chunks::<STEP>();
        let lanes = self.values[first..first + count].iter_mut().zip(&mut self.positions[first..first + count]);
        let elements = chunks.iter().map(|chunk| &chunk[0]);
        for (index, (best, value)) in lanes.zip(elements).enumerate() {
            look(best, value.load(), position + (index * STEP) as i32);
        }
        if let (true, Some(value)) = (chunks.len() < count, rest.first()) {
            let (last, at) = (first + count - 1, position + ((count - 1) * STEP) as i32);
            look((&mut self.values[last], &mut self.positions[last]), value.load(), at);
        }
    }

    /// [`Best::every`] for any step.
    #[inline(always)]
    fn each<E: Element<Acc = T>>(&mut self, first: usize, count: usize, values: &[E], step: usize, position: i32) {
        match step {
            1 => self.every::<E, 1>(first, count, values, position),
            2 => self.every::<E, 2>(first, count, values, position),
            _ => {
                let lanes = self.values[first..first + count].iter_mut().zip(&mut self.positions[first..first + count]);
                for (index, (best, value)) in lanes.zip(values.iter().step_by(step)).enumerate() {
                    look(best, value.load(), position + (index * step) as i32);
                }
            }
        }
    }

    /// Compares one element with each of the first lanes. All elements are at `position`.
    #[inline(always)]
    fn all<E: Element<Acc = T>>(&mut self, values: &[E], position: i32) {
        for (best, value) in self.values.iter_mut().zip(&mut self.positions).zip(values) {
            look(best, value.load(), position);
        }
    }
}

#[inline(always)]
fn look<T: Ordered>((best, at): (&mut T, &mut i32), value: T, position: i32) {
    let better = (value > *best) | value.is_nan();
    *best = MinMax::<true>.merge(value, *best);
    // Positions come in ascending order. Both updates are arithmetic maxima: for a conditional assignment the compiler would
    // generate a masked store (AVX2), and the next load would have to wait for it.
    *at = (*at).max(if better { position } else { 0 });
}

#[derive(Clone, Copy)]
struct Shape {
    /// Windows along height and width.
    axes: [Windows; 2],
    sizes: [usize; 2],
    channels: usize,
}

impl Shape {
    fn of(launch: &Launch<'_>) -> Result<Self, Error> {
        let max_pool2d::Scalars { height, width, channels, .. } = max_pool2d::Scalars::of(launch)?;
        let [height, width, channels] = [height, width, channels].map(|number| number.to::<i64>() as usize);
        Ok(Self { axes: Windows::both(launch)?, sizes: [height, width], channels })
    }

    /// The first element inside the image that a window covers.
    #[inline(always)]
    fn first(&self, axis: usize, window: usize) -> usize {
        let windows = &self.axes[axis];
        let taps = windows.padding.saturating_sub(window * windows.stride).div_ceil(windows.dilation.max(1));
        (window * windows.stride + taps * windows.dilation).saturating_sub(windows.padding)
    }
}

/// The elements inside the image that a window covers along an axis.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    /// The number of elements; their distance is the dilation.
    count: usize,
}

impl Shape {
    fn spans(&self, axis: usize) -> Vec<Span> {
        let windows = &self.axes[axis];
        let inside = |window| (0..windows.kernel).filter(move |&tap| windows.element(window, tap, self.sizes[axis]).is_some());
        (0..windows.count).map(|window| Span { first: self.first(axis, window), count: inside(window).count() }).collect()
    }
}

leaf! {
    /// Computes rows of windows, of adjacent planes or samples, from row number `first` on.
    fn pool_lines<E: Element<Acc: Ordered>>(
        shape: Shape,
        spans: [&[Span]; 2],
        first: usize,
        input: &[E],
        output: &mut [E],
        positions: &mut [i64],
    ) {
        let ([rows, spans], shape) = (spans, &shape);
        let (elements, len) = (shape.sizes[0] * shape.sizes[1] * shape.channels, spans.len() * shape.channels);
        let (mut plane, mut row) = (first / rows.len(), first % rows.len());
        for (output, positions) in output.chunks_exact_mut(len).zip(positions.chunks_exact_mut(len)) {
            let input = &input[plane * elements..(plane + 1) * elements];
            let mut line = Line { shape, top: rows[row], spans, input, output, positions };
            match shape.channels {
                1 if len < POOLED_IN_LANES => line.few(),
                1 => line.plane(),
                _ => line.sample(),
            }
            row += 1;
            if row == rows.len() {
                (plane, row) = (plane + 1, 0);
            }
        }
    }
}

/// A row of windows of a plane or sample.
struct Line<'a, E> {
    shape: &'a Shape,
    top: Span,
    spans: &'a [Span],
    input: &'a [E],
    output: &'a mut [E],
    positions: &'a mut [i64],
}

impl<E: Element<Acc: Ordered>> Line<'_, E> {
    /// The rows of elements that the windows cover.
    #[inline(always)]
    fn rows(&self) -> impl Iterator<Item = usize> + use<E> {
        let (first, dilation) = (self.top.first, self.shape.axes[0].dilation);
        (0..self.top.count).map(move |tap| first + tap * dilation)
    }

    #[inline(always)]
    fn store(&mut self, begin: usize, count: usize, best: &Best<E::Acc>) {
        let results = best.values.iter().zip(&best.positions).take(count);
        let targets = self.output[begin..begin + count].iter_mut().zip(&mut self.positions[begin..begin + count]);
        for ((output, position), (&value, &at)) in targets.zip(results) {
            *output = E::store(value);
            *position = i64::from(at);
        }
    }

    /// Computes one window after the other.
    #[inline(always)]
    fn few(&mut self) {
        let (dilation, width) = (self.shape.axes[1].dilation, self.shape.sizes[1]);
        for (window, span) in self.spans.iter().enumerate() {
            let (mut best, mut at) = (E::Acc::LOWEST, (self.top.first * width + span.first) as i32);
            for y in self.rows() {
                for tap in 0..span.count {
                    let position = y * width + span.first + tap * dilation;
                    look((&mut best, &mut at), self.input[position].load(), position as i32);
                }
            }
            self.output[window] = E::store(best);
            self.positions[window] = i64::from(at);
        }
    }

    /// Computes a plane: lanes are adjacent windows.
    #[inline(always)]
    fn plane(&mut self) {
        let (windows, width) = (self.shape.axes[1], self.shape.sizes[1]);
        for begin in (0..windows.count).step_by(LANES) {
            let end = windows.count.min(begin + LANES);
            let mut best = Best { values: [E::Acc::LOWEST; LANES], positions: [0; LANES] };
            for (position, span) in best.positions.iter_mut().zip(&self.spans[begin..end]) {
                *position = (self.top.first * width + span.first) as i32;
            }
            for y in self.rows() {
                for tap in 0..windows.kernel {
                    let (low, high) = windows.inside(tap, width);
                    let (low, high) = (low.max(begin), high.min(end));
                    if let (true, Some(x)) = (low < high, windows.element(low, tap, width)) {
                        let first = y * width + x;
                        let seen = &self.input[first..=first + (high - low - 1) * windows.stride];
                        best.each(low - begin, high - low, seen, windows.stride, first as i32);
                    }
                }
            }
            self.store(begin, end - begin, &best);
        }
    }

    /// Computes a sample in channels-last layout: lanes are adjacent channels.
    #[inline(always)]
    fn sample(&mut self) {
        let (dilation, width, channels) = (self.shape.axes[1].dilation, self.shape.sizes[1], self.shape.channels);
        for (window, span) in self.spans.iter().enumerate() {
            let first = (self.top.first * width + span.first) as i32;
            for begin in (0..channels).step_by(LANES) {
                let count = LANES.min(channels - begin);
                let mut best = Best { values: [E::Acc::LOWEST; LANES], positions: [first; LANES] };
                for y in self.rows() {
                    for x in (0..span.count).map(|tap| span.first + tap * dilation) {
                        let at = (y * width + x) * channels + begin;
                        let (seen, position) = (&self.input[at..at + count], (y * width + x) as i32);
                        // The constant number of lanes lets the compiler unroll the loop; the other arm is for the last channels.
                        match <&[E; LANES]>::try_from(seen) {
                            Ok(seen) => best.all(seen, position),
                            Err(_) => best.all(seen, position),
                        }
                    }
                }
                self.store(window * channels + begin, count, &best);
            }
        }
    }
}

/// `aten::max_pool2d_with_indices`. Operands [out, positions (Long), x], out and positions of sizes (N, rows, windows * C), x
/// (N, H * W * C); scalars [kernel, dilation, padding, stride, windows, size, each height and width, C].
pub fn max_pool2d(launch: &Launch<'_>) -> Result<(), Error> {
    let (max_pool2d::Operands { out: output, positions, x: input }, shape) =
        (max_pool2d::Operands::of(launch)?, Shape::of(launch)?);
    let len = output.size(2);
    let (spans, elements) = ([shape.spans(0), shape.spans(1)], shape.sizes[0] * shape.sizes[1] * shape.channels);
    if output.size(1) != spans[0].len() || len != spans[1].len() * shape.channels || input.numel() != output.size(0) * elements {
        return Err(Error::new(format!("windows {:?} of {:?}", output.sizes(), input.sizes())));
    }
    let (targets, input) = ([output.into_flat()?, positions.into_flat()?], Row::flat(&input)?);
    let dtype = launch.compute();
    let failure = Failure::default();
    dispatch!(dtype in REAL, E => {
        row::in_parts(targets, len, GRAIN.div_ceil(len.max(1)), launch.cost() * len as f64, &|first, _, [output, positions]| {
            let parts = (input.as_slice::<E>(), output.into_slice::<E>(), positions.into_slice::<i64>());
            let (Some(input), Some(output), Some(positions)) = parts else {
                return failure.note(Err(Error::new("pooling needs operands of other dtypes")));
            };
            pool_lines(shape, spans.each_ref().map(Vec::as_slice), first, input, output, positions);
        });
        Ok::<(), Error>(())
    })?;
    failure.result()
}

/// Adds a value to an element; `None` if there is no element.
#[inline(always)]
fn add<E: Element<Acc: Number>>(element: Option<&mut E>, value: E::Acc) -> Option<()> {
    let element = element?;
    *element = E::store(element.load().add(value));
    Some(())
}

/// Calls `visit` with the index of an element and each gradient that belongs to it, until `visit` returns `None`.
#[inline(always)]
fn scatter<E: Element>(
    grads: &[E],
    positions: &[i64],
    channels: usize,
    mut visit: impl FnMut(usize, E) -> Option<()>,
) -> Option<()> {
    if channels == 1 {
        return grads.iter().zip(positions).try_for_each(|(&grad, &position)| visit(position as usize, grad));
    }
    for (grads, positions) in grads.chunks(channels).zip(positions.chunks(channels)) {
        for (channel, (&grad, &position)) in grads.iter().zip(positions).enumerate() {
            visit((position as usize).wrapping_mul(channels).wrapping_add(channel), grad)?;
        }
    }
    Some(())
}

/// `aten::max_pool2d_with_indices_backward`: every element adds up the gradients of the windows of which it is the maximum.
/// Operands [grad of x (N, H * W * C), grad (N, windows * C), positions (N, windows * C)]; scalars [C].
pub fn max_pool2d_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let max_pool2d_backward::Operands { grad_x, grad: grads, positions } = max_pool2d_backward::Operands::of(launch)?;
    let channels = max_pool2d_backward::Scalars::of(launch)?.channels.to::<i64>() as usize;
    let dtype = launch.compute();
    let failure = Failure::default();
    dispatch!(dtype in REAL, E => {
        type T = <E as Element>::Acc;
        rows::for_each(grad_x, launch.cost(), &|index, row| {
            let parts = (Row::of(&grads, index).as_slice::<E>(), Row::of(&positions, index).as_slice::<i64>(), row.into_slice::<E>());
            let (Some(grads), Some(positions), Some(output)) = parts else {
                return failure.note(Err(Error::new("gaps in an operand")));
            };
            let is_inside = if E::DTYPE == T::DTYPE {
                output.fill(E::store(T::ZERO));
                scatter(grads, positions, channels, |at, grad| add(output.get_mut(at), grad.load()))
            } else {
                let mut sums = vec![T::ZERO; output.len()];
                let is_inside = scatter(grads, positions, channels, |at, grad| add(sums.get_mut(at), grad.load()));
                output.iter_mut().zip(sums).for_each(|(output, sum)| *output = E::store(sum));
                is_inside
            };
            if is_inside.is_none() {
                failure.note(Err(Error::new("a position outside the pooled plane")));
            }
        });
        Ok::<(), Error>(())
    })?;
    failure.result()
}
