// Sorting and selection along a dimension: sort, topk, kthvalue, median, nanmedian, mode.
//
// The selection kernels take the dimension as the last one, contiguous; so does the sort of long lines, which all threads sort
// together with a workspace.
#include "ops/sorting.h"
#include "ops/factory.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
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

// The sizes of a tensor with one element along `dim`.
at::DimVector kept_sizes(const at::Tensor& self, int64_t dim) {
  at::DimVector sizes(self.sizes());
  if (!sizes.empty()) {
    sizes[dim] = 1;
  }
  return sizes;
}

// Resizes the outputs of a reduction to one element of each line, and gives them with the dimension kept.
std::array<at::Tensor, 2> prepare(at::Tensor& values, at::Tensor& indices, const at::Tensor& self, int64_t dim, bool keepdim) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "Expected out tensor to have dtype ", self.scalar_type(), ", but got ",
              values.scalar_type(), " instead");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "Expected out tensor to have dtype long int, but got ", indices.scalar_type(),
              " instead");
  TORCH_CHECK(values.device() == self.device() && indices.device() == self.device(), "Expected out tensors on device ",
              self.device());
  const at::DimVector kept = kept_sizes(self, dim);
  at::DimVector sizes = kept;
  if (!keepdim && !sizes.empty()) {
    sizes.erase(sizes.begin() + dim);
  }
  const auto with_dim = [&](at::Tensor& tensor) {
    at::native::resize_output(tensor, sizes);
    at::assert_no_internal_overlap(tensor);
    return keepdim || kept.empty() ? tensor : tensor.unsqueeze(dim);
  };
  return {with_dim(values), with_dim(indices)};
}

struct Kthvalue {
  static inline Binding binding;

  static PairOut out(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices) {
    const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
    at::native::zero_numel_check_dims(self, wrapped, "kthvalue()");
    TORCH_CHECK(k >= 1 && k <= (self.dim() == 0 ? 1 : self.size(wrapped)),
                "kthvalue(): selected number k out of range for dimension ", wrapped);
    at::assert_no_overlap(self, values);
    const auto kept = prepare(values, indices, self, wrapped, keepdim);
    if (launch_selection(binding, kept[0], kept[1], self, wrapped, {k})) {
      return {values, indices};
    }
    return call_fallback<PairOut, const at::Tensor&, int64_t, int64_t, bool, at::Tensor&, at::Tensor&>(binding.out, self, k, dim,
                                                                                                       keepdim, values, indices);
  }
};

template <bool ignores_nan>
struct Median {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self) {
    if (self.numel() > 0) {
      const at::Tensor line = self.reshape({-1});
      at::Tensor value = new_empty({1}, self.scalar_type(), self.device());
      const at::Tensor place = new_empty({1}, at::kLong, self.device());
      if (launch_selection(binding, value, place, line, 0, {})) {
        return value.view(at::IntArrayRef());
      }
    }
    return call_fallback<at::Tensor, const at::Tensor&>(binding.functional, self);
  }

  static PairOut out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices) {
    const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
    at::native::zero_numel_check_dims(self, wrapped, "median()");
    const auto kept = prepare(values, indices, self, wrapped, keepdim);
    if (launch_selection(binding, kept[0], kept[1], self, wrapped, {})) {
      return {values, indices};
    }
    return call_fallback<PairOut, const at::Tensor&, int64_t, bool, at::Tensor&, at::Tensor&>(binding.out, self, dim, keepdim,
                                                                                              values, indices);
  }
};

struct Mode {
  static inline Binding binding;

  static Pair functional(const at::Tensor& self, int64_t dim, bool keepdim) {
    const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
    at::native::zero_numel_check_dims(self, wrapped, "mode()");
    at::Tensor values = new_empty({0}, self.scalar_type(), self.device());
    at::Tensor indices = new_empty({0}, at::kLong, self.device());
    if (!takes_dtype(binding, self.scalar_type())) {
      return call_fallback<Pair, const at::Tensor&, int64_t, bool>(binding.functional, self, dim, keepdim);
    }
    const auto kept = prepare(values, indices, self, wrapped, keepdim);
    if (values.numel() > 0) {
      const at::Tensor moved[] = {with_last(kept[0], wrapped), with_last(kept[1], wrapped)};
      const auto [sorted, origins] = Sort::functional(lines_of(self, wrapped), /*stable=*/true, -1, /*descending=*/false);
      const at::Tensor lines = lines_of(sorted, sorted.dim() - 1);
      const at::Tensor* const inputs[] = {&lines, &origins};
      launch_shaped_or_throw(binding, self.scalar_type(), {&moved[0], &moved[1]}, inputs, {});
    }
    return {values, indices};
  }

  static PairOut out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices) {
    const auto [found, origins] = functional(self, dim, keepdim);
    resize_out(values, found.sizes(), {}, found.options());
    resize_out(indices, origins.sizes(), {}, origins.options());
    check_separate({values, indices}, self);
    values.copy_(found);
    indices.copy_(origins);
    return {values, indices};
  }
};

}  // namespace

Pair sorted_with_indices(const at::Tensor& line) { return Sort::functional(line, /*stable=*/true, 0, /*descending=*/false); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Sort>(m, {"sort.stable", nullptr, "sort.values_stable", "sort.stable"});
  bind<Variants<at::meta::structured_topk, TopkRule, 2>>(m, {"topk", nullptr, "topk.values", "topk"});
  find_kernel(Kthvalue::binding, {"kthvalue", nullptr, "kthvalue.values", "kthvalue"});
  m.impl("kthvalue.values", TORCH_FN(Kthvalue::out));
  bind<Median<false>>(m, {"median", nullptr, "median.dim_values", "median"});
  bind<Median<true>>(m, {"nanmedian", nullptr, "nanmedian.dim_values", "nanmedian"});
  bind<Mode>(m, {"mode", nullptr, "mode.values", "mode"});
}

}  // namespace rustdev
