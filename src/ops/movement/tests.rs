//! The movement kernels over parameters, layouts and elements of every size.

use crate::ops::check::{Case, Make, Strides, Tensor, agree, any_threads, doubles, find, longs, real, run, values};
use crate::tensor::{DType, DTypeSet, FIELD};

/// One dtype for each size of elements.
const SIZES: DTypeSet = DTypeSet::of(&[DType::Bool, DType::BFloat16, DType::Float, DType::Long, DType::ComplexDouble]);

/// Checks a row of one output and one input of these sizes.
fn check(name: &str, dtypes: DTypeSet, [input, output]: [&[usize]; 2], scalars: &[i64]) {
    agree(name, dtypes, [1.0, 0.0], |make| Case::new([make.output(output)], [make.input(input, 1)], longs(scalars)));
}

#[test]
fn cat_joins_along_every_dimension() {
    for dim in 0..3 {
        let sizes = |len: usize| (0..3).map(|other| if other == dim { len } else { 3 + other }).collect::<Vec<_>>();
        agree("cat", SIZES, [1.0, 0.0], |make| {
            let inputs = [2, 0, 40, 1].map(|len| make.input(&sizes(len), len));
            Case::new([make.output(&sizes(43))], inputs, longs(&[dim as i64]))
        });
    }
    // Inputs are cast, and are divided between threads.
    let inputs = [DType::Int, DType::Half].map(|dtype| Make::plain(dtype).input(&[30_000], 1));
    let output = Tensor::new(DType::Float, &[60_000], Strides::Contiguous);
    run("cat", &[&output], &inputs.each_ref(), &longs(&[0]), DType::Float).unwrap();
    assert!(output.reals() == inputs.each_ref().map(Tensor::reals).concat());
    assert!(run("cat", &[&output], &[&inputs[0]], &longs(&[0]), DType::Float).unwrap_err().text().contains("add up to 30000"));
}

#[test]
fn elements_are_flipped_rolled_and_cleared() {
    for flipped in 0..8 {
        check("flip", SIZES, [&[3, 20, 5]; 2], &[flipped]);
    }
    for (first, second) in [(0, 0), (1, 4), (3, 5), (2, 0)] {
        check("roll", SIZES, [&[3, 20, 5]; 2], &[0, first, 2, second]);
    }
    for diagonal in [i64::MIN, -40, -2, 0, 3, 40, i64::MAX] {
        check("tril", SIZES, [&[2, 33, 7]; 2], &[diagonal]);
        check("triu", SIZES, [&[2, 33, 7]; 2], &[diagonal]);
    }
    // A large matrix in place.
    let tensor = Tensor::of(DType::Float, &values(DType::Float, &[300, 200], 3), Strides::Transposed);
    let before = tensor.values();
    run("triu", &[&tensor], &[&tensor], &longs(&[1]), DType::Float).unwrap();
    assert!(tensor.values().indexed_iter().all(|(at, &value)| value == if at[1] > at[0] { before[&at] } else { real(0.0) }));
}

#[test]
fn ranges_repeats_indices_and_identities() {
    let made = |name: &str, sizes: &[usize], scalars: &[f64]| {
        agree(name, find(name).dtypes(), [8.0, 0.0], |make| Case::new([make.output(sizes)], [], doubles(scalars)));
    };
    made("eye", &[30, 20], &[]);
    made("arange", &[300], &[7.0, -3.0]);
    made("linspace", &[300], &[-1.0, 3.0]);
    made("logspace", &[30], &[0.0, 6.0, 2.0]);
    for (diagonal, lower, upper) in [(-5.0, 1, 24), (-1.0, 14, 14), (0.0, 18, 10), (9.0, 24, 0)] {
        made("tril_indices", &[2, lower], &[6.0, 4.0, diagonal]);
        made("triu_indices", &[2, upper], &[6.0, 4.0, diagonal]);
    }
    assert!(Case::new([Make::plain(DType::Float).output(&[3])], [], []).run("eye", DType::Float, None).is_err());
    let repeated = |count| {
        let case = Case::new([Make::plain(DType::Int).output(&[count])], [Tensor::line(DType::Long, &[2.0, 2.0, 5.0, 6.0])], []);
        case.run("repeat_interleave", DType::Int, None)
    };
    assert_eq!(repeated(6).unwrap()[0], Tensor::line(DType::Int, &[0.0, 0.0, 2.0, 2.0, 2.0, 3.0]).packed());
    assert!(repeated(5).is_err());
}

#[test]
fn padding_and_its_gradient() {
    for [left, right, top, bottom] in [[2, 3, 1, 0], [0, 0, 4, 4], [-1, 5, -2, -1], [-2, -3, 0, 1], [1, 1, -3, 2]] {
        let padded = [2, (5 + top + bottom) as usize, (20 + left + right) as usize];
        for name in ["reflection_pad", "replication_pad"] {
            check(name, SIZES, [&[2, 5, 20], &padded], &[left, top]);
            check(&format!("{name}_backward"), FIELD, [&padded, &[2, 5, 20]], &[left, top]);
        }
    }
    any_threads("reflection_pad_backward", &[DType::Float], |make| {
        let thirds = values(DType::Float, &[32, 70, 72], 5).mapv(|value| value / 3.0);
        Case::new([make.output(&[32, 64, 64])], [make.dense(DType::Float, &thirds)], longs(&[4, 3]))
    });
}

#[test]
fn windows_and_their_gradients() {
    // Kernel, dilation, padding, stride, windows: height and width of each.
    for windows in [
        [3, 2, 1, 1, 0, 0, 1, 1, 5, 8],
        [3, 2, 2, 1, 2, 1, 1, 3, 7, 4],
        [2, 4, 1, 2, 1, 3, 3, 2, 3, 5],
        [1, 1, 1, 1, 0, 0, 1, 1, 7, 9],
    ] {
        let columns = [2, (3 * windows[0] * windows[1]) as usize, (windows[8] * windows[9]) as usize];
        check("im2col", SIZES, [&[2, 3, 7, 9], &columns], &windows);
        check("col2im", FIELD, [&columns, &[2, 3, 7, 9]], &windows);
    }
    for (dim, size, step) in [(0, 2, 1), (1, 3, 2), (2, 2, 3), (1, 1, 1)] {
        let mut sizes = vec![4, 9, 5, size];
        sizes[dim] = (sizes[dim] - size) / step + 1;
        check("unfold_backward", FIELD, [&sizes, &[4, 9, 5]], &[dim as i64, size as i64, step as i64]);
    }
}
