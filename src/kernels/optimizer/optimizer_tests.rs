//! The optimizers, compared with formulas in `f64`, over dtypes, sizes around blocks and pieces, and every instruction set.

use ndarray::{ArrayD, IxDyn};

use crate::kernels::check::{self, Strides, Tensor};
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType, FLOATING};
use crate::tensor::launch::Scalar;

/// Elements of the tensors of each entry. The last one is divided between threads, which does not depend on the dtype: only Float
/// uses it.
const fn sizes(dtype: DType) -> [usize; ENTRIES] {
    [1, 0, 63, 64, 130, if matches!(dtype, DType::Float) { 40_000 } else { 200 }]
}

const ENTRIES: usize = 6;

/// The lists of a launch: the values of each list's tensor of each entry.
struct Lists(Vec<Vec<Tensor>>);

impl Lists {
    /// `count` lists; the values of lists whose number is in `positive` are not negative.
    fn new(dtype: DType, count: usize, positive: &[usize]) -> Self {
        let tensor = |list: usize, entry: usize| {
            let values = check::values(dtype, &[sizes(dtype)[entry]], 31 * list + entry);
            let values = values.mapv(|value| if positive.contains(&list) { check::real(value.re.abs()) } else { value });
            Tensor::of(dtype, &values, Strides::Contiguous)
        };
        Self((0..count).map(|list| (0..ENTRIES).map(|entry| tensor(list, entry)).collect()).collect())
    }

    /// Runs launches over the lists (all are outputs) and single numbers.
    fn run(&self, name: &str, singles: &[&Tensor], scalars: &[Scalar], dtype: DType) {
        let outputs: Vec<&Tensor> = self.0.iter().flatten().collect();
        let scalars = [&[Scalar::Long(ENTRIES as i64)], scalars].concat();
        check::run(name, &outputs, singles, &scalars, dtype).unwrap();
    }

    /// Every value, by list, entry and index.
    fn values(&self) -> Vec<Vec<ArrayD<Complex64>>> {
        self.0.iter().map(|list| list.iter().map(Tensor::values).collect()).collect()
    }
}

/// Runs an optimizer over `N` lists for every dtype and instruction set. `oracle`: the values of an element after the step.
fn check<const N: usize>(
    name: &str,
    singles: &[f64],
    scalars: &[Scalar],
    positive: &[usize],
    oracle: impl Fn([f64; N]) -> [f64; N],
) {
    for dtype in FLOATING.iter() {
        let given = Lists::new(dtype, N, positive);
        let values = given.values();
        let singles: Vec<Tensor> = singles.iter().map(|&value| single(DType::Float, value)).collect();
        for_each_isa(|isa| {
            let lists = Lists(given.0.clone());
            lists.run(name, &singles.iter().collect::<Vec<_>>(), scalars, dtype);
            let results = lists.values();
            for (entry, size) in sizes(dtype).into_iter().enumerate() {
                // All elements of a long tensor are computed alike: only its ends and the borders of blocks are compared.
                for index in (0..size).filter(|index| index % 997 < 3 || *index + 3 > size) {
                    let before = std::array::from_fn(|list| values[list][entry][[index]].re);
                    let after = oracle(before);
                    for (list, &expected) in after.iter().enumerate() {
                        let found = results[list][entry][[index]].re;
                        let close = check::close(check::real(found), check::real(expected), 3.0 * check::tolerance(dtype));
                        assert!(
                            close,
                            "{name} {dtype:?} {isa:?} list {list}[{entry}][{index}]: {found} != {expected} of {before:?}"
                        );
                    }
                }
            }
        });
    }
}

fn single(dtype: DType, value: f64) -> Tensor {
    Tensor::of(dtype, &ArrayD::from_elem(IxDyn(&[]), Complex64::new(value, 0.0)), Strides::Contiguous)
}

/// Whether there are the single operands learning rate, factor and overflow; then the settings.
fn scalars(given: [bool; 3], settings: &[f64], switches: &[bool]) -> Vec<Scalar> {
    let given = given.map(Scalar::Bool);
    let settings = settings.iter().map(|&value| Scalar::Double(value));
    given.into_iter().chain(settings).chain(switches.iter().map(|&value| Scalar::Bool(value))).collect()
}

/// Adam's moments and direction, in the third step of every parameter.
fn adam([first, second, grad]: [f64; 3], beta1: f64) -> [f64; 2] {
    [first * beta1 + grad * (1.0 - beta1), second * 0.875 + grad * grad * 0.125]
}

fn way(first: f64, bound: f64, rate: f64, beta1: f64) -> f64 {
    rate / (1.0 - beta1.powi(3)) * first / ((bound / (1.0 - 0.875f64.powi(3))).sqrt() + 0.25)
}

const STEPS: [f64; ENTRIES] = [3.0; ENTRIES];

#[test]
fn adam_decays_through_the_gradient() {
    for (beta1, maximize) in [(0.75, false), (0.25, true)] {
        let scalars = scalars([false; 3], &[0.5, beta1, 0.875, 0.125, 0.25], &[false, maximize]);
        check::<4>("_fused_adam_", &STEPS, &scalars, &[2], |[parameter, first, second, grad]| {
            let used = (if maximize { -grad } else { grad }) + 0.125 * parameter;
            let [first, second] = adam([first, second, used], beta1);
            [parameter - way(first, second, 0.5, beta1), first, second, grad]
        });
    }
}

#[test]
fn adamw_decays_by_itself_and_unscales() {
    let singles = [&STEPS[..], &[0.25, 4.0, 0.0]].concat();
    let scalars = scalars([true; 3], &[9.0, 0.75, 0.875, 0.125, 0.25], &[false, false]);
    check::<4>("_fused_adamw_", &singles, &scalars, &[2], |[parameter, first, second, grad]| {
        let grad = grad / 4.0;
        let [first, second] = adam([first, second, grad], 0.75);
        [parameter * (1.0 - 0.25 * 0.125) - way(first, second, 0.25, 0.75), first, second, grad]
    });
}

#[test]
fn amsgrad_keeps_the_greatest() {
    let scalars = scalars([false; 3], &[0.5, 0.75, 0.875, 0.0, 0.25], &[true, false]);
    check::<5>("_fused_adam_", &STEPS, &scalars, &[2, 3], |[parameter, first, second, greatest, grad]| {
        let [first, second] = adam([first, second, grad], 0.75);
        let greatest = greatest.max(second);
        [parameter - way(first, greatest, 0.5, 0.75), first, second, greatest, grad]
    });
}

#[test]
fn an_overflow_leaves_everything_as_it_was() {
    let singles = [&STEPS[..], &[4.0, 1.0]].concat();
    let given = [false, true, true];
    let settings = scalars(given, &[0.5, 0.75, 0.875, 0.0, 0.25], &[false, false]);
    check::<4>("_fused_adam_", &singles, &settings, &[], |values| values);
    check::<3>("_fused_adagrad_", &singles, &scalars(given, &[0.5; 4], &[false]), &[], |values| values);
    let settings = scalars(given, &[0.5; 4], &[false, false, false]);
    check::<3>("_fused_sgd_", &[4.0, 1.0], &settings, &[], |values| values);
}

#[test]
fn sgd_without_momentum() {
    let scalars = scalars([false, true, false], &[0.125, 0.0, 0.5, 0.0], &[false, true, false]);
    check::<2>("_fused_sgd_", &[2.0], &scalars, &[], |[parameter, grad]| {
        let grad = grad / 2.0;
        [parameter - 0.5 * (0.125 * parameter - grad), grad]
    });
}

#[test]
fn sgd_with_momentum() {
    for (nesterov, is_first) in [(false, false), (true, false), (false, true), (true, true)] {
        let scalars = scalars([false; 3], &[0.0, 0.75, 0.5, 0.25], &[nesterov, false, is_first]);
        check::<3>("_fused_sgd_", &[], &scalars, &[], |[parameter, buffer, grad]| {
            let buffer = if is_first { grad } else { buffer * 0.75 + grad * 0.75 };
            let direction = if nesterov { grad + 0.75 * buffer } else { buffer };
            [parameter - 0.5 * direction, buffer, grad]
        });
    }
}

#[test]
fn adagrad_slows_down() {
    for maximize in [false, true] {
        let scalars = scalars([false; 3], &[0.5, 0.25, 0.125, 0.25], &[maximize]);
        check::<3>("_fused_adagrad_", &STEPS, &scalars, &[1], |[parameter, sum, grad]| {
            let used = (if maximize { -grad } else { grad }) + 0.125 * parameter;
            let sum = sum + used * used;
            [parameter - 0.5 / 1.5 * used / (sum.sqrt() + 0.25), sum, grad]
        });
    }
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let short = Tensor::of(DType::Float, &check::values(DType::Float, &[3], 1), Strides::Contiguous);
    let long = Tensor::of(DType::Float, &check::values(DType::Float, &[4], 2), Strides::Contiguous);
    let wide = Tensor::of(DType::Double, &check::values(DType::Double, &[3], 2), Strides::Contiguous);
    let sparse = Tensor::of(DType::Float, &check::values(DType::Float, &[3], 2), Strides::Sliced);
    let scalars = [&[Scalar::Long(1)][..], &scalars([false; 3], &[0.0, 0.0, 0.5, 0.0], &[false; 3])].concat();
    for other in [&long, &wide, &sparse] {
        assert!(check::run("_fused_sgd_", &[&short, other], &[], &scalars, DType::Float).is_err());
    }
    assert!(check::run("_fused_sgd_", &[&short], &[], &scalars, DType::Float).is_err());
    assert!(check::run("_fused_sgd_", &[&short, &short.clone()], &[], &scalars, DType::Float).is_ok());
}

#[test]
fn a_parameter_that_comes_twice_is_stepped_twice() {
    let values = check::values(DType::Float, &[100_000], 5);
    let parameter = Tensor::of(DType::Float, &values, Strides::Contiguous);
    let grad = Tensor::of(DType::Float, &values.mapv(|_| check::real(1.0)), Strides::Contiguous);
    let scalars = [&[Scalar::Long(2)][..], &scalars([false; 3], &[0.0, 0.0, 0.5, 0.0], &[false; 3])].concat();
    check::run("_fused_sgd_", &[&parameter, &parameter, &grad, &grad], &[], &scalars, DType::Float).unwrap();
    assert_eq!(parameter.values(), values.mapv(|value| value - 1.0));
}
