//! Updates of indexed elements whose computing type is wider than the dtype: 16 bit floats.
//!
//! All updates of an element are folded in the wide type, and the result is rounded once. The updates are sorted by their target
//! address, so that the updates of an element, or of a row, are adjacent. Each element gets its updates in the order of the launch,
//! so that the bits do not depend on the number of threads. The callers (`call::addressing`) cast the whole target instead if
//! many indices name single elements.

use std::marker::PhantomData;

use super::super::buffer::with_zeros;
use super::Indexed;
use super::indexed_update::part_space;
use crate::runtime::parallel_for;
use crate::simd::{Leaf, vectorize};
use crate::tensor::{Element, Error, MAX_DIMS};
use crate::tuning::caches::BLOCK;
use crate::tuning::sharing::FOLDED_COLS;

/// A function of an element's value so far and a new value, both in the wide type. Mark it `#[inline(always)]`.
pub trait Folding<T>: Copy + Send + Sync {
    /// The updated value.
    fn fold(self, old: T, new: T) -> T;
}

/// An update: the addresses of the target element and of the source element.
type Lead = (usize, usize);

impl Indexed<'_> {
    /// Folds the source's elements (or the element in the first bytes of `value`) into the target's elements that the indices name.
    pub fn fold<E: Element, F: Folding<E::Acc>>(&self, value: Option<u128>, function: F) -> Result<(), Error> {
        self.check_update(value, size_of::<E>())?;
        if self.launch.view(0).numel() == 0 { Ok(()) } else { self.fold_sorted::<E, F>(value, function) }
    }

    /// Sorts the updates by target address, and folds those of each element or each row.
    fn fold_sorted<E: Element, F: Folding<E::Acc>>(&self, value: Option<u128>, function: F) -> Result<(), Error> {
        let address = value.as_ref().map(|value| std::ptr::from_ref(value) as usize);
        let leads = self.sorted_leads(address)?;
        let columns = self.columns(address, size_of::<E>());
        let threads = parallel_for::num_threads();
        let groups = leads.chunk_by(|one, next| one.0 == next.0).take(4 * threads).count();
        // If there are few rows, the threads divide the columns.
        let width = if groups < 4 * threads { columns.len.div_ceil(threads).next_multiple_of(64) } else { FOLDED_COLS };
        let strips = columns.len.div_ceil(width);
        let units = strips * columns.lines();
        let shares = units.min(4 * threads);
        let parts = if leads.len() > 1 { (4 * threads).div_ceil(shares) } else { 1 };
        let bound = |part: usize| {
            let mut at = leads.len() * part / parts;
            while at > 0 && at < leads.len() && leads[at - 1].0 == leads[at].0 {
                at += 1;
            }
            at
        };
        let bounds: Vec<usize> = (0..=parts).map(bound).collect();
        parallel_for::parallel_for(parts * shares, self.cost() as u64, &|piece| {
            let (part, share) = (piece / shares, piece % shares);
            let leads = &leads[bounds[part]..bounds[part + 1]];
            for unit in units * share / shares..units * (share + 1) / shares {
                let (line, first) = (columns.line(unit / strips), unit % strips * width);
                let (steps, cols) = (columns.steps, first..columns.len.min(first + width));
                vectorize(Grouped { leads, line, steps, cols, function, element: PhantomData::<E> });
            }
        });
        Ok(())
    }

    /// True if target addresses are irregular or constant along a dimension. False for dimensions that are not indexed, along which
    /// the target has strides.
    fn is_led(&self, dim: usize) -> bool {
        self.launch.view(0).stride(dim) == 0 || !self.is_by_row_along(dim)
    }

    /// The updates sorted by target address, stably, so that updates of one address keep the order of the launch. Covers the
    /// dimensions of [`Self::is_led`] alone.
    fn sorted_leads(&self, value: Option<usize>) -> Result<Vec<Lead>, Error> {
        let all = self.launch.view(0).sizes();
        let sizes: Vec<i64> = all.iter().enumerate().map(|(dim, &size)| if self.is_led(dim) { size } else { 1 }).collect();
        let space = part_space(self.launch, &sizes, None, value).cut_tiles(BLOCK, 1);
        let [to, from] = [0, 1].map(|operand| space.steps(operand));
        let (count, mut leads) = (sizes.iter().product::<i64>() as usize, Vec::<Lead>::new());
        leads.try_reserve_exact(count).map_err(|_| Error::new(format!("no memory for the addresses of {count} updates")))?;
        with_zeros(space.patch_len(), |positions| {
            space.walk(0, space.patches(), &mut |patch| {
                if !self.locate(&space, patch, false, positions) {
                    return;
                }
                for (row, positions) in positions[..patch.len()].chunks_exact(patch.cols).enumerate() {
                    let [mut target, mut source] = [(0, to), (1, from)]
                        .map(|(operand, steps)| (patch.data(operand) as usize).wrapping_add_signed(row as isize * steps.row));
                    for &position in positions {
                        if position >= 0 {
                            leads.push((target.wrapping_add(position as usize), source));
                        }
                        target = target.wrapping_add_signed(to.col);
                        source = source.wrapping_add_signed(from.col);
                    }
                }
            });
        });
        self.failure.result()?;
        leads.sort_by_key(|lead| lead.0);
        Ok(leads)
    }

    /// The dimensions that are not indexed.
    fn columns(&self, value: Option<usize>, size: usize) -> Columns {
        let (target, source) = (self.launch.view(0), self.launch.view(1));
        let steps_of = |dim: usize| [target.stride(dim), if value.is_some() { 0 } else { source.stride(dim) }];
        let mut columns = Columns { len: 1, steps: [0; 2], outer: [(1, [0; 2]); MAX_DIMS], dims: 0 };
        for (dim, &count) in target.sizes().iter().enumerate().filter(|&(dim, &count)| count > 1 && !self.is_led(dim)) {
            let steps = steps_of(dim);
            if columns.len == 1 && steps[0] == size as isize && (steps[1] == steps[0] || steps[1] == 0) {
                (columns.len, columns.steps) = (count as usize, steps);
            } else {
                columns.outer[columns.dims] = (count as usize, steps);
                columns.dims += 1;
            }
        }
        columns
    }
}

/// The dimensions that are not indexed: a line of adjacent elements, and the other dimensions.
struct Columns {
    len: usize,
    /// The steps from one element of a line to the next, in the target and in the source.
    steps: [isize; 2],
    outer: [(usize, [isize; 2]); MAX_DIMS],
    dims: usize,
}

impl Columns {
    fn lines(&self) -> usize {
        self.outer[..self.dims].iter().map(|&(count, _)| count).product()
    }

    /// The byte offsets of a line from the addresses of an update, in the target and in the source.
    fn line(&self, mut number: usize) -> [isize; 2] {
        let mut found = [0; 2];
        for &(count, steps) in &self.outer[..self.dims] {
            let at = (number % count) as isize;
            number /= count;
            found = [found[0] + at * steps[0], found[1] + at * steps[1]];
        }
        found
    }
}

/// Folds the updates of each element of a few columns.
struct Grouped<'a, E, F> {
    leads: &'a [Lead],
    line: [isize; 2],
    steps: [isize; 2],
    cols: std::ops::Range<usize>,
    function: F,
    element: PhantomData<E>,
}

impl<E: Element, F: Folding<E::Acc>> Leaf for Grouped<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut begin = 0;
        while let Some(&(target, _)) = self.leads.get(begin) {
            let count = self.leads[begin..].iter().take_while(|lead| lead.0 == target).count();
            let group = &self.leads[begin..begin + count];
            let mut col = self.cols.start;
            if self.steps[1] == self.steps[0] {
                col = self.blocks::<64>(group, col);
                col = self.blocks::<16>(group, col);
            }
            while col < self.cols.end {
                self.single(group, col);
                col += 1;
            }
            begin += count;
        }
    }
}

impl<E: Element, F: Folding<E::Acc>> Grouped<'_, E, F> {
    #[inline(always)]
    fn target(&self, group: &[Lead], col: usize) -> *mut E {
        group[0].0.wrapping_add_signed(self.line[0] + col as isize * self.steps[0]) as *mut E
    }

    #[inline(always)]
    fn source(&self, lead: Lead, col: usize) -> *const E {
        lead.1.wrapping_add_signed(self.line[1] + col as isize * self.steps[1]) as *const E
    }

    /// Folds blocks of `L` columns from `col` on; returns the first column that is left.
    #[inline(always)]
    fn blocks<const L: usize>(&self, group: &[Lead], mut col: usize) -> usize {
        while col + L <= self.cols.end {
            let target = self.target(group, col).cast::<[E; L]>();
            // SAFETY: `locate` has found the position inside the target, where no other thread writes it.
            let mut elements = unsafe { target.read_unaligned() };
            let mut values = [E::Acc::default(); L];
            for (value, old) in values.iter_mut().zip(elements) {
                *value = old.load();
            }
            for &lead in group {
                // SAFETY: the launch guarantees the source's elements.
                let new = unsafe { self.source(lead, col).cast::<[E; L]>().read_unaligned() };
                for (value, new) in values.iter_mut().zip(new) {
                    *value = self.function.fold(*value, new.load());
                }
            }
            for (element, value) in elements.iter_mut().zip(values) {
                *element = E::store(value);
            }
            // SAFETY: as for reading it.
            unsafe { target.write_unaligned(elements) };
            col += L;
        }
        col
    }

    #[inline(always)]
    fn single(&self, group: &[Lead], col: usize) {
        let target = self.target(group, col);
        // SAFETY: as in `blocks`.
        let mut value = unsafe { target.read_unaligned() }.load_single();
        for &lead in group {
            // SAFETY: as in `blocks`.
            value = self.function.fold(value, unsafe { self.source(lead, col).read_unaligned() }.load_single());
        }
        // SAFETY: as in `blocks`.
        unsafe { target.write_unaligned(E::store_single(value)) };
    }
}
