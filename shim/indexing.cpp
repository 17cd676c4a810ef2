// Operands of indexed launches.
#include "indexing.h"

namespace rustdev {
namespace {

// Strides over `ndim` dimensions; a tensor of no dimension is the same everywhere.
at::DimVector strides_over(const at::Tensor& tensor, size_t ndim) {
  at::DimVector strides(tensor.strides());
  strides.resize(ndim, 0);
  return strides;
}

void add_indices(Launch& launch, const Addressing& addressing) {
  for (const Addressing::Index& index : addressing.indices) {
    launch.restrided(*index.tensor, addressing.sizes, index.strides);
  }
}

void add_slots(Launch& launch, const Addressing& addressing) {
  for (const Addressing::Index& index : addressing.indices) {
    launch.scalar(index.slots);
    launch.scalar(index.step);
  }
}

int64_t slots_along(const at::Tensor& tensor, int64_t dim) { return tensor.dim() == 0 ? 1 : tensor.size(dim); }

int64_t step_along(const at::Tensor& tensor, int64_t dim) {
  return tensor.dim() == 0 ? 0 : tensor.stride(dim) * static_cast<int64_t>(tensor.itemsize());
}

// Whether nothing is addressed. An index into nothing has no value that is in bounds, so it is refused without a look at its
// values.
bool is_empty(const Addressing& addressing) {
  if (addressing.empty()) {
    return true;
  }
  for (const Addressing::Index& index : addressing.indices) {
    TORCH_CHECK(index.slots != 0, "index is out of bounds for dimension with size 0");
  }
  return false;
}

}  // namespace

Addressing each_element(const at::Tensor& addressed, int64_t dim, const at::Tensor& index) {
  dim = at::maybe_wrap_dim(dim, addressed.dim());
  Addressing result;
  if (index.numel() == 0) {
    result.sizes.push_back(0);  // an empty index may have any number of dimensions
    return result;
  }
  result.sizes = index.sizes();
  if (result.sizes.empty()) {
    result.sizes.push_back(1);
  }
  const size_t ndim = result.sizes.size();
  result.strides = strides_over(addressed, ndim);
  result.strides[dim] = 0;
  result.indices.push_back({&index, strides_over(index, ndim), slots_along(addressed, dim), step_along(addressed, dim)});
  return result;
}

Addressing each_slice(const at::Tensor& addressed, int64_t dim, const at::Tensor& index) {
  dim = at::maybe_wrap_dim(dim, addressed.dim());
  Addressing result;
  result.sizes = addressed.sizes();
  if (result.sizes.empty()) {
    result.sizes.push_back(1);
  }
  const size_t ndim = result.sizes.size();
  result.sizes[dim] = index.numel();
  result.strides = strides_over(addressed, ndim);
  result.strides[dim] = 0;
  at::DimVector index_strides(ndim, 0);
  index_strides[dim] = index.dim() == 0 ? 0 : index.stride(0);
  result.indices.push_back({&index, index_strides, slots_along(addressed, dim), step_along(addressed, dim)});
  return result;
}

Addressing flat(const at::Tensor& addressed, const at::Tensor& index) {
  Addressing result;
  result.sizes = index.sizes();
  result.strides = at::DimVector(result.sizes.size(), 0);
  result.indices.push_back({&index, at::DimVector(index.strides()), addressed.numel(), static_cast<int64_t>(addressed.itemsize())});
  return result;
}

void launch_load(const Binding& binding, const Addressing& addressing, const at::Tensor& out, const at::Tensor& self) {
  if (is_empty(addressing)) {
    return;
  }
  Launch launch;
  const at::DimVector out_strides = strides_over(out, addressing.sizes.size());
  launch.restrided(out, addressing.sizes, out_strides);
  launch.finish_outputs();
  launch.restrided(self, addressing.sizes, addressing.strides);
  add_indices(launch, addressing);
  add_slots(launch, addressing);
  launch.run_or_throw(binding.op, static_cast<int32_t>(out.scalar_type()), out.device().index());
}

void launch_update(const Binding& binding, const Addressing& addressing, const at::Tensor& self, const Source& source,
                   const Update& update) {
  if (is_empty(addressing)) {
    return;
  }
  Launch launch;
  launch.restrided(self, addressing.sizes, addressing.strides);
  launch.finish_outputs();
  if (source.tensor != nullptr) {
    launch.restrided(*source.tensor, addressing.sizes, strides_over(*source.tensor, addressing.sizes.size()));
  } else {
    launch.immediate(source.number);
  }
  add_indices(launch, addressing);
  launch.scalar(static_cast<int64_t>(update.operation));
  launch.scalar(update.excludes_self);
  launch.scalar(update.factor);
  launch.scalar(update.skipped);
  add_slots(launch, addressing);
  launch.run_or_throw(binding.op, static_cast<int32_t>(self.scalar_type()), self.device().index());
}

}  // namespace rustdev
