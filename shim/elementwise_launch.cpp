// Launches of pointwise operators over dense operands: see operator_call.h.
#include <c10/core/ScalarType.h>

#include "operator_call.h"

namespace rustdev {
namespace {

// The result, self, two others and a number.
constexpr size_t max_operands = 5;

bool plain_dtype(int32_t dense, c10::ScalarType dtype) {
  if (c10::isFloatingType(dtype)) {
    return true;
  }
  return dense != RD_DENSE_FLOATING && dense != RD_DENSE_QUOTIENT && c10::isIntegralType(dtype, /*includeBool=*/false);
}

bool is_dense(const at::Tensor& tensor) { return tensor.layout() == at::kStrided && tensor.is_contiguous(); }

// True if the strides are those of a new contiguous tensor, in dimensions of one element too.
bool has_contiguous_strides(const at::Tensor& tensor) {
  int64_t expected = 1;
  for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    if (tensor.strides()[dim] != expected) {
      return false;
    }
    expected *= std::max<int64_t>(tensor.sizes()[dim], 1);
  }
  return true;
}

// True if a number leaves the result's dtype at `dtype`. False for Bool, which some operators treat specially.
bool keeps_dtype(c10::ScalarType number, c10::ScalarType dtype) {
  return number == c10::ScalarType::Long || (number == c10::ScalarType::Double && c10::isFloatingType(dtype));
}

bool plain_number(const at::Tensor& other, c10::ScalarType dtype) {
  return other.unsafeGetTensorImpl()->is_wrapped_number() && other.is_cpu() && keeps_dtype(other.scalar_type(), dtype);
}

// True if `other` has this dtype and self's device and sizes and is dense. With `inplace` it may share self's storage only at
// self's offset.
bool plain_tensor(const at::Tensor& self, const at::Tensor& other, c10::ScalarType dtype, bool inplace) {
  if (other.scalar_type() != dtype || other.device() != self.device() || other.sizes() != self.sizes() || !is_dense(other)) {
    return false;
  }
  return !inplace || !other.is_alias_of(self) || other.storage_offset() == self.storage_offset();
}

// True if self is dense; for RD_DENSE_CHOICE also Bool, with a device tensor first among the others.
bool plain_self(const Pointwise& pointwise, const at::Tensor& self, at::ArrayRef<const at::Tensor*> others) {
  const bool has_dtype =
      pointwise.dense != RD_DENSE_CHOICE || (self.scalar_type() == c10::ScalarType::Bool && on_device(*others.front()));
  return has_dtype && on_device(self) && is_dense(self);
}

}  // namespace

at::Tensor launch_plain(const Pointwise& pointwise, const at::Tensor& self, at::ArrayRef<const at::Tensor*> others,
                        const rd_scalar* number, bool inplace, const LaunchScalars& scalars) {
  const int32_t dense = pointwise.dense;
  const c10::ScalarType dtype = (dense == RD_DENSE_CHOICE ? *others.front() : self).scalar_type();
  const auto holds = [&](const rd_scalar& value) { return surely_holds(dtype, value); };
  if (!plain_dtype(dense, dtype) || !is_among(pointwise.dtypes, dtype) || !plain_self(pointwise, self, others) ||
      !std::all_of(scalars.begin(), scalars.end(), holds) ||
      (number != nullptr && !keeps_dtype(static_cast<c10::ScalarType>(number->dtype), dtype))) {
    return {};
  }
  bool has_number = number != nullptr;
  for (const at::Tensor* other : others) {
    const bool is_number = plain_number(*other, dtype);
    if (!is_number && !plain_tensor(self, *other, dtype, inplace)) {
      return {};
    }
    has_number |= is_number;
  }
  // With a number, PyTorch orders dimensions of one element by their strides.
  const auto is_odd = [](const at::Tensor* tensor) { return on_device(*tensor) && !has_contiguous_strides(*tensor); };
  if (has_number && !inplace && (is_odd(&self) || std::any_of(others.begin(), others.end(), is_odd))) {
    return {};
  }
  const bool is_bool = dense == RD_DENSE_BOOLEAN || dense == RD_DENSE_NUMBER;
  at::Tensor result = inplace ? self : new_empty(self.sizes(), is_bool ? c10::ScalarType::Bool : dtype, self.device());
  const int64_t numel = self.numel();
  if (numel == 0) {
    return result;
  }
  rd_operand operands[max_operands];
  size_t count = 0;
  const auto add = [&](const void* data, int32_t of, bool is_immediate) {
    operands[count++] = {const_cast<void*>(data), of, is_immediate ? uint32_t{RD_OPERAND_IMMEDIATE} : 0};
  };
  const auto add_tensor = [&](const at::Tensor& tensor) {
    add(data_of(tensor), static_cast<int32_t>(tensor.scalar_type()), !on_device(tensor));
  };
  add_tensor(result);
  add_tensor(self);
  for (const at::Tensor* other : others) {
    add_tensor(*other);
  }
  if (number != nullptr) {
    const bool is_whole = number->dtype == static_cast<int32_t>(c10::ScalarType::Long);
    add(is_whole ? static_cast<const void*>(&number->integer) : &number->real, number->dtype, true);
  }
  const auto num_scalars = static_cast<size_t>(scalars.end() - scalars.begin());
  const rd_launch_args args{operands, count, /*num_outputs=*/1, scalars.begin(), num_scalars, static_cast<int32_t>(dtype), numel};
  const rd_status status = rd_launch(pointwise.kernel, self.device().index(), &args);
  if (C10_UNLIKELY(status == RD_UNSUPPORTED)) {
    return {};
  }
  RD_CHECK(status);
  return result;
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

}  // namespace rustdev
