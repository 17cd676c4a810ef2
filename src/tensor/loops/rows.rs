//! Loops over rows, for kernels that move or add elements by their index (triangles, padding, windows).
//!
//! The loops visit the rows of an output, or the rows of an input together with those of outputs. A kernel gets the rows of other
//! operands by [`Row::of`].

use super::row::{Row, RowMut};
use super::{cast, parallel};
use crate::tensor::{Element, Error, MAX_DIMS, Output, View};
use crate::tuning::sharing::GRAIN;

/// Sets every element of a contiguous output.
pub fn assign<T: Element>(output: Output<'_>, values: &[T]) -> Result<(), Error> {
    let output = output.into_view();
    if !output.is_contiguous() || output.numel() != values.len() {
        return Err(Error::new(format!("{} values for {:?} with strides {:?}", values.len(), output.sizes(), output.strides())));
    }
    // SAFETY: the operand is contiguous and has as many elements, whose memory `View::new` guarantees; `values` is separate memory.
    unsafe { cast::cast(values.as_ptr().cast(), T::DTYPE, output.data(), output.dtype(), values.len()) }
}

/// Calls `body` with every row of `output` and its index, in parallel where it is worth it. `cost`: nanoseconds of one thread per
/// element.
pub fn for_each(output: Output<'_>, cost: f64, body: &(dyn Fn(&[usize], RowMut<'_>) + Sync)) {
    let outer = output.ndim().saturating_sub(1);
    for_each_line(output, outer, cost, body);
}

/// [`for_each`] with the dimensions from `outer` on as one row, for which [`is_line`] must hold.
pub fn for_each_line(output: Output<'_>, outer: usize, cost: f64, body: &(dyn Fn(&[usize], RowMut<'_>) + Sync)) {
    let view = output.into_view();
    // SAFETY: this call owns the output, and each row has its own index.
    walk(&view, outer, cost, &|index| body(index, unsafe { RowMut::new(Row::of(&view, index)) }));
}

/// Called with an index, the row of an input and those of outputs.
pub type BodyBeside<'a, const N: usize> = &'a (dyn Fn(&[usize], Row<'_>, [RowMut<'_>; N]) + Sync);

/// [`for_each`] over the rows of an input: `body` is also called with the rows of outputs at the same index.
pub fn for_each_beside<const N: usize>(
    input: View<'_>,
    outputs: [Output<'_>; N],
    cost: f64,
    body: BodyBeside<'_, N>,
) -> Result<(), Error> {
    let outer = input.ndim().saturating_sub(1);
    if let Some(output) =
        outputs.iter().find(|output| output.ndim() != input.ndim() || output.sizes()[..outer] != input.sizes()[..outer])
    {
        return Err(Error::new(format!("{:?} beside {:?}", output.sizes(), input.sizes())));
    }
    let views = outputs.map(Output::into_view);
    walk(&input, outer, cost, &|index| {
        // SAFETY: this call owns the outputs, and each row of an output has its own index.
        body(index, Row::of(&input, index), views.each_ref().map(|view| unsafe { RowMut::new(Row::of(view, index)) }));
    });
    Ok(())
}

/// Calls `body` once with every index of the dimensions before `outer`, in parallel where it is worth it.
fn walk(view: &View<'_>, outer: usize, cost: f64, body: &(dyn Fn(&[usize]) + Sync)) {
    if view.numel() == 0 {
        return;
    }
    let len: usize = (outer..view.ndim()).map(|dim| view.size(dim)).product();
    let rows = view.numel() / len;
    parallel(rows, GRAIN.div_ceil(len), cost * len as f64 + 2.0, &|begin, end| {
        let mut index = [0usize; MAX_DIMS];
        let mut rest = begin;
        for dim in (0..outer).rev() {
            index[dim] = rest % view.size(dim);
            rest /= view.size(dim);
        }
        for _ in begin..end {
            body(&index[..outer]);
            for dim in (0..outer).rev() {
                index[dim] += 1;
                if index[dim] < view.size(dim) {
                    break;
                }
                index[dim] = 0;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::row::tests::output;
    use super::*;
    use crate::tensor::{DType, Flags};

    #[test]
    fn every_row_is_visited_once() {
        let mut values = vec![0i32; 70_000];
        let rows = AtomicUsize::new(0);
        for_each(output(&mut values, &[7, 100, 100], &[40_000, 4, 400]), 1.0, &|index, mut row| {
            rows.fetch_add(1, Ordering::Relaxed);
            (0..100).for_each(|at| row.store(at, row.load::<i32>(at) + (index[0] * 10_000 + at * 100 + index[1]) as i32 + 1));
        });
        assert_eq!(rows.into_inner(), 700);
        assert!(values.iter().enumerate().all(|(at, &value)| value == at as i32 + 1));
    }

    #[test]
    fn rows_beside_an_input_have_its_index() {
        let (mut from, mut to) = ([1i32, 2, 3, 4, 5, 6], [0i32; 6]);
        let size = [size_of::<i32>() as i64];
        // SAFETY: the view names the values, which nothing writes.
        let input = unsafe { View::new(from.as_mut_ptr().cast(), DType::Int, Flags(0), &[2, 3], &[12, 4]) }.unwrap();
        for_each_beside(input, [output(&mut to, &[2, 1], &[4, 4])], 1.0, &|_, row, [mut target]| {
            target.store(0, row.as_slice::<i32>().unwrap().iter().sum::<i32>());
        })
        .unwrap();
        assert_eq!(to, [6, 15, 0, 0, 0, 0]);
        assert!(for_each_beside(input, [output(&mut to, &[3], &size)], 1.0, &|_, _, _| {}).is_err());
        assert!(for_each_beside(input, [output(&mut to, &[3, 2], &[8, 4])], 1.0, &|_, _, _| {}).is_err());
    }
}
