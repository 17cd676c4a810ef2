//! Options of factories: dtype, layout, pinned memory, memory format. The shim handles the device of a new tensor.

use super::call::{CallError, Outcome, Shape, Value, ensure};
use super::tensors::{Dims, Format, Tensor};
use crate::tensor::dtype::DType;

/// The requested dtype, if there is one.
pub fn dtype_of(value: &Value<'_>) -> Result<Option<DType>, CallError> {
    if let Value::None = value {
        return Ok(None);
    }
    let number = value.integer()?;
    let known = i32::try_from(number).ok().and_then(DType::from_number);
    known.map(Some).ok_or_else(|| CallError::Unsupported(format!("unknown dtype {number}")))
}

/// The name of the requested layout, if it is not the strided one.
pub fn other_layout(value: &Value<'_>) -> Result<Option<String>, CallError> {
    let names = ["Strided", "Sparse", "SparseCsr", "Mkldnn", "SparseCsc", "SparseBsr", "SparseBsc", "Jagged"];
    let number = if let Value::None = value { 0 } else { value.integer()? };
    let name = usize::try_from(number).ok().and_then(|number| names.get(number));
    Ok((number != 0).then(|| name.map_or_else(|| number.to_string(), ToString::to_string)))
}

/// An error if the layout is not strided or the memory is pinned.
pub fn check(layout: &Value<'_>, pinned: &Value<'_>) -> Outcome {
    ensure!(matches!(pinned, Value::None) || !pinned.flag()?, "Only dense CPU tensors can be pinned");
    let other = other_layout(layout)?;
    ensure!(other.is_none(), "rustdev: empty does not take the layout {}", other.unwrap_or_default());
    Ok(())
}

/// The strides of a new tensor like another one in a memory format; `None` for channels-last formats.
fn strides_like(this: Tensor<'_>, format: &Value<'_>) -> Result<Option<Dims>, CallError> {
    const CONTIGUOUS: i64 = Format::Contiguous as i64;
    const PRESERVE: i64 = 1;
    match if let Value::None = format { PRESERVE } else { format.integer()? } {
        PRESERVE => Ok(Some(this.like_strides())),
        CONTIGUOUS => Ok(Some(Format::Contiguous.strides(this.sizes()))),
        _ => Ok(None),
    }
}

/// The shape of `empty_like` for a tensor and its options (dtype, layout, device, pinned memory, memory format). `None` if
/// PyTorch's own function must make it: other layouts, other devices, pinned memory.
pub fn shape_like(this: Tensor<'_>, options: [&Value<'_>; 5]) -> Result<Option<Shape>, CallError> {
    let [dtype, layout, device, pinned, format] = options;
    let is_here = match device {
        Value::Device(device) => device.is(this.device()),
        _ => true,
    };
    let is_pinned = !matches!(pinned, Value::None) && pinned.flag()?;
    if !is_here || is_pinned || other_layout(layout)?.is_some() {
        return Ok(None);
    }
    let dtype = dtype_of(dtype)?.unwrap_or(this.dtype());
    Ok(strides_like(this, format)?.map(|strides| Shape { sizes: Dims::from(this.sizes()), strides, dtype }))
}
