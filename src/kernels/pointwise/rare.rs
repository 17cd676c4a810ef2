//! Functions of statistics and physics. Operands [out, x]; computed in double precision, 16 bit floats cast on the way.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::elementary::Elementary;

functions! {
    /// `aten::digamma`: the derivative of ln gamma.
    digamma, Digamma, WIDENED, Elementary, [], |[x]| x.digamma();
    /// `aten::erfinv`: the inverse of the error function.
    erfinv, Erfinv, WIDENED, Elementary, [], |[x]| x.erfinv();
    /// `aten::i0`: the modified Bessel function of order 0.
    i0, I0, WIDENED, Elementary, [], |[x]| x.i0();
    /// `aten::lgamma`: ln |gamma(x)|.
    lgamma, Lgamma, WIDENED, Elementary, [], |[x]| x.lgamma();
    /// `aten::special_entr`: -x ln x; 0 at 0, -infinity below.
    special_entr, Entr, WIDENED, Elementary, [], |[x]| {
        let inside = x.neg().mul(x.log());
        let outside = if x < T::ZERO { T::LOWEST } else { x };
        if x > T::ZERO { inside } else { outside }
    };
    /// `aten::special_erfcx`: e^(x^2) erfc(x).
    special_erfcx, Erfcx, WIDENED, Elementary, [], |[x]| x.erfcx();
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
    /// `aten::special_xlog1py`: x ln(1 + y); 0 where x is 0, NaN where y is. Operands [out, x, y].
    special_xlog1py, Xlog1py, WIDENED, Elementary, [], |[x, y]| if x == T::ZERO && !y.is_nan() { T::ZERO } else { x.mul(y.log1p()) };
    /// `aten::xlogy`: x ln y; 0 where x is 0, NaN where y is. Operands [out, x, y].
    xlogy, Xlogy, WIDENED, Elementary, [], |[x, y]| if x == T::ZERO && !y.is_nan() { T::ZERO } else { x.mul(y.log()) };
}

#[cfg(test)]
mod tests {
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

    /// Pairs of argument and value, from tables of 30 digits.
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
                (0.125, -8.388492663295855),
                (0.5, -1.9635100260214235),
                (1.0, -0.5772156649015329),
                (2.0, 0.42278433509846713),
                (9.5, 2.1977378764029494),
                (10.0, 2.251752589066721),
                (80.0, 4.375763614043984),
                (-0.5, 0.03648997397857652),
                (-3.25, 4.46627587235028),
                (0.0, f64::NEG_INFINITY),
                (-2.0, f64::NAN),
                (f64::INFINITY, f64::INFINITY),
            ],
        );
        known(
            "lgamma",
            &[
                (0.125, 2.0194183575537963),
                (0.5, 0.5723649429247001),
                (1.0, 0.0),
                (1.125, -0.06002318412603958),
                (1.5, -0.12078223763524522),
                (2.0, 0.0),
                (2.25, 0.1248717148923966),
                (4.5, 2.4537365708424423),
                (8.0, 8.525161361065415),
                (9.0, 10.60460290274525),
                (100.0, 359.1342053695754),
                (-0.5, 1.2655121234846454),
                (-2.25, 0.5555015450206475),
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
            "i0",
            &[
                (0.0, 1.0),
                (0.5, 1.0634833707413236),
                (-3.0, 4.8807925858650245),
                (7.75, 338.5137537472759),
                (8.25, 540.325079074807),
                (30.0, 781672297823.9775),
                (f64::INFINITY, f64::INFINITY),
                (f64::NAN, f64::NAN),
            ],
        );
        known(
            "special_i0e",
            &[
                (0.0, 1.0),
                (0.5, 0.6450352704491501),
                (-3.0, 0.2430003541618254),
                (7.75, 0.1458122743089143),
                (8.25, 0.1411645506329935),
                (300.0, 0.02304255841508546),
                (f64::INFINITY, 0.0),
            ],
        );
        known(
            "special_i1",
            &[
                (0.0, 0.0),
                (0.5, 0.2578943053908963),
                (-3.0, -3.9533702174026093),
                (7.75, 315.85248092400343),
                (8.25, 506.4338383076455),
                (30.0, 768532038938.957),
                (f64::NEG_INFINITY, f64::NEG_INFINITY),
            ],
        );
        known(
            "special_i1e",
            &[
                (0.0, 0.0),
                (0.5, 0.1564208031848717),
                (-3.0, -0.19682671329730086),
                (7.75, 0.1360511000803391),
                (8.25, 0.13231017396500142),
                (300.0, 0.02300412204026895),
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
                (0.125, 0.11123545184094996),
                (-0.5, -0.4769362762044699),
                (0.875, 1.0847870400692832),
                (0.99609375, 2.0404520146056093),
                (0.9999990463256836, 3.465505025803331),
                (0.9999999999990905, 5.05125408524939),
                (1.0, f64::INFINITY),
                (-1.0, f64::NEG_INFINITY),
                (1.5, f64::NAN),
            ],
        );
        known(
            "special_erfcx",
            &[
                (0.0, 1.0),
                (0.25, 0.7703465477309968),
                (-1.5, 18.653886256262734),
                (3.0, 0.17900115118138996),
                (24.0, 0.02348754606368264),
                (f64::NEG_INFINITY, f64::INFINITY),
                (f64::INFINITY, 0.0),
                (-28.0, f64::INFINITY),
            ],
        );
        known(
            "special_log_ndtr",
            &[
                (-30.0, -454.3212439563432),
                (-3.0, -6.607726221510349),
                (-1.0, -1.8410216450092636),
                (-0.5, -1.1759117615936185),
                (0.0, -0.6931471805599453),
                (2.0, -0.02301290932896349),
                (f64::INFINITY, 0.0),
                (f64::NAN, f64::NAN),
            ],
        );
        known(
            "special_ndtri",
            &[
                (0.5, 0.0),
                (0.125, -1.150349380376008),
                (0.75, 0.6744897501960817),
                (0.0009765625, -3.0972690781987846),
                (0.9990234375, 3.0972690781987846),
                (5.960464477539063e-08, -5.294704084854598),
                (7.888609052210118e-31, -11.484540434973038),
                (1.1830521861667747e-271, -35.19522149319814),
                (0.0, f64::NEG_INFINITY),
                (1.0, f64::INFINITY),
                (-0.5, f64::NAN),
            ],
        );
    }
}
