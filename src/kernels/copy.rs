//! Copies, casts and fills.

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::copy_fill;

signature! {
    copy_(out, input)[] in ANY;
    fill_(out, value)[] in EVERY;
    zero_(out)[] in ANY;
}

/// `aten::copy_`: out = input, cast to out's dtype. Operands [out, input], of any two dtypes; the conjugate and negative flags of
/// both are honoured, immediate and host operands allowed.
pub fn copy_(launch: &Launch<'_>) -> Result<(), Error> {
    check(launch, 2)?;
    copy_fill::copy(launch)
}

/// `aten::fill_`: out = value everywhere, cast to out's dtype. Operands [out, value]; the value is an immediate or a 0-dim tensor
/// broadcast to out's sizes.
pub fn fill_(launch: &Launch<'_>) -> Result<(), Error> {
    check(launch, 2)?;
    copy_fill::fill(launch)
}

/// `aten::zero_`: out = 0 everywhere.
pub fn zero_(launch: &Launch<'_>) -> Result<(), Error> {
    check(launch, 1)?;
    copy_fill::zero(launch);
    Ok(())
}

fn check(launch: &Launch<'_>, operands: usize) -> Result<(), Error> {
    match launch.num_operands() {
        found if found == operands => Ok(()),
        found => Err(Error::operands(format!("{found} operands where {operands} are needed"))),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, IxDyn};

    use crate::kernels::check::{self, SIZES, Strides, Tensor, real, round_trip};
    use crate::simd::for_each_isa;
    use crate::tensor::dtype::{Complex64, DType, EVERY};
    use crate::tensor::kernel_error::ErrorKind;
    use crate::tensor::view::Flags;

    #[test]
    fn every_dtype_becomes_every_other() {
        for source in EVERY.iter() {
            for (turn, target) in EVERY.iter().enumerate() {
                let (from, to) = (Strides::ALL[turn % 4], [Strides::Contiguous, Strides::Transposed, Strides::Sliced][turn % 3]);
                let input = Tensor::of(source, &check::values(source, &[5, 271], turn), from);
                let expected = input.values().mapv(|value| round_trip(target, value));
                for_each_isa(|isa| {
                    let output = Tensor::new(target, &[5, 271], to);
                    check::run("copy_", &[&output], &[&input], &[], target).unwrap();
                    for (found, expected) in output.values().iter().zip(&expected) {
                        assert!(check::close(*found, *expected, 0.0), "{source:?} to {target:?} {isa:?}: {found} != {expected}");
                    }
                });
            }
        }
    }

    #[test]
    fn elements_of_every_size_are_moved_between_all_layouts() {
        for dtype in [DType::Byte, DType::Half, DType::Float, DType::Double, DType::ComplexDouble] {
            for (case, sizes) in SIZES.iter().enumerate() {
                let values = check::values(dtype, sizes, case);
                for from in Strides::ALL {
                    let input = Tensor::of(dtype, &values, from);
                    for to in [Strides::Contiguous, Strides::Transposed, Strides::Sliced] {
                        for_each_isa(|isa| {
                            let output = Tensor::new(dtype, sizes, to);
                            check::run("copy_", &[&output], &[&input], &[], dtype).unwrap();
                            assert_eq!(output.values(), input.values(), "{dtype:?} {sizes:?} {from:?} {to:?} {isa:?}");
                        });
                    }
                }
            }
        }
    }

    #[test]
    fn conjugate_and_negative_flags_are_honoured_on_both_sides() {
        let flags = [Flags(0), Flags::CONJ, Flags::NEG, Flags(Flags::CONJ.0 | Flags::NEG.0)];
        let meaning = |flags: Flags, value: Complex64| {
            let value = if flags.has(Flags::CONJ) { value.conj() } else { value };
            if flags.has(Flags::NEG) { -value } else { value }
        };
        for dtype in [DType::ComplexFloat, DType::ComplexHalf, DType::Float] {
            let values = check::values(dtype, &[3, 100], 1);
            for from in flags {
                for to in flags.into_iter().filter(|to| dtype.is_complex() || !to.has(Flags::CONJ) && !from.has(Flags::CONJ)) {
                    let input = Tensor::of(dtype, &values, Strides::Transposed).with_flags(from);
                    let output = Tensor::new(dtype, &[3, 100], Strides::Contiguous).with_flags(to);
                    check::run("copy_", &[&output], &[&input], &[], dtype).unwrap();
                    let found = output.values().mapv(|value| meaning(to, value));
                    assert_eq!(found, values.mapv(|value| meaning(from, value)), "{dtype:?} {from:?} {to:?}");
                }
            }
        }
        let input = Tensor::of(DType::ComplexFloat, &ArrayD::from_elem(IxDyn(&[5]), Complex64::new(1.0, 2.0)), Strides::Contiguous);
        let output = Tensor::new(DType::Double, &[5], Strides::Contiguous).with_flags(Flags::NEG);
        check::run("copy_", &[&output], &[&input.with_flags(Flags::CONJ)], &[], DType::Double).unwrap();
        assert_eq!(output.values()[[4]], real(-1.0));
    }

    #[test]
    fn dtypes_without_conversions_are_only_moved() {
        let bytes = Tensor::of(DType::Byte, &check::values(DType::Byte, &[77], 1), Strides::Sliced);
        let as_bits = |tensor: &Tensor| tensor.clone().with_dtype(DType::Bits8);
        let (input, output) = (as_bits(&bytes), as_bits(&Tensor::new(DType::Byte, &[77], Strides::Contiguous)));
        check::run("copy_", &[&output], &[&input], &[], DType::Bits8).unwrap();
        assert_eq!(output.clone().with_dtype(DType::Byte).values(), bytes.values());
        let refused = check::run("copy_", &[&output], &[&bytes], &[], DType::Bits8).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Dtype(DType::Bits8));
    }

    #[test]
    fn fills_cast_the_value() {
        for dtype in EVERY.iter() {
            for sizes in SIZES {
                for strides in [Strides::Contiguous, Strides::Sliced, Strides::Transposed] {
                    let (filled, zeroed) =
                        (Tensor::new(dtype, sizes, strides), Tensor::of(dtype, &check::values(dtype, sizes, 1), strides));
                    let number = Complex64::new(3.5, -1.0);
                    check::run("fill_", &[&filled], &[&Tensor::immediate(DType::ComplexDouble, number)], &[], dtype).unwrap();
                    assert!(
                        filled.values().iter().all(|&value| value == round_trip(dtype, number)),
                        "{dtype:?} {sizes:?} {strides:?}"
                    );
                    check::run("zero_", &[&zeroed], &[], &[], dtype).unwrap();
                    assert!(
                        zeroed.values().iter().all(|&value| value == round_trip(dtype, real(0.0))),
                        "{dtype:?} {sizes:?} {strides:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_lies_between_the_elements_stays() {
        let output = Tensor::of(DType::Int, &ArrayD::from_elem(IxDyn(&[200]), real(7.0)), Strides::Contiguous);
        let every_second = output.restrided(&[100], &[8]);
        check::run("fill_", &[&every_second], &[&Tensor::immediate(DType::Long, real(1.0))], &[], DType::Int).unwrap();
        let all = every_second.restrided(&[200], &[4]).values();
        assert!(all.iter().enumerate().all(|(index, &value)| value == real(if index % 2 == 0 { 1.0 } else { 7.0 })));
    }
}
