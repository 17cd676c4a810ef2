//! The fused optimizers: settings, dtypes, sizes around blocks and pieces.

use crate::ops::check::{Case, Make, Tensor, agree, real, run, values};
use crate::tensor::{DType, FLOATING, Scalar};

/// Elements of the tensors of each entry, around those of blocks.
const SIZES: [usize; 6] = [1, 0, 63, 64, 130, 1100];

/// True if there are the single operands learning rate, factor and overflow; then the settings.
fn scalars(entries: usize, given: [bool; 3], settings: &[f64], switches: &[bool]) -> Vec<Scalar> {
    let settings = settings.iter().map(|&value| Scalar::Double(value));
    let flags = |flags: &[bool]| flags.iter().map(|&flag| Scalar::Bool(flag)).collect::<Vec<_>>();
    [Scalar::Long(entries as i64)].into_iter().chain(flags(&given)).chain(settings).chain(flags(switches)).collect()
}

/// Checks an optimizer over lists, all of which are outputs; the values of those whose number is in `positive` are not negative.
/// `singles`: learning rate, factor and overflow, as far as they are given.
fn check(name: &str, lists: usize, positive: &[usize], singles: [Option<f64>; 3], settings: &[f64], switches: &[bool]) {
    agree(name, FLOATING, [8.0, 0.0], |make| {
        let tensor = |list: usize, entry: usize| {
            let values = values(make.dtype(), &[SIZES[entry]], 31 * list + entry);
            make.dense(make.dtype(), &values.mapv(|value| if positive.contains(&list) { real(value.re.abs()) } else { value }))
        };
        let outputs: Vec<_> = (0..lists).flat_map(|list| (0..SIZES.len()).map(move |entry| (list, entry))).collect();
        let steps = if name == "_fused_sgd_" { vec![] } else { vec![3.0; SIZES.len()] };
        let inputs = steps.into_iter().chain(singles.into_iter().flatten()).map(|value| Tensor::line(DType::Float, &[value]));
        let scalars = scalars(SIZES.len(), singles.map(|single| single.is_some()), settings, switches);
        Case::new(
            outputs.into_iter().map(|(list, entry)| tensor(list, entry)).collect::<Vec<_>>(),
            inputs.collect::<Vec<_>>(),
            scalars,
        )
    });
}

#[test]
fn steps_of_every_optimizer() {
    let none = [None; 3];
    let adam = [0.5, 0.75, 0.875, 0.125, 0.25];
    check("_fused_adam_", 4, &[2], none, &adam, &[false, false]);
    check("_fused_adam_", 4, &[2], none, &[0.5, 0.25, 0.875, 0.125, 0.25], &[false, true]);
    check("_fused_adam_", 5, &[2, 3], none, &adam, &[true, false]);
    check("_fused_adamw_", 4, &[2], [Some(0.25), Some(4.0), Some(0.0)], &adam, &[false, false]);
    check("_fused_sgd_", 2, &[], [None, Some(2.0), None], &[0.125, 0.0, 0.5, 0.0], &[false, true, false]);
    for (nesterov, is_first) in [(false, false), (true, false), (false, true), (true, true)] {
        check("_fused_sgd_", 3, &[], none, &[0.0, 0.75, 0.5, 0.25], &[nesterov, false, is_first]);
    }
    for maximize in [false, true] {
        check("_fused_adagrad_", 3, &[1], none, &[0.5, 0.25, 0.125, 0.25], &[maximize]);
    }
    // A step with an overflow does nothing.
    check("_fused_adam_", 4, &[], [None, Some(4.0), Some(1.0)], &adam, &[false, false]);
}

fn sgd(outputs: Vec<Tensor>) -> Case {
    let entries = outputs.len().div_ceil(2);
    Case::new(outputs, [], scalars(entries, [false; 3], &[0.0, 0.0, 0.5, 0.0], &[false; 3]))
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let line = |dtype, size| Make::plain(dtype).input(&[size], 1);
    let sparse = line(DType::Float, 6).restrided(&[3], &[8]);
    let is_taken = |outputs| sgd(outputs).run("_fused_sgd_", DType::Float, None).is_ok();
    for other in [line(DType::Float, 4), line(DType::Double, 3), sparse] {
        assert!(!is_taken(vec![line(DType::Float, 3), other]));
    }
    assert!(!is_taken(vec![line(DType::Float, 3)]) && is_taken(vec![line(DType::Float, 3), line(DType::Float, 3)]));
}

#[test]
fn a_parameter_that_comes_twice_is_stepped_twice() {
    let parameter = Make::plain(DType::Float).input(&[100_000], 5);
    let grad = Make::plain(DType::Float).number(&[100_000], 1.0);
    let scalars = sgd(vec![grad.clone(); 4]).scalars;
    let before = parameter.values();
    run("_fused_sgd_", &[&parameter, &parameter, &grad, &grad], &[], &scalars, DType::Float).unwrap();
    assert_eq!(parameter.values(), before.mapv(|value| value - 1.0));
}
