// Boxed arguments as the descriptors of rustdev_operators.h.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>

#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {

// Writes the descriptor of a tensor, whose sizes and strides it borrows, where it stays: what reads a copy soon after waits for it.
void describe(const at::Tensor& tensor, rd_tensor& described);

// The same of each tensor of a list; those that are left out have no handle.
void describe(const c10::List<std::optional<at::Tensor>>& tensors, c10::SmallVectorImpl<rd_tensor>& described);

// The tensor that a descriptor is of, or the view of it.
at::Tensor tensor_of(const rd_tensor& tensor);

// The generator at an address; nothing at null.
std::optional<at::Generator> generator_at(void* generator);

// The kind of value that a number is.
inline int32_t kind_of(const at::Scalar& number) { return number.type() == at::kUInt64 ? RD_VALUE_LARGE_INTEGER : RD_VALUE_SCALAR; }

// A device as an argument.
rd_value device_value(at::Device device);

// An argument of a descriptor.
c10::IValue boxed(const rd_value& value);

// The sizes and strides of a descriptor.
inline at::IntArrayRef sizes_of(const rd_tensor& tensor) { return {tensor.sizes, static_cast<size_t>(tensor.ndim)}; }
inline at::IntArrayRef strides_of(const rd_tensor& tensor) { return {tensor.strides, static_cast<size_t>(tensor.ndim)}; }

// Arguments as descriptors, which borrow from the arguments and from this.
class BoxedValues {
 public:
  explicit BoxedValues(at::ArrayRef<c10::IValue> arguments);

  const rd_value* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  rd_value read(const c10::IValue& argument);
  rd_value list(int32_t kind, size_t count, const void* data) const { return {kind, count, data, {}}; }

  c10::SmallVector<rd_value, 12> values_;
  // A new element of a rare list, which then has room for one of each argument.
  template <class List>
  auto& next(List& lists) const {
    lists.reserve(values_.capacity());
    return lists.emplace_back();
  }

  // Reserved for all arguments, so that what values point at stays where it is.
  c10::SmallVector<rd_tensor, 8> tensors_;
  c10::SmallVector<at::DimVector, 4> integers_;
  c10::SmallVector<c10::SmallVector<rd_tensor, 4>, 1> lists_;
  c10::SmallVector<c10::SmallVector<double, 4>, 1> doubles_;
  c10::SmallVector<c10::SmallVector<bool, 4>, 1> bools_;
  c10::SmallVector<c10::SmallVector<rd_scalar, 1>, 1> scalars_;
};

}  // namespace rustdev
