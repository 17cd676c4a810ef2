//! The movement kernels, compared with their definitions.

use ndarray::{ArrayD, Axis, IxDyn, concatenate};

use crate::kernels::check::{self, Strides, Tensor, real, round_trip, values};
use crate::runtime::parallel_for;
use crate::tensor::dtype::{Complex64, DType, FIELD};
use crate::tensor::launch::Scalar;

/// One dtype for each size of elements.
const SIZES: [DType; 5] = [DType::Bool, DType::BFloat16, DType::Float, DType::Long, DType::ComplexDouble];

fn longs(numbers: &[i64]) -> Vec<Scalar> {
    numbers.iter().map(|&number| Scalar::Long(number)).collect()
}

/// Runs a row with one output and one input of the dtype over inputs of all layouts, and compares.
fn compare(name: &str, dtype: DType, sizes: &[usize], scalars: &[i64], oracle: impl Fn(&ArrayD<Complex64>) -> ArrayD<Complex64>) {
    for (turn, from) in Strides::ALL.into_iter().enumerate() {
        let input = Tensor::of(dtype, &values(dtype, sizes, turn), from);
        let expected = oracle(&input.values()).mapv(|value| round_trip(dtype, value));
        let to = [Strides::Contiguous, Strides::Sliced, Strides::Transposed][turn % 3];
        let output = Tensor::of(dtype, &values(dtype, expected.shape(), 99), to);
        check::run(name, &[&output], &[&input], &longs(scalars), dtype).unwrap();
        assert_eq!(output.values(), expected, "{name} {dtype:?} {sizes:?} {scalars:?} {from:?}");
    }
}

/// The array of the elements of `input` at the given indices.
fn taken(input: &ArrayD<Complex64>, sizes: &[usize], position: impl Fn(&[usize]) -> Option<Vec<usize>>) -> ArrayD<Complex64> {
    ArrayD::from_shape_fn(IxDyn(sizes), |index| {
        use ndarray::Dimension;
        position(index.as_array_view().as_slice().unwrap()).map_or(real(0.0), |position| input[&position[..]])
    })
}

#[test]
fn cat_joins_along_every_dimension() {
    for dtype in SIZES {
        for dim in 0..3 {
            let sizes = |len: usize| -> Vec<usize> { (0..3).map(|other| if other == dim { len } else { 3 + other }).collect() };
            let inputs: Vec<Tensor> = [2, 0, 40, 1]
                .iter()
                .zip(Strides::ALL)
                .map(|(&len, from)| Tensor::of(dtype, &values(dtype, &sizes(len), len), from))
                .collect();
            let output = Tensor::new(dtype, &sizes(43), Strides::Contiguous);
            check::run("cat", &[&output], &inputs.iter().collect::<Vec<_>>(), &longs(&[dim as i64]), dtype).unwrap();
            let arrays: Vec<_> = inputs.iter().map(Tensor::values).collect();
            let expected = concatenate(Axis(dim), &arrays.iter().map(|array| array.view()).collect::<Vec<_>>()).unwrap();
            assert_eq!(output.values(), expected, "{dtype:?} {dim}");
        }
    }
}

#[test]
fn cat_casts_and_refuses_sizes_that_do_not_add_up() {
    let inputs = [DType::Int, DType::Half].map(|dtype| Tensor::of(dtype, &values(dtype, &[300_000], 1), Strides::Contiguous));
    let output = Tensor::new(DType::Float, &[600_000], Strides::Contiguous);
    check::run("cat", &[&output], &[&inputs[0], &inputs[1]], &longs(&[0]), DType::Float).unwrap();
    assert_eq!(output.values()[[299_999]], inputs[0].values()[[299_999]]);
    assert_eq!(output.values()[[599_999]], inputs[1].values()[[299_999]]);
    assert!(
        check::run("cat", &[&output], &[&inputs[0]], &longs(&[0]), DType::Float).unwrap_err().text().contains("add up to 300000")
    );
}

#[test]
fn flip_turns_the_dimensions_named() {
    for dtype in SIZES {
        for flipped in 0..8usize {
            compare("flip", dtype, &[3, 70, 5], &[flipped as i64], |input| {
                let mut view = input.view();
                (0..3).filter(|dim| flipped >> dim & 1 != 0).for_each(|dim| view.invert_axis(Axis(dim)));
                view.to_owned()
            });
        }
    }
}

#[test]
fn roll_moves_on_and_round() {
    for dtype in SIZES {
        for (first, second) in [(0, 0), (1, 4), (3, 5), (2, 0)] {
            compare("roll", dtype, &[3, 20, 5], &[0, first, 2, second], |input| {
                taken(input, &[3, 20, 5], |at| {
                    Some(vec![(at[0] + 3 - first as usize) % 3, at[1], (at[2] + 5 - second as usize) % 5])
                })
            });
        }
    }
}

#[test]
fn triangles_keep_one_side() {
    for dtype in SIZES {
        for diagonal in [i64::MIN, -40, -2, 0, 3, 40, i64::MAX] {
            for (name, upper) in [("tril", false), ("triu", true)] {
                compare(name, dtype, &[2, 33, 7], &[diagonal], |input| {
                    taken(input, &[2, 33, 7], |at| {
                        let right = at[2] as i128 - at[1] as i128 - i128::from(diagonal);
                        (if upper { right >= 0 } else { right <= 0 }).then(|| at.to_vec())
                    })
                });
            }
        }
    }
}

#[test]
fn a_triangle_in_place_clears_the_other_side_alone() {
    let tensor = Tensor::of(DType::Float, &values(DType::Float, &[300, 200], 3), Strides::Transposed);
    let before = tensor.values();
    check::run("triu", &[&tensor], &[&tensor], &longs(&[1]), DType::Float).unwrap();
    let after = tensor.values();
    assert!(after.indexed_iter().all(|(at, &value)| value == if at[1] > at[0] { before[&at] } else { real(0.0) }));
}

#[test]
fn indices_of_triangles_go_row_by_row() {
    for (name, upper) in [("tril_indices", false), ("triu_indices", true)] {
        for diagonal in [-5, -1, 0, 2, 9] {
            let inside = |row: i64, col: i64| if upper { col - row >= diagonal } else { col - row <= diagonal };
            let expected: Vec<(i64, i64)> =
                (0..6).flat_map(|row| (0..4).map(move |col| (row, col))).filter(|&(row, col)| inside(row, col)).collect();
            let output = Tensor::new(DType::Long, &[2, expected.len()], Strides::Contiguous);
            check::run(name, &[&output], &[], &longs(&[6, 4, diagonal]), DType::Long).unwrap();
            let found: Vec<(i64, i64)> =
                (0..expected.len()).map(|at| (output.values()[[0, at]].re as i64, output.values()[[1, at]].re as i64)).collect();
            assert_eq!(found, expected, "{name} {diagonal}");
        }
    }
}

#[test]
fn an_identity_matrix_has_ones_on_its_diagonal() {
    for (dtype, sizes) in [(DType::Float, [300, 200]), (DType::Byte, [2, 5]), (DType::ComplexFloat, [4, 4])] {
        for strides in [Strides::Contiguous, Strides::Transposed, Strides::Sliced] {
            let output = Tensor::of(dtype, &values(dtype, &sizes, 3), strides);
            check::run("eye", &[&output], &[], &[], dtype).unwrap();
            assert!(output.values().indexed_iter().all(|(at, &value)| value == real(f64::from(u8::from(at[0] == at[1])))));
        }
    }
    let line = Tensor::new(DType::Float, &[3], Strides::Contiguous);
    assert!(check::run("eye", &[&line], &[], &[], DType::Float).is_err());
}

#[test]
fn ranges_and_spaces() {
    let output = Tensor::new(DType::Int, &[40_000], Strides::Sliced);
    check::run("arange", &[&output], &[], &longs(&[7, -3]), DType::Int).unwrap();
    assert!(output.values().iter().enumerate().all(|(at, &value)| value == real(7.0 - 3.0 * at as f64)));
    let output = Tensor::new(DType::Float, &[5], Strides::Contiguous);
    check::run("arange", &[&output], &[], &[Scalar::Double(0.5), Scalar::Double(0.25)], DType::Float).unwrap();
    assert_eq!(output.values()[[4]], real(1.5));
    check::run("linspace", &[&output], &[], &[Scalar::Double(-1.0), Scalar::Double(3.0)], DType::Float).unwrap();
    assert_eq!(output.values().into_raw_vec_and_offset().0, [-1.0, 0.0, 1.0, 2.0, 3.0].map(real));
    check::run("logspace", &[&output], &[], &[Scalar::Long(0), Scalar::Long(4), Scalar::Double(2.0)], DType::Float).unwrap();
    assert_eq!(output.values().into_raw_vec_and_offset().0, [1.0, 2.0, 4.0, 8.0, 16.0].map(real));
    let single = Tensor::new(DType::Double, &[1], Strides::Contiguous);
    check::run("linspace", &[&single], &[], &longs(&[4, 9]), DType::Double).unwrap();
    assert_eq!(single.values()[[0]], real(4.0));
    let complex = Tensor::new(DType::ComplexFloat, &[3], Strides::Contiguous);
    check::run("linspace", &[&complex], &[], &[Scalar::Long(0), Scalar::Complex(2.0, -4.0)], DType::ComplexFloat).unwrap();
    assert_eq!(complex.values()[[1]], Complex64::new(1.0, -2.0));
}

#[test]
fn positions_are_repeated() {
    let ends = Tensor::of(
        DType::Long,
        &ArrayD::from_shape_vec(IxDyn(&[4]), [2.0, 2.0, 5.0, 6.0].map(real).to_vec()).unwrap(),
        Strides::Sliced,
    );
    let output = Tensor::new(DType::Int, &[6], Strides::Contiguous);
    check::run("repeat_interleave", &[&output], &[&ends], &[], DType::Int).unwrap();
    assert_eq!(output.values().into_raw_vec_and_offset().0, [0.0, 0.0, 2.0, 2.0, 2.0, 3.0].map(real));
    let short = Tensor::new(DType::Int, &[5], Strides::Contiguous);
    assert!(check::run("repeat_interleave", &[&short], &[&ends], &[], DType::Int).is_err());
}

fn padded(position: usize, before: i64, size: usize, reflects: bool) -> usize {
    let (at, last) = (position as i64 - before, size as i64 - 1);
    let at = if reflects { last - (last - at.abs()).abs() } else { at.clamp(0, last) };
    at as usize
}

#[test]
fn padding_repeats_the_input() {
    for dtype in SIZES {
        for (name, reflects) in [("reflection_pad", true), ("replication_pad", false)] {
            for [left, right, top, bottom] in [[2i64, 3, 1, 0], [0, 0, 4, 4], [-1, 5, -2, -1], [-2, -3, 0, 1], [1, 1, -3, 2]] {
                let sizes = [2, (5 + top + bottom) as usize, (40 + left + right) as usize];
                compare(name, dtype, &[2, 5, 40], &[left, top], |input| {
                    taken(input, &sizes, |at| Some(vec![at[0], padded(at[1], top, 5, reflects), padded(at[2], left, 40, reflects)]))
                });
            }
        }
    }
}

#[test]
fn gradients_of_padding_add_up() {
    for dtype in FIELD.iter() {
        for (name, reflects) in [("reflection_pad_backward", true), ("replication_pad_backward", false)] {
            for [left, right, top, bottom] in [[2i64, 3, 1, 0], [3, 3, 4, 4], [-1, 2, -2, -1]] {
                let sizes = [2, (5 + top + bottom) as usize, (6 + left + right) as usize];
                compare(name, dtype, &sizes, &[left, top], |grad| {
                    let mut sums = ArrayD::from_elem(IxDyn(&[2, 5, 6]), real(0.0));
                    grad.indexed_iter().for_each(|(at, &value)| {
                        sums[[at[0], padded(at[1], top, 5, reflects), padded(at[2], left, 6, reflects)]] += value;
                    });
                    sums
                });
            }
        }
    }
}

/// Kernel, dilation, padding, stride, windows: height and width of each; the image is 7 by 9.
const WINDOWS: [[i64; 10]; 4] = [
    [3, 2, 1, 1, 0, 0, 1, 1, 5, 8],
    [3, 2, 2, 1, 2, 1, 1, 3, 7, 4],
    [2, 4, 1, 2, 1, 3, 3, 2, 3, 5],
    [1, 1, 1, 1, 0, 0, 1, 1, 7, 9],
];

fn seen([kh, kw, dh, dw, ph, pw, sh, sw, _, ow]: [i64; 10], row: usize, window: usize) -> (usize, Option<[usize; 2]>) {
    let (channel, tap) = (row / (kh * kw) as usize, row as i64 % (kh * kw));
    let y = window as i64 / ow * sh - ph + tap / kw * dh;
    let x = window as i64 % ow * sw - pw + tap % kw * dw;
    (channel, ((0..7).contains(&y) && (0..9).contains(&x)).then_some([y as usize, x as usize]))
}

#[test]
fn columns_show_what_the_windows_see() {
    for dtype in SIZES {
        for windows in WINDOWS {
            let [kh, kw, .., oh, ow] = windows;
            let sizes = [2, (3 * kh * kw) as usize, (oh * ow) as usize];
            compare("im2col", dtype, &[2, 3, 7, 9], &windows, |input| {
                taken(input, &sizes, |at| {
                    let (channel, position) = seen(windows, at[1], at[2]);
                    position.map(|[y, x]| vec![at[0], channel, y, x])
                })
            });
        }
    }
}

#[test]
fn images_add_up_their_columns() {
    for dtype in FIELD.iter() {
        for windows in WINDOWS {
            let [kh, kw, .., oh, ow] = windows;
            compare("col2im", dtype, &[2, (3 * kh * kw) as usize, (oh * ow) as usize], &windows, |columns| {
                let mut sums = ArrayD::from_elem(IxDyn(&[2, 3, 7, 9]), real(0.0));
                columns.indexed_iter().for_each(|(at, &value)| {
                    if let (channel, Some([y, x])) = seen(windows, at[1], at[2]) {
                        sums[[at[0], channel, y, x]] += value;
                    }
                });
                sums
            });
        }
    }
}

#[test]
fn the_gradient_of_unfold_adds_up_the_windows() {
    for (dim, size, step) in [(0usize, 2usize, 1usize), (1, 3, 2), (2, 2, 3), (1, 1, 1)] {
        let whole = [4, 9, 5];
        let windows = (whole[dim] - size) / step + 1;
        let mut sizes = whole.to_vec();
        sizes[dim] = windows;
        sizes.push(size);
        for dtype in FIELD.iter() {
            compare("unfold_backward", dtype, &sizes, &[dim as i64, size as i64, step as i64], |grad| {
                let mut sums = ArrayD::from_elem(IxDyn(&whole), real(0.0));
                grad.indexed_iter().for_each(|(at, &value)| {
                    let mut position = [at[0], at[1], at[2]];
                    position[dim] = at[dim] * step + at[3];
                    sums[position] += value;
                });
                sums
            });
        }
    }
}

#[test]
fn sums_do_not_depend_on_the_threads() {
    let grad = Tensor::of(DType::Float, &values(DType::Float, &[64, 70, 72], 5).mapv(|value| value / 3.0), Strides::Contiguous);
    let results = [1, 2, 5].map(|count| {
        let before = parallel_for::num_threads();
        parallel_for::set_num_threads(count);
        let output = Tensor::new(DType::Float, &[64, 64, 64], Strides::Contiguous);
        check::run("reflection_pad_backward", &[&output], &[&grad], &longs(&[4, 3]), DType::Float).unwrap();
        parallel_for::set_num_threads(before);
        output.values()
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}
