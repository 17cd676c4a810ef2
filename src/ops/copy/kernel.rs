//! Copies, casts and fills.

use crate::tensor::loops::copy_fill;
use crate::tensor::{Error, Launch, signature};

signature! {
    /// `aten::copy_`: out = input, cast to out's dtype. Operands [out, input], of any two dtypes; the conjugate and negative flags of
    /// both are honoured, immediate and host operands allowed.
    copy_(out; input)[] in ANY => |launch| check(launch, 2).and_then(|()| copy_fill::copy(launch));
    /// `aten::fill_`: out = value everywhere, cast to out's dtype. Operands [out, value]; the value is an immediate or a 0-dim tensor
    /// broadcast to out's sizes.
    fill_(out; value)[] in EVERY => |launch| check(launch, 2).and_then(|()| copy_fill::fill(launch));
    /// `aten::zero_`: out = 0 everywhere.
    zero_(out)[] in ANY => |launch| check(launch, 1).map(|()| copy_fill::zero(launch));
}

fn check(launch: &Launch<'_>, operands: usize) -> Result<(), Error> {
    match launch.num_operands() {
        found if found == operands => Ok(()),
        found => Err(Error::operands(format!("{found} operands where {operands} are needed"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{Case, Make, Strides, Tensor, agree, agree_if, real, rounded, run, values};
    use crate::tensor::{Complex64, DType, DTypeSet, EVERY, ErrorKind};

    #[test]
    fn every_dtype_becomes_every_other() {
        for source in EVERY.iter() {
            agree_if("copy_", EVERY, None, 0.0, |make| {
                let input = Tensor::of(source, &values(source, &[3, 37], 1), Strides::Transposed);
                Case::new([make.output(&[3, 37])], [input], [])
            });
            for target in EVERY.iter() {
                let positive = values(source, &[37], 2).mapv(|value| Complex64::new(value.re.abs(), value.im));
                let input = Make::plain(source).of(source, &positive);
                let expected = Tensor::of(target, &rounded(target, &input.values()), Strides::Contiguous);
                let found = Case::new([Make::plain(target).output(&[37])], [input], []).run("copy_", target, None).unwrap();
                assert_eq!(found[0], expected.packed(), "{source:?} to {target:?}");
            }
        }
    }

    /// Tails, blocks and tiles, and pieces for several threads.
    #[test]
    fn elements_of_every_size_are_moved_between_all_layouts() {
        let dtypes = [DType::Byte, DType::Half, DType::Float, DType::Double, DType::ComplexDouble];
        for (dtype, sizes) in [&[0][..], &[1], &[15], &[33, 1], &[5, 7, 33], &[3, 1023], &[16_385], &[257, 33]]
            .into_iter()
            .flat_map(|sizes| dtypes.map(|dtype| (dtype, sizes)))
        {
            for from in Strides::ALL {
                let input = Tensor::of(dtype, &values(dtype, sizes, 1), from);
                let expected = input.packed();
                agree("copy_", DTypeSet::of(&[dtype]), [1.0, 0.0], |make| Case::new([make.output(sizes)], [input.clone()], []));
                let found = Case::new([Make::plain(dtype).output(sizes)], [input], []).run("copy_", dtype, None).unwrap();
                assert!(found[0] == expected, "{dtype:?} {sizes:?} {from:?}");
            }
        }
    }

    #[test]
    fn dtypes_without_conversions_are_only_moved() {
        let bytes = Tensor::of(DType::Byte, &values(DType::Byte, &[77], 1), Strides::Sliced);
        let output = Make::plain(DType::Byte).output(&[77]).with_dtype(DType::Bits8);
        run("copy_", &[&output], &[&bytes.clone().with_dtype(DType::Bits8)], &[], DType::Bits8).unwrap();
        assert_eq!(output.packed(), bytes.packed());
        let refused = run("copy_", &[&output], &[&bytes], &[], DType::Bits8).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Dtype(DType::Bits8));
    }

    #[test]
    fn fills_cast_the_value() {
        let number = Complex64::new(3.5, -1.0);
        for sizes in [&[0][..], &[1], &[15], &[5, 7, 33], &[3, 1023]] {
            agree_if("zero_", EVERY, None, 0.0, |make| Case::new([make.output(sizes)], [], []));
            agree_if("fill_", EVERY, None, 0.0, |make| {
                Case::new([make.output(sizes)], [Tensor::immediate(DType::ComplexDouble, number)], [])
            });
            for dtype in EVERY.iter() {
                let output = Make::plain(dtype).output(sizes);
                let is_all = |value| output.values() == rounded(dtype, &output.values().mapv(|_| value));
                run("fill_", &[&output], &[&Tensor::immediate(DType::ComplexDouble, number)], &[], dtype).unwrap();
                assert!(is_all(number), "{dtype:?} {sizes:?}");
                run("zero_", &[&output], &[], &[], dtype).unwrap();
                assert!(is_all(real(0.0)), "{dtype:?} {sizes:?}");
            }
        }
    }
}
