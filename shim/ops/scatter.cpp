// Scatters along a dimension: scatter in all its forms, index_add, index_copy, index_reduce, index_fill_.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_reduce_meta.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>
#include <ATen/ops/zeros_like.h>

#include "indexing.h"
#include "ops/fill.h"

namespace rustdev {
namespace {

// Whether an operator's indices name single elements or whole slices.
enum class By { element, slice };

Operation operation_of(std::string_view reduce) {
  if (reduce == "amax") {
    return Operation::maximum;
  }
  if (reduce == "amin") {
    return Operation::minimum;
  }
  return reduce == "prod" || reduce == "multiply" ? Operation::multiply : Operation::add;
}

// What the arguments after the source say.
template <class Source>
Update update_of(Operation operation, const Source&) {
  return {operation};
}
template <class Source>
Update update_of(Operation, const Source&, std::string_view reduce) {
  return {operation_of(reduce)};
}
Update update_of(Operation, const at::Tensor&, std::string_view reduce, bool include_self) {
  return {operation_of(reduce), !include_self};
}
Update update_of(Operation operation, const at::Tensor& source, const at::Scalar& alpha) {
  check_value(alpha, source.scalar_type());
  return {operation, false, alpha};
}

// Whether the sums are to be divided by the number of their terms.
template <class... Rest>
bool is_mean(const Rest&...) {
  return false;
}
bool is_mean(const at::Tensor&, std::string_view reduce, bool) { return reduce == "mean"; }

// Numbers have to fit the dtype, as for the CPU.
void check_source(const at::Tensor&, const at::Tensor&) {}
void check_source(const at::Tensor& self, const at::Scalar& value) { check_value(value, self.scalar_type()); }

void check_slices(const at::Tensor& self, int64_t dim, const at::Tensor& source) {
  at::DimVector self_sizes(self.sizes());
  at::DimVector source_sizes(source.sizes());
  if (!self_sizes.empty()) {
    self_sizes.erase(self_sizes.begin() + dim);
  }
  if (!source_sizes.empty()) {
    source_sizes.erase(source_sizes.begin() + std::min<int64_t>(dim, source.dim() - 1));
  }
  TORCH_CHECK(self_sizes == source_sizes,
              "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
              self.sizes(), " source.shape = ", source.sizes());
}

template <By by, Operation operation>
struct ScatterRule {
  template <class Op, class First, class... Others>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                     const First& source, const Others&... others) {
    const at::Tensor& out = op.maybe_get_output(0);
    if (C10_UNLIKELY(!takes_dtype_of(binding, self))) {
      return false;
    }
    dim = at::maybe_wrap_dim(dim, self.dim());
    check_source(self, source);
    if constexpr (by == By::slice) {
      check_slices(self, dim, source);
    }
    if (!out.is_same(self)) {
      out.copy_(self);
    }
    if (index.numel() != 0) {
      update(binding, out, dim, index, source, update_of(operation, source, others...));
      if (is_mean(source, others...)) {
        divide_by_counts(binding, out, dim, index, others...);
      }
    }
    return true;
  }

 private:
  static void update(const Binding& binding, const at::Tensor& out, int64_t dim, const at::Tensor& index, const Source& source,
                     const Update& update) {
    launch_update(binding, by == By::slice ? each_slice(out, dim, index) : each_element(out, dim, index), out, source, update);
  }

  template <class... Arguments>
  static void divide_by_counts(const Binding&, const at::Tensor&, int64_t, const at::Tensor&, const Arguments&...) {}
  static void divide_by_counts(const Binding& binding, const at::Tensor& out, int64_t dim, const at::Tensor& index,
                               std::string_view, bool include_self) {
    at::Tensor counts = include_self ? at::ones_like(out) : at::zeros_like(out);
    update(binding, counts, dim, index, at::Scalar(1), {Operation::add});
    counts.clamp_min_(1);
    if (out.is_floating_point() || out.is_complex()) {
      const_cast<at::Tensor&>(out).div_(counts);
    } else {
      const_cast<at::Tensor&>(out).div_(counts, "floor");
    }
  }
};

template <class Meta, By by, Operation operation = Operation::store>
using Scatter = Variants<Meta, ScatterRule<by, operation>>;

struct IndexFill {
  static inline Binding binding;

  static at::Tensor& with_number(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
    TORCH_CHECK(self.is_complex() || !value.isComplex(),
                "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    check(self, index);
    check_source(self, value);
    if (index.numel() != 0) {
      launch_update(binding, each_slice(self, dim, index), self, value, {});
    }
    return self;
  }

  static at::Tensor& with_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value) {
    TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
                " dimension(s).");
    // A value on the host is read, and one of another dtype as well: whether it fits is said at once.
    if (value.device() != self.device() || value.scalar_type() != self.scalar_type()) {
      return with_number(self, dim, index, value.item());
    }
    check(self, index);
    if (index.numel() != 0) {
      const Addressing slices = each_slice(self, dim, index);
      launch_update(binding, slices, self, (value.is_alias_of(self) ? value.clone() : value).expand(slices.sizes), {});
    }
    return self;
  }

 private:
  static void check(const at::Tensor& self, const at::Tensor& index) {
    TORCH_CHECK_INDEX(index.scalar_type() == at::ScalarType::Long, "index_fill_(): Expected dtype int64 for index.");
    at::assert_no_overlap(self, index);
    if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
      TORCH_WARN(
          "Use of index_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. ",
          "This also applies to advanced indexing e.g. tensor[mask] = scalar");
    }
    TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace at::meta;
  bind<Scatter<structured_scatter_src, By::element>>(m, {"scatter.src", "scatter_.src", "scatter.src_out", "scatter"});
  bind<Scatter<structured_scatter_value, By::element>>(m, {"scatter.value", "scatter_.value", "scatter.value_out", "scatter"});
  bind<Scatter<structured_scatter_reduce, By::element>>(
      m, {"scatter.reduce", "scatter_.reduce", "scatter.reduce_out", "scatter_reduce"});
  bind<Scatter<structured_scatter_value_reduce, By::element>>(
      m, {"scatter.value_reduce", "scatter_.value_reduce", "scatter.value_reduce_out", "scatter_reduce"});
  bind<Scatter<structured_scatter_add, By::element, Operation::add>>(
      m, {"scatter_add", "scatter_add_", "scatter_add.out", "scatter_add"});
  bind<Scatter<structured_scatter_reduce_two, By::element>>(
      m, {"scatter_reduce.two", "scatter_reduce_.two", "scatter_reduce.two_out", "scatter_reduce"});
  bind<Scatter<structured_index_add, By::slice, Operation::add>>(m, {"index_add", "index_add_", "index_add.out", "index_add"});
  bind<Scatter<structured_index_copy, By::slice>>(m, {"index_copy", "index_copy_", "index_copy.out", "index_copy"});
  bind<Scatter<structured_index_reduce, By::slice>>(m, {"index_reduce", "index_reduce_", "index_reduce.out", "index_reduce"});
  const Names fill{"index_fill_.int_Scalar", nullptr, "index_fill_.int_Scalar", "index_fill"};
  find_kernel(IndexFill::binding, fill);
  m.impl("index_fill_.int_Scalar", TORCH_FN(IndexFill::with_number));
  m.impl("index_fill_.int_Tensor", TORCH_FN(IndexFill::with_tensor));
}

}  // namespace rustdev
