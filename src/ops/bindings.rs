//! The operators of all families. Each family lists its own beside the functions that prepare calls: by `operators!`, `tasks!` for
//! those that PyTorch's CPU kernels compute, or, for pointwise ones, in `pointwise/operator/table.rs`.

use std::ffi::CStr;

use crate::call::operator::Operator;

static LISTS: [&[Operator]; 33] = [
    &super::attention::operator::OPERATORS,
    &super::convolution::operator::OPERATORS,
    &super::embedding::operator::OPERATORS,
    &super::factories::operator::OPERATORS,
    &super::foreach::operator::ELEMENTWISE,
    &super::foreach::operator::OPERATORS,
    &super::fourier::operator::TASKS,
    &super::histogram::operator::OPERATORS,
    &super::indexing::operator::OPERATORS,
    &super::indexing::operator::gather_scatter::OPERATORS,
    &super::launch_by_name::OPERATORS,
    &super::linalg::operator::TASKS,
    &super::loss::operator::OPERATORS,
    &super::masked::operator::OPERATORS,
    &super::matmul::operator::OPERATORS,
    &super::movement::operator::OPERATORS,
    &super::movement::operator::unfold::OPERATORS,
    &super::normalization::operator::channel_norm::OPERATORS,
    &super::normalization::operator::layer_norm::OPERATORS,
    &super::optimizer::operator::OPERATORS,
    &super::pooling::operator::OPERATORS,
    &super::pointwise::operator::table::NAMED,
    &super::pointwise::operator::table::POINTWISE,
    &super::pooling::operator::aten::TASKS,
    &super::quantized::operator::OPERATORS,
    &super::random::operator::OPERATORS,
    &super::reductions::operator::OPERATORS,
    &super::rnn::operator::cell::OPERATORS,
    &super::rnn::operator::layer::OPERATORS,
    &super::scan::operator::OPERATORS,
    &super::softmax::operator::OPERATORS,
    &super::sorting::operator::OPERATORS,
    &super::sorting::operator::unique::OPERATORS,
];

pub fn operators() -> impl Iterator<Item = &'static Operator> {
    LISTS.into_iter().flatten()
}

/// The operators of rustdev's own library: their names and the rest of their schemas.
pub fn definitions() -> impl Iterator<Item = (&'static CStr, &'static CStr)> {
    super::rnn::operator::layer::DEFINITIONS.into_iter().chain([super::launch_by_name::DEFINITION])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names under a heading of the file from which the shim's lists are generated.
    fn compiled(heading: &str) -> Vec<&'static str> {
        let sections = include_str!("../../shim/compiled_names.txt").split('[');
        let section = sections.skip(1).find_map(|section| section.strip_prefix(heading)?.strip_prefix("]\n"));
        let lines = section.expect("the file has it").lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(str::split_whitespace).collect()
    }

    #[test]
    fn each_meta_that_is_asked_for_is_compiled_and_no_other() {
        let asked: BTreeSet<_> = operators().filter_map(Operator::meta).map(CStr::to_bytes).collect();
        assert_eq!(compiled("metas").into_iter().map(str::as_bytes).collect::<BTreeSet<_>>(), asked);
    }

    #[test]
    fn kernels_for_the_types_of_schemas_are_of_operators_that_are_bound() {
        let bound: BTreeSet<_> = operators().flat_map(|operator| operator.names).map(|name| name.to_bytes()).collect();
        let typed = compiled("typed").into_iter().map(str::to_owned);
        let foreach = compiled("foreach").into_iter().flat_map(|name| {
            let (name, overload) = name.split_at(name.find('.').unwrap_or(name.len()));
            ["", "_"].map(|in_place| format!("_foreach_{name}{in_place}{overload}"))
        });
        let others: Vec<_> = typed.chain(foreach).filter(|name| !bound.contains(name.as_bytes())).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    #[test]
    fn lists_of_compiled_names_have_each_once() {
        for heading in ["metas", "typed", "foreach", "sparse"] {
            let list = compiled(heading);
            assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "{list:?}");
        }
    }
}
