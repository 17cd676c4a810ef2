//! The matrix products that kernels compute, from the sizes of a launch, for the clock of a profile.
//!
//! The operations that count are those of `torch.utils.flop_counter`, where it counts the operator: all products of an attention,
//! although a causal one needs half of them, and for the weights of a grouped convolution the products of all groups.

#![forbid(unsafe_code)]

use super::{Launch, Scalar};
use crate::runtime::task::demand::Products;

/// The products of a launch of the operator with that name; `None` for other operators.
pub fn of(name: &str, launch: &Launch<'_>) -> Option<Products> {
    match name {
        "mm" | "addmm" | "bmm" | "baddbmm" => Some(product(launch, true)),
        "addmv" => Some(product(launch, false)),
        "_int_mm" | "_weight_int8pack_mm" | "_weight_int4pack_mm_for_cpu" => Some(of_rows(launch)),
        "_scaled_dot_product_flash_attention_for_cpu" => Some(attention(launch, 2, 2)),
        "_scaled_dot_product_flash_attention_for_cpu_backward" => Some(attention(launch, 4, 5)),
        "convolution" => Some(convolution(launch)),
        "depthwise" | "depthwise_weight" => Some(depthwise(name, launch)),
        _ => None,
    }
}

fn size(launch: &Launch<'_>, operand: usize, from_end: usize) -> u64 {
    launch.sizes(operand).iter().nth_back(from_end).map_or(1, |size| size.unsigned_abs())
}

/// A matrix product: the factors are the last two operands.
fn product(launch: &Launch<'_>, is_counted: bool) -> Products {
    let [a, b] = [2, 1].map(|from_end| launch.num_operands() - from_end);
    let depth = size(launch, a, 0);
    let is_vector = launch.sizes(b).len() < 2;
    let (rows, columns) = if is_vector { (size(launch, 0, 0), 1) } else { (size(launch, 0, 1), size(launch, 0, 0)) };
    let executed = 2 * launch.numel(0) as u64 * depth;
    let count = launch.numel(0) as u64 / (rows * columns).max(1);
    Products {
        count,
        rows,
        columns,
        depth,
        executed,
        counted: if is_counted { executed } else { 0 },
        is_attention: false,
        dtype: launch.dtype(a).torch_name(),
    }
}

/// A product of rows with quantised weights.
fn of_rows(launch: &Launch<'_>) -> Products {
    let (rows, columns, depth) = (size(launch, 0, 1), size(launch, 0, 0), size(launch, 1, 0));
    Products {
        count: 1,
        rows,
        columns,
        depth,
        executed: 2 * rows * columns * depth,
        dtype: launch.dtype(1).torch_name(),
        ..Products::default()
    }
}

/// An attention of `products` products. Its queries are operand `query`, followed by keys and values.
fn attention(launch: &Launch<'_>, query: usize, products: u64) -> Products {
    let (rows, depth, columns) = (size(launch, query, 1), size(launch, query, 0), size(launch, query + 1, 1));
    let counted = products * 2 * launch.numel(query) as u64 * columns;
    let executed = if launch.scalar_or(0, Scalar::Bool(false)).is_true() { counted / 2 } else { counted };
    let count = launch.numel(query) as u64 / (rows * depth).max(1);
    Products { count, rows, columns, depth, executed, counted, is_attention: true, dtype: launch.dtype(query).torch_name() }
}

/// A convolution of images as the product of its windows with its weights.
fn convolution(launch: &Launch<'_>) -> Products {
    let groups = launch.scalar_or(launch.scalars().len() - 1, Scalar::Long(1)).to::<i64>().max(1).unsigned_abs();
    let channels = launch.sizes(2).first().map_or(1, |size| size.unsigned_abs()).max(1);
    let depth = launch.numel(2) as u64 / channels;
    let executed = 2 * launch.numel(0) as u64 * depth;
    let (rows, columns) = (launch.numel(0) as u64 / channels, channels / groups);
    Products {
        count: groups,
        rows,
        columns,
        depth,
        executed,
        counted: executed,
        is_attention: false,
        dtype: launch.dtype(1).torch_name(),
    }
}

/// A depthwise convolution, which a GPU computes without its units for products.
fn depthwise(name: &str, launch: &Launch<'_>) -> Products {
    let scalar = |index| launch.scalar_or(index, Scalar::Long(1)).to::<i64>().unsigned_abs();
    let taps = scalar(0) * scalar(1);
    let counted = match name {
        "depthwise_weight" if launch.given(0).is_none() => 0,
        "depthwise_weight" => 2 * launch.numel(3) as u64 * taps * size(launch, 3, 0),
        _ if launch.scalar_or(10, Scalar::Bool(false)).is_true() => 2 * launch.numel(1) as u64 * taps,
        _ => 2 * launch.numel(0) as u64 * taps,
    };
    Products { counted, dtype: launch.dtype(0).torch_name(), ..Products::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{Strides, Tensor};
    use crate::tensor::{DType, Layout, of_views};

    fn products(name: &str, sizes: &[&[usize]], scalars: &[Scalar]) -> Products {
        let tensors: Vec<_> = sizes.iter().map(|sizes| Tensor::new(DType::Float, sizes, Strides::Contiguous)).collect();
        let views: Vec<_> = tensors.iter().map(Tensor::view).collect();
        of_views(Layout::Shaped, &views, 1, scalars, Some(DType::Float), |launch| Ok(of(name, launch))).unwrap().unwrap()
    }

    #[test]
    fn products_have_the_sizes_of_their_operands() {
        let found = products("baddbmm", &[&[5, 2, 3], &[5, 2, 3], &[5, 2, 7], &[5, 7, 3]], &[]);
        assert_eq!((found.count, found.rows, found.columns, found.depth), (5, 2, 3, 7));
        assert_eq!((found.executed, found.counted), (420, 420));
        let found = products("addmv", &[&[4], &[4], &[4, 6], &[6]], &[]);
        assert_eq!((found.rows, found.columns, found.executed, found.counted), (4, 1, 48, 0));
    }

    #[test]
    fn a_causal_attention_executes_half_of_what_counts() {
        let sizes: [&[usize]; 5] = [&[1, 4, 64, 32], &[1, 4, 64], &[1, 4, 64, 32], &[1, 4, 64, 32], &[1, 4, 64, 32]];
        let found = products("_scaled_dot_product_flash_attention_for_cpu", &sizes, &[Scalar::Bool(true)]);
        assert_eq!((found.counted, found.executed, found.count), (2_097_152, 1_048_576, 4));
    }
}
