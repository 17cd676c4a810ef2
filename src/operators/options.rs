//! What factories are asked for besides a size: dtype, layout, pinned memory. The device is the shim's.

use super::call::{Outcome, Refusal, Value, ensure};
use crate::tensor::dtype::DType;

/// The dtype that is asked for, if one is.
///
/// # Errors
/// It is not known here.
pub fn dtype_of(value: &Value<'_>) -> Result<Option<DType>, Refusal> {
    if let Value::None = value {
        return Ok(None);
    }
    let number = value.integer()?;
    let known = i32::try_from(number).ok().and_then(DType::from_number);
    known.map(Some).ok_or_else(|| Refusal::Unsupported(format!("unknown dtype {number}")))
}

/// The name of another layout than the strided one, if one is asked for.
///
/// # Errors
/// It is no number.
pub fn other_layout(value: &Value<'_>) -> Result<Option<String>, Refusal> {
    let names = ["Strided", "Sparse", "SparseCsr", "Mkldnn", "SparseCsc", "SparseBsr", "SparseBsc", "Jagged"];
    let number = if let Value::None = value { 0 } else { value.integer()? };
    let name = usize::try_from(number).ok().and_then(|number| names.get(number));
    Ok((number != 0).then(|| name.map_or_else(|| number.to_string(), ToString::to_string)))
}

/// Refuses layouts and memory that the device does not have.
///
/// # Errors
/// They are asked for.
pub fn check(layout: &Value<'_>, pinned: &Value<'_>) -> Outcome {
    ensure!(matches!(pinned, Value::None) || !pinned.flag()?, "Only dense CPU tensors can be pinned");
    let other = other_layout(layout)?;
    ensure!(other.is_none(), "rustdev: empty does not take the layout {}", other.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::launch::Scalar;

    #[test]
    fn options_are_those_of_the_schema() {
        let number = |value| Value::Number(Scalar::Long(value));
        assert_eq!((dtype_of(&Value::None), dtype_of(&number(3))), (Ok(None), Ok(Some(DType::Int))));
        assert!(dtype_of(&number(-1)).is_err());
        assert_eq!((other_layout(&number(0)), other_layout(&number(1))), (Ok(None), Ok(Some("Sparse".into()))));
        let no = Value::Number(Scalar::Bool(false));
        assert!(check(&Value::None, &no).is_ok() && check(&number(2), &no).is_err());
        assert!(check(&number(0), &Value::Number(Scalar::Bool(true))).is_err());
    }
}
