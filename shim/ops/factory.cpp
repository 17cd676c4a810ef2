// Factories: empty tensors from the device's allocator, on the given or the current device; fill_ and zero_, and the new tensors
// that they fill, each as one operator without PyTorch's composition. PyTorch's own code handles other layouts and devices.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/full_like_native.h>
#include <ATen/ops/ones_like_native.h>
#include <ATen/ops/zeros_like_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/DefaultDtype.h>

#include "boxed_values.h"

namespace rustdev {
namespace {

// The options that end the arguments of every factory, as its schema has them.
#define RD_OPTIONS                                                                                         \
  std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<at::Device> device, \
      std::optional<bool> pin_memory

constexpr c10::DispatchKeySet device_keys{c10::DispatchKey::PrivateUse1};

c10::Allocator* allocator() {
  static c10::Allocator* const device_allocator = c10::GetAllocator(device_type);
  return device_allocator;
}

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const at::Layout wanted = layout.value_or(at::kStrided);
  TORCH_CHECK(wanted == at::kStrided, rd_backend_name(), ": empty does not take the layout ", wanted);
}

at::Device on(std::optional<at::Device> device) { return device.value_or(at::Device(device_type)); }

// Fills uninitialised memory under torch.use_deterministic_algorithms (torch.utils.deterministic.fill_uninitialized_memory).
void mark(at::Tensor& tensor) {
  auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(tensor);
  }
}

at::Tensor empty(at::IntArrayRef size, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  at::Tensor result = new_empty(size, c10::dtype_or_default(dtype), on(device), memory_format);
  mark(result);
  return result;
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, RD_OPTIONS) {
  check_options(layout, pin_memory);
  at::Tensor result = new_empty_strided(size, stride, c10::dtype_or_default(dtype), on(device));
  mark(result);
  return result;
}

// Zeros without memory, for zero tangents of forward-mode autograd. PyTorch's ZeroTensor key materialises them for operators that
// do not support them.
at::Tensor efficient_zeros(at::IntArrayRef size, RD_OPTIONS) {
  check_options(layout, pin_memory);
  at::Device place = on(device);
  if (!place.has_index()) {
    place.set_index(static_cast<c10::DeviceIndex>(rd_device_current()));
  }
  at::native::ZeroTensorAllocator no_memory(place);
  return at::detail::empty_generic(size, &no_memory, device_keys.add(c10::DispatchKey::ZeroTensor), c10::dtype_or_default(dtype),
                                   std::nullopt);
}

// The number as a scalar of a launch. UInt64 numbers, which may exceed int64, are passed as their bits.
rd_scalar number_for(const at::Scalar& value, at::ScalarType dtype) {
  if (C10_UNLIKELY(dtype == at::kUInt64)) {
    return {static_cast<int32_t>(at::kLong), static_cast<int64_t>(value.to<uint64_t>()), value.to<double>(), 0.0};
  }
  return to_scalar(value);
}

// Throws if the dtype cannot hold the number. As in PyTorch's fast path, a single 16 bit float is cast instead: an overflow becomes
// infinity.
void check_value(const rd_scalar& number, const at::Scalar& value, const at::Tensor& self) {
  const at::ScalarType dtype = self.scalar_type();
  const bool holds = (dtype == at::kFloat || dtype == at::kDouble) && surely_holds(dtype, number);
  if (!holds && (self.numel() != 1 || !c10::isReducedFloatingType(dtype) || value.isComplex())) {
    check_number(value, dtype);
  }
}

// Writes a number or, for null, zeros to every element.
at::Tensor& write(at::Tensor& self, const rd_scalar* number) {
  if (self.numel() != 0) {
    rd_tensor target;
    describe(self, target);
    RD_CHECK(rd_fill(&target, number));
  }
  return self;
}

at::Tensor& zero_(at::Tensor& self) { return write(self, nullptr); }

at::Tensor& fill_scalar_(at::Tensor& self, const at::Scalar& value) {
  const rd_scalar number = number_for(value, self.scalar_type());
  check_value(number, value, self);
  return write(self, &number);
}

at::Tensor& fill_tensor_(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions.");
  if (on_device(value)) {
    return self.copy_(value);
  }
  at::assert_no_internal_overlap(self);
  return fill_scalar_(self, value.item());
}

void fill_one(at::Tensor& self) { fill_scalar_(self, 1); }

// A factory of a size: `fill(tensor, values...)` writes what the arguments after the size say.
template <auto fill, class... Values>
at::Tensor filled(at::IntArrayRef size, at::ScalarType default_dtype, RD_OPTIONS, const Values&... values) {
  check_options(layout, pin_memory);
  at::Tensor result = new_empty(size, dtype.value_or(default_dtype), on(device));
  fill(result, values...);
  return result;
}

template <auto fill>
at::Tensor filled_default(at::IntArrayRef size, RD_OPTIONS) {
  return filled<fill>(size, c10::get_default_dtype_as_scalartype(), dtype, layout, device, pin_memory);
}

// The dtype of `full` without a dtype argument: the value's.
at::ScalarType dtype_of(const at::Scalar& value) {
  const at::ScalarType real = c10::get_default_dtype_as_scalartype();
  return value.isBoolean()                         ? at::kBool
         : value.isIntegral(/*includeBool=*/false) ? at::kLong
         : value.isComplex()                       ? c10::toComplexType(real)
                                                   : real;
}

at::Tensor full(at::IntArrayRef size, const at::Scalar& value, RD_OPTIONS) {
  return filled<fill_scalar_>(size, dtype_of(value), dtype, layout, device, pin_memory, value);
}

// A new tensor as `empty_like` lays it out, or an undefined one where PyTorch's own code is to make it.
at::Tensor new_like(const at::Tensor& self, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format) {
  const at::Device own = self.device();
  const bool here = !device || (device->type() == own.type() && (!device->has_index() || device->index() == own.index()));
  // A device without a number is the current one.
  const bool elsewhere = device && !device->has_index() && own.index() != rd_device_current();
  if (C10_UNLIKELY(!here || elsewhere || pin_memory.value_or(false) || layout.value_or(self.layout()) != at::kStrided ||
                   !on_device(self) || self.layout() != at::kStrided)) {
    return {};
  }
  const at::ScalarType wanted = dtype.value_or(self.scalar_type());
  if (memory_format.value_or(at::MemoryFormat::Preserve) != at::MemoryFormat::Preserve) {
    return new_empty(self.sizes(), wanted, own, memory_format);
  }
  // Contiguous tensors too: a dimension of size 1 keeps its stride, which decides the layout of further results.
  if (C10_LIKELY(self.is_non_overlapping_and_dense())) {
    return new_empty_strided(self.sizes(), self.strides(), wanted, own);
  }
  return new_empty_strided(self.sizes(), at::infer_dense_strides(self.sizes(), self.strides()), wanted, own);
}

// A `*_like` factory: `fill(tensor, values...)` writes the new tensor. PyTorch's `native` makes the tensors that `new_like` does
// not.
template <auto fill, class... Values>
struct Like {
  using Native = at::Tensor (*)(const at::Tensor&, Values..., std::optional<at::ScalarType>, std::optional<at::Layout>,
                                std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat>);

  template <Native native>
  static at::Tensor call(const at::Tensor& self, Values... values, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format) {
    at::Tensor result = new_like(self, dtype, layout, device, pin_memory, memory_format);
    if (C10_UNLIKELY(!result.defined())) {
      return native(self, values..., dtype, layout, device, pin_memory, memory_format);
    }
    fill(result, values...);
    return result;
  }
};

}  // namespace

at::Tensor new_empty(at::IntArrayRef size, at::ScalarType dtype, at::Device device, std::optional<at::MemoryFormat> memory_format) {
  const DeviceScope scope(device);
  return at::detail::empty_generic(size, allocator(), device_keys, dtype, memory_format);
}

at::Tensor new_empty_strided(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype, at::Device device) {
  const DeviceScope scope(device);
  return at::detail::empty_strided_generic(size, stride, allocator(), device_keys, dtype);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar_));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor_));
  m.impl("zero_", TORCH_FN(zero_));
  m.impl("zeros", TORCH_FN(filled_default<zero_>));
  m.impl("ones", TORCH_FN(filled_default<fill_one>));
  m.impl("full", TORCH_FN(full));
  m.impl("empty_like", TORCH_FN(Like<mark>::call<at::native::empty_like>));
  m.impl("zeros_like", TORCH_FN(Like<zero_>::call<at::native::zeros_like>));
  m.impl("ones_like", TORCH_FN(Like<fill_one>::call<at::native::ones_like>));
  m.impl("full_like", TORCH_FN((Like<fill_scalar_, const at::Scalar&>::call<at::native::full_like>)));
}

}  // namespace rustdev
