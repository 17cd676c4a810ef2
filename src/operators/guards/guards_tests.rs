//! Guards through [`Guard::check`], as the ABI calls them; `tests/ops/test_bad_arguments.py` has a call for each of them.

use std::collections::HashMap;

use super::named_arguments::minmax;
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
        minmax(self[&tensor.handle()].iter().copied())
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
fn outcome(operator: &str, call: &[(&str, Value<'_>)], reader: Option<&dyn Reader>) -> Result<Changes, Refusal> {
    let argument = |name: &str| Argument { name: name.trim_end_matches('!').into(), is_written: name.ends_with('!') };
    let arguments = call.iter().map(|(name, _)| argument(name)).collect();
    let values: Vec<Value<'_>> = call.iter().map(|(_, value)| *value).collect();
    Guard::find(operator, arguments).expect("an operator with a guard").check(&values, reader)
}

fn invalid(text: &str) -> Result<Changes, Refusal> {
    Err(Refusal::Invalid(text.into()))
}

fn index(text: &str) -> Result<Changes, Refusal> {
    Err(Refusal::Index(text.into()))
}

fn made<const N: usize>(changes: [(usize, Change); N]) -> Changes {
    changes.into_iter().collect()
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
fn results_that_share_memory_are_refused() {
    let out = |strides: &[i64]| [("out!", longs(1, &[2, 3], strides))];
    let text = "aten::narrow_copy: more than one element of the written-to tensor refers to a single memory location";
    assert_eq!(outcome("aten::narrow_copy", &out(&[0, 1]), None), invalid(text));
    assert_eq!(outcome("aten::narrow_copy", &out(&[1, 2]), None), Ok(made([])));
    assert_eq!(outcome("aten::narrow_copy", &[("out!", longs(1, &[0, 3], &[0, 0]))], None), Ok(made([])));
}

#[test]
fn what_is_resized_does_not_share_memory() {
    let call = |sizes: &[i64]| {
        [("self", floats(&[2, 3])), ("training", Value::Number(Scalar::Bool(true))), ("out!", longs(1, sizes, &[0, 1]))]
    };
    assert_eq!(outcome("aten::rrelu_with_noise", &call(&[4, 3]), None), Ok(made([(2, Change::Resized(0))])));
    assert!(outcome("aten::rrelu_with_noise", &call(&[2, 3]), None).is_err());
}

#[test]
fn indices_are_looked_at_where_they_have_values() {
    let memory = Memory::from([(1, vec![0, 12, 3]), (2, vec![0, 11, 3])]);
    let call = |handle| {
        [("grad_output", floats(&[1, 1, 3])), ("self", floats(&[1, 3, 4])), ("indices", longs(handle, &[1, 1, 3], &[9, 9, 2]))]
    };
    let pool = |handle, reader| outcome("aten::adaptive_max_pool2d_backward", &call(handle), reader);
    let copied = || Ok(made([(2, Change::Contiguous)]));
    let text = "indices has the value 12, which is out of bounds: expected at least 0 and less than 12";
    assert_eq!(pool(1, Some(&memory as &dyn Reader)), index(&format!("aten::adaptive_max_pool2d_backward: {text}")));
    assert_eq!((pool(2, Some(&memory)), pool(1, None)), (copied(), copied()));
}

#[test]
fn scales_are_written_as_cpp_writes_them() {
    let call = |scale| {
        [("self", floats(&[1, 1, 4])), ("output_size", Value::Integers(&[2])), ("scales", Value::Number(Scalar::Double(scale)))]
    };
    let text = "aten::upsample_nearest1d: a scale of 1e-30 is too small for an output of size 2";
    assert_eq!(outcome("aten::upsample_nearest1d", &call(1e-30), None), invalid(text));
    assert_eq!(outcome("aten::upsample_nearest1d", &call(-1.0), None), Ok(made([])));
}

#[test]
fn grids_keep_to_the_border() {
    let grid =
        |padding| outcome("aten::grid_sampler_2d_backward", &[("grid", floats(&[1])), ("padding_mode", integer(padding))], None);
    let infinity = f64::INFINITY;
    assert_eq!(grid(0), Ok(made([])));
    assert_eq!(grid(1), Ok(made([(0, Change::Finite([-infinity, infinity, -infinity]))])));
    assert_eq!(grid(2), Ok(made([(0, Change::Finite([-1.0; 3]))])));
}

#[test]
fn dimensions_of_a_transform_are_within_the_tensor_and_differ() {
    let fft = |dims| outcome("aten::_fft_c2c", &[("self", floats(&[2, 3])), ("dim", Value::Integers(dims))], None);
    let text = "aten::_fft_c2c: Dimension out of range (expected to be in range of [0, 1], but got -1)";
    assert_eq!((fft(&[0, -1]), fft(&[1, 0])), (index(text), Ok(made([]))));
    assert_eq!(fft(&[1, 1]), invalid("aten::_fft_c2c: dim 1 appears multiple times in the list of dims"));
}

#[test]
fn negative_pivots_come_in_pairs() {
    let memory = Memory::from([
        (1, vec![1, -3, -3, 3, 1, 2]),
        (2, vec![1, 2, -3, -3, 1, 2]),
        (3, vec![1, 2, 0, 1, 2, 3]),
        (4, vec![-1, -4, 1]),
    ]);
    let solve = |handle, rows| outcome("aten::linalg_ldl_solve", &[("pivots", longs(handle, &[rows, 3], &[3, 1]))], Some(&memory));
    assert_eq!(solve(1, 2), Ok(made([])));
    assert_eq!(solve(2, 2), invalid("aten::linalg_ldl_solve: a negative pivot is not one of a pair"));
    assert_eq!(solve(3, 2), invalid("aten::linalg_ldl_solve: expected pivots between 1 and 3, but got 0"));
    assert_eq!(solve(4, 1), invalid("aten::linalg_ldl_solve: expected pivots between 1 and 3, but got -4"));
    let number = outcome("aten::linalg_ldl_solve", &[("pivots", longs(1, &[], &[]))], Some(&memory));
    assert_eq!(number, index("Dimension specified as -1 but tensor has no dimensions"));
}

#[test]
fn compressed_rows_grow_from_nothing_to_all_columns() {
    let memory = Memory::from([
        (1, vec![0, 1, 3, 0, 3, 3]),
        (2, vec![0, 1, 3, 1, 3, 3]),
        (3, vec![0, 1, 3, 0, 3, 2]),
        (4, vec![0, 2, 1, 3]),
    ]);
    let convert = |rows: Value<'static>, batch: &[i64]| {
        let call = [("crow_indices", rows), ("col_indices", longs(9, batch, &vec![1; batch.len()]))];
        outcome("aten::_convert_indices_from_csr_to_coo", &call, Some(&memory))
    };
    let rows = |handle| convert(longs(handle, &[2, 3], &[3, 1]), &[2, 3]);
    let refused =
        |what, bounds| index(&format!("aten::_convert_indices_from_csr_to_coo: {what}, which is out of bounds: expected {bounds}"));
    assert!(rows(1).is_ok() && convert(longs(1, &[2, 3], &[3, 1]), &[3]).is_err());
    assert_eq!(rows(2), refused("the first of crow_indices has the value 1", "at least 0 and less than 1"));
    assert_eq!(rows(3), refused("the last of crow_indices has the value 2", "at least 3 and less than 4"));
    assert_eq!(
        convert(longs(4, &[4], &[1]), &[3]),
        refused("a step of crow_indices has the value -1", "at least 0 and less than 4")
    );
}

#[test]
fn targets_are_classes_as_far_as_their_lengths_go() {
    let memory = Memory::from([(1, vec![1, 2, 9, 1, 9, 9]), (2, vec![1, 2, 1, 9])]);
    let ctc = |targets: Value<'static>, lengths| {
        let call = [
            ("log_probs", floats(&[6, 2, 5])),
            ("targets", targets),
            ("input_lengths", Value::Integers(&[6, 6])),
            ("target_lengths", Value::Integers(lengths)),
        ];
        outcome("aten::_ctc_loss", &call, Some(&memory))
    };
    let wrong = || index("aten::_ctc_loss: targets has the value 9, which is out of bounds: expected at least 0 and less than 5");
    let (padded, joined) = (longs(1, &[2, 3], &[3, 1]), longs(2, &[4], &[1]));
    assert_eq!((ctc(padded, &[2, 1]), ctc(joined, &[2, 1])), (Ok(made([])), Ok(made([]))));
    assert_eq!((ctc(padded, &[2, 2]), ctc(joined, &[2, 2])), (wrong(), wrong()));
    assert_eq!(ctc(joined, &[3, 2]), invalid("aten::_ctc_loss: expected 5 targets, but got 4"));
    assert_eq!(ctc(padded, &[4, 0]), invalid("aten::_ctc_loss: expected target_lengths between 0 and 3, but got 4"));
}

#[test]
fn segments_fit_the_data() {
    let memory = Memory::from([(1, vec![2, 2]), (2, vec![2, 3]), (3, vec![0, 5])]);
    let reduce = |name, handle| {
        outcome("aten::segment_reduce", &[("data", floats(&[4, 3])), (name, longs(handle, &[2], &[1]))], Some(&memory))
    };
    let refused = |what| {
        index(&format!("aten::segment_reduce: {what} has the value 5, which is out of bounds: expected at least 0 and less than 5"))
    };
    assert_eq!(reduce("lengths", 1), Ok(made([])));
    assert_eq!((reduce("lengths", 2), reduce("offsets", 3)), (refused("a sum of lengths"), refused("offsets")));
}

#[test]
fn arguments_that_are_not_given_are_let_through() {
    let norm = |training, mean| {
        let call = [
            ("input", floats(&[2, 3])),
            ("weight", Value::None),
            ("running_mean", mean),
            ("training", Value::Number(Scalar::Bool(training))),
        ];
        outcome("aten::native_batch_norm", &call, None)
    };
    assert_eq!((norm(true, Value::None), norm(false, floats(&[3]))), (Ok(made([])), Ok(made([]))));
    assert_eq!(norm(true, floats(&[2])), invalid("aten::native_batch_norm: expected running_mean to have 3 elements, but got 2"));
    assert!(norm(false, Value::None).is_err());
    let dtypes = [("num_head", integer(2)), ("query", of_dtype(DType::Half, &[1])), ("qkv_bias", floats(&[1]))];
    let text = "expected qkv_bias and query to have the same dtype, but got Float and Half";
    assert_eq!(
        outcome("aten::_native_multi_head_attention", &dtypes, None),
        invalid(&format!("aten::_native_multi_head_attention: {text}"))
    );
}

#[test]
fn another_number_of_arguments_is_refused() {
    let guard = Guard::find("aten::_spdiags", Vec::new()).expect("a guard");
    assert!(guard.check(&[Value::None], None).is_err());
}

#[test]
fn indices_of_sparse_tensors_name_elements() {
    let numbers = [vec![0, 1, 2], vec![0, 2], vec![0, 3], vec![0, 5, 2], vec![1, 1, 2], vec![0, 1, 3]];
    let memory: Memory = numbers.into_iter().enumerate().collect();
    let outcome = |compressed: usize, plain: usize| {
        let (compressed, plain) = (longs(compressed, &[3], &[1]), longs(plain, &[2], &[1]));
        check_members("aten::mm", &[Value::Text("SparseCsr"), Value::Integers(&[2, 3]), compressed, plain, floats(&[2])], &memory)
    };
    assert_eq!(outcome(0, 1), Ok(()));
    for (compressed, plain, text) in [
        (0, 2, "an index of a sparse tensor is out of bounds: expected at least 0 and less than 3, but got 3"),
        (3, 1, "a step of the compressed indices of a sparse tensor is out of bounds"),
        (
            4,
            1,
            "an end of the compressed indices of a sparse tensor is out of bounds: expected at least 0 and less than 1, but got 1",
        ),
        (5, 1, "an end of the compressed indices"),
    ] {
        let Err(Refusal::Invalid(found)) = outcome(compressed, plain) else { panic!("{text}") };
        assert!(found.starts_with("aten::mm: ") && found.contains(text), "{found}");
    }
    // Indices of columns of blocks (BSR), then coordinates (COO).
    let blocks = |columns: i64| {
        let (sizes, compressed, plain) = ([4, columns], longs(0, &[3], &[1]), longs(1, &[2], &[1]));
        let members = [Value::Text("SparseBsr"), Value::Integers(&sizes), compressed, plain, floats(&[2, 2, 2])];
        check_members("aten::mm", &members, &memory)
    };
    assert!(blocks(6).is_ok() && blocks(4).is_err());
    let coordinates = |size: i64| {
        let indices = longs(1, &[1, 2], &[2, 1]);
        check_members("aten::sum", &[Value::Text("Sparse"), Value::Integers(&[size]), Value::None, indices, floats(&[2])], &memory)
    };
    assert!(coordinates(3).is_ok());
    assert!(looks_at_no_index("aten::values") && !looks_at_no_index("aten::mm"));
}
