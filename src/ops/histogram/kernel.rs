//! Histograms. The counts of fixed blocks of values are added in `f64` and in the order of the blocks.

use crate::tensor::loops::block_results;
use crate::tensor::prelude::*;
use crate::tuning::sharing::{GRAIN, MAX_HISTOGRAM_BLOCKS};

signature! {
    /// `aten::histogram` and `aten::histc`. Operands [counts (bins), x, edges (bins + 1), weight?], x and weight of equally many
    /// elements; scalars [method: 0 for search, 1 for even bins, 2 for even bins by their edges].
    histogram(counts; x, edges, weight?)[method] in FLOATING => |launch, E| run::<<E as Element>::Acc>(launch);
}

/// Nanoseconds of one thread per value.
const COST: f64 = 4.0;

/// How the bin of a value is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    /// By a binary search, for edges at any distances.
    Search,
    /// By its distance from the first of evenly spaced edges.
    Linear,
    /// As `Linear`, corrected by a comparison with the adjacent edges.
    Corrected,
}

/// The edges of the bins. The last bin includes its upper edge.
struct Bins<T> {
    edges: Vec<T>,
    method: Method,
}

impl<T: Real> Bins<T> {
    /// The last edge of `begin..end` that is not greater than a value.
    fn search(&self, begin: usize, end: usize, value: T) -> usize {
        (begin + self.edges[begin..end].partition_point(|&edge| edge <= value)).saturating_sub(1)
    }

    fn of(&self, value: T) -> Option<usize> {
        let count = self.edges.len() - 1;
        let (first, last) = (self.edges[0], self.edges[count]);
        if !(value >= first && value <= last) {
            return None;
        }
        let linear = || {
            let position = value.sub(first).mul(T::from_i64(count as i64)).div(last.sub(first)).trunc();
            (position.hub().to::<i64>().max(0) as usize).min(count)
        };
        let position = match self.method {
            Method::Search => self.search(0, count + 1, value),
            Method::Linear => linear(),
            Method::Corrected => {
                let near = linear();
                self.search(near.saturating_sub(1), (near + 2).min(count + 1), value)
            }
        };
        Some(position.min(count - 1))
    }
}

/// Nanoseconds of a launch of [`histogram`].
pub fn cost(launch: &Launch<'_>) -> u64 {
    (launch.numel(1) as f64 * COST) as u64
}

fn run<T: Element + Real>(launch: &Launch<'_>) -> Result<(), Error> {
    let histogram::Operands { counts, x, edges, weight } = histogram::Operands::of(launch)?;
    let mut output = ValuesMut::<f64>::new(counts)?;
    let (values, edges) = (Values::<T>::new(x)?, Values::<T>::new(edges)?.to_vec());
    let weights = weight.map(Values::<f64>::new).transpose()?;
    let histogram::Scalars { method } = histogram::Scalars::of(launch)?;
    let method = match method.to::<i64>() {
        0 => Method::Search,
        1 => Method::Linear,
        _ => Method::Corrected,
    };
    if output.is_empty() || edges.len() != output.len() + 1 {
        return Err(Error::new(format!("{} edges of {} bins", edges.len(), output.len())));
    }
    let bins = Bins { edges, method };
    let height = GRAIN.max(values.len().div_ceil(MAX_HISTOGRAM_BLOCKS)).max(output.len());
    let count = output.len();
    let blocks = block_results(values.len().div_ceil(height), COST * height as f64, &|block| {
        let mut counts = vec![0.0; count];
        for position in block * height..((block + 1) * height).min(values.len()) {
            if let Some(bin) = bins.of(values.get(position)) {
                counts[bin] += weights.as_ref().map_or(1.0, |weights| weights.get(position));
            }
        }
        counts
    });
    let mut totals = vec![0.0; count];
    for counts in blocks {
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    totals.into_iter().enumerate().for_each(|(bin, total)| output.set(bin, total));
    Ok(())
}
