//! Gathers and scatters, compared with plain loops over `ndarray`s: dtypes, layouts, sizes around blocks, instruction sets, thread
//! counts.

use ndarray::{ArrayD, Axis, IxDyn};

use crate::kernels::check::{self, Strides, Tensor, close, real, round_trip, tolerance, values};
use crate::runtime::parallel_for;
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType};
use crate::tensor::kernel_error::{Error, ErrorKind};
use crate::tensor::launch::Scalar;

const STORE: i64 = 0;
const ADD: i64 = 1;
const MULTIPLY: i64 = 2;
const MAXIMUM: i64 = 3;
const MINIMUM: i64 = 4;

/// Sizes of an addressed operand, sizes of an index over its single elements, and the dimension.
const CASES: [(&[usize], &[usize], usize); 9] = [
    (&[1], &[1], 0),
    (&[7], &[0], 0),
    (&[7], &[2500], 0),
    (&[3, 5], &[4, 5], 0),
    (&[3, 5], &[2, 9], 1),
    (&[40, 70], &[70, 33], 0),
    (&[33, 40], &[33, 70], 1),
    (&[2, 6, 1100], &[2, 3, 1100], 1),
    (&[4, 3, 5], &[4, 3, 7], 2),
];

/// Indices below `slots`, spread over them; with `wraps` some are negative.
fn indices(sizes: &[usize], slots: usize, wraps: bool) -> ArrayD<i64> {
    let mut state = 12345u64;
    ArrayD::from_shape_simple_fn(IxDyn(sizes), || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = (state >> 33) as i64 % slots as i64;
        if wraps && state & 1 << 40 != 0 { slot - slots as i64 } else { slot }
    })
}

fn index_tensor(dtype: DType, indices: &ArrayD<i64>, strides: Strides) -> Tensor {
    Tensor::of(dtype, &indices.mapv(|index| real(index as f64)), strides)
}

/// The position of `index` in the addressed operand.
fn slot(index: &IxDyn, dim: usize, found: i64, slots: usize) -> IxDyn {
    let mut slot = index.clone();
    slot[dim] = if found < 0 { found + slots as i64 } else { found } as usize;
    slot
}

/// The tensor over the sizes of an index, with stride 0 along `dim`, and as scalars the number of slots and their distance.
fn addressed(tensor: Tensor, dim: usize, sizes: &[usize]) -> (Tensor, [Scalar; 2]) {
    let (count, mut strides) = (tensor.view().size(dim), tensor.view().strides().to_vec());
    let step = std::mem::take(&mut strides[dim]);
    let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
    (tensor.restrided(&sizes, &strides), [Scalar::Long(count as i64), Scalar::Long(step)])
}

/// The inverse of [`addressed`].
fn whole(tensor: Tensor, like: &Tensor) -> Tensor {
    tensor.restrided(like.view().sizes(), like.view().strides())
}

#[test]
fn elements_are_read_from_where_indices_say() {
    for (case, (sizes, index_sizes, dim)) in CASES.into_iter().enumerate() {
        for dtype in [DType::Bool, DType::Half, DType::Float, DType::Long, DType::ComplexDouble] {
            for (name, wraps) in [("gather", false), ("take", true)] {
                let strides = Strides::ALL[case % 3];
                let source = Tensor::of(dtype, &values(dtype, sizes, case), strides);
                let found = indices(index_sizes, sizes[dim], wraps);
                let index_dtype = if case % 2 == 0 { DType::Long } else { DType::Int };
                let index = index_tensor(index_dtype, &found, Strides::ALL[(case + 1) % 3]);
                let from = source.values();
                let expected = ArrayD::from_shape_fn(IxDyn(index_sizes), |at| from[slot(&at, dim, found[&at], sizes[dim])]);
                let (source, scalars) = addressed(source, dim, index_sizes);
                for_each_isa(|_| {
                    let output = Tensor::new(dtype, index_sizes, Strides::ALL[(case + 2) % 3]);
                    check::run(name, &[&output], &[&source, &index], &scalars, dtype).unwrap();
                    assert_eq!(output.values(), expected, "{name} {dtype:?} {sizes:?} {index_sizes:?}");
                });
            }
        }
    }
}

#[test]
fn rows_are_read_from_where_indices_say() {
    for (sizes, dim, count) in [(&[5usize, 700][..], 0, 9usize), (&[6, 2], 0, 2000), (&[3, 5, 70], 1, 11), (&[9, 8], 1, 3)] {
        for strides in [Strides::Contiguous, Strides::Transposed] {
            let source = Tensor::of(DType::Float, &values(DType::Float, sizes, 1), strides);
            let found = indices(&[count], sizes[dim], false);
            let expected = source.values().select(Axis(dim), &found.iter().map(|&at| at as usize).collect::<Vec<_>>());
            let mut index_strides = vec![0; sizes.len()];
            index_strides[dim] = 8;
            let space: Vec<i64> = expected.shape().iter().map(|&size| size as i64).collect();
            let index = index_tensor(DType::Long, &found, Strides::Contiguous).restrided(&space, &index_strides);
            let (source, scalars) = addressed(source, dim, expected.shape());
            let output = Tensor::new(DType::Float, expected.shape(), Strides::Contiguous);
            check::run("index_select", &[&output], &[&source, &index], &scalars, DType::Float).unwrap();
            assert_eq!(output.values(), expected, "{sizes:?} {dim}");
        }
    }
}

/// The scalars of an update.
fn update_scalars(operation: i64, excludes_self: bool, factor: f64, skipped: i64, pair: [Scalar; 2]) -> Vec<Scalar> {
    let head = [Scalar::Long(operation), Scalar::Bool(excludes_self), Scalar::Double(factor), Scalar::Long(skipped)];
    head.into_iter().chain(pair).collect()
}

/// The result of updates that are applied one after another and rounded each time, or once at the end for 16 bit floats.
fn updated(
    dtype: DType,
    before: &ArrayD<Complex64>,
    source: &ArrayD<Complex64>,
    found: &ArrayD<i64>,
    dim: usize,
    function: &dyn Fn(Complex64, Complex64) -> Complex64,
) -> ArrayD<Complex64> {
    let mut result = before.clone();
    for (at, &index) in found.indexed_iter() {
        let slot = slot(&at, dim, index, before.shape()[dim]);
        result[&slot] = round_trip(dtype.opmath(), function(result[&slot], source[&at]));
    }
    result.mapv_into(|value| round_trip(dtype, value))
}

fn function(operation: i64) -> impl Fn(Complex64, Complex64) -> Complex64 {
    move |old, new| match operation {
        STORE => new,
        ADD => old + new,
        MULTIPLY => old * new,
        MAXIMUM => real(old.re.max(new.re)),
        _ => real(old.re.min(new.re)),
    }
}

#[test]
fn elements_are_updated_where_indices_say() {
    for (case, (sizes, index_sizes, dim)) in CASES.into_iter().enumerate() {
        for operation in [STORE, ADD, MULTIPLY, MAXIMUM, MINIMUM] {
            for dtype in [DType::BFloat16, DType::Float, DType::Short, DType::Double] {
                // Products of many factors overflow, so that only the order of the dtype's conversions would be compared.
                if operation == MULTIPLY && index_sizes.iter().product::<usize>() > 100 {
                    continue;
                }
                let before = Tensor::of(dtype, &values(dtype, sizes, case), Strides::ALL[case % 3]);
                let source = Tensor::of(dtype, &values(dtype, index_sizes, case + 1), Strides::ALL[(case + 1) % 3]);
                let found = indices(index_sizes, sizes[dim], false);
                let index = index_tensor(DType::Long, &found, Strides::Contiguous);
                let expected = updated(dtype, &before.values(), &source.values(), &found, dim, &function(operation));
                for_each_isa(|isa| {
                    let (target, pair) = addressed(before.clone(), dim, index_sizes);
                    let scalars = update_scalars(operation, false, 1.0, -1, pair);
                    check::run("scatter", &[&target], &[&source, &index], &scalars, dtype).unwrap();
                    for ((at, found), expected) in whole(target, &before).values().indexed_iter().zip(&expected) {
                        let close = close(*found, *expected, tolerance(dtype));
                        assert!(close, "{operation} {dtype:?} {isa:?} {sizes:?} {at:?}: {found} != {expected}");
                    }
                });
            }
        }
    }
}

#[test]
fn complex_and_truth_values_are_added_and_multiplied() {
    let found = indices(&[30], 4, false);
    let index = index_tensor(DType::Long, &found, Strides::Contiguous);
    for (dtype, operation) in [(DType::ComplexFloat, ADD), (DType::ComplexDouble, ADD), (DType::Bool, ADD), (DType::Bool, MULTIPLY)]
    {
        let before = Tensor::of(dtype, &values(dtype, &[4], 3), Strides::Contiguous);
        let source = Tensor::of(dtype, &values(dtype, &[30], 4), Strides::Sliced);
        let expected = updated(dtype, &before.values(), &source.values(), &found, 0, &function(operation));
        let (target, pair) = addressed(before.clone(), 0, &[30]);
        check::run("scatter", &[&target], &[&source, &index], &update_scalars(operation, false, 1.0, -1, pair), dtype).unwrap();
        for (found, expected) in whole(target, &before).values().iter().zip(&expected) {
            assert!(close(*found, *expected, tolerance(dtype)), "{dtype:?}: {found} != {expected}");
        }
    }
}

#[test]
fn numbers_and_factors_and_old_values_left_out() {
    let before = Tensor::of(DType::Float, &ArrayD::from_elem(IxDyn(&[5]), real(10.0)), Strides::Contiguous);
    let index = index_tensor(DType::Long, &ArrayD::from_shape_vec(IxDyn(&[4]), vec![3, 1, 3, 0]).unwrap(), Strides::Contiguous);
    let source = Tensor::of(DType::Float, &ArrayD::from_shape_fn(IxDyn(&[4]), |at| real(at[0] as f64 + 2.0)), Strides::Contiguous);
    let number = Tensor::immediate(DType::Long, real(7.0));
    let run = |operation, excludes_self, factor, skipped, source: &Tensor| {
        let (target, pair) = addressed(before.clone(), 0, &[4]);
        let scalars = update_scalars(operation, excludes_self, factor, skipped, pair);
        check::run("scatter", &[&target], &[source, &index], &scalars, DType::Float).unwrap();
        whole(target, &before).values().iter().map(|value| value.re).collect::<Vec<_>>()
    };
    assert_eq!(run(STORE, false, 1.0, -1, &number), [7.0, 7.0, 10.0, 7.0, 10.0]);
    assert_eq!(run(ADD, false, -2.0, -1, &source), [0.0, 4.0, 10.0, -2.0, 10.0]);
    assert_eq!(run(ADD, true, 1.0, -1, &source), [5.0, 3.0, 10.0, 6.0, 10.0]);
    assert_eq!(run(MULTIPLY, true, 1.0, -1, &source), [5.0, 3.0, 10.0, 8.0, 10.0]);
    assert_eq!(run(MAXIMUM, true, 1.0, -1, &source), [5.0, 3.0, 10.0, 4.0, 10.0]);
    assert_eq!(run(MINIMUM, true, 1.0, -1, &source), [5.0, 3.0, 10.0, 2.0, 10.0]);
    assert_eq!(run(ADD, false, 1.0, 3, &source), [15.0, 13.0, 10.0, 10.0, 10.0]);
}

#[test]
fn indices_out_of_bounds_lead_nowhere() {
    for (wrong, name) in [(5, "gather"), (-1, "gather"), (5, "take"), (-6, "take"), (i64::MIN, "take")] {
        let index = ArrayD::from_shape_vec(IxDyn(&[3]), vec![1, wrong, 2]).unwrap();
        let index = index_tensor(DType::Long, &index, Strides::Contiguous);
        let memory = Tensor::of(DType::Int, &ArrayD::from_elem(IxDyn(&[5]), real(3.0)), Strides::Contiguous);
        let (source, pair) = addressed(memory.clone(), 0, &[3]);
        let output = Tensor::of(DType::Int, &ArrayD::from_elem(IxDyn(&[3]), real(9.0)), Strides::Contiguous);
        let error = check::run(name, &[&output], &[&source, &index], &pair, DType::Int).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Index { index: wrong, size: 5 });
        let name = if name == "gather" { "scatter" } else { "put" };
        let (target, pair) = addressed(memory.clone(), 0, &[3]);
        let scalars = update_scalars(ADD, false, 1.0, -1, pair);
        check::run(name, &[&target], &[&output, &index], &scalars, DType::Int).unwrap_err();
        // Elements with other indices may have been updated.
        let found = whole(target, &memory).values();
        assert!([0, 3, 4].iter().all(|&at| found[[at]] == real(3.0)), "{found}");
    }
}

/// Sizes of a target and of an index, the dimension, the strides of target and source, and whether each index selects a whole line.
type Meeting<'a> = (&'a [usize], &'a [usize], usize, Strides, bool);

/// Elements in a small and in a large target, rows, columns, and rows that are scattered in memory.
const MEETINGS: [Meeting<'_>; 7] = [
    (&[5], &[3000], 0, Strides::Contiguous, false),
    (&[60_000], &[3000], 0, Strides::Contiguous, false),
    (&[3, 4], &[3, 3000], 1, Strides::Sliced, false),
    (&[4, 103], &[3000, 103], 0, Strides::Contiguous, true),
    (&[4, 103], &[3000, 103], 0, Strides::Transposed, true),
    (&[7, 4], &[7, 3000], 1, Strides::Contiguous, true),
    (&[2, 4, 19], &[2, 3000, 19], 1, Strides::Sliced, true),
];

/// A sum that is rounded to 16 bits after each addition would stop growing at 256 or 2048.
#[test]
fn updates_that_meet_are_rounded_once() {
    let count = parallel_for::num_threads();
    for (sizes, index_sizes, dim, strides, by_line) in MEETINGS {
        for dtype in [DType::Half, DType::BFloat16, DType::ComplexHalf] {
            for operation in [ADD, MULTIPLY] {
                // Factors next to 1, whose product would be 1 if rounded to 16 bits each time.
                let (start, term) = if operation == ADD { (0.0, 1.0) } else { (1.0, 1.0 + 2f64.powi(-10)) };
                let term = if dtype == DType::BFloat16 && operation == MULTIPLY { 1.0 + 2f64.powi(-7) } else { term };
                let steps = index_sizes[dim].min(if operation == ADD { 3000 } else { 500 });
                let before = Tensor::of(dtype, &ArrayD::from_elem(IxDyn(sizes), real(start)), strides);
                let fill = |at: IxDyn| real(if at[dim] < steps { term } else { start });
                let source = Tensor::of(dtype, &ArrayD::from_shape_fn(IxDyn(index_sizes), fill), strides);
                let found = ArrayD::from_elem(IxDyn(index_sizes), sizes[dim] as i64 - 1);
                let mut index = index_tensor(DType::Long, &found, Strides::Contiguous);
                if by_line {
                    let line =
                        index_tensor(DType::Long, &ArrayD::from_elem(IxDyn(&[index_sizes[dim]]), sizes[dim] as i64 - 1), strides);
                    let space: Vec<i64> = index_sizes.iter().map(|&size| size as i64).collect();
                    let step = line.view().stride(0) as i64;
                    index =
                        line.restrided(&space, &(0..sizes.len()).map(|at| if at == dim { step } else { 0 }).collect::<Vec<_>>());
                }
                let exact = if operation == ADD { steps as f64 } else { term.powi(steps as i32) };
                let expected = ArrayD::from_shape_fn(IxDyn(sizes), |at| {
                    round_trip(dtype, real(if at[dim] + 1 == sizes[dim] { exact } else { start }))
                });
                for threads in [1, 3] {
                    parallel_for::set_num_threads(threads);
                    let (target, pair) = addressed(before.clone(), dim, index_sizes);
                    let scalars = update_scalars(operation, false, 1.0, -1, pair);
                    check::run("scatter", &[&target], &[&source, &index], &scalars, dtype).unwrap();
                    assert_eq!(whole(target, &before).values(), expected, "{operation} {dtype:?} {sizes:?} {strides:?}");
                }
            }
        }
    }
    parallel_for::set_num_threads(count);
}

/// Sums that depend on the order of their terms have the same bits for any number of threads.
#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let cases = [(&[1000usize][..], &[400_000usize][..], 0), (&[50, 3], &[200_000, 3], 0), (&[300, 70], &[300, 900], 1)];
    let large = (&[400_000usize][..], &[20_000usize][..], 0);
    let floats = cases.into_iter().map(|case| (case, DType::Float));
    for ((sizes, index_sizes, dim), dtype) in floats.chain(cases.into_iter().chain([large]).map(|case| (case, DType::BFloat16))) {
        let before = Tensor::of(dtype, &values(DType::Float, sizes, 1).mapv(|value| value / 3.0), Strides::Contiguous);
        let source = values(DType::Float, index_sizes, 2).mapv(|value| value / 7.0);
        let source = Tensor::of(dtype, &source, Strides::Contiguous);
        let index = index_tensor(DType::Long, &indices(index_sizes, sizes[dim], false), Strides::Contiguous);
        let count = parallel_for::num_threads();
        let mut results = [1, 2, 3, 8].map(|count| {
            parallel_for::set_num_threads(count);
            let (target, pair) = addressed(before.clone(), dim, index_sizes);
            let scalars = update_scalars(ADD, false, 1.0, -1, pair);
            check::run("scatter_add", &[&target], &[&source, &index], &scalars, dtype).unwrap();
            whole(target, &before).values()
        });
        parallel_for::set_num_threads(count);
        let first = std::mem::take(&mut results[0]);
        assert_ne!(first, before.values());
        assert!(results[1..].iter().all(|other| *other == first), "{sizes:?}");
    }
}

/// The updates are divided by target positions if these are spread over the target, else by columns.
#[test]
fn long_rows_are_added_in_their_order() {
    let (rows, cols, slots) = (400, 1024, 50);
    let count = parallel_for::num_threads();
    for (spread, dtype) in [(slots as i64, DType::Float), (3, DType::Float), (slots as i64, DType::Half), (3, DType::Half)] {
        let fraction =
            |sizes: &[usize], seed| Tensor::of(dtype, &(values(DType::Float, sizes, seed) / real(3.0)), Strides::Contiguous);
        let (before, source) = (fraction(&[slots, cols], 1), fraction(&[rows, cols], 2));
        let found = indices(&[rows], slots, false).mapv(|slot| slot % spread);
        let index = index_tensor(DType::Long, &found, Strides::Contiguous).restrided(&[rows as i64, cols as i64], &[8, 0]);
        let found = found.insert_axis(Axis(1)).broadcast(IxDyn(&[rows, cols])).unwrap().to_owned();
        let expected = updated(dtype, &before.values(), &source.values(), &found, 0, &function(ADD));
        for count in [1, 2, 3] {
            parallel_for::set_num_threads(count);
            let (target, pair) = addressed(before.clone(), 0, &[rows, cols]);
            let scalars = update_scalars(ADD, false, 1.0, -1, pair);
            check::run("index_add", &[&target], &[&source, &index], &scalars, dtype).unwrap();
            assert_eq!(whole(target, &before).values(), expected, "{count} threads, {spread} slots");
        }
    }
    parallel_for::set_num_threads(count);
}

/// A tensor of Longs.
fn longs(values: &[i64]) -> Tensor {
    index_tensor(DType::Long, &ArrayD::from_shape_vec(IxDyn(&[values.len()]), values.to_vec()).unwrap(), Strides::Contiguous)
}

#[test]
fn masks_select_in_order() {
    for count in [0, 1, 1000, 1025, 70_000] {
        for dtype in [DType::Bool, DType::Half, DType::Float, DType::Double, DType::ComplexDouble] {
            let mask = values(DType::Float, &[count], 5).mapv(|value| real((value.re > 2.0) as u8 as f64));
            let from = values(dtype, &[count], 6);
            let expected: Vec<Complex64> =
                from.iter().zip(&mask).filter(|(_, mask)| mask.re != 0.0).map(|(&value, _)| value).collect();
            let (values, mask) =
                (Tensor::of(dtype, &from, Strides::Contiguous), Tensor::of(DType::Bool, &mask, Strides::Contiguous));
            let number = Tensor::new(DType::Long, &[1], Strides::Contiguous);
            check::run("nonzero_count", &[&number], &[&mask], &[], DType::Bool).unwrap();
            assert_eq!(number.values()[[0]], real(expected.len() as f64));
            let out = Tensor::new(dtype, &[expected.len()], Strides::Sliced);
            check::run("masked_select", &[&out], &[&values, &mask], &[], dtype).unwrap();
            assert_eq!(out.values().into_iter().collect::<Vec<_>>(), expected, "{dtype:?} {count}");
            let target = Tensor::of(dtype, &from.mapv(|_| real(1.0)), Strides::Contiguous);
            let source = Tensor::of(dtype, &out.values(), Strides::Contiguous);
            check::run("masked_scatter", &[&target], &[&source, &mask], &[], dtype).unwrap();
            for ((found, mask), given) in target.values().iter().zip(mask.values()).zip(&from) {
                assert_eq!(*found, if mask.re == 0.0 { real(1.0) } else { *given });
            }
        }
    }
}

#[test]
fn a_source_too_short_is_refused() {
    let mask = Tensor::of(DType::Bool, &ArrayD::from_elem(IxDyn(&[9]), real(1.0)), Strides::Contiguous);
    let target = Tensor::new(DType::Float, &[9], Strides::Contiguous);
    let source = Tensor::new(DType::Float, &[8], Strides::Contiguous);
    assert!(check::run("masked_scatter", &[&target], &[&source, &mask], &[], DType::Float).is_err());
    assert!(check::run("masked_select", &[&source], &[&target, &mask], &[], DType::Float).is_err());
}

#[test]
fn slots_of_what_is_not_zero() {
    for sizes in [&[7usize][..], &[3, 5], &[40, 33, 30], &[2, 1, 3, 4]] {
        for dtype in [DType::Bool, DType::Byte, DType::BFloat16, DType::Double, DType::ComplexFloat] {
            let given = values(DType::Float, sizes, 2).mapv(|value| if value.re > 1.0 { value } else { real(-0.0) });
            let input = Tensor::of(dtype, &given.mapv(|value| real(value.re.abs().ceil())), Strides::Contiguous);
            let expected: Vec<Vec<f64>> = given
                .indexed_iter()
                .filter(|(_, value)| value.re != 0.0)
                .map(|(at, _)| (0..sizes.len()).map(|dim| at[dim] as f64).collect())
                .collect();
            for rows in [expected.len(), expected.len() + 2, expected.len() / 2] {
                let out = Tensor::new(DType::Long, &[rows, sizes.len()], Strides::Transposed);
                check::run("nonzero", &[&out], &[&input], &[Scalar::Long(-7)], dtype).unwrap();
                for (row, found) in out.values().rows().into_iter().enumerate() {
                    let found: Vec<f64> = found.iter().map(|value| value.re).collect();
                    let missing = vec![-7.0; sizes.len()];
                    assert_eq!(&found, expected.get(row).unwrap_or(&missing), "{sizes:?} {dtype:?} {row}");
                }
            }
        }
    }
}

/// The rows of the bags of a table with 4 rows and padding index 3.
fn bags(mode: i64, weights: Option<&Tensor>) -> Result<[ArrayD<Complex64>; 4], Error> {
    let table = ArrayD::from_shape_vec(IxDyn(&[4, 2]), vec![1.0, -2.0, 3.0, 4.0, -5.0, 6.0, 100.0, 100.0]).unwrap();
    let table = Tensor::of(DType::Float, &table.mapv(real), Strides::Contiguous);
    let (indices, offsets) = (longs(&[0, 1, 3, 2, 1]), longs(&[0, 3, 3]));
    let out = Tensor::new(DType::Float, &[3, 2], Strides::Contiguous);
    let (of, sizes) = (Tensor::new(DType::Long, &[5], Strides::Contiguous), Tensor::new(DType::Long, &[3], Strides::Contiguous));
    let slots = Tensor::new(DType::Long, if mode == 2 { &[3, 2] } else { &[3] }, Strides::Contiguous);
    let mut inputs = vec![&table, &indices, &offsets];
    inputs.extend(weights);
    check::run("_embedding_bag", &[&out, &of, &sizes, &slots], &inputs, &[Scalar::Long(mode), Scalar::Long(3)], DType::Float)?;
    Ok([out.values(), of.values(), sizes.values(), slots.values()])
}

#[test]
fn bags_of_rows() {
    let flat = |values: &ArrayD<Complex64>| values.iter().map(|value| value.re).collect::<Vec<_>>();
    let [sums, of, sizes, _] = bags(0, None).unwrap();
    assert_eq!(flat(&sums), [4.0, 2.0, 0.0, 0.0, -2.0, 10.0]);
    assert_eq!((flat(&of), flat(&sizes)), (vec![0.0, 0.0, 0.0, 2.0, 2.0], vec![2.0, 0.0, 2.0]));
    assert_eq!(flat(&bags(1, None).unwrap()[0]), [2.0, 1.0, 0.0, 0.0, -1.0, 5.0]);
    let [maxima, _, _, slots] = bags(2, None).unwrap();
    assert_eq!(flat(&maxima), [3.0, 4.0, 0.0, 0.0, 3.0, 6.0]);
    assert_eq!(flat(&slots), [1.0, 1.0, 0.0, 0.0, 1.0, 2.0]);
    let weights = ArrayD::from_shape_vec(IxDyn(&[5]), vec![2.0, 1.0, 9.0, 0.5, -1.0]).unwrap().mapv(real);
    let weights = Tensor::of(DType::Float, &weights, Strides::Contiguous);
    assert_eq!(flat(&bags(0, Some(&weights)).unwrap()[0]), [5.0, 0.0, 0.0, 0.0, -5.5, -1.0]);
}

#[test]
fn bags_of_many_long_rows() {
    let (cols, lengths, padding) = (150, [0, 1, 16, 17, 40], 3);
    let table = Tensor::of(DType::Float, &values(DType::Float, &[11, cols], 1), Strides::Contiguous);
    let indices: Vec<usize> = (0..lengths.iter().sum()).map(|at| at * 7 % 11).collect();
    let (mut offsets, mut expected, mut at) = (Vec::new(), Vec::new(), 0);
    for length in lengths {
        offsets.push(at as i64);
        let mut sums = vec![0.0f32; cols];
        for &row in indices[at..at + length].iter().filter(|&&row| row != padding) {
            sums.iter_mut().enumerate().for_each(|(col, sum)| *sum += table.values()[[row, col]].re as f32);
        }
        expected.extend(sums);
        at += length;
    }
    let long = |sizes: &[usize]| Tensor::new(DType::Long, sizes, Strides::Contiguous);
    let [of, sizes, slots] = [long(&[at]), long(&[lengths.len()]), long(&[0])];
    let indices = longs(&indices.iter().map(|&row| row as i64).collect::<Vec<_>>());
    for_each_isa(|isa| {
        let out = Tensor::new(DType::Float, &[lengths.len(), cols], Strides::Contiguous);
        let scalars = [Scalar::Long(0), Scalar::Long(padding as i64)];
        check::run("_embedding_bag", &[&out, &of, &sizes, &slots], &[&table, &indices, &longs(&offsets)], &scalars, DType::Float)
            .unwrap();
        assert!(out.values().iter().zip(&expected).all(|(found, &wanted)| found.re as f32 == wanted), "{isa:?}");
    });
}

#[test]
fn rows_are_scaled_to_a_norm() {
    let given = ArrayD::from_shape_vec(IxDyn(&[3, 2]), vec![3.0, 4.0, 0.3, 0.4, 6.0, 8.0]).unwrap().mapv(real);
    for (kind, expected) in [(2.0, [0.6, 0.8]), (1.0, [3.0 / 7.0, 4.0 / 7.0]), (f64::INFINITY, [0.75, 1.0])] {
        let table = Tensor::of(DType::Float, &given, Strides::Contiguous);
        let scalars = [Scalar::Double(1.0), Scalar::Double(kind)];
        check::run("embedding_renorm_", &[&table], &[&longs(&[0, 1, 0])], &scalars, DType::Float).unwrap();
        let found: Vec<f64> = table.values().iter().map(|value| value.re).collect();
        let wanted = [expected[0], expected[1], f64::from(0.3f32), f64::from(0.4f32), 6.0, 8.0];
        assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6), "{kind}: {found:?}");
        assert!(check::run("embedding_renorm_", &[&table], &[&longs(&[3])], &scalars, DType::Float).is_err());
    }
    let rows = ArrayD::from_shape_vec(IxDyn(&[1, 2]), vec![Complex64::new(3.0, 4.0), real(0.0)]).unwrap();
    let table = Tensor::of(DType::ComplexDouble, &rows, Strides::Contiguous);
    let scalars = [Scalar::Double(1.0), Scalar::Double(2.0)];
    check::run("embedding_renorm_", &[&table], &[&longs(&[0])], &scalars, DType::ComplexDouble).unwrap();
    assert!(check::close(table.values()[[0, 0]], Complex64::new(0.6, 0.8), 1e-6) && table.values()[[0, 1]] == real(0.0));
}
