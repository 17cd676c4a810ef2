// Boxed arguments as descriptors: see boxed_values.h.
#include "boxed_values.h"

#include <ATen/core/IListRef.h>

namespace rustdev {

void describe(const at::Tensor& tensor, rd_tensor& described) {
  const bool is_strided = tensor.layout() == at::kStrided;
  uint32_t host = 0;
  if (C10_UNLIKELY(is_strided && tensor.is_cpu())) {
    host = RD_OPERAND_HOST;
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      host |= RD_TENSOR_WRAPPED_NUMBER;
    }
  }
  described.handle = tensor.unsafeGetTensorImpl();
  described.data = is_strided ? data_of(tensor) : nullptr;
  described.sizes = tensor.sizes().data();
  described.strides = is_strided ? tensor.strides().data() : nullptr;
  described.ndim = static_cast<int32_t>(is_strided ? tensor.dim() : 0);
  described.dtype = static_cast<int32_t>(tensor.scalar_type());
  described.device = on_device(tensor) && is_strided ? tensor.device().index() : -1;
  described.flags = (tensor.is_conj() ? RD_OPERAND_CONJ : 0) | (tensor.is_neg() ? RD_OPERAND_NEG : 0) | host;
}

void describe(const c10::List<std::optional<at::Tensor>>& tensors, c10::SmallVectorImpl<rd_tensor>& described) {
  for (const at::OptionalTensorRef& tensor : at::IOptTensorListRef(tensors)) {
    rd_tensor& found = described.emplace_back();
    if (tensor.has_value()) {
      describe(*tensor, found);
    }
  }
}

at::Tensor tensor_of(const rd_tensor& tensor) {
  using Impl = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  at::Tensor root(Impl::reclaim_copy(static_cast<c10::TensorImpl*>(tensor.handle)));
  const at::IntArrayRef sizes = sizes_of(tensor), strides = strides_of(tensor);
  if (root.sizes() == sizes && root.strides() == strides && data_of(root) == tensor.data) {
    return root;
  }
  const auto* const begin = static_cast<const char*>(root.storage().data());
  const int64_t bytes = tensor.data == nullptr ? 0 : static_cast<const char*>(tensor.data) - begin;
  return root.as_strided(sizes, strides, bytes / static_cast<int64_t>(root.itemsize()));
}

namespace {

template <class T>
at::ArrayRef<T> items(const rd_value& value) {
  return at::ArrayRef<T>(static_cast<const T*>(value.data), value.count);
}

}  // namespace

c10::IValue number_of(const rd_scalar& value) {
  switch (static_cast<c10::ScalarType>(value.dtype)) {
    case c10::ScalarType::Bool:
      return value.integer != 0;
    case c10::ScalarType::Long:
      return value.integer;
    case c10::ScalarType::ComplexDouble:
      return c10::complex<double>(value.real, value.imaginary);
    default:
      return value.real;
  }
}

std::optional<at::Generator> generator_at(void* generator) {
  using Impl = c10::intrusive_ptr<c10::GeneratorImpl>;
  if (generator == nullptr) {
    return std::nullopt;
  }
  return at::Generator(Impl::reclaim_copy(static_cast<c10::GeneratorImpl*>(generator)));
}

static_assert(RD_DEVICE_TYPE == static_cast<int32_t>(device_type));

rd_value device_value(at::Device device) {
  const auto kind = static_cast<size_t>(device.type());
  return {RD_VALUE_DEVICE, kind, nullptr, to_scalar(static_cast<int64_t>(device.index()))};
}

c10::IValue boxed(const rd_value& value) {
  switch (value.kind) {
    case RD_VALUE_TENSOR:
      return tensor_of(*static_cast<const rd_tensor*>(value.data));
    case RD_VALUE_TENSORS: {
      c10::List<at::Tensor> tensors;
      for (const rd_tensor& tensor : items<rd_tensor>(value)) {
        tensors.push_back(tensor_of(tensor));
      }
      return tensors;
    }
    case RD_VALUE_SCALAR:
      return number_of(value.scalar);
    case RD_VALUE_SCALARS: {
      c10::impl::GenericList numbers(c10::NumberType::get());
      for (const rd_scalar& value : items<rd_scalar>(value)) {
        numbers.push_back(number_of(value));
      }
      return numbers;
    }
    case RD_VALUE_INTEGERS:
      return items<int64_t>(value);
    case RD_VALUE_DOUBLES:
      return items<double>(value);
    case RD_VALUE_BOOLS: {
      c10::List<bool> flags;
      for (const bool flag : items<bool>(value)) {
        flags.push_back(flag);
      }
      return flags;
    }
    case RD_VALUE_TEXT:
      return std::string(static_cast<const char*>(value.data), value.count);
    case RD_VALUE_GENERATOR:
      return *generator_at(const_cast<void*>(value.data));
    case RD_VALUE_DEVICE:
      return at::Device(static_cast<at::DeviceType>(value.count), static_cast<c10::DeviceIndex>(value.scalar.integer));
    default:
      return {};
  }
}

BoxedValues::BoxedValues(at::ArrayRef<c10::IValue> arguments) {
  values_.reserve(arguments.size());
  tensors_.reserve(arguments.size());
  integers_.reserve(arguments.size());
  for (const c10::IValue& argument : arguments) {
    values_.push_back(read(argument));
  }
}

rd_value BoxedValues::read(const c10::IValue& argument) {
  // A list whose elements are converted one by one.
  const auto converted = [this](int32_t kind, auto& lists, const auto& elements, const auto& convert) {
    auto& found = next(lists);
    for (const auto& element : elements) {
      found.push_back(convert(element));
    }
    return list(kind, found.size(), found.data());
  };
  if (argument.isTensor()) {
    const at::Tensor& tensor = argument.toTensor();
    if (!tensor.defined()) {
      return list(RD_VALUE_NONE, 0, nullptr);
    }
    describe(tensor, tensors_.emplace_back());
    return list(RD_VALUE_TENSOR, 1, &tensors_.back());
  }
  if (argument.isNone()) {
    return list(RD_VALUE_NONE, 0, nullptr);
  }
  if (argument.isScalar()) {
    const at::Scalar number = argument.toScalar();
    return {kind_of(number), 1, nullptr, to_scalar(number)};
  }
  if (argument.isIntList()) {
    const at::DimVector& found = integers_.emplace_back(argument.toDimVector());
    return list(RD_VALUE_INTEGERS, found.size(), found.data());
  }
  if (argument.isTensorList()) {
    auto& found = next(lists_);
    found.reserve(argument.toListRef().size());
    for (const c10::IValue& tensor : argument.toListRef()) {
      describe(tensor.toTensor(), found.emplace_back());
    }
    return list(RD_VALUE_TENSORS, found.size(), found.data());
  }
  if (argument.isOptionalTensorList()) {
    auto& found = next(lists_);
    describe(argument.toOptionalTensorList(), found);
    return list(RD_VALUE_OPTIONAL_TENSORS, found.size(), found.data());
  }
  if (argument.isDoubleList()) {
    return converted(RD_VALUE_DOUBLES, doubles_, argument.toDoubleVector(), [](double value) { return value; });
  }
  if (argument.isBoolList()) {
    return converted(RD_VALUE_BOOLS, bools_, argument.toBoolList(), [](bool flag) { return flag; });
  }
  if (argument.isList() && argument.toList().elementType()->kind() == c10::TypeKind::NumberType) {
    return converted(RD_VALUE_SCALARS, scalars_, argument.toListRef(),
                     [](const c10::IValue& number) { return to_scalar(number.toScalar()); });
  }
  if (argument.isString()) {
    return list(RD_VALUE_TEXT, argument.toStringRef().size(), argument.toStringRef().data());
  }
  if (argument.isGenerator()) {
    return list(RD_VALUE_GENERATOR, 1, argument.toGenerator().unsafeGetGeneratorImpl());
  }
  if (argument.isDevice()) {
    return device_value(argument.toDevice());
  }
  return list(RD_VALUE_OTHER, 0, nullptr);
}

}  // namespace rustdev
