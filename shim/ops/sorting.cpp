// Sorting along a dimension: sort, topk.
//
// The selection kernels take the dimension as the last one, contiguous; so does the sort of long lines, which all threads sort
// together with a workspace.
#include "ops/sorting.h"
#include "ops/factory.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/topk_meta.h>

#include "ops/lines.h"

namespace rustdev {
namespace {

// Lines above this length are sorted by all threads.
constexpr int64_t long_line = 16384;
// More than so many elements of a long line are not selected, but sorted.
constexpr int64_t most_selected = 2048;

using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairOut = std::tuple<at::Tensor&, at::Tensor&>;

// The tensor with `dim` last; one without dimensions has one.
at::Tensor with_last(const at::Tensor& tensor, int64_t dim) {
  if (tensor.dim() == 0) {
    return tensor.view({1});
  }
  return dim == -1 || dim == tensor.dim() - 1 ? tensor : tensor.movedim(dim, -1);
}

bool has_gaps(const at::Tensor& tensor) { return tensor.size(-1) > 1 && tensor.stride(-1) != 1; }

// The lines along `dim`, each without gaps.
at::Tensor lines_of(const at::Tensor& tensor, int64_t dim) {
  const at::Tensor moved = with_last(tensor, dim);
  return has_gaps(moved) ? moved.contiguous() : moved;
}

// Memory for the lines of an output: its own where it has no gaps.
at::Tensor target_for(const at::Tensor& moved) {
  return has_gaps(moved) ? new_empty(moved.sizes(), moved.scalar_type(), moved.device()) : moved;
}

void launch_long_sort(const Binding& binding, const at::Tensor& values, const at::Tensor& indices, const at::Tensor& self,
                      int64_t dim, bool descending) {
  at::Tensor source = lines_of(self, dim);
  if (source.is_alias_of(values)) {
    source = source.clone(at::MemoryFormat::Contiguous);
  }
  const at::Tensor moved[] = {with_last(values, dim), with_last(indices, dim)};
  const at::Tensor targets[] = {target_for(moved[0]), target_for(moved[1])};
  const size_t bytes = rd_sort_workspace(static_cast<int32_t>(self.scalar_type()), static_cast<size_t>(source.size(-1)));
  const at::Tensor workspace = new_empty({static_cast<int64_t>(bytes)}, at::kByte, self.device());
  const at::Tensor* const inputs[] = {&source};
  launch_shaped_or_throw(binding, self.scalar_type(), {&targets[0], &targets[1], &workspace}, inputs,
                         scalars_of<"sort.stable", "dim, descending">(source.dim() - 1, descending));
  for (const size_t index : {0, 1}) {
    if (!targets[index].is_same(moved[index])) {
      moved[index].copy_(targets[index]);
    }
  }
}

bool launch_sort(const Binding& binding, const at::Tensor& values, const at::Tensor& indices, const at::Tensor& self, int64_t dim,
                 bool descending) {
  if (!takes_dtype(binding, self.scalar_type())) {
    return false;
  }
  if (self.numel() == 0) {
    return true;
  }
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() > 0 && self.size(wrapped) > long_line) {
    launch_long_sort(binding, values, indices, self, wrapped, descending);
    return true;
  }
  const at::Tensor* const inputs[] = {&self};
  return launch_shaped(binding, self.scalar_type(), {&values, &indices}, inputs,
                       scalars_of<"sort.stable", "dim, descending">(wrapped, descending));
}

struct PairRule {
  template <class Given, class... Args>
  static void check_given(const Given& given, const at::Tensor& self, const Args&...) {
    check_overlap({*given[0], *given[1]}, self);
  }
};

struct SortRule : PairRule {
  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, std::optional<bool>, int64_t dim, bool descending) {
    return launch_sort(binding, op.maybe_get_output(0), op.maybe_get_output(1), self, dim, descending);
  }
};

using Sort = Variants<at::meta::structured_sort_stable, SortRule, 2>;

// Launches a kernel of selection; `values` and `indices` keep the dimension.
bool launch_selection(const Binding& binding, const at::Tensor& values, const at::Tensor& indices, const at::Tensor& self,
                      int64_t dim, at::ArrayRef<at::Scalar> scalars) {
  if (!takes_dtype(binding, self.scalar_type())) {
    return false;
  }
  if (values.numel() == 0) {
    return true;
  }
  at::Tensor source = lines_of(self, dim);
  if (source.is_alias_of(values)) {
    source = source.clone(at::MemoryFormat::Contiguous);
  }
  const at::Tensor moved[] = {with_last(values, dim), with_last(indices, dim)};
  const at::Tensor* const inputs[] = {&source};
  return launch_shaped(binding, self.scalar_type(), {&moved[0], &moved[1]}, inputs, scalars);
}

struct TopkRule : PairRule {
  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool) {
    const at::Tensor& values = op.maybe_get_output(0);
    const at::Tensor& indices = op.maybe_get_output(1);
    const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
    if (k > most_selected && self.size(wrapped) > long_line && takes_dtype(Sort::binding, self.scalar_type())) {
      const auto [all_values, all_indices] = Sort::functional(self, /*stable=*/true, wrapped, largest);
      values.copy_(all_values.narrow(wrapped, 0, k));
      indices.copy_(all_indices.narrow(wrapped, 0, k));
      return true;
    }
    return launch_selection(binding, values, indices, self, wrapped, {largest});
  }
};

}  // namespace

Pair sorted_with_indices(const at::Tensor& line) { return Sort::functional(line, /*stable=*/true, 0, /*descending=*/false); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Sort>(m, {"sort.stable", nullptr, "sort.values_stable", "sort.stable"});
  bind<Variants<at::meta::structured_topk, TopkRule, 2>>(m, {"topk", nullptr, "topk.values", "topk"});
}

}  // namespace rustdev
