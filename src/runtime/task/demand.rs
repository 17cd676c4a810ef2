//! [`Demand`]: what a task asks of a card, for the clock of a profile. It depends on names, shapes and dtypes, not on values.
#![forbid(unsafe_code)]

use super::{Access, Shape};
use crate::runtime::trace::{About, Kind, Mark};

/// Matrix products of one size that a kernel computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Products {
    /// The number of products, and the sizes of each: rows x depth times depth x columns.
    pub count: u64,
    pub rows: u64,
    pub columns: u64,
    pub depth: u64,
    /// Floating-point operations that a card executes. A causal attention executes half of its products.
    pub executed: u64,
    /// Floating-point operations as `torch.utils.flop_counter` counts them.
    pub counted: u64,
    /// True if the products are the parts of a fused attention.
    pub is_attention: bool,
    /// The dtype of the factors.
    pub dtype: &'static str,
}

/// The demand of a task: its products, bytes and copies.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    pub name: &'static str,
    pub kind: Kind,
    pub products: Option<Products>,
    /// Bytes that a copy writes.
    pub copied: u64,
    /// Bytes that are read and written: each operand once, a range that is read and written twice.
    pub bytes: u64,
    /// Elements of the largest operand that is written.
    pub elements: u64,
}

/// Operators that read as much of their source as they write.
const GATHERS: [&str; 6] = ["gather", "index", "index_select", "take", "_embedding_bag", "masked_select"];
/// Operators that write as much of their target as they read.
const SCATTERS: [&str; 9] = [
    "embedding_dense_backward",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "put",
    "scatter",
    "scatter_add",
];
/// Bytes that a card reads for one element.
const SECTOR: u64 = 32;
/// Bytes of an element, where the tensor is not known.
const ITEM: u64 = 4;

/// Visits the accesses of a work.
pub type Operands<'a> = &'a dyn Fn(&mut dyn FnMut(Access, Option<Shape<'_>>));
/// Takes a demand, and the mark that the work has in a trace beside the task's own.
pub type Visit<'a> = &'a mut dyn FnMut(Demand, Option<Mark>);

impl Demand {
    /// The demand of a work.
    pub fn of(name: &'static str, about: About, products: Option<Products>, operands: Operands<'_>) -> Self {
        let (mut ranges, mut elements, mut largest_read) = (Vec::new(), 0, (0, 0));
        operands(&mut |access, shape| {
            let whole = (access.end - access.begin) as u64;
            let (numel, bytes) = shape.as_ref().map_or((whole / ITEM, whole), |shape| {
                // An expanded dimension has its elements once.
                let distinct = shape.sizes.iter().zip(shape.strides).filter(|(_, stride)| **stride != 0);
                let numel = distinct.map(|(size, _)| size.unsigned_abs()).product::<u64>();
                (numel, (numel * shape.item as u64).min(whole))
            });
            ranges.push((access.begin, access.end, access.write, bytes));
            if access.write {
                elements = elements.max(numel);
            } else if bytes > largest_read.0 {
                largest_read = (bytes, shape.and_then(|shape| shape.sizes.first().copied()).unwrap_or(1).unsigned_abs());
            }
        });
        ranges.sort_unstable();
        ranges.dedup_by_key(|(begin, end, write, _)| (*begin, *end, *write));
        let sum = |writes| ranges.iter().filter(|range| range.2 == writes).map(|range| range.3).sum::<u64>();
        let (mut read, mut written) = (sum(false), sum(true));
        if GATHERS.contains(&name) {
            read = read.min(2 * written);
        } else if SCATTERS.contains(&name) {
            written = written.min(2 * read);
        } else if name == "nll_loss_forward" {
            let (bytes, rows) = largest_read;
            read -= bytes - bytes.min(rows * SECTOR);
        }
        let copied = if matches!(about.kind, Kind::Copy(..)) { about.bytes } else { 0 };
        Self { name, kind: about.kind, products, copied, bytes: read + written, elements }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, operands: &[(usize, bool, &[i64], &[i64])]) -> Demand {
        Demand::of(name, About::kind(Kind::Kernel), None, &|visit| {
            for (begin, write, sizes, strides) in operands {
                let extent: i64 = sizes.iter().zip(*strides).map(|(size, stride)| (size - 1) * stride).sum();
                let end = begin + extent as usize + 4;
                let shape = Shape { dtype: "float32", item: 4, begin: *begin, sizes, strides };
                visit(Access { begin: *begin, end, write: *write }, Some(shape));
            }
        })
    }

    #[test]
    fn every_operand_counts_once_and_expanded_elements_do_too() {
        let (sizes, dense, expanded): (&[i64], &[i64], &[i64]) = (&[10, 100], &[400, 4], &[0, 4]);
        let demand = of(
            "add",
            &[(0, true, sizes, dense), (8000, false, sizes, dense), (8000, false, sizes, dense), (20_000, false, sizes, expanded)],
        );
        assert_eq!((demand.bytes, demand.elements), (4000 + 4000 + 400, 1000));
        assert_eq!(of("mul", &[(0, true, sizes, dense), (0, false, sizes, dense)]).bytes, 8000);
    }

    #[test]
    fn a_lookup_reads_no_more_than_it_writes() {
        let (table, found): (&[i64], &[i64]) = (&[1000, 100], &[2, 100]);
        let operands = [(0, true, found, &[400, 4][..]), (10_000, false, table, &[400, 4][..])];
        assert_eq!((of("index_select", &operands).bytes, of("copy_", &operands).bytes), (2400, 400_800));
    }
}
