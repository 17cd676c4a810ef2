//! Elements that follow from their own place: ranges, and places repeated.

use super::check;
use crate::tensor::dtype::{Complex64, DType, Element, INTEGRAL, dispatch};
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::loops::parallel;
use crate::tensor::loops::rows::Row;
use crate::tensor::number::{Hub, Number};
use crate::tensor::view::View;

/// Elements that one thread makes at a time.
const PIECE: usize = 16 * 1024;

/// Sets every place of a line to its value, in parallel.
fn fill<T: Element>(output: View<'_>, cost: f64, value: impl Fn(usize) -> T + Sync) {
    let row = Row::of(&output, &[]);
    parallel(output.numel(), PIECE, cost, &|begin, end| match row.part(begin, end).as_slice_mut::<T>() {
        Some(line) => line.iter_mut().zip(begin..).for_each(|(element, place)| *element = value(place)),
        None => (begin..end).for_each(|place| row.store(place, value(place))),
    });
}

/// `aten::arange`: start, start + step, ... Operands [out, of one dimension]; scalars [start, step].
///
/// # Errors
/// A dtype outside the table's, or more dimensions.
pub fn arange(launch: &Launch<'_>) -> Result<(), String> {
    line(launch)?;
    let (output, start, step) = (launch.view(0), launch.scalar(0)?, launch.scalar(1)?);
    let dtype = output.dtype();
    if INTEGRAL.contains(dtype) {
        let (start, step): (i64, i64) = (start.to(), step.to());
        return dispatch!(dtype in INTEGRAL, T => {
            fill(output, launch.cost(), |at| T::from_i64(start.wrapping_add(step.wrapping_mul(at as i64))));
            Ok(())
        });
    }
    let (start, step): (f64, f64) = (start.to(), step.to());
    dispatch!(dtype in FLOATING, T => {
        fill(output, launch.cost(), |at| T::store((start + step * at as f64).to()));
        Ok(())
    })
}

/// Evenly spaced values. Each half is counted from its own end, so that both ends are exact.
struct Spaced<N> {
    start: N,
    end: N,
    step: N,
    count: usize,
}

impl<N: Number> Spaced<N> {
    fn at(&self, place: usize) -> N {
        let times = |number: usize| self.step.mul(N::from_i64(number as i64));
        if place < (self.count / 2).max(1) { self.start.add(times(place)) } else { self.end.sub(times(self.count - 1 - place)) }
    }
}

fn real(launch: &Launch<'_>, start: f64, end: f64) -> Spaced<f64> {
    let count = launch.view(0).numel();
    Spaced { start, end, step: (end - start) / (count.max(2) - 1) as f64, count }
}

fn complex(launch: &Launch<'_>, start: Complex64, end: Complex64) -> Spaced<Complex64> {
    let count = launch.view(0).numel();
    Spaced { start, end, step: (end - start) / (count.max(2) - 1) as f64, count }
}

/// `aten::linspace`: evenly spaced values from start to end. Operands [out, of one dimension]; scalars [start, end].
///
/// # Errors
/// A dtype outside the table's, or more dimensions.
pub fn linspace(launch: &Launch<'_>) -> Result<(), String> {
    spaced(launch, &|value| value, &|value| value)
}

/// `aten::logspace`: a base to the power of evenly spaced exponents. Operands [out, of one dimension]; scalars [first, last exponent, base].
///
/// # Errors
/// As [`linspace`].
pub fn logspace(launch: &Launch<'_>) -> Result<(), String> {
    let base: f64 = launch.scalar(2)?.to();
    let complex_base = Complex64::new(base, 0.0);
    spaced(launch, &|exponent| base.powf(exponent), &|exponent| complex_base.powc(exponent))
}

fn spaced(
    launch: &Launch<'_>,
    of_real: &(dyn Fn(f64) -> f64 + Sync),
    of_complex: &(dyn Fn(Complex64) -> Complex64 + Sync),
) -> Result<(), String> {
    line(launch)?;
    let (output, start, end) = (launch.view(0), launch.scalar(0)?, launch.scalar(1)?);
    let dtype = output.dtype();
    if dtype.is_complex() || matches!(start, Scalar::Complex(..)) || matches!(end, Scalar::Complex(..)) {
        let line = complex(launch, start.to(), end.to());
        return dispatch!(dtype in FIELD, T => {
            fill(output, launch.cost(), |at| T::store(of_complex(line.at(at)).to()));
            Ok(())
        });
    }
    let line = if INTEGRAL.contains(dtype) {
        real(launch, start.to::<i64>() as f64, end.to::<i64>() as f64)
    } else {
        real(launch, start.to(), end.to())
    };
    dispatch!(dtype in REAL, T => {
        fill(output, launch.cost(), |at| T::store(of_real(line.at(at)).to()));
        Ok(())
    })
}

/// `aten::repeat_interleave.Tensor`: each place as often as it is to be repeated. Operands [out, ends], of one dimension; `ends` are the
/// running sums of the repeats, Long. Scalars: none.
///
/// # Errors
/// Repeats below 0, or sums that do not lead to the output's size.
pub fn repeat_interleave(launch: &Launch<'_>) -> Result<(), String> {
    check(launch, 2)?;
    let (output, ends) = (launch.view(0), launch.view(1));
    if output.ndim() != 1 || ends.ndim() != 1 || ends.dtype() != DType::Long {
        return Err(format!("{:?} of {:?}", output.sizes(), ends.sizes()));
    }
    let (row, ends) = (Row::of(&output, &[]), (ends.numel(), Row::of(&ends, &[])));
    let dtype = output.dtype();
    dispatch!(dtype in INTEGRAL, T => {
        let mut begin = 0;
        for at in 0..ends.0 {
            let end = ends.1.load::<i64>(at);
            if end < begin || end as usize > output.numel() {
                return Err(format!("repeats that go from {begin} to {end} of {}", output.numel()));
            }
            (begin..end).for_each(|place| row.store(place as usize, T::from_i64(at as i64)));
            begin = end;
        }
        if begin as usize == output.numel() { Ok(()) } else { Err(format!("repeats end at {begin} of {}", output.numel())) }
    })
}

fn line(launch: &Launch<'_>) -> Result<(), String> {
    check(launch, 1)?;
    if launch.view(0).ndim() == 1 { Ok(()) } else { Err(format!("an output of {:?}", launch.view(0).sizes())) }
}
