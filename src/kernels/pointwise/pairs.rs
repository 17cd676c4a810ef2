//! Operators of two numbers beyond arithmetic. Operands [out, lhs, rhs].

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::elementary::Elementary;
use crate::tensor::number::{Integer, Ordered};

functions! {
    /// `aten::fmax`: the greater one; the other one where one is NaN.
    fmax, Fmax, REAL | BOOL, Ordered, [], |[lhs, rhs]| if lhs >= rhs || rhs.is_nan() { lhs } else { rhs };
    /// `aten::fmin`: the lesser one; the other one where one is NaN.
    fmin, Fmin, REAL | BOOL, Ordered, [], |[lhs, rhs]| if lhs <= rhs || rhs.is_nan() { lhs } else { rhs };
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
        if multiple < T::ZERO { multiple.neg() } else { multiple }
    };
    /// `aten::nextafter`: the next number after lhs on the way to rhs.
    nextafter, Nextafter, WIDE, Elementary, [], |[lhs, rhs]| lhs.nextafter(rhs);
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
    fn greater_and_lesser_ones() {
        check::pointwise::<2>("fmax", &[], same, |[x, y]| real(x.re.max(y.re)));
        check::pointwise::<2>("fmin", &[], same, |[x, y]| real(x.re.min(y.re)));
    }

    #[test]
    fn signs_and_steps() {
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
    fn not_a_number_gives_way() {
        for dtype in [DType::Float, DType::BFloat16, DType::Double] {
            for name in ["fmax", "fmin"] {
                assert_eq!((pair(name, dtype, f64::NAN, 2.0), pair(name, dtype, 2.0, f64::NAN)), (2.0, 2.0), "{name}");
                assert!(pair(name, dtype, f64::NAN, f64::NAN).is_nan());
            }
            assert_eq!(pair("heaviside", dtype, f64::NAN, 2.0), 0.0);
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
    }
}
