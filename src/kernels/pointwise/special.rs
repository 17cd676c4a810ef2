//! Special functions of `torch.special` and related ones: gamma, Bessel, normal distribution. Operands [out, x]. Computed in double
//! precision, to which 16 bit floats are cast.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::number::Hub;
use crate::tensor::transcendental::Elementary;

/// The coefficients of x^12, x^10, ... 1 in the Taylor series of sin(x) / x.
const BESSEL_J0: [f64; 7] =
    [1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0];

/// The maximum orders of Hermite polynomials, in `f32` and `f64`; above them PyTorch returns NaN.
const GREATEST_ORDERS: [i64; 2] = [128, 512];

/// A Hermite polynomial of an integer order, by its recurrence: `scale` is 2 for the physicists', 1 for the probabilists'. 0 for
/// negative orders, NaN above [`GREATEST_ORDERS`]. Abramowitz and Stegun, Handbook of Mathematical Functions, 22.7.
fn hermite<T: Elementary>(x: T, n: T, scale: i64) -> T {
    let order = n.hub().to::<i64>();
    if order < 0 {
        return T::ZERO;
    }
    if order > GREATEST_ORDERS[usize::from(size_of::<T>() > 4)] {
        return T::from_f64(f64::NAN);
    }
    let slope = T::from_i64(scale).mul(x);
    let (mut before, mut value) = (T::ZERO, T::ONE);
    for step in 0..order {
        // Fused as in PyTorch, for equal rounding: near a zero of the polynomial the two products cancel.
        (before, value) = (value, slope.mul_add(value, T::from_i64(scale * step).mul(before).neg()));
    }
    value
}

functions! {
    /// `aten::digamma`: the derivative of ln gamma.
    digamma, Digamma, WIDENED, Elementary, [], |[x]| x.digamma();
    /// `aten::erfinv`: the inverse of the error function.
    erfinv, Erfinv, WIDENED, Elementary, [], |[x]| x.erfinv();
    /// `aten::i0`: the modified Bessel function of order 0.
    i0, I0, WIDENED, Elementary, [], |[x]| x.i0();
    /// `aten::kaiser_window` of the positions 0..window_length: i0(beta sqrt(1 - t^2)) / i0(beta), with t from -1 to 1.
    kaiser_window, KaiserWindow, WIDENED, Elementary, [window_length, beta], |[position]| {
        let middle = window_length.sub(T::ONE).div(T::from_f64(2.0));
        let t = position.sub(middle).div(middle);
        beta.mul(T::ONE.sub(t.mul(t)).maximum(T::ZERO).sqrt()).i0().div(beta.i0())
    };
    /// `aten::lgamma`: ln |gamma(x)|.
    lgamma, Lgamma, WIDENED, Elementary, [], |[x]| x.lgamma();
    /// `aten::special_entr`: -x ln x; 0 at 0, -infinity below.
    special_entr, Entr, WIDENED, Elementary, [], |[x]| {
        let inside = x.neg().mul(x.log());
        let zero_or_nan = if x == T::ZERO { T::ZERO } else { x };
        let outside = if x < T::ZERO { T::LOWEST } else { zero_or_nan };
        if x > T::ZERO { inside } else { outside }
    };
    /// `aten::special_erfcx`: e^(x^2) erfc(x).
    special_erfcx, Erfcx, WIDENED, Elementary, [], |[x]| x.erfcx();
    /// `aten::special_hermite_polynomial_h`: the physicists' Hermite polynomial of order n.
    special_hermite_polynomial_h, HermiteH, WIDE, Elementary, [], |[x, n]| hermite(x, n, 2);
    /// `aten::special_hermite_polynomial_he`: the probabilists' Hermite polynomial of order n.
    special_hermite_polynomial_he, HermiteHe, WIDE, Elementary, [], |[x, n]| hermite(x, n, 1);
    /// `aten::special_i0e`: e^-|x| i0(x).
    special_i0e, I0e, WIDENED, Elementary, [], |[x]| x.i0e();
    /// `aten::special_i1`: the modified Bessel function of order 1.
    special_i1, I1, WIDENED, Elementary, [], |[x]| x.i1();
    /// `aten::special_i1e`: e^-|x| i1(x).
    special_i1e, I1e, WIDENED, Elementary, [], |[x]| x.i1e();
    /// `aten::special_log_ndtr`: the logarithm of the normal distribution function.
    special_log_ndtr, LogNdtr, WIDENED, Elementary, [], |[x]| x.log_ndtr();
    /// `aten::special_ndtri`: the inverse of the normal distribution function.
    special_ndtri, Ndtri, WIDENED, Elementary, [], |[x]| x.ndtri();
    /// `aten::special_spherical_bessel_j0`: sin(x) / x, by its Taylor series near 0; 0 at infinity.
    special_spherical_bessel_j0, SphericalBesselJ0, WIDE, Elementary, [], |[x]| {
        let square = x.mul(x);
        let near = BESSEL_J0.iter().fold(T::ZERO, |sum, &factor| sum.mul(square).add(T::from_f64(factor)));
        let ratio = if x.abs() == T::from_f64(f64::INFINITY) { T::ZERO } else { x.sin().div(x) };
        if x.abs() < T::from_f64(0.5) { near } else { ratio }
    };
    /// `aten::special_xlog1py`: x ln(1 + y); 0 where x is 0, unless y is NaN.
    special_xlog1py, Xlog1py, WIDENED, Elementary, [], |[x, y]| if x == T::ZERO && !y.is_nan() { T::ZERO } else { x.mul(y.log1p()) };
    /// `aten::xlogy`: x ln y; 0 where x is 0, unless y is NaN.
    xlogy, Xlogy, WIDENED, Elementary, [], |[x, y]| if x == T::ZERO && !y.is_nan() { T::ZERO } else { x.mul(y.log()) };
}

#[cfg(test)]
mod tests {
    use super::hermite;
    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::kernels::table::Op;

    fn same<D>(dtype: D) -> D {
        dtype
    }

    #[test]
    fn logarithms_of_products_with_zero() {
        let limit = |x: f64, product: f64| real(if x == 0.0 { 0.0 } else { product });
        check::pointwise::<2>("xlogy", &[], same, |[x, y]| limit(x.re, x.re * y.re.ln()));
        check::pointwise::<2>("special_xlog1py", &[], same, |[x, y]| limit(x.re, x.re * y.re.ln_1p()));
        check::pointwise::<1>("special_entr", &[], same, |[x]| {
            real(if x.re > 0.0 {
                -x.re * x.re.ln()
            } else if x.re < 0.0 {
                f64::NEG_INFINITY
            } else {
                0.0
            })
        });
    }

    #[test]
    fn hermite_polynomials_of_small_orders() {
        let physicists = |x: f64, n: f64| match n as i64 {
            0 => 1.0,
            1 => 2.0 * x,
            2 => 4.0 * x * x - 2.0,
            _ => 0.0,
        };
        let probabilists = |x: f64, n: f64| match n as i64 {
            0 => 1.0,
            1 => x,
            2 => x * x - 1.0,
            _ => 0.0,
        };
        for (x, order) in [(0.5, 0.0), (0.5, 1.0), (-1.5, 2.0), (-1.5, 2.75), (0.5, -1.0), (0.5, f64::NEG_INFINITY)] {
            assert_eq!((hermite(x, order, 2), hermite(x, order, 1)), (physicists(x, order), probabilists(x, order)));
        }
        assert!(hermite(0.5_f32, 129.0, 2).is_nan() && !hermite(0.5_f64, 129.0, 2).is_nan() && hermite(0.5_f64, 513.0, 1).is_nan());
    }

    /// Pairs of argument and value, from tables with 30 digits.
    fn known(name: &str, pairs: &[(f64, f64)]) {
        for dtype in Op::find(name.as_bytes()).unwrap().dtypes().iter() {
            for &(x, value) in pairs.iter().filter(|pair| check::round_trip(dtype, real(pair.0)) == real(pair.0)) {
                let input = Tensor::of(dtype, &ndarray::arr1(&[real(x); 40]).into_dyn(), Strides::Contiguous);
                let output = Tensor::new(dtype, &[40], Strides::Contiguous);
                check::run(name, &[&output], &[&input], &[], dtype).unwrap();
                let (found, expected) = (output.values()[[39]], check::round_trip(dtype, real(value)));
                let relative = real(found.re / expected.re);
                let near = check::close(relative, real(1.0), check::tolerance(dtype));
                assert!(
                    near || found == expected || found.re.is_nan() && value.is_nan(),
                    "{name}({x}) {dtype:?}: {found} != {value}"
                );
            }
        }
    }

    #[test]
    fn gamma_functions() {
        known(
            "digamma",
            &[
                (0.125, -8.388_492_663_295_855),
                (0.5, -1.963_510_026_021_423_5),
                (1.0, -0.577_215_664_901_532_9),
                (2.0, 0.422_784_335_098_467_13),
                (9.5, 2.197_737_876_402_949_4),
                (10.0, 2.251_752_589_066_721),
                (80.0, 4.375_763_614_043_984),
                (-0.5, 0.036_489_973_978_576_52),
                (-3.25, 4.466_275_872_350_28),
                (0.0, f64::NEG_INFINITY),
                (-2.0, f64::NAN),
                (f64::INFINITY, f64::INFINITY),
            ],
        );
        known(
            "lgamma",
            &[
                (0.125, 2.019_418_357_553_796_3),
                (0.5, 0.572_364_942_924_700_1),
                (1.0, 0.0),
                (1.125, -0.060_023_184_126_039_58),
                (1.5, -0.120_782_237_635_245_22),
                (2.0, 0.0),
                (2.25, 0.124_871_714_892_396_6),
                (4.5, 2.453_736_570_842_442_3),
                (8.0, 8.525_161_361_065_415),
                (9.0, 10.604_602_902_745_25),
                (100.0, 359.134_205_369_575_4),
                (-0.5, 1.265_512_123_484_645_4),
                (-2.25, 0.555_501_545_020_647_5),
                (0.0, f64::INFINITY),
                (-3.0, f64::INFINITY),
                (f64::NEG_INFINITY, f64::INFINITY),
                (f64::NAN, f64::NAN),
            ],
        );
    }

    #[test]
    fn bessel_functions() {
        known(
            "special_spherical_bessel_j0",
            &[
                (0.0, 1.0),
                (0.25, 0.989_615_837_018_091_7),
                (-2.0, 0.454_648_713_412_840_85),
                (f64::NEG_INFINITY, 0.0),
                (f64::NAN, f64::NAN),
            ],
        );
        known(
            "i0",
            &[
                (0.0, 1.0),
                (0.5, 1.063_483_370_741_323_6),
                (-3.0, 4.880_792_585_865_024_5),
                (7.75, 338.513_753_747_275_9),
                (8.25, 540.325_079_074_807),
                (30.0, 781_672_297_823.977_5),
                (f64::INFINITY, f64::INFINITY),
                (f64::NAN, f64::NAN),
            ],
        );
        known(
            "special_i0e",
            &[
                (0.0, 1.0),
                (0.5, 0.645_035_270_449_150_1),
                (-3.0, 0.243_000_354_161_825_4),
                (7.75, 0.145_812_274_308_914_3),
                (8.25, 0.141_164_550_632_993_5),
                (300.0, 0.023_042_558_415_085_46),
                (f64::INFINITY, 0.0),
            ],
        );
        known(
            "special_i1",
            &[
                (0.0, 0.0),
                (0.5, 0.257_894_305_390_896_3),
                (-3.0, -3.953_370_217_402_609_3),
                (7.75, 315.852_480_924_003_43),
                (8.25, 506.433_838_307_645_5),
                (30.0, 768_532_038_938.957),
                (f64::NEG_INFINITY, f64::NEG_INFINITY),
            ],
        );
        known(
            "special_i1e",
            &[
                (0.0, 0.0),
                (0.5, 0.156_420_803_184_871_7),
                (-3.0, -0.196_826_713_297_300_86),
                (7.75, 0.136_051_100_080_339_1),
                (8.25, 0.132_310_173_965_001_42),
                (300.0, 0.023_004_122_040_268_95),
                (f64::NAN, f64::NAN),
            ],
        );
    }

    #[test]
    fn normal_distribution() {
        known(
            "erfinv",
            &[
                (0.0, 0.0),
                (0.125, 0.111_235_451_840_949_96),
                (-0.5, -0.476_936_276_204_469_9),
                (0.875, 1.084_787_040_069_283_2),
                (0.996_093_75, 2.040_452_014_605_609_3),
                (0.999_999_046_325_683_6, 3.465_505_025_803_331),
                (0.999_999_999_999_090_5, 5.051_254_085_249_39),
                (1.0, f64::INFINITY),
                (-1.0, f64::NEG_INFINITY),
                (1.5, f64::NAN),
            ],
        );
        known(
            "special_erfcx",
            &[
                (0.0, 1.0),
                (0.25, 0.770_346_547_730_996_8),
                (-1.5, 18.653_886_256_262_734),
                (3.0, 0.179_001_151_181_389_96),
                (24.0, 0.023_487_546_063_682_64),
                (f64::NEG_INFINITY, f64::INFINITY),
                (f64::INFINITY, 0.0),
                (-28.0, f64::INFINITY),
                (-26.75, f64::INFINITY),
            ],
        );
        known(
            "special_log_ndtr",
            &[
                (-30.0, -454.321_243_956_343_2),
                (-3.0, -6.607_726_221_510_349),
                (-1.0, -1.841_021_645_009_263_6),
                (-0.5, -1.175_911_761_593_618_5),
                (0.0, -std::f64::consts::LN_2),
                (2.0, -0.023_012_909_328_963_49),
                (f64::INFINITY, 0.0),
                (f64::NAN, f64::NAN),
            ],
        );
        known(
            "special_ndtri",
            &[
                (0.5, 0.0),
                (0.125, -1.150_349_380_376_008),
                (0.75, 0.674_489_750_196_081_7),
                (0.000_976_562_5, -3.097_269_078_198_784_6),
                (0.999_023_437_5, 3.097_269_078_198_784_6),
                (5.960_464_477_539_063e-08, -5.294_704_084_854_598),
                (7.888_609_052_210_118e-31, -11.484_540_434_973_038),
                (1.183_052_186_166_774_7e-271, -35.195_221_493_198_14),
                (0.0, f64::NEG_INFINITY),
                (1.0, f64::INFINITY),
                (-0.5, f64::NAN),
            ],
        );
    }
}
