// Numbers, tensors and boxed arguments as descriptors: see tensor.h and boxed_values.h.
#include "boxed_values.h"

#include "torch_version.h"

namespace rustdev {

rd_scalar to_scalar(const c10::Scalar& value) {
  if (value.isBoolean()) {
    const bool truth = value.to<bool>();
    return {static_cast<int32_t>(c10::ScalarType::Bool), truth, truth ? 1.0 : 0.0, 0.0};
  }
  // Integers beyond int64 are passed as the nearest float64.
  if (value.isIntegral(/*includeBool=*/false) && value.type() != c10::ScalarType::UInt64) {
    const int64_t integer = value.toLong();
    return {static_cast<int32_t>(c10::ScalarType::Long), integer, static_cast<double>(integer), 0.0};
  }
  if (value.isComplex()) {
    const auto complex = value.to<c10::complex<double>>();
    return {static_cast<int32_t>(c10::ScalarType::ComplexDouble), 0, complex.real(), complex.imag()};
  }
  return {static_cast<int32_t>(c10::ScalarType::Double), 0, value.to<double>(), 0.0};
}

void check_number(const at::Scalar& number, at::ScalarType dtype) {
  switch (dtype) {
#define CASE(type, name)     \
  case at::ScalarType::name: \
    (void)number.to<type>(); \
    return;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(CASE)
    CASE(uint16_t, UInt16)
    CASE(uint32_t, UInt32)
    CASE(uint64_t, UInt64)
#if RUSTDEV_TORCH_HAS_BCOMPLEX32
    CASE(c10::complex<c10::BFloat16>, BComplex32)
#endif
#undef CASE
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"a number\" not implemented for '", dtype, "'");
  }
}

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
    default:
      return {};
  }
}

BoxedValues::BoxedValues(at::ArrayRef<c10::IValue> arguments) {
  values_.resize_for_overwrite(arguments.size());
  tensors_.resize_for_overwrite(arguments.size());
  use(values_.data(), tensors_.data());
  std::for_each(arguments.begin(), arguments.end(), [this](const c10::IValue& argument) { read(argument); });
}

void BoxedValues::read(const c10::IValue& argument) {
  const auto assign = [](const auto& element, auto& place) { place = element; };
  if (argument.isTensor()) {
    add(argument.toTensor());
  } else if (argument.isNone()) {
    none();
  } else if (argument.isScalar()) {
    add(argument.toScalar());
  } else if (argument.isIntList()) {
    add_each<int64_t>(RD_VALUE_INTEGERS, argument.toDimVector(), assign);
  } else if (argument.isTensorList()) {
    add_each<rd_tensor>(RD_VALUE_TENSORS, argument.toListRef(),
                        [](const c10::IValue& tensor, rd_tensor& place) { describe(tensor.toTensor(), place); });
  } else if (argument.isOptionalTensorList()) {
    add(argument.toOptionalTensorList());
  } else if (argument.isDoubleList()) {
    add_each<double>(RD_VALUE_DOUBLES, argument.toDoubleList(), assign);
  } else if (argument.isBoolList()) {
    add_each<bool>(RD_VALUE_BOOLS, argument.toBoolList(), assign);
  } else if (argument.isList() && argument.toList().elementType()->kind() == c10::TypeKind::NumberType) {
    add_each<rd_scalar>(RD_VALUE_SCALARS, argument.toListRef(),
                        [](const c10::IValue& number, rd_scalar& place) { place = to_scalar(number.toScalar()); });
  } else if (argument.isString()) {
    add(std::string_view(argument.toStringRef()));
  } else if (argument.isGenerator()) {
    add(argument.toGenerator());
  } else if (argument.isDevice()) {
    add(argument.toDevice());
  } else {
    list(RD_VALUE_OTHER, 0, nullptr);
  }
}

}  // namespace rustdev
