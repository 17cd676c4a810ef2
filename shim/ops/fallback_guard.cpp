// Boxed arguments before a guard: see fallback_guard.h.
#include "ops/fallback_guard.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/nan_to_num.h>

#include "boxed_values.h"
#include "check.h"

namespace rustdev {

void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  const size_t count = schema.arguments().size();
  const BoxedValues values(torch::jit::last(stack, count));
  rd_change change{};
  RD_CHECK(rd_guard_check(guard, values.data(), values.size(), &change));
  if (change.kind != RD_CHANGE_NONE) {
    c10::IValue& value = torch::jit::peek(stack, change.argument, count);
    value = change.kind == RD_CHANGE_CONTIGUOUS
                ? value.toTensor().contiguous()
                : at::nan_to_num(value.toTensor(), change.numbers[0], change.numbers[1], change.numbers[2]);
  }
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
