//! Which dtypes and geometries of convolutions may be left to PyTorch's oneDNN kernels. The Rust kernels of depthwise
//! convolutions are in `src/ops/convolution/kernel/depthwise.rs`.
//!
//! Without instructions for products of 16 bit floats, oneDNN uses plain loops or widens each vector repeatedly. Without the tile
//! instructions for float16, gradients in float16 took 9 to 270 times as long as in float32 (Intel Xeon with AVX-512 FP16).
//!
//! oneDNN's kernels for AMX return wrong values, or crash the process, where a window or an element of the kernel meets no element
//! of the image, and where rows of one window are narrower than the kernel (found by comparing random shapes with float64; oneDNN
//! of PyTorch 2.15). The kernels for gradients of weights of volumes write outside their buffers where a plane has some 9,000
//! elements (95 x 95 passed, 97 x 97 crashed the process, with any number of channels). Such geometries are rare, so they are
//! computed in float32 on every processor.

use crate::simd::{has_bfloat16_products, has_float16_tiles};
use crate::tensor::DType;

/// Elements of a volume's plane up to which oneDNN's gradients for AMX are trusted.
const LARGEST_PLANE: i64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    /// The gradients of the image and of the weights.
    Backward,
}

/// True if the processor has instructions for the dtype that make PyTorch's kernels no slower than those of `Float`. `has_amx`: the
/// operating system lets the process use AMX.
pub fn is_native(dtype: DType, direction: Direction, has_amx: bool) -> bool {
    match dtype {
        DType::BFloat16 => has_bfloat16_products(),
        DType::Half => direction == Direction::Forward && has_amx && has_float16_tiles(),
        _ => true,
    }
}

/// One spatial dimension of a convolution as windows over an image. For a transposed convolution the image is the output and the
/// windows are the input.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// Elements of the image.
    pub image: i64,
    /// Windows.
    pub windows: i64,
    /// Elements of the kernel.
    pub kernel: i64,
    /// Image elements from one window to the next.
    pub stride: i64,
    /// Zeros before the image.
    pub padding: i64,
    /// Image elements from one element of the kernel to the next.
    pub dilation: i64,
}

impl Dimension {
    /// True if an element of the kernel lies inside the image in a window.
    fn meets(self, window: i64, element: i64) -> bool {
        (0..self.image).contains(&(window * self.stride - self.padding + element * self.dilation))
    }

    /// True if any window covers the image element at `position`.
    fn reaches(self, position: i64) -> bool {
        (0..self.kernel).any(|element| {
            let from_first = position + self.padding - element * self.dilation;
            from_first % self.stride == 0 && (0..self.windows).contains(&(from_first / self.stride))
        })
    }

    fn is_regular(self, transposed: bool) -> bool {
        (0..self.windows).all(|window| (0..self.kernel).any(|element| self.meets(window, element)))
            && (0..self.kernel).all(|element| (0..self.windows).any(|window| self.meets(window, element)))
            && (!transposed || (0..self.image).all(|position| self.reaches(position)))
    }
}

/// True if a convolution of 16 bit floats and its gradients may be left to oneDNN. `transposed`: every image element must be
/// covered by a window as well (an uncovered one is the bias alone).
pub fn is_regular(dimensions: &[Dimension], transposed: bool) -> bool {
    let is_narrow = dimensions.last().is_some_and(|last| last.windows == 1 && last.kernel > 1);
    !is_narrow && dimensions.iter().all(|dimension| dimension.is_regular(transposed))
}

/// True if the planes of a volume are too large to leave its gradients in 16 bit floats to oneDNN.
pub fn has_large_planes(dimensions: &[Dimension]) -> bool {
    matches!(dimensions, [_, height, width] if height.image * width.image > LARGEST_PLANE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Isa, for_each_isa};

    #[test]
    fn dtypes_are_native_by_instructions_alone() {
        for_each_isa(|isa| {
            let is_native = |dtype, direction| is_native(dtype, direction, true);
            assert!(is_native(DType::Float, Direction::Backward) && !is_native(DType::Half, Direction::Backward));
            let may_be = isa == Isa::Avx512 || cfg!(target_arch = "aarch64");
            assert!(may_be || !is_native(DType::BFloat16, Direction::Forward) && !is_native(DType::Half, Direction::Forward));
            assert!(!super::is_native(DType::Half, Direction::Forward, false));
        });
    }

    /// A dimension of a convolution over `image` elements.
    fn over(image: i64, kernel: i64, stride: i64, padding: i64, dilation: i64) -> Dimension {
        let windows = (image + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
        Dimension { image, windows, kernel, stride, padding, dilation }
    }

    /// A dimension of a transposed convolution of `windows` elements.
    fn of(windows: i64, kernel: i64, stride: i64, padding: i64) -> Dimension {
        Dimension { image: (windows - 1) * stride - 2 * padding + kernel, windows, kernel, stride, padding, dilation: 1 }
    }

    #[test]
    fn layers_of_networks_are_regular() {
        for layer in
            [over(32, 3, 1, 1, 1), over(224, 7, 2, 3, 1), over(224, 16, 16, 0, 1), over(56, 1, 2, 0, 1), over(64, 3, 1, 4, 4)]
        {
            assert!(is_regular(&[layer; 2], false), "{layer:?}");
        }
        assert!(is_regular(&[of(16, 4, 2, 1); 2], true) && is_regular(&[of(16, 2, 2, 0); 3], true));
    }

    #[test]
    fn rows_of_one_window_and_windows_beside_the_image_are_not() {
        assert!(!is_regular(&[over(12, 4, 2, 2, 1), over(6, 3, 3, 0, 2)], false));
        assert!(!is_regular(&[over(8, 4, 1, 1, 1), over(10, 1, 1, 0, 2), over(1, 4, 3, 2, 1)], false));
        assert!(is_regular(&[over(12, 4, 2, 2, 1), over(1, 1, 1, 0, 1)], false));
        assert!(!is_regular(&[over(1, 4, 2, 3, 2), over(4, 1, 1, 0, 1)], false));
        assert!(!is_regular(&[over(4, 2, 1, 3, 1)], false) && !is_regular(&[over(1, 4, 2, 3, 1)], false));
        // A transposed convolution whose image has gaps between its windows.
        assert!(!is_regular(&[of(7, 1, 3, 1)], true) && !is_regular(&[of(8, 2, 3, 0)], true));
        assert!(is_regular(&[over(22, 1, 3, 0, 1)], false));
    }

    #[test]
    fn volumes_alone_have_large_planes() {
        let [small, large] = [64, 65].map(|size| [over(8, 3, 1, 1, 1), over(64, 3, 1, 1, 1), over(size, 3, 1, 1, 1)]);
        assert!(has_large_planes(&large) && !has_large_planes(&small) && !has_large_planes(&large[1..]));
    }
}
