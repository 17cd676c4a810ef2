// Advanced indexing: index.Tensor, index_put_ and _index_put_impl_. Masks become the indices of what they select; that waits for
// the device, as a number of elements is to be known.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/index_meta.h>

#include "indexing.h"

namespace rustdev {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// The mask of a call that selects single elements by one mask of the tensor's own shape.
const at::Tensor* whole_mask(const at::Tensor& self, const std::optional<at::Tensor>& only) {
  const bool is_mask = only && only->defined() && only->scalar_type() == at::ScalarType::Bool;
  return is_mask && only->dim() > 0 && only->sizes() == self.sizes() && only->device() == self.device() ? &*only : nullptr;
}

struct Index {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, const Indices& indices) {
    if (indices.size() == 1) {
      const std::optional<at::Tensor> only = indices.get(0);
      if (const at::Tensor* const mask = whole_mask(self, only)) {
        return self.masked_select(*mask);
      }
    }
    Functional<at::meta::structured_index_Tensor> op;
    const auto info = op.meta(self, at::IOptTensorListRef(indices));
    if (C10_LIKELY(launch(op, info.sizes, info.strides))) {
      return op.take(0);
    }
    return call_fallback<at::Tensor, const at::Tensor&, const Indices&>(binding.functional, self, indices);
  }

  static at::Tensor& out(const at::Tensor& self, const Indices& indices, at::Tensor& result) {
    Given<at::meta::structured_index_Tensor, 1, false> op({&result});
    const auto info = op.meta(self, at::IOptTensorListRef(indices));
    if (C10_LIKELY(launch(op, info.sizes, info.strides))) {
      op.finish();
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, const Indices&, at::Tensor&>(binding.out, self, indices, result);
  }

 private:
  static bool launch(const at::TensorIteratorBase& iter, at::IntArrayRef slots, at::IntArrayRef steps) {
    if (static_cast<size_t>(iter.ntensors()) > Launch::max_loop_operands) {
      return false;
    }
    if (iter.numel() == 0) {
      return true;
    }
    Launch launch;
    launch.iterator(iter);
    for (size_t index = 0; index < slots.size(); ++index) {
      launch.scalar(slots[index]);
      launch.scalar(steps[index]);
    }
    launch.run_or_throw(binding.op, static_cast<int32_t>(iter.dtype(0)), iter.device(0).index());
    return true;
  }
};

// The indices of a call as they are used: masks expanded, broadcast to one shape, the indexed dimensions adjacent.
// `self` is transposed with them.
std::vector<at::Tensor> usual_indices(at::Tensor& self, const Indices& given) {
  at::native::checkIndexTensorTypes(given, /*allow_int=*/true);
  std::vector<at::Tensor> indices = at::native::expandTensors(self, given, /*ensure_same_device=*/true);
  try {
    indices = at::expand_outplace(indices);
  } catch (const std::exception&) {
    std::vector<at::IntArrayRef> shapes;
    for (const at::Tensor& index : indices) {
      if (index.defined()) {
        shapes.push_back(index.sizes());
      }
    }
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      c10::Join(", ", shapes));
  }
  indices.resize(static_cast<size_t>(self.dim()));
  if (!at::native::hasContiguousSubspace(indices)) {
    std::tie(self, indices) = at::native::transposeToFront(self, indices);
  }
  return indices;
}

// The space of a call: the dimensions of the indices stand where the indexed ones are.
Addressing addressing_of(const at::Tensor& self, const std::vector<at::Tensor>& indices) {
  Addressing result;
  size_t before = 0;
  size_t after = 0;
  at::IntArrayRef shape;
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    if (!indices[dim].defined()) {
      ++(result.indices.empty() ? before : after);
      continue;
    }
    shape = indices[dim].sizes();
    const int64_t step = self.stride(static_cast<int64_t>(dim)) * static_cast<int64_t>(self.itemsize());
    result.indices.push_back({&indices[dim], {}, self.size(static_cast<int64_t>(dim)), step});
  }
  const auto around = [&](at::IntArrayRef outer, at::IntArrayRef inner) {
    at::DimVector values(outer.slice(0, before));
    values.append(inner.begin(), inner.end());
    values.append(outer.end() - static_cast<int64_t>(after), outer.end());
    return values;
  };
  result.sizes = around(self.sizes(), shape);
  result.strides = around(self.strides(), at::DimVector(shape.size(), 0));
  for (Addressing::Index& index : result.indices) {
    index.strides = around(at::DimVector(before + after, 0), index.tensor->strides());
  }
  return result;
}

void check_bounds(const Addressing& addressing) {
  for (const Addressing::Index& index : addressing.indices) {
    TORCH_CHECK_INDEX(index.slots != 0 || index.tensor->numel() == 0, "index is out of bounds for dimension with size 0");
  }
}

struct IndexPut {
  static inline Binding binding;

  static at::Tensor& inplace(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate, bool unsafe) {
    TORCH_CHECK_INDEX(indices.size() <= static_cast<size_t>(self.dim()), "too many indices for tensor of dimension ", self.dim(),
                      " (got ", indices.size(), ")");
    if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
      TORCH_WARN(
          "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. ",
          "This also applies to advanced indexing e.g. tensor[indices] = tensor");
    }
    if (!accumulate) {
      const auto [is_fill, mask] = at::native::canDispatchToMaskedFill(self, indices, values);
      if (is_fill) {
        return self.masked_fill_(mask, values.item());
      }
    }
    const at::Tensor source = values.device() != self.device() && values.dim() == 0 ? values.to(self.device()) : values;
    check_overlap(self, indices, source);
    if (!run(self, indices, source, accumulate)) {
      call_fallback<at::Tensor&, at::Tensor&, const Indices&, const at::Tensor&, bool, bool>(binding.functional, self, indices,
                                                                                             values, accumulate, unsafe);
    }
    return self;
  }

  static at::Tensor& put(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate) {
    return inplace(self, indices, values, accumulate, /*unsafe=*/false);
  }

 private:
  static void check_overlap(const at::Tensor& self, const Indices& indices, const at::Tensor& source) {
    at::assert_no_overlap(self, source);
    for (const std::optional<at::Tensor> index : indices) {
      if (index && index->defined()) {
        at::assert_no_overlap(self, *index);
      }
    }
  }

  static bool run(const at::Tensor& self, const Indices& given, const at::Tensor& source, bool accumulate) {
    at::Tensor target = self;
    const std::vector<at::Tensor> indices = usual_indices(target, given);
    const Addressing addressing = addressing_of(target, indices);
    check_bounds(addressing);
    TORCH_CHECK(at::is_expandable_to(source.sizes(), addressing.sizes), "shape mismatch: value tensor of shape ", source.sizes(),
                " cannot be broadcast to indexing result of shape ", addressing.sizes);
    TORCH_CHECK(source.scalar_type() == self.scalar_type(), "Index put requires the source and destination dtypes match, got ",
                self.scalar_type(), " for the destination and ", source.scalar_type(), " for the source.");
    TORCH_CHECK(source.device() == self.device(), "expected device ", self.device(), " but got device ", source.device(),
                " for value tensor");
    if (!addressing.fits() || addressing.indices.empty() || (accumulate && c10::isFloat8Type(self.scalar_type()))) {
      return false;
    }
    launch_update(binding, addressing, target, source.expand(addressing.sizes), {accumulate ? Operation::add : Operation::store});
    return true;
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Index>(m, {"index.Tensor", nullptr, "index.Tensor_out", "index"});
  find_kernel(IndexPut::binding, {"_index_put_impl_", nullptr, "_index_put_impl_", "index_put"});
  m.impl("_index_put_impl_", TORCH_FN(IndexPut::inplace));
  m.impl("index_put_", TORCH_FN(IndexPut::put));
}

}  // namespace rustdev
