//! Guards through [`Guard::check`], as the ABI calls them; `tests/ops/test_bad_arguments.py` has a call for each of them.

use std::collections::HashMap;

use super::*;
use crate::call::tensors::{Format, Tensor};
use crate::tensor::{DType, Scalar};

/// The elements of tensors, by handle.
type Memory = HashMap<usize, Vec<i64>>;

impl Reader for Memory {
    fn integers(&self, tensor: Tensor<'_>) -> Vec<i64> {
        self[&tensor.handle()].clone()
    }

    fn minmax(&self, tensor: Tensor<'_>) -> Option<(i64, i64)> {
        let values = self[&tensor.handle()].iter();
        values.clone().min().copied().zip(values.max().copied())
    }

    fn is_finite(&self, _tensor: Tensor<'_>) -> bool {
        false
    }
}

fn of_dtype(dtype: DType, sizes: &[i64]) -> Value<'static> {
    Value::Tensor(Tensor::leaked(1, dtype, -1, sizes, &Format::Contiguous.strides(sizes)))
}

fn floats(sizes: &[i64]) -> Value<'static> {
    of_dtype(DType::Float, sizes)
}

/// Integers that the reader finds by their handle.
fn longs(handle: usize, sizes: &[i64], strides: &[i64]) -> Value<'static> {
    Value::Tensor(Tensor::leaked(handle, DType::Long, -1, sizes, strides))
}

fn integer(value: i64) -> Value<'static> {
    Value::Number(Scalar::Long(value))
}

/// The result of a guard's check. Names of arguments that are written end with an exclamation mark.
fn outcome(operator: &str, call: &[(&str, Value<'_>)], reader: Option<&dyn Reader>) -> Result<Option<Change>, CallError> {
    let argument = |name: &str| Argument { name: name.trim_end_matches('!').into(), is_written: name.ends_with('!') };
    let arguments = call.iter().map(|(name, _)| argument(name)).collect();
    let values: Vec<Value<'_>> = call.iter().map(|(_, value)| *value).collect();
    Guard::find(operator, arguments).expect("an operator with a guard").check(&values, reader)
}

fn invalid(text: &str) -> Result<Option<Change>, CallError> {
    Err(CallError::Invalid(text.into()))
}

fn index(text: &str) -> Result<Option<Change>, CallError> {
    Err(CallError::Index(text.into()))
}

#[test]
fn most_operators_have_no_guard() {
    assert!(Guard::find("aten::add", Vec::new()).is_none() && Guard::find("other::segment_reduce", Vec::new()).is_none());
    assert!(Guard::find("aten::segment_reduce", Vec::new()).is_some());
    // The strides of a result only matter if the caller provides it.
    let out = Argument { name: "out".into(), is_written: true };
    assert!(Guard::find("aten::avg_pool3d", Vec::new()).is_none() && Guard::find("aten::avg_pool3d", vec![out]).is_some());
}

#[test]
fn the_table_s_rules_name_what_they_use() {
    // Each name of a count is in a pattern before it, and a line asks for one change at most.
    fn names(rules: &[Rule], known: &mut Vec<&'static str>, changes: &mut usize) {
        for rule in rules {
            match *rule {
                Sizes(_, pattern) => known.extend(pattern.split(' ').map(|term| term.trim_end_matches(['?', '!', '.']))),
                Along(..) => known.extend(["before", "along", "after"]),
                Numel(_, count) | Indices(_, count) | Sums(_, count) | Prefixes(_, _, count) => {
                    let names = count.trim_end_matches("+1").split('*').filter(|name| *name != "1");
                    assert!(names.clone().all(|name| known.contains(&name)), "{rule:?}");
                }
                Contiguous(_) | Replaced(..) => *changes += 1,
                When(_, _, rules) => names(rules, known, &mut 0),
                _ => {}
            }
        }
    }
    for (operators, rules) in GUARDS {
        let mut changes = 0;
        names(rules, &mut Vec::new(), &mut changes);
        assert!(changes <= 1, "{operators:?}");
    }
}

#[test]
fn sizes_fit_patterns() {
    let pool = |sizes, grad, chosen: &[i64]| {
        let call = [("self", floats(sizes)), ("grad_output", floats(grad)), ("indices", floats(chosen))];
        outcome("aten::adaptive_max_pool2d_backward", &call, None)
    };
    for (sizes, grad) in [(&[3, 4, 5][..], &[3, 1, 1][..]), (&[2, 3, 4, 5], &[2, 3, 1, 1])] {
        assert_eq!(pool(sizes, grad, grad), Ok(None));
        assert!(pool(sizes, grad, &grad[1..]).is_err() && pool(sizes, &[3, 3, 1, 1], &[3, 3, 1, 1]).is_err());
    }
    let text = "expected self of size (b? c h w), but got [4, 5] where []";
    assert_eq!(pool(&[4, 5], &[1, 1], &[1, 1]), invalid(&format!("aten::adaptive_max_pool2d_backward: {text}")));
    // An absent argument fits; a list's integers are sizes, too.
    assert_eq!(outcome("aten::_spdiags", &[("shape", Value::None)], None), Ok(None));
    let shape = |sizes| outcome("aten::_spdiags", &[("shape", Value::Integers(sizes))], None);
    assert!(shape(&[3, 0]).is_ok() && shape(&[3, -2]).is_err());
}

#[test]
fn indices_are_looked_at_where_they_have_values() {
    let memory = Memory::from([(1, vec![0, 12, 3]), (2, vec![0, 11, 3])]);
    let pool = |handle, reader| {
        let indices = longs(handle, &[1, 1, 1, 3], &[9, 9, 9, 2]);
        let call = [("grad_output", floats(&[1, 1, 1, 3])), ("self", floats(&[1, 1, 3, 4])), ("indices", indices)];
        outcome("aten::adaptive_max_pool3d_backward", &call, reader)
    };
    let copied = || Ok(Some(Change { argument: 2, numbers: None }));
    let text = "indices has the value 12, which is out of bounds: expected at least 0 and less than 12";
    assert_eq!(pool(1, Some(&memory as &dyn Reader)), index(&format!("aten::adaptive_max_pool3d_backward: {text}")));
    assert_eq!((pool(2, Some(&memory)), pool(1, None)), (copied(), copied()));
}

#[test]
fn grids_keep_to_the_border() {
    let grid =
        |padding| outcome("aten::grid_sampler_2d_backward", &[("grid", floats(&[1])), ("padding_mode", integer(padding))], None);
    let replaced = |numbers| Ok(Some(Change { argument: 0, numbers: Some(numbers) }));
    assert_eq!((grid(0), grid(1)), (Ok(None), replaced([-INFINITY, INFINITY, -INFINITY])));
    assert_eq!(grid(2), replaced([-1.0; 3]));
}

#[test]
fn negative_pivots_come_in_pairs() {
    let pivots = [vec![1, -3, -3, 3, 1, 2], vec![1, 2, -3, -3, 1, 2], vec![1, 2, 0, 1, 2, 3], vec![1, 2, 3, -1, -4, 1]];
    let memory: Memory = pivots.into_iter().enumerate().collect();
    let solve = |handle| outcome("aten::linalg_ldl_solve", &[("pivots", longs(handle, &[2, 3], &[3, 1]))], Some(&memory));
    assert_eq!(solve(0), Ok(None));
    assert_eq!(solve(1), invalid("aten::linalg_ldl_solve: a negative pivot is not one of a pair"));
    assert_eq!(solve(2), invalid("aten::linalg_ldl_solve: expected pivots between 1 and 3, but got 0"));
    assert!(solve(3).is_err());
}
