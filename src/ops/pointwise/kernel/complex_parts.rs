//! Complex numbers and their parts: `angle`, `complex`, `polar`; and `nan_to_num`, which treats each part separately.

use super::functions;
use crate::ops::copy::kernel as copy;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::{ComplexHalf, DType, Elementary, Error, INTEGRAL, Launch, Number, Scalar, signature};
use num_complex::Complex;

signature! {
    /// `aten::angle`: the argument of complex numbers; pi or 0 for real ones.
    angle(out; x)[] in FIELD => |launch| {
        match launch.compute() {
            DType::ComplexFloat => run::<Complex<f32>, f32, _, 1>(launch, Angle),
            DType::ComplexDouble => run::<Complex<f64>, f64, _, 1>(launch, Angle),
            _ => real_angle(launch),
        }
    };
    /// `aten::complex`: from real and imaginary parts.
    complex(out; real, imaginary)[] in COMPONENTS => |launch| of_two(launch, Cartesian);
    /// `aten::polar`: from lengths and angles.
    polar(out; length, angle)[] in COMPONENTS => |launch| of_two(launch, Polar);
    nan_to_num(out; x)[has_nan, nan, has_posinf, posinf, has_neginf, neginf] in FIELD | INTEGRAL;
}

/// Maps between real and complex numbers of one precision. `Map, N, Input => Output, |[inputs]| value;`
macro_rules! parts {
    ($($map:ident, $n:literal, $input:ty => $output:ty, |[$($x:ident),+]| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $map;

        impl<R: Elementary> Map<$input, $n> for $map
        where
            Complex<R>: Number,
        {
            type Output = $output;

            #[inline(always)]
            fn apply(self, [$($x),+]: [$input; $n]) -> $output {
                $body
            }
        }
    )*};
}

pub(super) use parts;

parts! {
    Angle, 1, Complex<R> => R, |[z]| z.im.atan2(z.re);
    Cartesian, 2, R => Complex<R>, |[re, im]| Complex { re, im };
    Polar, 2, R => Complex<R>, |[length, angle]| Complex { re: length.mul(angle.cos()), im: length.mul(angle.sin()) };
}

functions! {
    /// The angle of a real number: pi below 0, NaN for NaN, else 0.
    real_angle, RealAngle, FLOATING, Elementary, [], |[x]| {
        let angle = if x < T::ZERO { T::from_f64(std::f64::consts::PI) } else { T::ZERO };
        if x.is_nan() { x } else { angle }
    };
}

fn of_two<M>(launch: &Launch<'_>, map: M) -> Result<(), Error>
where
    M: Map<f32, 2, Output = Complex<f32>> + Map<f64, 2, Output = Complex<f64>>,
{
    match launch.compute() {
        DType::Half => run::<half::f16, ComplexHalf, _, 2>(launch, map),
        DType::Float => run::<f32, Complex<f32>, _, 2>(launch, map),
        DType::Double => run::<f64, Complex<f64>, _, 2>(launch, map),
        other => Err(Error::new(format!("no complex numbers of {other:?}"))),
    }
}

/// The replacements for NaN and the infinities.
#[derive(Clone, Copy)]
struct Finite<R> {
    nan: R,
    highest: R,
    lowest: R,
}

impl<R: Elementary> Finite<R> {
    #[inline(always)]
    fn of(self, x: R) -> R {
        let x = if x == R::HIGHEST { self.highest } else { x };
        let x = if x == R::LOWEST { self.lowest } else { x };
        if x.is_nan() { self.nan } else { x }
    }
}

macro_rules! finite {
    ($($type:ident)*) => {$(
        impl Map<$type, 1> for Finite<$type> {
            type Output = $type;

            #[inline(always)]
            fn apply(self, [x]: [$type; 1]) -> $type {
                self.of(x)
            }
        }
    )*};
}

finite!(f32 f64);

impl<R: Elementary> Map<Complex<R>, 1> for Finite<R>
where
    Complex<R>: Number,
{
    type Output = Complex<R>;

    #[inline(always)]
    fn apply(self, [z]: [Complex<R>; 1]) -> Complex<R> {
        Complex { re: self.of(z.re), im: self.of(z.im) }
    }
}

/// The replacements of a launch: 0 and the dtype's limits by default.
fn finite<R: Number>(launch: &Launch<'_>, limit: f64) -> Result<Finite<R>, Error> {
    let given = nan_to_num::Scalars::of(launch)?;
    let value = |is_given: Scalar, value: Scalar, otherwise: f64| -> R {
        if is_given.is_true() { value.to() } else { Scalar::Double(otherwise).to() }
    };
    let nan = value(given.has_nan, given.nan, 0.0);
    let (highest, lowest) = (value(given.has_posinf, given.posinf, limit), value(given.has_neginf, given.neginf, -limit));
    Ok(Finite { nan, highest, lowest })
}

/// `aten::nan_to_num`: replaces NaN and the infinities. Operands [out, x]; scalars [has nan, nan, has posinf, posinf, has neginf,
/// neginf].
pub fn nan_to_num(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    let float = f64::from(f32::MAX);
    match dtype {
        DType::Half => run::<half::f16, half::f16, _, 1>(launch, finite(launch, half::f16::MAX.to_f64())?),
        DType::BFloat16 => run::<half::bf16, half::bf16, _, 1>(launch, finite(launch, half::bf16::MAX.to_f64())?),
        DType::Float => run::<f32, f32, _, 1>(launch, finite::<f32>(launch, float)?),
        DType::Double => run::<f64, f64, _, 1>(launch, finite::<f64>(launch, f64::MAX)?),
        DType::ComplexFloat => run::<Complex<f32>, Complex<f32>, _, 1>(launch, finite::<f32>(launch, float)?),
        DType::ComplexDouble => run::<Complex<f64>, Complex<f64>, _, 1>(launch, finite::<f64>(launch, f64::MAX)?),
        _ if INTEGRAL.contains(dtype) => copy::copy_(launch),
        other => Err(Error::new(format!("{other:?} has no NaN"))),
    }
}
