//! Matrix products over sizes, dtypes, layouts and numbers of threads. Sums of products of eighths are exact until they
//! are rounded, so that they have the same bits in any order.

use crate::ops::check::{Case, agree, any_threads, find, values};
use crate::tensor::{DType, FLOATING};

/// [m, n, k]: empty, single elements, and sizes around lanes, strips and tiles.
const SIZES: [[usize; 3]; 11] = [
    [0, 3, 2],
    [2, 0, 3],
    [3, 4, 0],
    [1, 1, 1],
    [2, 17, 5],
    [17, 64, 3],
    [64, 17, 2],
    [17, 20, 33],
    [70, 2, 8],
    [1, 130, 17],
    [33, 70, 40],
];

/// Matrices and vectors of few rows; rows at a distance of whole pages; an odd number of terms, over several blocks.
const DEEP: [[usize; 3]; 6] = [[3, 67, 41], [1, 300, 200], [20, 20, 530], [5, 20, 1024], [5, 20, 1549], [4, 130, 64]];

#[test]
fn products_of_any_sizes() {
    for ([m, n, k], dtypes) in
        SIZES.map(|sizes| (sizes, find("mm").dtypes())).into_iter().chain(DEEP.map(|sizes| (sizes, FLOATING)))
    {
        agree("mm", dtypes, [1.0, 0.0], |make| {
            Case::new([make.output(&[m, n])], [make.input(&[m, k], 1), make.input(&[k, n], 2)], [])
        });
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    for [m, n, k] in [[130, 257, 300], [1, 3000, 257], [700, 3, 513]] {
        any_threads("mm", &[DType::Float, DType::BFloat16], |make| {
            let sevenths =
                |sizes: &[usize], seed| make.dense(make.dtype(), &values(make.dtype(), sizes, seed).mapv(|value| value / 7.0));
            let (size, b) = (make.dtype().size() as i64, sevenths(&[n, k], 2));
            Case::new(
                [make.output(&[m, n])],
                [sevenths(&[m, k], 1), b.restrided(&[k as i64, n as i64], &[size, size * k as i64])],
                [],
            )
        });
    }
}
