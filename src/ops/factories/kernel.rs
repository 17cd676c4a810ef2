//! Range factories: `arange`, `linspace`, and the indices of `repeat_interleave`.

use crate::tensor::prelude::*;
use crate::tuning::caches::BLOCK;
use crate::tuning::sharing::RANGE_PIECE;

signature! {
    arange(out)[start, step] in REAL;
    linspace(out)[start, end] in INTEGRAL | FIELD;
    logspace(out)[start, end, base] in INTEGRAL | FIELD;
    repeat_interleave(out; ends)[] in INTEGRAL;
}

leaf! {
    /// Real numbers at even distances: `origin + step * position` for the positions `first`, `first + turn`, ...
    fn series<T: Element>(line: &mut [T], origin: f64, step: f64, first: f64, turn: f64) {
        for (at, element) in line.iter_mut().enumerate() {
            // A piece has few elements, so that positions fit 32 bits, which every instruction set converts in vectors.
            let position = first + turn * f64::from(at as i32);
            *element = T::store((origin + step * position).to());
        }
    }

    /// Integers at even distances.
    fn steps<T: Number>(line: &mut [T], start: i64, step: i64) {
        for (at, element) in line.iter_mut().enumerate() {
            *element = T::from_i64(start.wrapping_add(step.wrapping_mul(at as i64)));
        }
    }
}

/// Calls `body`, in parallel, with parts of a line and the position of their first element. Parts of a line with gaps are filled in
/// a buffer and copied.
fn each_part<T: Element>(output: Output<'_>, cost: f64, body: &(dyn Fn(usize, &mut [T]) + Sync)) {
    output.into_row().in_parts(RANGE_PIECE, cost, &|begin, mut part| {
        if let Some(line) = part.as_slice_mut::<T>() {
            return body(begin, line);
        }
        for first in (0..part.len()).step_by(BLOCK) {
            let mut block = [T::default(); BLOCK];
            let block = &mut block[..BLOCK.min(part.len() - first)];
            body(begin + first, block);
            block.iter().zip(first..).for_each(|(&element, position)| part.store(position, element));
        }
    });
}

/// Sets every element of a line to the value of its position, in parallel.
fn fill<T: Element>(output: Output<'_>, cost: f64, value: impl Fn(usize) -> T + Sync) {
    each_part(output, cost, &|begin, line| line.iter_mut().zip(begin..).for_each(|(element, position)| *element = value(position)));
}

/// `aten::arange`: start, start + step, ... The output has one dimension.
pub fn arange(launch: &Launch<'_>) -> Result<(), Error> {
    let (output, arange::Scalars { start, step }) = (line(launch)?, arange::Scalars::of(launch)?);
    let dtype = output.dtype();
    if INTEGRAL.contains(dtype) {
        let (start, step): (i64, i64) = (start.to(), step.to());
        return dispatch!(dtype in INTEGRAL, T => {
            each_part::<T>(output, launch.cost(), &|begin, line| {
                steps(line, start.wrapping_add(step.wrapping_mul(begin as i64)), step);
            });
            Ok(())
        });
    }
    let (start, step): (f64, f64) = (start.to(), step.to());
    dispatch!(dtype in FLOATING, T => {
        each_part::<T>(output, launch.cost(), &|begin, line| {
            series(line, start, step, begin as f64, 1.0);
        });
        Ok(())
    })
}

/// Evenly spaced values. The first half is counted from the start and the second from the end, so that both ends are exact.
struct Spaced<N> {
    start: N,
    end: N,
    step: N,
    count: usize,
}

impl<N: Number> Spaced<N> {
    /// The number of positions that are counted from the start.
    fn half(&self) -> usize {
        (self.count / 2).max(1)
    }

    fn at(&self, position: usize) -> N {
        let times = |number: usize| self.step.mul(N::from_i64(number as i64));
        if position < self.half() { self.start.add(times(position)) } else { self.end.sub(times(self.count - 1 - position)) }
    }
}

/// The values of a launch of `linspace` or `logspace` whose output and scalars are real. For integral dtypes the ends are truncated
/// to integers.
fn real(launch: &Launch<'_>, output: &View<'_>) -> Result<Spaced<f64>, Error> {
    let linspace::Scalars { start, end } = linspace::Scalars::of(launch)?;
    let (start, end) =
        if INTEGRAL.contains(output.dtype()) { (start.to::<i64>() as f64, end.to::<i64>() as f64) } else { (start.to(), end.to()) };
    let count = output.numel();
    Ok(Spaced { start, end, step: (end - start) / (count.max(2) - 1) as f64, count })
}

/// The values of a launch, real or complex.
fn complex(launch: &Launch<'_>, count: usize) -> Result<Spaced<Complex64>, Error> {
    let linspace::Scalars { start, end } = linspace::Scalars::of(launch)?;
    let (start, end) = (start.to::<Complex64>(), end.to::<Complex64>());
    Ok(Spaced { start, end, step: (end - start) / (count.max(2) - 1) as f64, count })
}

fn is_complex(launch: &Launch<'_>, output: &View<'_>) -> Result<bool, Error> {
    let linspace::Scalars { start, end } = linspace::Scalars::of(launch)?;
    Ok(output.dtype().is_complex() || [start, end].iter().any(|end| matches!(end, Scalar::Complex(..))))
}

/// `aten::linspace`: evenly spaced values from start to end. The output has one dimension.
pub fn linspace(launch: &Launch<'_>) -> Result<(), Error> {
    let output = line(launch)?;
    if is_complex(launch, &output)? {
        return fill_complex(launch, output, &|value| value);
    }
    let spaced = real(launch, &output)?;
    let dtype = output.dtype();
    dispatch!(dtype in REAL, T => {
        each_part::<T>(output, launch.cost(), &|begin, line| {
            let (front, back) = line.split_at_mut(spaced.half().saturating_sub(begin).min(line.len()));
            let behind = (spaced.count - begin - front.len()) as f64 - 1.0;
            series(front, spaced.start, spaced.step, begin as f64, 1.0);
            series(back, spaced.end, -spaced.step, behind, -1.0);
        });
        Ok(())
    })
}

/// `aten::logspace`: a base to the power of evenly spaced exponents. The output has one dimension.
pub fn logspace(launch: &Launch<'_>) -> Result<(), Error> {
    let output = line(launch)?;
    let base: f64 = logspace::Scalars::of(launch)?.base.to();
    if is_complex(launch, &output)? {
        let base = Complex64::new(base, 0.0);
        return fill_complex(launch, output, &|exponent| base.powc(exponent));
    }
    let spaced = real(launch, &output)?;
    let dtype = output.dtype();
    dispatch!(dtype in REAL, T => {
        fill(output, launch.cost(), |at| T::store(base.powf(spaced.at(at)).to()));
        Ok(())
    })
}

fn fill_complex(launch: &Launch<'_>, output: Output<'_>, value: &(dyn Fn(Complex64) -> Complex64 + Sync)) -> Result<(), Error> {
    let spaced = complex(launch, output.numel())?;
    let dtype = output.dtype();
    dispatch!(dtype in FIELD, T => {
        fill(output, launch.cost(), |at| T::store(value(spaced.at(at)).to()));
        Ok(())
    })
}

/// `aten::repeat_interleave.Tensor`: each index as often as it is to be repeated. Operands [out, ends], of one dimension; `ends`
/// are the cumulative sums of the repeats, Long.
pub fn repeat_interleave(launch: &Launch<'_>) -> Result<(), Error> {
    let repeat_interleave::Operands { out: output, ends } = repeat_interleave::Operands::of(launch)?;
    if output.ndim() != 1 || ends.ndim() != 1 || ends.dtype() != DType::Long {
        return Err(Error::new(format!("{:?} of {:?}", output.sizes(), ends.sizes())));
    }
    let (dtype, count, ends) = (output.dtype(), output.numel(), (ends.numel(), Row::of(&ends, &[])));
    let mut row = output.into_row();
    dispatch!(dtype in INTEGRAL, T => {
        let mut begin = 0;
        for at in 0..ends.0 {
            let end = ends.1.load::<i64>(at);
            if end < begin || end as usize > count {
                return Err(Error::new(format!("repeats that go from {begin} to {end} of {count}")));
            }
            (begin..end).for_each(|position| row.store(position as usize, T::from_i64(at as i64)));
            begin = end;
        }
        if begin as usize == count { Ok(()) } else { Err(Error::new(format!("repeats end at {begin} of {count}"))) }
    })
}

/// The only operand, of one dimension.
fn line<'a>(launch: &Launch<'a>) -> Result<Output<'a>, Error> {
    let arange::Operands { out } = arange::Operands::of(launch)?;
    if out.ndim() == 1 { Ok(out) } else { Err(Error::new(format!("an output of {:?}", out.sizes()))) }
}
