// Boxed arguments as the descriptors of rustdev_operators.h.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/IListRef.h>

#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {

// Writes the descriptor of a tensor in place; it borrows the tensor's sizes and strides. A copy of it would stall on store
// forwarding.
void describe(const at::Tensor& tensor, rd_tensor& described);

// The tensor of a descriptor's handle, or a view of it with the descriptor's sizes, strides and address.
at::Tensor tensor_of(const rd_tensor& tensor);

// The generator at an address; nullopt for null.
std::optional<at::Generator> generator_at(void* generator);

// A number of a descriptor.
c10::IValue number_of(const rd_scalar& value);

// A descriptor as a boxed argument.
c10::IValue boxed(const rd_value& value);

// The sizes and strides of a descriptor.
inline at::IntArrayRef sizes_of(const rd_tensor& tensor) { return {tensor.sizes, static_cast<size_t>(tensor.ndim)}; }
inline at::IntArrayRef strides_of(const rd_tensor& tensor) { return {tensor.strides, static_cast<size_t>(tensor.ndim)}; }

// Memory of a call's lists. Small lists lie in the object.
class ListMemory {
 public:
  template <class T>
  T* of(size_t count) {
    const size_t words = (count * sizeof(T) + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    if (words > words_.size() - used_) {
      return reinterpret_cast<T*>(more_.emplace_back(std::make_unique_for_overwrite<uint64_t[]>(words)).get());
    }
    used_ += words;
    return reinterpret_cast<T*>(words_.data() + used_ - words);
  }

 private:
  std::array<uint64_t, 32> words_;
  size_t used_ = 0;
  c10::SmallVector<std::unique_ptr<uint64_t[]>, 1> more_;
};

// Stands for storage that a call does not need.
struct Nothing {};

// Descriptors of arguments, one after the other; they borrow from the arguments and from this object. Subclasses have the memory.
template <bool has_lists>
class Values {
 public:
  Values() = default;
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  const rd_value* data() const { return values_; }
  size_t size() const { return count_; }

  void add(const at::Tensor& tensor) {
    if (tensor.defined()) {
      describe(tensor, *tensors_);
      list(RD_VALUE_TENSOR, 1, tensors_++);
    } else {
      none();
    }
  }
  void add(at::TensorList tensors) { add_each<rd_tensor>(RD_VALUE_TENSORS, tensors, &describe); }
  void add(const at::ITensorListRef& tensors) { add_each<rd_tensor>(RD_VALUE_TENSORS, tensors, &describe); }
  // Missing tensors have a null handle.
  void add(const c10::List<std::optional<at::Tensor>>& tensors) {
    add_each<rd_tensor>(RD_VALUE_OPTIONAL_TENSORS, at::IOptTensorListRef(tensors), [](const auto& tensor, rd_tensor& place) {
      tensor.has_value() ? describe(*tensor, place) : void(place = {});
    });
  }
  void add(at::ArrayRef<at::Scalar> numbers) {
    add_each<rd_scalar>(RD_VALUE_SCALARS, numbers, [](const at::Scalar& number, rd_scalar& place) { place = to_scalar(number); });
  }
  void add(at::IntArrayRef values) { list(RD_VALUE_INTEGERS, values.size(), values.data()); }
  void add(at::OptionalIntArrayRef values) { values ? add(*values) : none(); }
  template <size_t count>
  void add(const std::array<bool, count>& flags) {
    list(RD_VALUE_BOOLS, count, flags.data());
  }
  void add(std::string_view text) { list(RD_VALUE_TEXT, text.size(), text.data()); }
  void add(const at::Scalar& value) {
    next(value.type() == at::kUInt64 ? RD_VALUE_LARGE_INTEGER : RD_VALUE_SCALAR, 1, nullptr).scalar = to_scalar(value);
  }
  void add(bool value) { number(c10::ScalarType::Bool, value, value); }
  void add(int64_t value) { number(c10::ScalarType::Long, value, static_cast<double>(value)); }
  void add(double value) { number(c10::ScalarType::Double, 0, value); }
  void add(at::ScalarType value) { add(static_cast<int64_t>(value)); }
  void add(at::Layout layout) { add(static_cast<int64_t>(layout)); }
  void add(at::MemoryFormat format) { add(static_cast<int64_t>(format)); }
  void add(at::Device device) { next(RD_VALUE_DEVICE, 0, nullptr).scalar = to_scalar(int64_t{device.index()}); }
  void add(const at::Generator& generator) { list(RD_VALUE_GENERATOR, 1, generator.unsafeGetGeneratorImpl()); }
  template <class T>
  void add(const std::optional<T>& value) {
    value ? add(*value) : none();
  }

 protected:
  // Sets the memory for values and tensors.
  void use(rd_value* values, rd_tensor* tensors) {
    values_ = values;
    tensors_ = tensors;
  }
  void none() { list(RD_VALUE_NONE, 0, nullptr); }
  void list(int32_t kind, size_t count, const void* data) { next(kind, count, data); }
  // A list of T, each of which `convert` writes from an element.
  template <class T, class List, class Convert>
  void add_each(int32_t kind, const List& elements, const Convert& convert) {
    T* const room = memory_.template of<T>(elements.size());
    size_t count = 0;
    for (const auto& element : elements) {
      convert(element, room[count++]);
    }
    list(kind, count, room);
  }

 private:
  // The next value. Its `scalar` is left unset: only some kinds have one.
  rd_value& next(int32_t kind, size_t count, const void* data) {
    rd_value& value = values_[count_++];
    value.kind = kind;
    value.count = count;
    value.data = data;
    return value;
  }
  void number(c10::ScalarType dtype, int64_t integer, double real) {
    next(RD_VALUE_SCALAR, 1, nullptr).scalar = {static_cast<int32_t>(dtype), integer, real, 0.0};
  }

  rd_value* values_ = nullptr;
  // The memory of the next tensor.
  rd_tensor* tensors_ = nullptr;
  size_t count_ = 0;
  [[no_unique_address]] std::conditional_t<has_lists, ListMemory, Nothing> memory_;
};

// Descriptors of boxed arguments.
class BoxedValues final : public Values<true> {
 public:
  explicit BoxedValues(at::ArrayRef<c10::IValue> arguments);

 private:
  void read(const c10::IValue& argument);

  c10::SmallVector<rd_value, 12> values_;
  c10::SmallVector<rd_tensor, 8> tensors_;
};

}  // namespace rustdev
