//! Modified Bessel functions of the first kind, in double precision and without branches; single precision is rounded from them.
//!
//! Below 8 the power series, whose terms are all positive; above, a polynomial of 1 / x beside e^x / sqrt(x).

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::f64::{exp, polynomial};

/// Terms of the power series that matter below 8.
const TERMS: usize = 25;
const SERIES_0: [f64; TERMS] = series(0);
const SERIES_1: [f64; TERMS] = series(1);

/// sqrt(x) e^-x I0(x) by 8 / x.
const FAR_0: [f64; 22] = [
    8.673548748778975e-5,
    -1.0621964078734935e-3,
    5.907294782708311e-3,
    -1.983453993113738e-2,
    4.5045350514833285e-2,
    -7.343427457064947e-2,
    8.900123146240684e-2,
    -8.196007600628516e-2,
    5.8124568868271165e-2,
    -3.1981663410676785e-2,
    1.368735387171203e-2,
    -4.546955535933792e-3,
    1.1647587059624997e-3,
    -2.2715593352844244e-4,
    3.351703343445427e-5,
    -2.659515550006589e-6,
    3.0284347007162737e-6,
    1.0910355104334625e-5,
    5.7069543543585715e-5,
    4.382910733193845e-4,
    6.233473131311347e-3,
    3.9894228040143265e-1,
];
/// sqrt(x) e^-x I1(x) by 8 / x.
const FAR_1: [f64; 22] = [
    -8.028547603814604e-5,
    1.0017370726338325e-3,
    -5.65141294758733e-3,
    1.9190382158833123e-2,
    -4.3977468472640606e-2,
    7.221971288998175e-2,
    -8.805404686479056e-2,
    8.148744965842208e-2,
    -5.8024742699453596e-2,
    3.203470313143419e-2,
    -1.374871212025257e-2,
    4.5780994646781835e-3,
    -1.1750579426034525e-3,
    2.2952249532704646e-4,
    -3.396177994527619e-5,
    2.547049174049339e-6,
    -3.6465451016801757e-6,
    -1.403113334863107e-5,
    -7.989720989592354e-5,
    -7.304851262510486e-4,
    -1.870041939385673e-2,
    3.989422804014327e-1,
];

/// 1 / (k! (k + order)!) for k from the last term to 0.
const fn series(order: usize) -> [f64; TERMS] {
    let mut coefficients = [0.0; TERMS];
    let (mut term, mut k) = (1.0, 0);
    while k < TERMS {
        coefficients[TERMS - 1 - k] = term;
        k += 1;
        term /= (k * (k + order)) as f64;
    }
    coefficients
}

/// e^-|x| I0(x) and e^-|x| I1(|x|), each beside e^|x| and by the polynomials for its range.
#[inline(always)]
fn scaled(x: f64, near: [f64; TERMS], far: [f64; 22]) -> (f64, f64, bool) {
    let magnitude = x.abs();
    let quarter = 0.25 * magnitude * magnitude;
    (polynomial(quarter, near), polynomial(8.0 / magnitude, far) / magnitude.sqrt(), magnitude <= 8.0)
}

/// I0(x); 3 ulp.
#[inline(always)]
pub fn i0(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_0, FAR_0);
    let magnitude = x.abs();
    let far = if magnitude == f64::INFINITY { magnitude } else { exp(magnitude) * far };
    if is_near { near } else { far }
}

/// e^-|x| I0(x); 3 ulp.
#[inline(always)]
pub fn i0e(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_0, FAR_0);
    if is_near { exp(-x.abs()) * near } else { far }
}

/// I1(x); 3 ulp.
#[inline(always)]
pub fn i1(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_1, FAR_1);
    let magnitude = x.abs();
    let far = if magnitude == f64::INFINITY { magnitude } else { exp(magnitude) * far };
    (if is_near { 0.5 * magnitude * near } else { far }).copysign(x)
}

/// e^-|x| I1(x); 3 ulp.
#[inline(always)]
pub fn i1e(x: f64) -> f64 {
    let (near, far, is_near) = scaled(x, SERIES_1, FAR_1);
    let magnitude = x.abs();
    (if is_near { exp(-magnitude) * 0.5 * magnitude * near } else { far }).copysign(x)
}
