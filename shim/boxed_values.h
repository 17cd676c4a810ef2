// Boxed arguments as the descriptors of rustdev_operators.h.
#pragma once

#include <ATen/core/Generator.h>

#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {

// Writes the descriptor of a tensor in place; it borrows the tensor's sizes and strides. A copy of it would stall on store
// forwarding.
void describe(const at::Tensor& tensor, rd_tensor& described);

// Appends the descriptors of a list's tensors; missing ones have a null handle.
void describe(const c10::List<std::optional<at::Tensor>>& tensors, c10::SmallVectorImpl<rd_tensor>& described);

// The tensor of a descriptor's handle, or a view of it with the descriptor's sizes, strides and address.
at::Tensor tensor_of(const rd_tensor& tensor);

// The generator at an address; nullopt for null.
std::optional<at::Generator> generator_at(void* generator);

// The RD_VALUE_* of a number.
inline int32_t kind_of(const at::Scalar& number) { return number.type() == at::kUInt64 ? RD_VALUE_LARGE_INTEGER : RD_VALUE_SCALAR; }

// A device as a descriptor.
rd_value device_value(at::Device device);

// A number of a descriptor.
c10::IValue number_of(const rd_scalar& value);

// A descriptor as a boxed argument.
c10::IValue boxed(const rd_value& value);

// The sizes and strides of a descriptor.
inline at::IntArrayRef sizes_of(const rd_tensor& tensor) { return {tensor.sizes, static_cast<size_t>(tensor.ndim)}; }
inline at::IntArrayRef strides_of(const rd_tensor& tensor) { return {tensor.strides, static_cast<size_t>(tensor.ndim)}; }

// Descriptors of boxed arguments; they borrow from the arguments and from this object.
class BoxedValues {
 public:
  explicit BoxedValues(at::ArrayRef<c10::IValue> arguments);

  const rd_value* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  rd_value read(const c10::IValue& argument);
  rd_value list(int32_t kind, size_t count, const void* data) const { return {kind, count, data, {}}; }

  c10::SmallVector<rd_value, 12> values_;
  // A new element of a rarely used list, reserved for all arguments so that pointers into it stay valid.
  template <class List>
  auto& next(List& lists) const {
    lists.reserve(values_.capacity());
    return lists.emplace_back();
  }

  // Reserved for all arguments, so that pointers into them stay valid.
  c10::SmallVector<rd_tensor, 8> tensors_;
  c10::SmallVector<at::DimVector, 4> integers_;
  c10::SmallVector<c10::SmallVector<rd_tensor, 4>, 1> lists_;
  c10::SmallVector<c10::SmallVector<double, 4>, 1> doubles_;
  c10::SmallVector<c10::SmallVector<bool, 4>, 1> bools_;
  c10::SmallVector<c10::SmallVector<rd_scalar, 1>, 1> scalars_;
};

}  // namespace rustdev
