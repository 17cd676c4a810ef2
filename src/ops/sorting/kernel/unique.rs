//! `unique` of sorted rows: the groups of equal rows, their first rows, their counts, and the inverse indices.

#![forbid(unsafe_code)]

use super::key::Key;
use super::sort::sort_line;
use crate::tensor::loops::row::Row;
use crate::tensor::{Error, Launch, Output, View, dispatch, signature};
use crate::tuning::sharing::UNIQUE_PIECE_ROWS;

signature! {
    order_rows(order; rows)[] in ORDERED;
    groups(groups; rows, order?)[] in ORDERED;
    collect(starts, inverse, counts; groups, order?)[in_order] in LONG;
    unique_line(values, count; input)[as_it_is] in ORDERED;
    take_rows(out; rows, numbers)[] in ANY;
}

/// The rows of a contiguous operand of two dimensions.
struct RowTable<'a, T> {
    elements: &'a [T],
    cols: usize,
}

impl<'a, T: Key> RowTable<'a, T> {
    fn of(view: &View<'a>) -> Result<Self, Error> {
        Ok(Self { elements: view.elements()?, cols: view.size(1) })
    }

    fn row(&self, number: usize) -> &'a [T] {
        &self.elements[number * self.cols..][..self.cols]
    }

    fn is_equal(&self, one: usize, other: usize) -> bool {
        self.row(one).iter().zip(self.row(other)).all(|(one, other)| one.key() == other.key() && !one.is_nan())
    }
}

/// `unique_dim`: sorts rows lexicographically; equal rows keep their order. Operands [order (Long), rows], the rows contiguous.
pub fn order_rows(launch: &Launch<'_>) -> Result<(), Error> {
    let order_rows::Operands { order, rows } = order_rows::Operands::of(launch)?;
    let order = order.into_elements::<i64>()?;
    let dtype = rows.dtype();
    dispatch!(dtype in ORDERED, T => {
        let table = RowTable::<T>::of(&rows)?;
        order.iter_mut().enumerate().for_each(|(at, position)| *position = at as i64);
        order.sort_unstable_by(|&one, &other| {
            let keys = |row: i64| table.row(row as usize).iter().map(|value| value.key());
            keys(one).cmp(keys(other)).then(one.cmp(&other))
        });
        Ok(())
    })
}

/// `unique`: the number of each row's group, from 0. Adjacent equal rows are one group. Operands [groups (Long), rows] or [groups,
/// rows, order (Long)], the rows contiguous. NaN is equal to nothing.
pub fn groups(launch: &Launch<'_>) -> Result<(), Error> {
    let groups::Operands { groups, rows, order } = groups::Operands::of(launch)?;
    let (mut output, order) = (groups.into_row(), order.as_ref().map(View::elements::<i64>).transpose()?);
    let row_of = |at: usize| order.map_or(at, |order: &[i64]| order[at] as usize);
    let dtype = rows.dtype();
    dispatch!(dtype in ORDERED, T => {
        let table = RowTable::<T>::of(&rows)?;
        output.in_parts(UNIQUE_PIECE_ROWS, launch.cost() * table.cols as f64, &|begin, mut part| {
            for at in 0..part.len() {
                let row = begin + at;
                let starts = row > 0 && !table.is_equal(row_of(row - 1), row_of(row));
                part.store(at, i64::from(starts));
            }
        });
        let mut sum = 0;
        for group in output.as_slice_mut::<i64>().ok_or_else(|| Error::new("a line with gaps"))? {
            sum += *group;
            *group = sum;
        }
        Ok(())
    })
}

/// `unique`: the start of each group, the group of every row in the order before sorting, and the number of rows of each group. All
/// operands are Long and contiguous. Starts and counts have an element for each group, the others one for each row; an empty
/// inverse or counts is not computed. `in_order`: `starts` are positions in the sorted order; else they are the rows' original
/// numbers.
pub fn collect(launch: &Launch<'_>) -> Result<(), Error> {
    let collect::Operands { starts, inverse, counts, groups, order } = collect::Operands::of(launch)?;
    let [starts, inverse, counts] = [starts.into_elements()?, inverse.into_elements()?, counts.into_elements()?];
    let (groups, order) = (groups.elements::<i64>()?, order.as_ref().map(View::elements).transpose()?);
    let in_order = collect::Scalars::of(launch)?.in_order.is_true();
    let row_of = |at: usize| order.map_or(at, |order: &[i64]| order[at] as usize);
    let number = groups.last().map_or(0, |&last| last as usize + 1);
    let fits = |part: &[i64], whole: usize| part.is_empty() || part.len() == whole;
    if starts.len() != number || !fits(counts, number) || !fits(inverse, groups.len()) {
        return Err(Error::new(format!("{number} groups for {} starts", starts.len())));
    }
    let mut next = 0;
    for (at, &group) in groups.iter().enumerate() {
        if group as usize == next {
            // The group's start in the sorted order, from which the counts are computed.
            starts[next] = at as i64;
            next += 1;
        }
        if let Some(position) = inverse.get_mut(row_of(at)) {
            *position = group;
        }
    }
    for (group, count) in counts.iter_mut().enumerate() {
        *count = starts.get(group + 1).map_or(groups.len() as i64, |&end| end) - starts[group];
    }
    if !in_order {
        for start in starts {
            *start = row_of(*start as usize) as i64;
        }
    }
    Ok(())
}

/// `unique` of a line by one thread: its sorted elements without duplicates, and their number. count is Long; values and input have
/// one size and are contiguous. `as_it_is`: the line is not sorted first. NaN is equal to nothing.
pub fn unique_line(launch: &Launch<'_>) -> Result<(), Error> {
    let unique_line::Operands { values: output, count, input } = unique_line::Operands::of(launch)?;
    let (count, dtype) = (count.into_elements::<i64>()?, input.dtype());
    if output.dtype() != dtype || output.numel() != input.numel() || count.is_empty() {
        return Err(Error::new(format!("{} of {} elements", output.numel(), input.numel())));
    }
    dispatch!(dtype in ORDERED, T => {
        let values = output.into_row().into_slice::<T>();
        let (Some(line), Some(values)) = (Row::of(&input, &[]).as_slice::<T>(), values) else {
            return Err(Error::new("a line with gaps"));
        };
        let as_it_is = unique_line::Scalars::of(launch)?.as_it_is.is_true();
        if !as_it_is {
            sort_line(line, values, &mut vec![0; line.len()], false);
        }
        let (mut kept, mut last) = (0, None);
        for at in 0..values.len() {
            let value = if as_it_is { line[at] } else { values[at] };
            let is_new = last != Some(value.key()) || value.is_nan();
            // Branch-free: an element that is not new is overwritten by the next one.
            values[kept] = value;
            kept += usize::from(is_new);
            last = Some(value.key());
        }
        count[0] = kept as i64;
        Ok(())
    })
}

/// Copies the rows with the given numbers. Operands [out, rows, numbers (Long)], the rows contiguous and of one dtype.
pub fn take_rows(launch: &Launch<'_>) -> Result<(), Error> {
    let take_rows::Operands { out: output, rows, numbers } = take_rows::Operands::of(launch)?;
    let numbers = numbers.elements::<i64>()?;
    if output.ndim() != 2 || rows.ndim() != 2 || output.size(1) != rows.size(1) || output.size(0) != numbers.len() {
        return Err(Error::new(format!("{:?} of {:?}", output.sizes(), rows.sizes())));
    }
    Output::in_parts([(output, 0)], UNIQUE_PIECE_ROWS, launch.cost() * rows.size(1) as f64, &|begin, end, [mut part]| {
        for (at, &number) in numbers[begin..end].iter().enumerate() {
            part.row_mut(&[at]).copy(0, &Row::of(&rows, &[number as usize]), 0, 1, rows.size(1));
        }
    });
    Ok(())
}
