//! Guards through [`Guard::check`], as the ABI calls them; `tests/ops/test_bad_arguments.py` has a call for each of them.

use std::collections::HashMap;

use super::*;
use crate::operators::{Format, Tensor};
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

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

fn flag(value: bool) -> Value<'static> {
    Value::Number(Scalar::Bool(value))
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
fn rules_hold_where_their_condition_does() {
    let loss = |sizes, grad, reduction| {
        outcome(
            "aten::multi_margin_loss_backward",
            &[("self", floats(sizes)), ("grad_output", floats(grad)), ("reduction", integer(reduction))],
            None,
        )
    };
    assert!(loss(&[4, 3], &[4], 0).is_ok() && loss(&[3], &[], 0).is_ok() && loss(&[], &[], 0).is_ok());
    assert!(loss(&[4, 3], &[], 1).is_ok() && loss(&[4, 3], &[0], 2).is_err() && loss(&[4, 3], &[], 0).is_err());
    let solve = |driver, sizes, b| {
        outcome("aten::linalg_lstsq", &[("self", floats(sizes)), ("b", floats(b)), ("driver", Value::Text(driver))], None)
    };
    assert!(solve("gelss", &[2, 3], &[2, 0]).is_err() && solve("gels", &[2, 3], &[2, 0]).is_ok());
    assert!(solve("gelss", &[0, 3], &[0]).is_ok());
    let norm = |training, mean| {
        let call = [("input", floats(&[2, 3])), ("weight", Value::None), ("running_mean", mean), ("training", flag(training))];
        outcome("aten::native_batch_norm", &call, None)
    };
    assert_eq!((norm(true, Value::None), norm(false, floats(&[3]))), (Ok(None), Ok(None)));
    assert_eq!(norm(true, floats(&[2])), invalid("aten::native_batch_norm: expected running_mean to have 3 elements, but got 2"));
    assert!(norm(false, Value::None).is_err());
    let norm = |g, dim| outcome("aten::_weight_norm_interface", &[("v", floats(&[3, 4])), ("g", g), ("dim", integer(dim))], None);
    assert!(norm(floats(&[3, 1]), 0).is_ok() && norm(floats(&[1, 4]), -1).is_ok() && norm(floats(&[3, 1]), 1).is_err());
    assert!(norm(floats(&[3, 1]), 2).is_err() && norm(of_dtype(DType::Half, &[3]), 0).is_err());
    assert!(matches!(outcome("aten::mkldnn_rnn_layer", &[], None), Err(CallError::Unsupported(_))));
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

#[test]
fn lengths_say_which_targets_and_segments_count() {
    let memory =
        Memory::from([(1, vec![1, 2, 9, 1, 9, 9]), (2, vec![1, 2, 1, 9]), (3, vec![2, 2]), (4, vec![2, 3]), (5, vec![0, 5])]);
    let ctc = |targets: Value<'static>, lengths| {
        let lengths = [("input_lengths", Value::Integers(&[6, 6])), ("target_lengths", Value::Integers(lengths))];
        let call = [("log_probs", floats(&[6, 2, 5])), ("targets", targets), lengths[0], lengths[1]];
        outcome("aten::_ctc_loss", &call, Some(&memory))
    };
    let wrong = || index("aten::_ctc_loss: targets has the value 9, which is out of bounds: expected at least 0 and less than 5");
    let (padded, joined) = (longs(1, &[2, 3], &[3, 1]), longs(2, &[4], &[1]));
    assert_eq!((ctc(padded, &[2, 1]), ctc(joined, &[2, 1])), (Ok(None), Ok(None)));
    assert_eq!((ctc(padded, &[2, 2]), ctc(joined, &[2, 2])), (wrong(), wrong()));
    assert_eq!(ctc(joined, &[3, 2]), invalid("aten::_ctc_loss: expected 5 targets, but got 4"));
    assert!(ctc(padded, &[4, 0]).is_err() && ctc(padded, &[2]).is_err());
    let reduce = |name, handle| {
        let call = [("data", floats(&[4, 3])), (name, longs(handle, &[2], &[1])), ("axis", integer(0))];
        outcome("aten::segment_reduce", &call, Some(&memory))
    };
    assert!(reduce("lengths", 3).is_ok() && reduce("lengths", 4).is_err() && reduce("offsets", 5).is_err());
    let backward = |grad| {
        let call = [("data", floats(&[4, 3])), ("grad", floats(grad)), ("offsets", longs(3, &[2], &[1])), ("axis", integer(0))];
        outcome("aten::_segment_reduce_backward", &call, None)
    };
    assert!(backward(&[1, 3]).is_ok() && backward(&[2, 3]).is_err());
}

#[test]
fn indices_of_sparse_tensors_name_elements() {
    let memory: Memory = [vec![0, 1, 2], vec![0, 2], vec![0, 5, 2]].into_iter().enumerate().collect();
    let members = |layout, sizes: &[i64], compressed, values: &[i64]| {
        let compressed = if layout == "Sparse" { Value::None } else { longs(compressed, &[3], &[1]) };
        let indices = if layout == "Sparse" { longs(1, &[1, 2], &[2, 1]) } else { longs(1, &[2], &[1]) };
        check_members("aten::mm", &[Value::Text(layout), Value::Integers(sizes), compressed, indices, floats(values)], &memory)
    };
    for (layout, good, bad, values) in [
        ("SparseCsr", &[2, 3][..], &[2, 2][..], &[2][..]),
        ("SparseCsc", &[3, 2], &[3, 3], &[2]),
        ("SparseBsr", &[4, 6], &[4, 4], &[2, 2, 2]),
        ("Sparse", &[3], &[2], &[2]),
    ] {
        assert!(members(layout, good, 0, values).is_ok() && members(layout, bad, 0, values).is_err(), "{layout}");
    }
    let text = "a step of the compressed indices of a sparse tensor is out of bounds";
    let steps = members("SparseCsr", &[2, 3], 2, &[2]);
    assert!(matches!(steps, Err(CallError::Invalid(found)) if found.starts_with("aten::mm: ") && found.contains(text)));
    assert!(looks_at_no_index("aten::values") && !looks_at_no_index("aten::mm"));
}
