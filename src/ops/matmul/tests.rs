//! Matrix products over sizes, dtypes, layouts, scalars and numbers of threads. Sums of products of eighths are exact until they
//! are rounded, so that they have the same bits in any order.

use ndarray::ArrayD;

use crate::ops::check::Strides::Contiguous;
use crate::ops::check::{Case, Make, Tensor, agree, any_threads, find, longs, run, values};
use crate::tensor::{Complex64, DType, DTypeSet, FLOATING, Flags};

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

fn all() -> DTypeSet {
    find("mm").dtypes()
}

#[test]
fn products_of_any_sizes() {
    for ([m, n, k], dtypes) in SIZES.map(|sizes| (sizes, all())).into_iter().chain(DEEP.map(|sizes| (sizes, FLOATING))) {
        agree("mm", dtypes, [1.0, 0.0], |make| {
            Case::new([make.output(&[m, n])], [make.input(&[m, k], 1), make.input(&[k, n], 2)], [])
        });
    }
    for [m, n, k] in &SIZES[3..10] {
        agree("mm", FLOATING, [1.0, 0.0], |make| {
            Case::new([make.output(&[*m, *n])], [make.input(&[*m, *k], 1), make.row(&[*k, *n], 2)], [])
        });
    }
}

#[test]
fn addends_batches_and_vectors() {
    for [m, n, k] in [[2, 17, 5], [17, 64, 3], [17, 20, 33], [70, 2, 8], [3, 4, 0]] {
        for scalars in [[0, 1], [1, 1], [2, -3], [1, 0], [0, 0]] {
            agree("addmm", all(), [1.0, 0.0], |make| {
                Case::new(
                    [make.output(&[m, n])],
                    [make.row(&[m, n], 3), make.input(&[m, k], 1), make.input(&[k, n], 2)],
                    longs(&scalars),
                )
            });
        }
        agree("bmm", all(), [1.0, 0.0], |make| {
            Case::new([make.output(&[3, m, n])], [make.input(&[3, m, k], 1), make.row(&[3, k, n], 2)], [])
        });
        agree("baddbmm", all(), [1.0, 0.0], |make| {
            let inputs = [make.input(&[3, m, n], 3), make.row(&[3, m, k], 1), make.input(&[3, k, n], 2)];
            Case::new([make.output(&[3, m, n])], inputs, longs(&[2, 1]))
        });
        agree("addmv", all(), [1.0, 0.0], |make| {
            Case::new([make.output(&[m])], [make.row(&[m], 3), make.input(&[m, k], 1), make.input(&[k], 2)], longs(&[1, 2]))
        });
    }
}

#[test]
fn what_a_factor_of_0_leaves_out_is_not_read() {
    for dtype in FLOATING.iter() {
        let make = Make::plain(dtype);
        let (a, b, own, nan) =
            (make.input(&[5, 40], 1), make.input(&[40, 7], 2), make.input(&[5, 7], 3), |sizes| make.number(sizes, f64::NAN));
        let product = Case::new([make.output(&[5, 7])], [a.clone(), b.clone()], []).run("mm", dtype, None).unwrap();
        let added = |inputs: [Tensor; 3], factors: [i64; 2]| {
            Case::new([make.output(&[5, 7])], inputs, longs(&factors)).run("addmm", dtype, None).unwrap()
        };
        assert_eq!(added([nan(&[5, 7]), a, b.clone()], [0, 1]), product);
        assert_eq!(added([own.clone(), nan(&[5, 40]), b], [1, 0])[0], own.packed());
    }
}

#[test]
fn flags_are_honoured() {
    let dtype = DType::ComplexDouble;
    for ([m, n, k], bits) in [[20, 30, 12], [3, 4, 5]].into_iter().flat_map(|sizes| (0..16u8).map(move |bits| (sizes, bits))) {
        let conj =
            |values: ArrayD<Complex64>, at: usize| if bits >> at & 1 == 1 { values.mapv(|value| value.conj()) } else { values };
        // With flags, and with the values that these stand for.
        let results = [true, false].map(|in_flags| {
            let [own, a, b, out] = [[m, n], [m, k], [k, n], [m, n]].map(|sizes| values(dtype, &sizes, 1));
            let operands = [own, a, b, out].into_iter().enumerate().map(|(at, values)| {
                let flags = if bits >> at & 1 == 1 { Flags::CONJ } else { Flags(0) };
                if in_flags {
                    Tensor::of(dtype, &values, Contiguous).with_flags(flags)
                } else {
                    Tensor::of(dtype, &conj(values, at), Contiguous)
                }
            });
            let operands: Vec<_> = operands.collect();
            run("addmm", &[&operands[3]], &[&operands[0], &operands[1], &operands[2]], &longs(&[2, 3]), dtype).unwrap();
            if in_flags { conj(operands[3].values(), 3) } else { operands[3].values() }
        });
        assert_eq!(results[0], results[1], "flags {bits:04b}");
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

#[test]
fn wrong_operands_are_refused() {
    let make = Make::plain(DType::Float);
    let refused = |inputs: Vec<Tensor>| Case::new([make.output(&[2, 2])], inputs, []).run("mm", DType::Float, None).unwrap_err();
    let a = make.input(&[2, 3], 1);
    assert!(refused(vec![a.clone(), Make::plain(DType::Double).input(&[3, 2], 1)]).text().contains("different dtypes"));
    assert!(refused(vec![a.clone(), make.input(&[3], 1)]).text().contains("numbers of dimensions"));
    assert!(refused(vec![a]).text().contains("not 2 operands"));
}
