//! Footprints: the bytes that an access touches, precise enough to distinguish accesses that interleave without a common byte.
//!
//! A strided tensor touches stripes: ranges of equal width at a regular distance. Each of its dimensions gives one set of stripes,
//! which may cover more bytes than the tensor. Two accesses have no byte in common if any two of their sets have none.

use std::sync::Arc;

use crate::runtime::task::Shape;

/// Ranges of `width` bytes at every address that equals `phase` modulo `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    period: usize,
    phase: usize,
    width: usize,
}

/// The bytes between `begin` and `end` that lie in every set of stripes; all bytes if there are no sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    pub begin: usize,
    /// Exclusive.
    pub end: usize,
    stripes: Option<Arc<[Stripes]>>,
}

impl Footprint {
    /// All bytes from `begin` to `end`.
    pub fn dense(begin: usize, end: usize) -> Self {
        Self { begin, end, stripes: None }
    }

    /// The bytes of a tensor from `begin` to `end`.
    pub fn new(begin: usize, end: usize, shape: Option<&Shape<'_>>) -> Self {
        let stripes = shape.map(stripes).filter(|stripes| !stripes.is_empty()).map(Arc::from);
        Self { begin, end, stripes }
    }

    /// True if it covers all bytes from begin to end.
    pub fn is_dense(&self) -> bool {
        self.stripes.is_none()
    }

    /// True if the two have the same stripes.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.stripes == other.stripes
    }

    /// True if the two may have a byte in common.
    pub fn meets(&self, other: &Self) -> bool {
        let (begin, end) = (self.begin.max(other.begin), self.end.min(other.end));
        if begin >= end {
            return false;
        }
        let (first, second) = (self.stripes.as_deref().unwrap_or_default(), other.stripes.as_deref().unwrap_or_default());
        let range = |period: usize| Stripes { period, phase: begin % period, width: (end - begin).min(period) };
        let misses_range = |one: &Stripes| one.is_apart(range(one.period));
        let misses_second = |one: &Stripes| second.iter().any(|other| other.period == one.period && one.is_apart(*other));
        !first.iter().chain(second).any(misses_range) && !first.iter().any(misses_second)
    }
}

impl Stripes {
    /// True if the two, which must have the same period, have no byte in common.
    fn is_apart(&self, other: Self) -> bool {
        let ahead = (other.phase + self.period - self.phase) % self.period;
        ahead >= self.width && ahead + other.width <= self.period
    }
}

/// The stripes of a tensor, one set for each dimension whose stride leaves gaps; none if a stride is negative.
fn stripes(shape: &Shape<'_>) -> Vec<Stripes> {
    let mut dims: Vec<(usize, usize)> = Vec::new();
    for (&size, &stride) in shape.sizes.iter().zip(shape.strides) {
        match usize::try_from(stride) {
            Ok(stride) if size > 1 && stride > 0 => dims.push((stride, size as usize)),
            Ok(_) => {}
            Err(_) => return Vec::new(),
        }
    }
    dims.sort_unstable();
    let (mut width, mut found) = (shape.item, Vec::new());
    for (stride, size) in dims {
        if stride > width {
            found.push(Stripes { period: stride, phase: shape.begin % stride, width });
        }
        width += (size - 1) * stride;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(begin: usize, sizes: &[i64], strides: &[i64]) -> Footprint {
        let reach: i64 = sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum();
        let shape = Shape { dtype: "float32", item: 4, begin, sizes, strides };
        Footprint::new(begin, begin + reach as usize + 4, Some(&shape))
    }

    #[test]
    fn contiguous_memory_is_dense() {
        assert!(of(4096, &[3, 5], &[20, 4]).is_dense());
        assert!(of(4096, &[5, 3], &[4, 20]).is_dense(), "transposed");
        assert!(!of(4096, &[3, 4], &[20, 4]).is_dense());
    }

    #[test]
    fn columns_meet_only_where_they_are_the_same() {
        let (left, right) = (of(4096, &[10, 2], &[40, 4]), of(4096 + 8, &[10, 8], &[40, 4]));
        assert!(!left.meets(&right) && !right.meets(&left));
        assert!(left.meets(&of(4096 + 4, &[10, 2], &[40, 4])));
        assert!(left.meets(&Footprint::dense(4096, 4096 + 400)));
        assert!(!left.meets(&Footprint::dense(4096 + 48, 4096 + 80)), "the rest of one row");
        assert!(left.meets(&Footprint::dense(4096 + 79, 4096 + 81)));
    }

    #[test]
    fn blocks_of_a_matrix_of_three_dimensions_are_apart() {
        // x[:, 2:4, :3] and x[:, 4:6, :3] of a tensor of (8, 10, 5).
        let (first, second) = (of(4096 + 40, &[8, 2, 3], &[200, 20, 4]), of(4096 + 80, &[8, 2, 3], &[200, 20, 4]));
        assert!(!first.meets(&second) && !second.meets(&first));
        assert!(first.meets(&of(4096 + 60, &[8, 2, 3], &[200, 20, 4])));
    }

    #[test]
    fn every_second_element_misses_the_others() {
        let (even, odd) = (of(4096, &[50], &[8]), of(4100, &[50], &[8]));
        assert!(!even.meets(&odd));
        assert!(even.meets(&even));
    }
}
