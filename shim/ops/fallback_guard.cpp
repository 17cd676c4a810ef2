// Boxed arguments before a guard: see fallback_guard.h.
#include "ops/fallback_guard.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/nan_to_num.h>

#include "boxed_values.h"
#include "check.h"
#include "ops/fallback_alias.h"

namespace rustdev {
namespace {

// A tensor without memory that has the sizes of a nested one, 1 where those of its tensors differ.
at::Tensor sizes_of_nested(const at::Tensor& tensor) {
  at::DimVector sizes;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    sizes.push_back(at::native::get_nested_tensor_impl(tensor)->opt_size(dim).value_or(1));
  }
  return at::detail::empty_meta(sizes, tensor.scalar_type());
}

// The same of a sparse one, with the number of its elements as one dimension more.
at::Tensor sizes_of_sparse(const at::Tensor& tensor) {
  at::DimVector sizes(tensor.sizes());
  sizes.push_back(tensor._nnz());
  return at::detail::empty_meta(sizes, tensor.scalar_type());
}

}  // namespace

void change_arguments(at::ArrayRef<rd_change> changes, torch::jit::Stack& stack, size_t arguments) {
  c10::IValue* const values = stack.data() + stack.size() - arguments;
  for (const rd_change& change : changes) {
    c10::IValue& value = values[change.argument];
    const at::Tensor& tensor = value.toTensor();
    switch (change.kind) {
      case RD_CHANGE_CONTIGUOUS:
        value = tensor.contiguous();
        break;
      case RD_CHANGE_FINITE:
        value = at::nan_to_num(tensor, change.numbers[0], change.numbers[1], change.numbers[2]);
        break;
      default:
        at::native::resize_output(tensor, values[change.like].toTensor().sizes());
    }
  }
}

void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  torch::jit::Stack seen = torch::jit::last(stack, schema.arguments().size()).vec();
  for (c10::IValue& value : seen) {
    if (!value.isTensor() || !value.toTensor().defined()) {
      continue;
    }
    if (value.toTensor().is_nested()) {
      value = sizes_of_nested(value.toTensor());
    } else if (is_sparse_layout(value.toTensor())) {
      value = sizes_of_sparse(value.toTensor());
    }
  }
  const BoxedValues values(seen);
  rd_change changes[RD_MAX_CHANGES];
  size_t changed = 0;
  RD_CHECK(rd_guard_check(guard, values.data(), values.size(), changes, &changed));
  change_arguments({changes, changed}, stack, seen.size());
}

void check_sparse(const rd_fallback* op, const at::Tensor& tensor) {
  torch::jit::Stack members{c10::str(tensor.layout()), tensor.sizes()};
  if (tensor.is_sparse()) {
    auto* impl = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    members.insert(members.end(), {c10::IValue(), impl->indices(), impl->values()});
  } else {
    auto* impl = static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
    members.insert(members.end(), {impl->compressed_indices(), impl->plain_indices(), impl->values()});
  }
  const BoxedValues values(members);
  RD_CHECK(rd_fallback_check_sparse(op, values.data(), values.size()));
}

}  // namespace rustdev
