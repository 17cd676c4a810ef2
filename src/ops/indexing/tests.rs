//! Gathers, scatters, masks and bags of rows: dtypes, layouts, sizes around blocks, numbers of threads, and indices out of bounds.

use ndarray::{ArrayD, IxDyn};

use crate::ops::check::{Case, Make, Strides, Tensor, agree, any_threads, find, longs, real, run, values};
use crate::tensor::{DType, DTypeSet, ErrorKind, FLOAT, FLOATING, HALVES, Scalar};

const STORE: i64 = 0;
const ADD: i64 = 1;
const MULTIPLY: i64 = 2;
const MAXIMUM: i64 = 3;
const MINIMUM: i64 = 4;

/// Sizes of an addressed operand, sizes of an index over its single elements, and the dimension.
const CASES: [(&[usize], &[usize], usize); 8] = [
    (&[1], &[1], 0),
    (&[7], &[0], 0),
    (&[7], &[1500], 0),
    (&[3, 5], &[4, 5], 0),
    (&[3, 5], &[2, 9], 1),
    (&[40, 70], &[33, 33], 0),
    (&[2, 6, 300], &[2, 3, 300], 1),
    (&[4, 3, 5], &[4, 3, 7], 2),
];

/// One dtype of each kind and size.
const SOME: DTypeSet =
    DTypeSet::of(&[DType::Bool, DType::BFloat16, DType::Half, DType::Short, DType::Float, DType::Long, DType::ComplexFloat]);

/// Indices below `slots`, spread over them; with `wraps` some are negative.
fn indices(sizes: &[usize], slots: usize, wraps: bool) -> ArrayD<f64> {
    let mut state = 12345u64;
    ArrayD::from_shape_simple_fn(IxDyn(sizes), || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = (state >> 33) as i64 % slots as i64;
        (if wraps && state & 1 << 40 != 0 { slot - slots as i64 } else { slot }) as f64
    })
}

/// The tensor as launches see an addressed operand, and as scalars the number of slots and their distance.
fn addressed(tensor: Tensor, dim: usize, sizes: &[usize]) -> (Tensor, [Scalar; 2]) {
    let (count, step) = (tensor.view().size(dim), tensor.view().stride(dim));
    (tensor.expanded(sizes, &[dim]), [Scalar::Long(count as i64), Scalar::Long(step as i64)])
}

/// An index of Longs over `sizes`, one for each element or, if `by_line`, one for each position along the dimension.
fn index(make: &Make, found: &ArrayD<f64>, dim: usize, sizes: &[usize], by_line: bool) -> Tensor {
    let index = make.of(DType::Long, &found.mapv(real));
    if by_line {
        let step = index.view().stride(0) as i64;
        let strides: Vec<i64> = (0..sizes.len()).map(|at| if at == dim { step } else { 0 }).collect();
        return index.restrided(&sizes.iter().map(|&size| size as i64).collect::<Vec<_>>(), &strides);
    }
    index
}

/// A launch that reads `source` at indices.
fn load(make: &Make, source: Tensor, found: &ArrayD<f64>, dim: usize, sizes: &[usize], by_line: bool) -> Case {
    let (source, scalars) = addressed(source, dim, sizes);
    Case::new([make.output(sizes)], [source, index(make, found, dim, sizes, by_line)], scalars)
}

#[test]
fn elements_and_rows_are_read_from_where_indices_say() {
    for (seed, (sizes, index_sizes, dim)) in CASES.into_iter().enumerate() {
        for (name, wraps) in [("gather", false), ("take", true)] {
            let found = indices(index_sizes, sizes[dim], wraps);
            agree(name, SOME, [1.0, 0.0], |make| load(make, make.input(sizes, seed), &found, dim, index_sizes, false));
        }
    }
    for (sizes, dim, count) in [(&[5usize, 700][..], 0, 9usize), (&[6, 2], 0, 2000), (&[3, 5, 70], 1, 11), (&[9, 8], 1, 3)] {
        let (mut space, found) = (sizes.to_vec(), indices(&[count], sizes[dim], false));
        space[dim] = count;
        agree("index_select", SOME, [1.0, 0.0], |make| load(make, make.input(sizes, 1), &found, dim, &space, true));
    }
}

/// The scalars of an update, without those of the index.
fn update(operation: i64, excludes_self: bool, factor: f64, skipped: i64) -> Vec<Scalar> {
    vec![Scalar::Long(operation), Scalar::Bool(excludes_self), Scalar::Double(factor), Scalar::Long(skipped)]
}

/// A launch that updates `target` with `source` at indices.
fn store(make: &Make, [target, source]: [Tensor; 2], found: &ArrayD<f64>, dim: usize, by_line: bool, scalars: &[Scalar]) -> Case {
    let sizes: Vec<usize> = source.view().sizes().iter().map(|&size| size as usize).collect();
    let (target, pair) = addressed(target, dim, &sizes);
    let index = index(make, found, dim, &sizes, by_line);
    Case::new([target], [source, index], [scalars, &pair].concat())
}

#[test]
fn elements_are_updated_where_indices_say() {
    for (seed, (sizes, index_sizes, dim)) in CASES.into_iter().enumerate() {
        let found = indices(index_sizes, sizes[dim], false);
        for (operation, excludes_self, factor, skipped) in [
            (STORE, false, 1.0, -1),
            (ADD, false, -2.0, -1),
            (ADD, true, 1.0, 1),
            (MULTIPLY, false, 1.0, -1),
            (MULTIPLY, true, 1.0, -1),
            (MAXIMUM, false, 1.0, -1),
            (MAXIMUM, true, 1.0, -1),
            (MINIMUM, true, 1.0, -1),
        ] {
            // Products of many factors overflow.
            if operation == MULTIPLY && index_sizes.iter().product::<usize>() > 100 {
                continue;
            }
            let dtypes = if operation >= MAXIMUM { DTypeSet::of(&[DType::Short]).and(FLOATING) } else { SOME };
            agree("scatter", dtypes, [4.0, 0.0], |make| {
                let operands = [make.input(sizes, seed), make.input(index_sizes, seed + 1)];
                store(make, operands, &found, dim, false, &update(operation, excludes_self, factor, skipped))
            });
        }
    }
}

#[test]
fn indices_out_of_bounds_lead_nowhere() {
    let make = Make::plain(DType::Int);
    for (wrong, name) in [(5, "gather"), (-1, "gather"), (5, "take"), (-6, "take"), (i64::MIN, "take")] {
        let found = ndarray::arr1(&[1.0, wrong as f64, 2.0]).into_dyn();
        let memory = Tensor::line(DType::Int, &[3.0; 5]);
        let error = load(&make, memory.clone(), &found, 0, &[3], false).run(name, DType::Int, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Index { index: wrong, size: 5 });
        let name = if name == "gather" { "scatter" } else { "put" };
        let case = store(&make, [memory, Tensor::line(DType::Int, &[9.0; 3])], &found, 0, false, &update(ADD, false, 1.0, -1));
        let (target, inputs) = (&case.outputs[0], case.inputs.iter().collect::<Vec<_>>());
        run(name, &[target], &inputs, &case.scalars, DType::Int).unwrap_err();
        // Elements with other indices may have been updated.
        assert!([0, 3, 4].iter().all(|&at| target.reals()[at] == 3.0), "{:?}", target.reals());
    }
}

/// Sums that would stop growing, and products of numbers next to 1 that would stay 1, if they were rounded to 16 bits each time; over
/// elements in a small and in a large target, rows, and columns. Rows are divided by target positions if these are spread over the
/// target, else by columns.
#[test]
fn updates_that_meet_are_rounded_once_in_the_same_order() {
    for (sizes, index_sizes, dim, used, by_line) in [
        (&[5][..], &[3000][..], 0, 5, false),
        (&[60_000], &[3000], 0, 9, false),
        (&[3, 4], &[3, 700], 1, 4, false),
        (&[4, 19], &[300, 19], 0, 4, true),
        (&[2, 4, 19], &[2, 100, 19], 1, 4, true),
        (&[50, 1024], &[200, 1024], 0, 50, true),
        (&[50, 1024], &[200, 1024], 0, 3, true),
        (&[300, 70], &[300, 300], 1, 70, false),
    ] {
        let found = indices(if by_line { &index_sizes[dim..=dim] } else { index_sizes }, used, false);
        for (operation, divisor, start) in [(ADD, 7.0, 0.5), (MULTIPLY, 512.0, 1.0)] {
            let build = |make: &Make| {
                let of = |sizes: &[usize], seed| {
                    make.of(make.dtype(), &values(DType::Float, sizes, seed).mapv(|value| start + value / divisor))
                };
                store(make, [of(sizes, 1), of(index_sizes, 2)], &found, dim, by_line, &update(operation, false, 1.0, -1))
            };
            if index_sizes.iter().product::<usize>() < 10_000 {
                agree("scatter", HALVES, [2.0, 0.0], build);
            }
            any_threads("scatter", &[DType::Float, DType::BFloat16], build);
        }
    }
}

#[test]
fn masks_select_in_order() {
    for (count, dtypes) in [(0, SOME), (1, SOME), (1025, SOME), (70_000, FLOAT)] {
        let mask = values(DType::Float, &[count], 5).mapv(|value| real(f64::from(value.re > 2.0)));
        let taken = mask.iter().filter(|value| value.re != 0.0).count();
        agree("nonzero_count", dtypes, [0.0, 0.0], |make| {
            Case::new([make.output_of(DType::Long, &[1])], [make.dense(make.dtype(), &mask)], [])
        });
        agree("masked_select", dtypes, [1.0, 0.0], |make| {
            Case::new(
                [make.output(&[taken])],
                [make.dense(make.dtype(), &values(make.dtype(), &[count], 6)), make.dense(DType::Bool, &mask)],
                [],
            )
        });
        agree("masked_scatter", dtypes, [1.0, 0.0], |make| {
            let make = make.contiguous();
            Case::new(
                [make.input(&[count], 6)],
                [make.dense(make.dtype(), &values(make.dtype(), &[taken], 7)), make.dense(DType::Bool, &mask)],
                [],
            )
        });
    }
    let [long, short] = [9, 8].map(|size| Make::plain(DType::Float).output(&[size]));
    let mask = Tensor::line(DType::Bool, &[1.0; 9]);
    assert!(run("masked_scatter", &[&long], &[&short, &mask], &[], DType::Float).is_err());
    assert!(run("masked_select", &[&short], &[&long, &mask], &[], DType::Float).is_err());
}

#[test]
fn slots_of_what_is_not_zero() {
    for sizes in [&[7usize][..], &[3, 5], &[40, 33, 10], &[2, 1, 3, 4]] {
        let given = values(DType::Float, sizes, 2).mapv(|value| real(if value.re > 1.0 { value.re.ceil() } else { -0.0 }));
        let count = given.iter().filter(|value| value.re != 0.0).count();
        // The output has the same number of rows as there are slots, more, and fewer.
        for rows in [count, count + 2, count / 2] {
            agree("nonzero", SOME, [0.0, 0.0], |make| {
                Case::new([make.output_of(DType::Long, &[rows, sizes.len()])], [make.dense(make.dtype(), &given)], longs(&[-7]))
            });
        }
    }
}

#[test]
fn bags_of_rows() {
    let (lengths, padding) = ([0, 1, 16, 17, 40], 3);
    let offsets: Vec<f64> = lengths.iter().scan(0.0, |at, &length| Some(std::mem::replace(at, *at + f64::from(length)))).collect();
    let found: Vec<f64> = (0..74).map(|at| f64::from(at * 7 % 11)).collect();
    for (mode, has_weights, cols) in [(0, false, 150), (0, true, 3), (1, false, 3), (2, false, 20)] {
        agree("_embedding_bag", FLOATING, [4.0, 0.0], |make| {
            let dtype = make.dtype();
            let long = |values: &[f64]| Tensor::line(DType::Long, values);
            let slots = Tensor::new(DType::Long, if mode == 2 { &[5, 20] } else { &[5] }, Strides::Contiguous);
            let outputs = [make.dense(dtype, &values(dtype, &[5, cols], 3)), long(&[0.0; 74]), long(&[0.0; 5]), slots];
            let mut inputs = vec![make.dense(dtype, &values(dtype, &[11, cols], 1)), long(&found), long(&offsets)];
            inputs.extend(has_weights.then(|| make.dense(dtype, &values(dtype, &[74], 2))));
            Case::new(outputs, inputs, longs(&[mode, padding]))
        });
    }
}

#[test]
fn rows_are_scaled_to_a_norm() {
    for kind in [2.0, 1.0, f64::INFINITY] {
        let case = |make: &Make, indices: &[f64]| {
            let table = make.dense(make.dtype(), &values(make.dtype(), &[3, 37], 1).mapv(|value| value / 16.0));
            Case::new([table], [Tensor::line(DType::Long, indices)], [Scalar::Double(1.0), Scalar::Double(kind)])
        };
        agree("embedding_renorm_", find("embedding_renorm_").dtypes(), [8.0, 8.0], |make| case(make, &[0.0, 1.0, 0.0]));
        assert!(case(&Make::plain(DType::Float), &[3.0]).run("embedding_renorm_", DType::Float, None).is_err());
    }
}
