//! Binary search in sorted elements: `searchsorted`, `isin`; and `mode` of sorted lines.

#![forbid(unsafe_code)]

use super::key::Key;
use crate::simd::leaf;
use crate::tensor::loops::row::{Row, RowMut};
use crate::tensor::loops::rows;
use crate::tensor::{Bool, Error, Launch, dispatch, signature};
use crate::tuning::algorithms::SEARCHED_TOGETHER;

signature! {
    searchsorted(out; sorted, values, sorter?)[right] in ORDERED;
    isin(out; elements, others)[inverted] in ORDERED;
    mode(values, indices; sorted, order)[] in ORDERED;
}

/// `aten::searchsorted`: the positions at which values would be inserted into sorted lines. All operands are contiguous. `sorted`
/// is one line, or has one for each line of `values`; `sorter` holds the indices that sort a line. `right`: after equal elements.
pub fn searchsorted(launch: &Launch<'_>) -> Result<(), Error> {
    let searchsorted::Operands { out: output, sorted, values, sorter } = searchsorted::Operands::of(launch)?;
    let right = searchsorted::Scalars::of(launch)?.right.is_true();
    let shared = sorted.ndim() == 1;
    let dims = |index: &[usize]| if shared { 0 } else { index.len() };
    let dtype = sorted.dtype();
    if values.dtype() != dtype || output.sizes() != values.sizes() {
        return Err(Error::new(format!("{:?} of {:?} in {dtype:?}", output.sizes(), values.sizes())));
    }
    let wide = output.dtype().size() == 8;
    dispatch!(dtype in ORDERED, T => {
        rows::for_each_beside(values, [output], launch.cost(), &|index, row, [mut target]| {
            let of_line = &index[..dims(index)];
            let (Some(values), Some(keys)) = (row.as_slice::<T>(), Row::of(&sorted, of_line).as_slice::<T>()) else { return };
            let order = sorter.and_then(|sorter| Row::of(&sorter, of_line).as_slice::<i64>());
            let search = if right { search::<T, true> } else { search::<T, false> };
            target.in_parts(1024, launch.cost(), &|begin, mut part| {
                search(keys, order, &values[begin..begin + part.len()], &mut part, wide);
            });
        })
    })
}

/// Writes the insertion position of every value to `target`. `RIGHT`: after equal elements.
fn search<T: Key, const RIGHT: bool>(keys: &[T], order: Option<&[i64]>, values: &[T], target: &mut RowMut<'_>, wide: bool) {
    let mut indices = [0; SEARCHED_TOGETHER];
    for (group, values) in values.chunks(SEARCHED_TOGETHER).enumerate() {
        let mut lanes = [values[0]; SEARCHED_TOGETHER];
        lanes[..values.len()].copy_from_slice(values);
        find::<T, RIGHT>(keys, order, &lanes, &mut indices);
        for (at, &position) in (group * SEARCHED_TOGETHER..).zip(&indices[..values.len()]) {
            if wide { target.store(at, position as i64) } else { target.store(at, position as i32) }
        }
    }
}

leaf! {
    /// For each value, the first position whose element is not less than it (`RIGHT`: greater). Comparisons with NaN are false, as
    /// on PyTorch's CPU. Every lane therefore probes the positions that a scalar search would probe.
    fn find<T: Key; RIGHT: bool>(
        keys: &[T],
        order: Option<&[i64]>,
        values: &[T; SEARCHED_TOGETHER],
        indices: &mut [usize; SEARCHED_TOGETHER],
    ) {
        *indices = match order {
            Some(order) => positions::<T, RIGHT>(keys.len(), values, |at| keys[order[at] as usize]),
            None => positions::<T, RIGHT>(keys.len(), values, |at| keys[at]),
        };
    }
}

/// The result of [`find`] for a line that is not empty.
#[inline(always)]
fn positions<T: Key, const RIGHT: bool>(
    len: usize,
    values: &[T; SEARCHED_TOGETHER],
    key: impl Fn(usize) -> T,
) -> [usize; SEARCHED_TOGETHER] {
    let (mut begin, mut end) = ([0; SEARCHED_TOGETHER], [len; SEARCHED_TOGETHER]);
    let steps = usize::BITS - len.leading_zeros();
    for _ in 0..steps {
        for lane in 0..SEARCHED_TOGETHER {
            let middle = usize::midpoint(begin[lane], end[lane]);
            let is_open = begin[lane] < end[lane];
            let is_behind = key(middle.min(len - 1)).is_behind::<RIGHT>(values[lane]);
            let (low, high) = if is_behind { (begin[lane], middle) } else { (middle + 1, end[lane]) };
            (begin[lane], end[lane]) = if is_open { (low, high) } else { (begin[lane], end[lane]) };
        }
    }
    begin
}

/// `aten::isin`: whether elements are contained in others. Operands [out (Bool), elements, sorted others], contiguous and of one
/// dimension.
pub fn isin(launch: &Launch<'_>) -> Result<(), Error> {
    let isin::Operands { out: output, elements, others } = isin::Operands::of(launch)?;
    let inverted = isin::Scalars::of(launch)?.inverted.is_true();
    let dtype = elements.dtype();
    if others.dtype() != dtype || output.sizes() != elements.sizes() || output.ndim() != 1 || others.ndim() != 1 {
        return Err(Error::new(format!("{:?} in {:?}", elements.sizes(), others.sizes())));
    }
    dispatch!(dtype in ORDERED, T => {
        let [elements, others] = [elements, others].map(|view| Row::of(&view, &[]).as_slice::<T>());
        let (elements, others) = (elements.ok_or_else(|| Error::new("elements with gaps"))?, others.ok_or_else(|| Error::new("others with gaps"))?);
        output.into_row().in_parts(1024, launch.cost(), &|begin, mut target| {
            for (at, element) in (0..target.len()).zip(&elements[begin..]) {
                let key = element.key();
                let position = others.partition_point(|other| other.key() < key);
                let found = others.get(position).is_some_and(|other| !other.is_nan() && other.key() == key);
                target.store(at, Bool::from(found != inverted));
            }
        });
        Ok(())
    })
}

/// `aten::mode`: the most frequent element of a sorted line, the first one of several, and its last index. Operands [values,
/// indices, sorted, indices of the sorted], whose lines along the last dimension are contiguous; the outputs' last size is 1.
pub fn mode(launch: &Launch<'_>) -> Result<(), Error> {
    let mode::Operands { values, indices, sorted, order: origins } = mode::Operands::of(launch)?;
    let dtype = sorted.dtype();
    dispatch!(dtype in ORDERED, T => {
        rows::for_each_beside(sorted, [values, indices], launch.cost(), &|index, row, [mut value, mut position]| {
            let Some(line) = row.as_slice::<T>() else { return };
            let (mut begin, mut best, mut longest) = (0, 0, 0);
            for at in 1..=line.len() {
                let ends = at == line.len() || line[at].key() != line[at - 1].key() || line[at].is_nan();
                if ends && at - begin > longest {
                    (best, longest) = (at - 1, at - begin);
                }
                begin = if ends { at } else { begin };
            }
            value.store::<T>(0, line[best]);
            position.store(0, Row::of(&origins, index).load::<i64>(best));
        })
    })
}
