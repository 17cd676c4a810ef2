// Launches over iterators and of dense operands: see elementwise_launch.h.
#include "elementwise_launch.h"
#include "ops/factory.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/ScalarType.h>

namespace rustdev {
namespace {

bool plain_dtype(Fast fast, c10::ScalarType dtype) {
  if (c10::isFloatingType(dtype)) {
    return true;
  }
  return fast != Fast::floating && fast != Fast::quotient && c10::isIntegralType(dtype, /*includeBool=*/false);
}

bool is_dense(const at::Tensor& tensor) { return tensor.layout() == at::kStrided && tensor.is_contiguous(); }

// Whether a tensor lies beside one that is dense: on its device, of its sizes and dense too.
bool matches(const at::Tensor& dense, const at::Tensor& tensor) {
  return tensor.device() == dense.device() && tensor.sizes() == dense.sizes() && is_dense(tensor);
}

// A Python number that does not change the dtype of a result with `dtype`.
bool plain_number(const at::Tensor& other, c10::ScalarType dtype) {
  if (!other.unsafeGetTensorImpl()->is_wrapped_number() || !other.is_cpu()) {
    return false;
  }
  // Booleans have rules of their own in some operators.
  const bool is_number = other.scalar_type() == c10::ScalarType::Long || other.scalar_type() == c10::ScalarType::Double;
  return c10::isFloatingType(dtype) ? is_number : other.scalar_type() == c10::ScalarType::Long;
}

bool plain_tensor(const at::Tensor& self, const at::Tensor& other, bool inplace) {
  if (other.scalar_type() != self.scalar_type() || !matches(self, other)) {
    return false;
  }
  return !inplace || !other.is_alias_of(self) || other.storage_offset() == self.storage_offset();
}

}  // namespace

void run_named(const char* name, const Binding& binding, const at::TensorIteratorBase& iter, Launch& launch) {
  const c10::ScalarType dtype = iter.maybe_common_dtype().value_or(iter.input_dtype());
  TORCH_CHECK_NOT_IMPLEMENTED(launch_iterator(iter, binding, dtype, launch), "\"", name, "\" not implemented for '", dtype, "'");
}

int64_t string_number(std::string_view text) {
  if (text == "trunc" || text == "tanh") {
    return 1;
  }
  if (text == "floor") {
    return 2;
  }
  TORCH_CHECK(text == "none", "approximate argument must be either none or tanh, not ", text);
  return 0;
}

bool launch_iterator(const at::TensorIteratorBase& iter, const Binding& binding, c10::ScalarType common_dtype, Launch& launch) {
  if (C10_UNLIKELY(!takes_dtype(binding, common_dtype))) {
    return false;
  }
  if (iter.numel() == 0) {
    return true;
  }
  launch.iterator(iter);
  return launch.run(binding.op, static_cast<int32_t>(common_dtype), iter.device(0).index());
}

namespace {

bool plain_self(Fast fast, const BoundKernel& binding, const at::Tensor& self, const Launch& launch) {
  const c10::ScalarType dtype = self.scalar_type();
  return plain_dtype(fast, dtype) && takes_dtype(binding, dtype) && on_device(self) && is_dense(self) &&
         launch.plain_scalars(dtype);
}

}  // namespace

bool both_contiguous(const at::Tensor& self, const at::Tensor& other) {
  return on_device(self) && is_dense(self) && matches(self, other);
}

at::Tensor launch_plain(Fast fast, const BoundKernel& binding, const at::Tensor& self, at::ArrayRef<const at::Tensor*> others,
                        bool inplace, Launch& launch) {
  if (!plain_self(fast, binding, self, launch)) {
    return {};
  }
  const c10::ScalarType dtype = self.scalar_type();
  for (const at::Tensor* other : others) {
    if (!plain_number(*other, dtype) && !plain_tensor(self, *other, inplace)) {
      return {};
    }
  }
  const auto result_dtype = fast == Fast::boolean ? c10::ScalarType::Bool : dtype;
  at::Tensor result = inplace ? self : new_empty(self.sizes(), result_dtype, self.device());
  const int64_t numel = self.numel();
  if (numel == 0) {
    return result;
  }
  launch.set_dense(numel);
  launch.dense(result);
  launch.finish_outputs();
  launch.dense(self);
  for (const at::Tensor* other : others) {
    if (on_device(*other)) {
      launch.dense(*other);
    } else {
      launch.immediate(*other);
    }
  }
  if (C10_UNLIKELY(!launch.run(binding.op, static_cast<int32_t>(dtype), self.device().index()))) {
    return {};
  }
  return result;
}

at::Tensor launch_plain_number(const BoundKernel& binding, const at::Tensor& self, const at::Scalar& number, Launch& launch) {
  const c10::ScalarType dtype = self.scalar_type();
  if (!plain_self(Fast::boolean, binding, self, launch) || number.isComplex() ||
      !(c10::isFloatingType(dtype) || number.isIntegral(/*includeBool=*/false))) {
    return {};
  }
  at::Tensor result = new_empty(self.sizes(), c10::ScalarType::Bool, self.device());
  const int64_t numel = self.numel();
  if (numel == 0) {
    return result;
  }
  const rd_scalar value = to_scalar(number);
  launch.set_dense(numel);
  launch.dense(result);
  launch.finish_outputs();
  launch.dense(self);
  launch.immediate(value);
  if (C10_UNLIKELY(!launch.run(binding.op, static_cast<int32_t>(dtype), self.device().index()))) {
    return {};
  }
  return result;
}

}  // namespace rustdev
