//! Matrix products, compared with sums of complex f64 values, over dtypes, layouts, sizes, scalars and numbers of threads.

use ndarray::{ArrayD, s};

use super::mm;
use crate::kernels::check::{Strides, Tensor, close, round_trip, run, values};
use crate::runtime::parallel_for;
use crate::simd::for_each_isa;
use crate::tensor::dtype::{Complex64, DType};
use crate::tensor::launch::Scalar;
use crate::tensor::view::Flags;

/// Empty, single elements, and sizes around lanes, strips and tiles.
const DIMS: [usize; 6] = [0, 1, 2, 17, 64, 130];

/// `beta * addend + alpha * (a @ b)` over the last two dimensions.
fn oracle(addend: &ArrayD<Complex64>, a: &ArrayD<Complex64>, b: &ArrayD<Complex64>, beta: f64, alpha: f64) -> ArrayD<Complex64> {
    let (dims, depth) = (addend.shape(), a.shape()[a.ndim() - 1]);
    let (rows, cols) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    let (a, b): (Vec<_>, Vec<_>) = (a.iter().copied().collect(), b.iter().copied().collect());
    let values = addend.iter().enumerate().map(|(position, &addend)| {
        let (batch, row, col) = (position / (rows * cols), position / cols % rows, position % cols);
        let mut sum = Complex64::default();
        for k in 0..depth {
            sum += a[(batch * rows + row) * depth + k] * b[(batch * depth + k) * cols + col];
        }
        let scaled = if beta == 0.0 { Complex64::default() } else { addend * beta };
        scaled + if alpha == 0.0 { Complex64::default() } else { sum * alpha }
    });
    ArrayD::from_shape_vec(dims, values.collect()).unwrap()
}

/// Rounding errors grow with the sums: values are up to 8, so products are up to 128.
fn compare(found: &Tensor, expected: &ArrayD<Complex64>, depth: usize, context: &str) {
    let dtype = found.view().dtype();
    let epsilon = match dtype {
        DType::Half => 1e-3,
        DType::BFloat16 => 8e-3,
        DType::Float | DType::ComplexFloat => 1e-6,
        DType::Double | DType::ComplexDouble => 1e-14,
        _ => 0.0,
    };
    let slack = if matches!(dtype, DType::Half | DType::BFloat16) { 1e-4 } else { epsilon * 64.0 } * depth as f64;
    for ((index, &found), &expected) in seen(found).indexed_iter().zip(expected) {
        let wanted = round_trip(dtype, expected);
        let near = (found - wanted).norm() <= slack;
        assert!(near || close(found, wanted, epsilon), "{context} {dtype:?} {index:?}: {found} != {wanted}");
    }
}

fn tensor(dtype: DType, sizes: &[usize], seed: usize, strides: Strides) -> Tensor {
    Tensor::of(dtype, &values(dtype, sizes, seed), strides)
}

/// The values, also of an empty tensor, whose strides `ndarray` cannot express.
fn seen(tensor: &Tensor) -> ArrayD<Complex64> {
    let sizes: Vec<usize> = tensor.view().sizes().iter().map(|&size| size as usize).collect();
    if sizes.contains(&0) { ArrayD::zeros(sizes) } else { tensor.values() }
}

fn check_mm(dtype: DType, [m, n, k]: [usize; 3], [left, right, to]: [Strides; 3]) {
    let (a, b) = (tensor(dtype, &[m, k], 1, left), tensor(dtype, &[k, n], 2, right));
    let out = tensor(dtype, &[m, n], 3, to);
    run("mm", &[&out], &[&a, &b], &[], dtype).unwrap();
    let expected = oracle(&seen(&out), &seen(&a), &seen(&b), 0.0, 1.0);
    compare(&out, &expected, k, &format!("mm {m} {n} {k} {left:?} {right:?} {to:?}"));
}

#[test]
fn every_dtype_size_and_layout() {
    use Strides::{Broadcast, Contiguous, Sliced, Transposed};
    let layouts = [
        [Contiguous, Contiguous, Contiguous],
        [Contiguous, Transposed, Contiguous],
        [Transposed, Contiguous, Transposed],
        [Sliced, Sliced, Sliced],
        [Transposed, Broadcast, Contiguous],
    ];
    for dtype in mm::SIGNATURE.dtypes().iter() {
        for (turn, (m, n)) in DIMS.iter().flat_map(|&m| DIMS.map(|n| (m, n))).enumerate() {
            for (step, &k) in DIMS.iter().enumerate() {
                if m * n * k > 100_000 && !matches!(dtype, DType::Float | DType::BFloat16 | DType::Int) {
                    continue;
                }
                check_mm(dtype, [m, n, k], layouts[(turn + step) % layouts.len()]);
            }
        }
    }
}

#[test]
fn every_instruction_set() {
    for_each_isa(|_| {
        for dtype in [DType::Float, DType::Double, DType::BFloat16, DType::Half, DType::Int] {
            for right in [Strides::Contiguous, Strides::Transposed] {
                check_mm(dtype, [3, 67, 41], [Strides::Contiguous, right, Strides::Contiguous]);
                check_mm(dtype, [1, 600, 300], [Strides::Contiguous, right, Strides::Contiguous]);
                check_mm(dtype, [40, 20, 530], [Strides::Transposed, right, Strides::Contiguous]);
                // Rows at a distance of whole pages; an odd number of terms, over several blocks.
                check_mm(dtype, [13, 40, 1024], [Strides::Contiguous, right, Strides::Contiguous]);
                check_mm(dtype, [5, 70, 1549], [Strides::Contiguous, right, Strides::Transposed]);
            }
        }
    });
}

#[test]
fn scalars_and_what_they_leave_unread() {
    for dtype in mm::SIGNATURE.dtypes().iter() {
        for sizes in [[2, 17, 5], [17, 64, 3], [64, 17, 0]] {
            let [m, n, k] = sizes;
            for (beta, alpha) in [(0, 1), (1, 1), (2, -3), (1, 0), (0, 0)] {
                let (a, b) = (values(dtype, &[m, k], 4), values(dtype, &[k, n], 5));
                let mut addend = values(dtype, &[m, n], 6);
                let floating = DType::opmath(dtype) == DType::Float || dtype == DType::Double || dtype.is_complex();
                if beta == 0 && floating {
                    addend.fill(Complex64::new(f64::NAN, f64::NAN));
                }
                let mut a_read = a.clone();
                if alpha == 0 && floating {
                    a_read.fill(Complex64::new(f64::NAN, 0.0));
                }
                let a_tensor = Tensor::of(dtype, &a_read, Strides::Contiguous);
                let b_tensor = Tensor::of(dtype, &b, Strides::Contiguous);
                let scalars = [Scalar::Long(beta), Scalar::Long(alpha)];
                let expected = oracle(&addend, &a, &b, beta as f64, alpha as f64);
                let context = format!("addmm {sizes:?} beta {beta} alpha {alpha}");
                let own = Tensor::of(dtype, &addend, Strides::Sliced);
                let out = Tensor::new(dtype, &[m, n], Strides::Contiguous);
                run("addmm", &[&out], &[&own, &a_tensor, &b_tensor], &scalars, dtype).unwrap();
                compare(&out, &expected, k.max(1), &context);
                run("addmm", &[&own], &[&own, &a_tensor, &b_tensor], &scalars, dtype).unwrap();
                compare(&own, &expected, k.max(1), &format!("{context} in place"));
            }
        }
    }
}

#[test]
fn batches_and_vectors() {
    for dtype in mm::SIGNATURE.dtypes().iter() {
        for [m, n, k] in [[1, 9, 4], [17, 20, 33], [70, 2, 8]] {
            for strides in [Strides::Contiguous, Strides::Transposed, Strides::Broadcast] {
                let (a, b) = (tensor(dtype, &[3, m, k], 1, strides), tensor(dtype, &[3, k, n], 2, strides));
                let (own, out) = (tensor(dtype, &[3, m, n], 3, strides), Tensor::new(dtype, &[3, m, n], Strides::Contiguous));
                run("bmm", &[&out], &[&a, &b], &[], dtype).unwrap();
                compare(&out, &oracle(&own.values(), &a.values(), &b.values(), 0.0, 1.0), k, "bmm");
                run("baddbmm", &[&out], &[&own, &a, &b], &[Scalar::Long(2), Scalar::Long(1)], dtype).unwrap();
                compare(&out, &oracle(&own.values(), &a.values(), &b.values(), 2.0, 1.0), k, "baddbmm");
            }
            let (a, b) = (tensor(dtype, &[m, k], 1, Strides::Transposed), tensor(dtype, &[k], 2, Strides::Sliced));
            let (own, out) = (tensor(dtype, &[m], 3, Strides::Broadcast), Tensor::new(dtype, &[m], Strides::Contiguous));
            run("addmv", &[&out], &[&own, &a, &b], &[Scalar::Long(1), Scalar::Long(2)], dtype).unwrap();
            let column = |values: ArrayD<Complex64>| values.insert_axis(ndarray::Axis(1));
            let expected = oracle(&column(own.values()), &a.values(), &column(b.values()), 1.0, 2.0);
            compare(&out, &expected.slice(s![.., 0]).to_owned().into_dyn(), k, "addmv");
        }
    }
}

#[test]
fn flags_are_honoured() {
    let dtype = DType::ComplexDouble;
    for [m, n, k] in [[20, 30, 12], [3, 4, 5]] {
        for bits in 0..16u8 {
            let flags = |at: u8| if bits >> at & 1 == 1 { Flags::CONJ } else { Flags::default() };
            let conj =
                |values: ArrayD<Complex64>, at: u8| if bits >> at & 1 == 1 { values.mapv(|value| value.conj()) } else { values };
            let [a, b, own, out] = [([m, k], 0u8), ([k, n], 1), ([m, n], 2), ([m, n], 3)]
                .map(|(sizes, at)| tensor(dtype, &sizes, at as usize, Strides::Contiguous).with_flags(flags(at)));
            run("addmm", &[&out], &[&own, &a, &b], &[Scalar::Long(2), Scalar::Long(3)], dtype).unwrap();
            let expected = oracle(&conj(own.values(), 2), &conj(a.values(), 0), &conj(b.values(), 1), 2.0, 3.0);
            compare(&out, &conj(expected, 3), k, &format!("flags {bits:04b}"));
        }
    }
    let (a, b) = (tensor(DType::Float, &[4, 5], 1, Strides::Contiguous), tensor(DType::Float, &[5, 6], 2, Strides::Contiguous));
    let (a, out) = (a.with_flags(Flags::NEG), Tensor::new(DType::Float, &[4, 6], Strides::Contiguous));
    run("mm", &[&out], &[&a, &b], &[], DType::Float).unwrap();
    compare(&out, &oracle(&out.values(), &a.values(), &b.values(), 0.0, -1.0), 5, "negative");
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    for dtype in [DType::Float, DType::BFloat16, DType::ComplexFloat] {
        for [m, n, k] in [[130, 257, 300], [1, 3000, 257], [700, 3, 513]] {
            let (a, b) = (tensor(dtype, &[m, k], 1, Strides::Contiguous), tensor(dtype, &[n, k], 2, Strides::Contiguous));
            let size = dtype.size() as i64;
            let b = b.restrided(&[k as i64, n as i64], &[size, size * k as i64]);
            let product = |count| {
                parallel_for::set_num_threads(count);
                let out = Tensor::new(dtype, &[m, n], Strides::Contiguous);
                run("mm", &[&out], &[&a, &b], &[], dtype).unwrap();
                out.values()
            };
            let before = parallel_for::num_threads();
            let (one, four) = (product(1), product(4));
            parallel_for::set_num_threads(before);
            assert_eq!(one, four, "{dtype:?} {m} {n} {k}");
        }
    }
}

#[test]
fn wrong_operands_are_refused() {
    let new = |dtype, sizes: &[usize]| Tensor::new(dtype, sizes, Strides::Contiguous);
    let (a, b, out) = (new(DType::Float, &[2, 3]), new(DType::Double, &[3, 2]), new(DType::Float, &[2, 2]));
    assert!(run("mm", &[&out], &[&a, &b], &[], DType::Float).unwrap_err().text().contains("different dtypes"));
    let b = new(DType::Float, &[3]);
    assert!(run("mm", &[&out], &[&a, &b], &[], DType::Float).unwrap_err().text().contains("numbers of dimensions"));
    assert!(run("mm", &[&out], &[&a], &[], DType::Float).unwrap_err().text().contains("not 2 operands"));
}
