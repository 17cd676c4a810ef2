// Boxed arguments before a guard: see fallback_guard.h.
#include "ops/fallback_guard.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/nan_to_num.h>

#include <vector>

#include "boxed_values.h"
#include "check.h"

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

void apply(const rd_change& change, at::ArrayRef<c10::IValue> arguments, c10::IValue& value) {
  const at::Tensor& tensor = value.toTensor();
  switch (change.kind) {
    case RD_CHANGE_CONTIGUOUS:
      value = tensor.contiguous();
      break;
    case RD_CHANGE_FINITE:
      value = at::nan_to_num(tensor, change.numbers[0], change.numbers[1], change.numbers[2]);
      break;
    default:
      at::native::resize_output(tensor, arguments[change.like].toTensor().sizes());
  }
}

}  // namespace

const rd_guard* find_guard(const c10::FunctionSchema& schema) {
  std::vector<rd_argument> arguments;
  for (const c10::Argument& argument : schema.arguments()) {
    arguments.push_back({argument.name().c_str(), argument.alias_info() != nullptr && argument.alias_info()->isWrite()});
  }
  const rd_guard* found = nullptr;
  RD_CHECK(rd_guard_find(schema.name().c_str(), arguments.data(), arguments.size(), &found));
  return found;
}

void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack, bool has_values) {
  if (guard == nullptr) {
    return;
  }
  const at::ArrayRef<c10::IValue> arguments = torch::jit::last(stack, schema.arguments().size());
  torch::jit::Stack seen = arguments.vec();
  for (c10::IValue& value : seen) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_nested()) {
      value = sizes_of_nested(value.toTensor());
    }
  }
  const BoxedValues values(seen);
  rd_change changes[RD_MAX_CHANGES];
  size_t changed = 0;
  RD_CHECK(rd_guard_check(guard, values.data(), values.size(), has_values, changes, &changed));
  for (const rd_change& change : at::ArrayRef<rd_change>(changes, changed)) {
    apply(change, arguments, stack[stack.size() - arguments.size() + change.argument]);
  }
}

}  // namespace rustdev
