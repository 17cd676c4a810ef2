//! Binary operators beyond arithmetic: `gcd`, `lcm`, `heaviside`, `ldexp`, `nextafter`. Operands [out, lhs, rhs].

#![forbid(unsafe_code)]

use super::functions;
use crate::kernels::signature::signature;
use crate::simd::convert;
use crate::tensor::dtype::{DType, HalfBits};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::{Integer, Ordered};
use crate::tensor::transcendental::Elementary;

signature! {
    ldexp(out, lhs, rhs)[] in FLOATING;
    nextafter(out, lhs, rhs)[] in FLOATING;
}

functions! {
    /// `aten::gcd`: the greatest common divisor.
    gcd, Gcd, INTEGRAL, Integer, [], |[lhs, rhs]| lhs.gcd(rhs);
    /// `aten::heaviside`: 0 below 0, 1 above 0, rhs at 0, 0 for NaN.
    heaviside, Heaviside, REAL | BOOL, Ordered, [], |[lhs, rhs]| {
        let step = if lhs > T::ZERO { T::ONE } else { T::ZERO };
        if lhs == T::ZERO { rhs } else { step }
    };
    /// `aten::lcm`: the least common multiple.
    lcm, Lcm, INTEGRAL, Integer, [], |[lhs, rhs]| {
        let multiple = lhs.trunc_div(lhs.gcd(rhs)).unwrap_or(T::ZERO).mul(rhs);
        // An overflow wraps as on PyTorch's CPU: after abs() in types below 32 bits, which C++ promotes to int, and before it in
        // wider types.
        let is_negative = if size_of::<T>() < 4 { (lhs < T::ZERO) != (rhs < T::ZERO) } else { multiple < T::ZERO };
        if is_negative { multiple.neg() } else { multiple }
    };
    /// `aten::ldexp` of `Float` and `Double`.
    wide_ldexp, Ldexp, WIDE, Elementary, [], |[lhs, rhs]| lhs.ldexp(rhs);
    /// `aten::nextafter` of `Float` and `Double`.
    wide_nextafter, Nextafter, WIDE, Elementary, [], |[lhs, rhs]| lhs.nextafter(rhs);
}

/// `aten::ldexp` with integer exponents: lhs 2^rhs. 16 bit floats are computed as `Float`, because they do not hold every exponent.
pub fn ldexp(launch: &Launch<'_>) -> Result<(), Error> {
    match launch.compute() {
        DType::Half | DType::BFloat16 => run::<f32, f32, _, 2>(launch, Ldexp { _computes: std::marker::PhantomData::<f32> }),
        _ => wide_ldexp(launch),
    }
}

/// The adjacent 16 bit float towards another, on bits: BFloat16 with `BRAIN`, else Half.
#[derive(Clone, Copy)]
struct NextHalf<const BRAIN: bool>;

impl<const BRAIN: bool> Map<u16, 2> for NextHalf<BRAIN> {
    type Output = u16;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [u16; 2]) -> u16 {
        let [from, to] = [lhs, rhs].map(if BRAIN { convert::bf16_to_f32 } else { convert::f16_to_f32 });
        let is_away = (from < to) == (from > 0.0);
        let next = if is_away { lhs.wrapping_add(1) } else { lhs.wrapping_sub(1) };
        let next = if from == 0.0 { 1 | rhs & 0x8000 } else { next };
        let next = if from == to { rhs } else { next };
        let either = if from.is_nan() { lhs } else { rhs };
        if from.is_nan() || to.is_nan() { either } else { next }
    }
}

/// `aten::nextafter`: the number adjacent to lhs in the direction of rhs.
pub fn nextafter(launch: &Launch<'_>) -> Result<(), Error> {
    match launch.compute() {
        DType::Half => run::<HalfBits<false>, HalfBits<false>, _, 2>(launch, NextHalf::<false>),
        DType::BFloat16 => run::<HalfBits<true>, HalfBits<true>, _, 2>(launch, NextHalf::<true>),
        _ => wide_nextafter(launch),
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::tensor::dtype::DType;

    fn same(dtype: DType) -> DType {
        dtype
    }

    fn gcd(x: i64, y: i64) -> i64 {
        if y == 0 { x.abs() } else { gcd(y, x % y) }
    }

    #[test]
    fn the_heaviside_step() {
        check::pointwise::<2>(
            "heaviside",
            &[],
            same,
            |[x, y]| if x.re == 0.0 { real(y.re) } else { real(f64::from(u8::from(x.re > 0.0))) },
        );
    }

    #[test]
    fn divisors_and_multiples() {
        check::pointwise::<2>("gcd", &[], same, |[x, y]| real(gcd(x.re as i64, y.re as i64) as f64));
        check::pointwise::<2>("lcm", &[], same, |[x, y]| {
            let (x, y) = (x.re as i64, y.re as i64);
            real(if x == 0 || y == 0 { 0.0 } else { (x / gcd(x, y) * y).abs() as f64 })
        });
    }

    fn pair(name: &str, dtype: DType, lhs: f64, rhs: f64) -> f64 {
        let of = |value: f64| Tensor::of(dtype, &ndarray::arr1(&[real(value); 20]).into_dyn(), Strides::Contiguous);
        let output = Tensor::new(dtype, &[20], Strides::Contiguous);
        check::run(name, &[&output], &[&of(lhs), &of(rhs)], &[], dtype).unwrap();
        output.values()[[19]].re
    }

    #[test]
    fn the_heaviside_step_of_nan_is_0() {
        for dtype in [DType::Float, DType::BFloat16, DType::Double] {
            assert_eq!(pair("heaviside", dtype, f64::NAN, 2.0), 0.0);
        }
    }

    #[test]
    fn powers_of_two_times_numbers() {
        let exact = |dtype: DType| {
            [
                (1.5, 10, 1536.0),
                (0.0, 300, 0.0),
                (-0.75, -3, -0.09375),
                (f64::INFINITY, -4000, f64::INFINITY),
                (1.0, 5000, f64::INFINITY),
            ]
            .map(|(x, n, product)| (dtype, x, n, product))
        };
        let limits = [
            (DType::Float, 1e-30, 130, f64::from(1e-30f32) * 2f64.powi(130)),
            (DType::Float, f64::from(f32::from_bits(1)), 276, 2f64.powi(127)),
            (DType::Float, f64::from(f32::MAX), -276, f64::from(f32::from_bits(2))),
            (DType::BFloat16, f64::from(f32::from_bits(1 << 16)), 259, 2f64.powi(126)),
            (DType::Half, 2f64.powi(-24), 39, 32768.0),
            (DType::Double, f64::from_bits(1), 2097, 2f64.powi(1023)),
            (DType::Double, f64::MAX, -2097, f64::from_bits(2)),
            // Double rounding would give the lesser number.
            (DType::Double, f64::from_bits((1023 - 50) << 52 | (1 << 50) | 1), -1023, f64::from_bits(3)),
        ];
        for (dtype, x, n, expected) in exact(DType::Half)
            .into_iter()
            .chain(exact(DType::BFloat16))
            .chain(exact(DType::Float))
            .chain(exact(DType::Double))
            .chain(limits)
        {
            let of =
                |dtype: DType, value: f64| Tensor::of(dtype, &ndarray::arr1(&[real(value); 20]).into_dyn(), Strides::Contiguous);
            let output = Tensor::new(dtype, &[20], Strides::Contiguous);
            check::run("ldexp", &[&output], &[&of(dtype, x), &of(DType::Int, f64::from(n))], &[], dtype).unwrap();
            assert_eq!(output.values()[[19]].re, expected, "{dtype:?} {x} {n}");
        }
    }

    #[test]
    fn neighbours() {
        let least = f64::from(f32::from_bits(1));
        let cases = [
            (0.0, 1.0, least),
            (0.0, -1.0, -least),
            (1.0, 2.0, 1.0 + f64::from(f32::EPSILON)),
            (-least, 1.0, -0.0),
            (2.0, 2.0, 2.0),
        ];
        for (from, to, next) in cases {
            assert_eq!(pair("nextafter", DType::Float, from, to), next, "{from} {to}");
        }
        assert_eq!(pair("nextafter", DType::Double, 1.0, 0.0), 1.0 - f64::EPSILON / 2.0);
        assert_eq!(pair("nextafter", DType::Double, f64::MAX, f64::INFINITY), f64::INFINITY);
        assert!(pair("nextafter", DType::Double, 1.0, f64::NAN).is_nan());
        let brain = |from: f64, to: f64| pair("nextafter", DType::BFloat16, from, to);
        let least = f64::from(f32::from_bits(1 << 16));
        assert_eq!(
            [brain(0.0, -1.0), brain(1.0, 2.0), brain(-1.0, -2.0), brain(3.0, 3.0)],
            [-least, 1.007_812_5, -1.007_812_5, 3.0]
        );
        assert_eq!(brain(2.0, 1.0), 1.992_187_5);
        assert!(brain(f64::NAN, 1.0).is_nan() && brain(1.0, f64::NAN).is_nan());
        let half = |from: f64, to: f64| pair("nextafter", DType::Half, from, to);
        assert_eq!(
            [half(1.0, 2.0), half(2.0, 1.0), half(0.0, -1.0), half(65504.0, f64::INFINITY)],
            [1.0 + 1.0 / 1024.0, 2.0 - 1.0 / 1024.0, -1.0 / 16_777_216.0, f64::INFINITY]
        );
    }
}
