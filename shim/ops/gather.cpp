// Gathers along a dimension: gather, index_select, take.
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/gather_meta.h>

#include "indexing.h"
#include "ops/factory.h"

namespace rustdev {
namespace {

struct GatherRule {
  static constexpr bool has_inplace = false;

  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, int64_t dim, const at::Tensor& index, bool) {
    launch_load(binding, each_element(self, dim, index), op.maybe_get_output(0), self);
    return true;
  }
};

void check_no_overlap(const at::Tensor& out, const at::Tensor& self, const at::Tensor& index) {
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
}

struct IndexSelect {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
    at::Tensor result = new_empty(sizes_of_result(self, dim, index), self.scalar_type(), self.device());
    launch_load(binding, each_slice(self, dim, index), result, self);
    return result;
  }

  static at::Tensor& out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& result) {
    const at::DimVector sizes = sizes_of_result(self, dim, index);
    TORCH_CHECK(self.scalar_type() == result.scalar_type(), "index_select(): self and result must have the same scalar type");
    check_no_overlap(result, self, index);
    at::native::resize_output(result, sizes);
    launch_load(binding, each_slice(self, dim, index), result, self);
    return result;
  }

 private:
  static at::DimVector sizes_of_result(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
    dim = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
    TORCH_CHECK(index.scalar_type() == at::ScalarType::Long || index.scalar_type() == at::ScalarType::Int,
                "index_select(): Expected dtype int32 or int64 for index");
    const int64_t count = index.numel();
    TORCH_CHECK(self.dim() > 0 || count == 1, "index_select(): Index to scalar can have only 1 value, got ", count, " value(s)");
    at::DimVector sizes(self.sizes());
    if (!sizes.empty()) {
      TORCH_CHECK(count == 0 || self.dim() == 1 || sizes[dim] > 0, "index_select(): self indexing axis dim should be positive");
      TORCH_CHECK_INDEX(count == 0 || sizes[dim] > 0, "index out of range in self");
      sizes[dim] = count;
    }
    return sizes;
  }
};

struct Take {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, const at::Tensor& index) {
    at::Tensor result = new_empty(index.sizes(), self.scalar_type(), self.device());
    return out(self, index, result);
  }

  static at::Tensor& out(const at::Tensor& self, const at::Tensor& index, at::Tensor& result) {
    TORCH_CHECK(index.scalar_type() == at::ScalarType::Long, "take(): Expected a long tensor for index, but got ",
                index.scalar_type());
    TORCH_CHECK(self.scalar_type() == result.scalar_type(),
                "take(): self and out expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
                " and out.dtype = ", result.scalar_type());
    TORCH_CHECK(self.device() == result.device() && self.device() == index.device(),
                "take(): self, index and out expected to be in the same device, but got self.device = ", self.device(),
                ", index.device = ", index.device(), ", and out.device = ", result.device());
    TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
    check_no_overlap(result, self, index);
    at::native::resize_output(result, index.sizes());
    const at::Tensor dense = self.contiguous();
    launch_load(binding, flat(dense, index), result, dense);
    return result;
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Variants<at::meta::structured_gather, GatherRule>>(m, {"gather", nullptr, "gather.out", "gather"});
  bind<IndexSelect>(m, {"index_select", nullptr, "index_select.out", "index_select"});
  bind<Take>(m, {"take", nullptr, "take.out", "take"});
}

}  // namespace rustdev
