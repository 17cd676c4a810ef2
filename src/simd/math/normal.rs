//! The normal distribution's functions, in double precision and without branches; single precision is rounded from them.
//!
//! The inverse of the error function is a function of ln(1 - x^2) beside x (M. Giles, *Approximating the erfinv function*, 2012).

#![forbid(unsafe_code)]
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::f64::{erfc, erfcx_of_positive, exp, log, log1p, polynomial};

/// Inverse of erf at x, divided by x, for w = -ln(1 - x^2) below 6.25, by w - 3.125.
const CENTRE: [f64; 22] = [
    -1.7578518227410067e-19,
    1.0922303658470997e-18,
    1.1531711227035491e-17,
    -1.2888083317762992e-16,
    1.2744143881600212e-17,
    6.580282043451331e-15,
    -4.0444283335958285e-14,
    -8.105973917549821e-14,
    2.6327434449823037e-12,
    -1.2977493703687756e-11,
    -5.415046677124506e-11,
    1.0512200367259048e-9,
    -4.112644907577394e-9,
    -2.907038581874436e-8,
    4.2347879792718207e-7,
    -1.365469181267597e-6,
    -1.3882523382209929e-5,
    1.8673420802268017e-4,
    -7.407025341574597e-4,
    -6.033670871427489e-3,
    2.4015818242558845e-1,
    1.6536545626831027,
];
/// The same for sqrt(w) from 2.5 to 4, by sqrt(w) - 3.25.
const MIDDLE: [f64; 18] = [
    9.284332225420571e-8,
    -2.697313682066162e-7,
    1.3250759477977463e-8,
    1.497191022600222e-6,
    -4.008956966932278e-6,
    2.9264777314239854e-6,
    1.2472740144742724e-5,
    -4.7319187369358214e-5,
    6.828561398530996e-5,
    2.4031286377073694e-5,
    -3.5503764895782253e-4,
    9.532893618552461e-4,
    -1.6882755445265592e-3,
    2.4914420969979908e-3,
    -3.751208508030541e-3,
    5.370914553573593e-3,
    1.0052589676941646,
    3.0838856104922208,
];
/// The same divided by sqrt(w), for sqrt(w) from 4 to 9, by 1 / sqrt(w) - 0.1805...
const TAIL: [f64; 20] = [
    -5.0447169511618726e11,
    -6.1091771641691536e10,
    1.4050070791879807e10,
    2.4230968278771567e9,
    -9.267102709371851e7,
    -4.365830032796147e7,
    -2.38161322597437e6,
    2.2099122508064564e5,
    5.914617077176201e4,
    3.9956922682065047e3,
    6.639946061102136e2,
    -6.931498138156779e1,
    2.5461876538645424e1,
    -7.414686827018965,
    2.6242650870504525,
    -1.4353016159468017,
    8.613511551473836e-1,
    -6.450783076311549e-2,
    -2.0002383427988774e-1,
    9.738888880275122e-1,
];
const TAIL_CENTRE: f64 = 0.18055555555555555;
/// The same for sqrt(w) from 9 on.
const FAR_TAIL: [f64; 18] = [
    5.772392969982317e13,
    -5.069632422498267e12,
    8.754692913927267e10,
    -8.674171974336481e9,
    1.8245246073237855e9,
    -1.7338937325647154e8,
    1.5552732460066179e7,
    -1.5793200787551708e6,
    1.6773561931559216e5,
    -1.855836126118648e4,
    2.190015357596245e3,
    -2.8232190769508156e2,
    4.121324372954941e1,
    -7.651036180889736,
    2.2328909304544644,
    -4.9996516017337767e-1,
    -1.4697299496163185e-1,
    9.932284042535782e-1,
];
const FAR_TAIL_CENTRE: f64 = 0.07373737373737374;

/// Inverse of erf at x, divided by x, given w = -ln(1 - x^2), its root below 9.
#[inline(always)]
fn inverse_near(w: f64, root: f64) -> f64 {
    let tail = root * polynomial(1.0 / root - TAIL_CENTRE, TAIL);
    let outer = if root < 4.0 { polynomial(root - 3.25, MIDDLE) } else { tail };
    if w < 6.25 { polynomial(w - 3.125, CENTRE) } else { outer }
}

/// The inverse of the error function; 4 ulp. Infinite at 1, NaN beyond.
#[inline(always)]
pub fn erfinv(x: f64) -> f64 {
    let w = -log((1.0 - x) * (1.0 + x));
    let result = x * inverse_near(w, w.sqrt());
    if x.abs() == 1.0 { f64::INFINITY.copysign(x) } else { result }
}

/// The inverse of the normal distribution function; 6 ulp. Infinite at 0 and 1, NaN beyond.
#[inline(always)]
pub fn ndtri(p: f64) -> f64 {
    let x = 2.0 * p - 1.0;
    let w = -log(4.0 * p * (1.0 - p));
    let root = w.sqrt();
    let far = root * polynomial(1.0 / root - FAR_TAIL_CENTRE, FAR_TAIL);
    let quotient = if root < 9.0 { inverse_near(w, root) } else { far };
    let result = std::f64::consts::SQRT_2 * x * quotient;
    if p == 0.0 || p == 1.0 { f64::INFINITY.copysign(x) } else { result }
}

/// e^(x^2) erfc x; 4 ulp.
#[inline(always)]
pub fn erfcx(x: f64) -> f64 {
    let magnitude = x.abs();
    let right = erfcx_of_positive(magnitude);
    let bounded = if magnitude > 30.0 { 30.0 } else { magnitude };
    let square = bounded * bounded;
    let lost = bounded.mul_add(bounded, -square);
    let power = exp(square);
    let left = 2.0 * power.mul_add(lost, power) - right;
    // The power is out of range from 26.7 on.
    if x < -27.0 {
        f64::INFINITY
    } else if x < 0.0 {
        left
    } else {
        right
    }
}

/// The logarithm of the normal distribution function; 4 ulp.
#[inline(always)]
pub fn log_ndtr(x: f64) -> f64 {
    let t = x * std::f64::consts::FRAC_1_SQRT_2;
    let low = log(0.5 * erfcx_of_positive(t.abs())) - t * t;
    let high = log1p(-0.5 * erfc(t));
    if x < -1.0 { low } else { high }
}
