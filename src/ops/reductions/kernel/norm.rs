//! `linalg_vector_norm`. Operands: [out, input]; scalars [ord]. The compute dtype is the input's; the output is real.

use half::f16;

use crate::tensor::inlined::inlined;
use crate::tensor::loops::reduction::fold::{self, Fold, fold};
use crate::tensor::{Complex32, Complex64, DType, Elementary, Error, Field, Launch, Number, Ordered, Real, dispatch, signature};

signature! {
    linalg_vector_norm(out; input)[ord] in FIELD | COMPLEX => |launch| {
        let order: f64 = linalg_vector_norm::Scalars::of(launch)?.ord.to();
        if order == 0.0 {
            run(launch, Zero)
        } else if order == 1.0 || fold::is_identity(launch) {
            // The norm of a single value is its magnitude, for every order; powers could overflow.
            run(launch, One)
        } else if order == 2.0 {
            run(launch, Two)
        } else if order == f64::INFINITY {
            run(launch, Infinite::<true>)
        } else if order == f64::NEG_INFINITY {
            run(launch, Infinite::<false>)
        } else {
            run(launch, Order(order))
        }
    };
}

/// A number with a magnitude.
trait Magnitude: Number {
    type Size: Real;
    fn magnitude(self) -> Self::Size;
    fn square(self) -> Self::Size;
}

macro_rules! magnitude {
    ($($real:ident)*) => {$(
        impl Magnitude for $real {
            type Size = $real;

            inlined! {
                fn magnitude(self) -> $real = self.abs();
                fn square(self) -> $real = self * self;
            }
        }

        impl Magnitude for num_complex::Complex<$real> {
            type Size = $real;

            inlined! {
                // The same computation as in `abs`: the gradient searches for the values whose magnitude equals the norm.
                fn magnitude(self) -> $real = Elementary::hypot(self.re, self.im);
                fn square(self) -> $real = self.re * self.re + self.im * self.im;
            }
        }
    )*};
}

magnitude!(f32 f64);

fold! {
    /// The norm of order 0: the number of values that are not 0.
    Zero: [V: Magnitude] V => V::Size => V::Size,
    V::Size::ZERO, |value| if value == V::ZERO { V::Size::ZERO } else { V::Size::ONE }, |left, right| left.add(right), |sum, _| sum;

    /// The norm of order 1.
    One: [V: Magnitude] V => V::Size => V::Size,
    V::Size::ZERO, |value| value.magnitude(), |left, right| left.add(right), |sum, _| sum;

    /// The norm of order 2.
    Two: [V: Magnitude] V => V::Size => V::Size,
    V::Size::ZERO, |value| value.square(), |left, right| left.add(right), |sum, _| sum.sqrt();

    /// The norm of any finite order.
    Order(f64) as order: [V: Magnitude] V => V::Size => V::Size,
    V::Size::ZERO, |value| value.magnitude().pow(V::Size::from_f64(order)), |left, right| left.add(right),
    |sum, _| sum.pow(V::Size::from_f64(1.0 / order));
}

/// The norm of infinite order: the maximum or minimum magnitude.
#[derive(Clone, Copy)]
struct Infinite<const GREATEST: bool>;

impl<V: Magnitude, const GREATEST: bool> Fold<V> for Infinite<GREATEST> {
    type State = V::Size;
    type Output = V::Size;
    const IDEMPOTENT: bool = true;

    inlined! {
        fn start(self, first: V) -> V::Size = first.magnitude();
        fn lift(self, value: V) -> V::Size = value.magnitude();
        fn merge(self, left: V::Size, right: V::Size) -> V::Size = if GREATEST { left.maximum(right) } else { left.minimum(right) };
        fn finish(self, magnitude: V::Size, _: usize) -> V::Size = magnitude;
    }
}

fn run<F: Fold<f32> + Fold<f64> + Fold<Complex32> + Fold<Complex64>>(launch: &Launch<'_>, fold: F) -> Result<(), Error> {
    match launch.compute() {
        // Cast first: it needs no code of its own.
        DType::ComplexHalf => fold::run::<Complex32, f16, F>(launch, fold),
        DType::ComplexFloat => fold::run::<Complex32, f32, F>(launch, fold),
        DType::ComplexDouble => fold::run::<Complex64, f64, F>(launch, fold),
        dtype => dispatch!(dtype in FLOATING, T => fold::run::<T, T, F>(launch, fold)),
    }
}
