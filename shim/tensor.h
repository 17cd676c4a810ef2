// Operand descriptors of rd_launch, made from tensors: they are on the stack; nothing is allocated or validated twice.
#pragma once

#include <c10/core/Scalar.h>

#include <cmath>

#include "check.h"
#include "rustdev.h"

namespace rustdev {

inline constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

inline bool on_device(const at::TensorBase& tensor) { return tensor.defined() && tensor.device().type() == device_type; }

// The device of an index; -1 for the current device.
inline at::Device device_at(int32_t index) { return {device_type, static_cast<c10::DeviceIndex>(index)}; }

inline void* data_of(const at::TensorBase& tensor) { return const_cast<void*>(tensor.const_data_ptr()); }

// Makes a device current on this thread for the time of a scope.
class DeviceScope {
 public:
  explicit DeviceScope(int32_t device) : previous_(rd_device_current()), switched_(device != previous_) {
    if (switched_) {
      RD_CHECK(rd_device_set_current(device));
    }
  }
  explicit DeviceScope(c10::Device device) : DeviceScope(device.has_index() ? device.index() : rd_device_current()) {}
  DeviceScope(DeviceScope&&) = delete;
  ~DeviceScope() {
    if (switched_) {
      rd_device_set_current(previous_);
    }
  }

 private:
  int32_t previous_;
  bool switched_;
};

// A scope in which this thread reads or writes device memory itself, outside of any stream; it must not wait for a stream. The copy
// of a segment into shared memory excludes such scopes, and isolated memory is accessible while there is one.
class HostAccess {
 public:
  HostAccess() { rd_host_write_begin(); }
  HostAccess(HostAccess&&) = delete;
  ~HostAccess() { rd_host_write_end(); }
};

// Waits for the current stream in the name of an operator; throws if the stream captures.
inline void synchronize_current_stream(int32_t device, const char* name) { RD_CHECK(rd_stream_synchronize_current(device, name)); }

// The kernel of that name; throws if the operator table has none.
const rd_op* kernel(const char* name);

// A string literal as a template argument.
template <size_t size>
struct Name {
  char text[size];
  constexpr Name(const char (&name)[size]) { std::copy_n(name, size, text); }  // NOLINT(google-explicit-constructor)
};

// The kernel of that name, looked up when the library is loaded; loading fails if there is none.
template <Name name>
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): made while the module loads
inline const rd_op* const kernel_of = kernel(name.text);

// True if a mask of dtypes contains `dtype`.
inline bool is_among(uint64_t dtypes, c10::ScalarType dtype) { return (dtypes >> static_cast<unsigned>(dtype)) & 1U; }

rd_scalar to_scalar(const c10::Scalar& value);

// Throws if the dtype cannot represent the number, as `at::Scalar::to` does.
void check_number(const at::Scalar& number, at::ScalarType dtype);

// True only if `dtype`, and every dtype that its results are computed in, can hold the value. Conservative: may return false.
inline bool surely_holds(c10::ScalarType dtype, const rd_scalar& value) {
  if (value.dtype == static_cast<int32_t>(c10::ScalarType::Long)) {
    const int64_t greatest = c10::elementSize(dtype) == 1 ? 127 : 32767;
    return value.integer <= greatest && value.integer >= -greatest;
  }
  // The greatest number of float16.
  return value.dtype == static_cast<int32_t>(c10::ScalarType::Double) && c10::isFloatingType(dtype) &&
         !(std::abs(value.real) > 65504.0);
}

// The distinct elements of a tensor: expanded dimensions (stride 0) get size 1.
at::Tensor distinct(const at::Tensor& tensor);

// One kernel launch under construction: outputs are added first, then inputs, then scalars.
class Launch {
 public:
  static constexpr size_t max_operands = 10;
  static constexpr size_t max_scalars = 16;
  static constexpr size_t max_dims = 64;

  // The only tensor of an elementwise launch whose result does not depend on an element's position; dense if it has no gaps.
  void alone(const at::TensorBase& tensor) {
    if (C10_LIKELY(tensor.is_non_overlapping_and_dense() && flags(tensor) == 0)) {
      set_dense(tensor.numel());
      note_device(tensor);
      dense(tensor);
    } else {
      input(tensor);
    }
    finish_outputs();
  }

  // The operands added so far are the outputs.
  void finish_outputs() { num_outputs_ = num_operands_; }

  // The tensor as it is; conj and neg bits, host memory and 0-dim CPU scalars become flags.
  void input(const at::TensorBase& tensor) {
    note_device(tensor);
    const auto item = static_cast<int64_t>(tensor.itemsize());
    int64_t* const bytes = numbers_ + used_;
    for (const int64_t stride : tensor.strides()) {
      numbers_[used_++] = stride * item;
    }
    add(data_of(tensor), tensor.sizes().data(), bytes, tensor.sizes().size(), tensor.scalar_type(), flags(tensor));
  }

  // Makes this a dense launch: every operand is `numel` (at least 1) contiguous elements, or an immediate.
  void set_dense(int64_t numel) { dense_numel_ = numel; }

  // An operand of a dense launch.
  void dense(const at::TensorBase& tensor) { add(data_of(tensor), nullptr, nullptr, 0, tensor.scalar_type(), 0); }

  // A 0-dim CPU tensor, read during the launch.
  void immediate(const at::TensorBase& tensor) {
    add(data_of(tensor), nullptr, nullptr, 0, tensor.scalar_type(), RD_OPERAND_IMMEDIATE);
  }

  // A number, read during the launch.
  void immediate(const rd_scalar& value) {
    const auto dtype = static_cast<c10::ScalarType>(value.dtype);
    const bool whole = dtype == c10::ScalarType::Long || dtype == c10::ScalarType::Bool;
    const void* const data = whole ? static_cast<const void*>(&value.integer) : &value.real;
    add(const_cast<void*>(data), nullptr, nullptr, 0, dtype, RD_OPERAND_IMMEDIATE);
  }

  void scalar(const c10::Scalar& value) { scalars_[num_scalars_++] = to_scalar(value); }
  void scalars(at::ArrayRef<at::Scalar> values) {
    for (const at::Scalar& value : values) {
      scalar(value);
    }
  }

  void scalar(const rd_scalar& value) { scalars_[num_scalars_++] = value; }

  // True if every scalar surely fits the real dtype (`surely_holds`).
  bool plain_scalars(c10::ScalarType dtype) const {
    return std::all_of(scalars_, scalars_ + num_scalars_, [&](const rd_scalar& value) { return surely_holds(dtype, value); });
  }

  // Launches on the current stream of `device`. Returns false if the kernel does not support the dtypes.
  [[nodiscard]] bool run(const rd_op* op, int32_t compute_dtype, int32_t device) const;

  // As `run`, but throws if the kernel does not support the dtypes.
  void run_or_throw(const rd_op* op, int32_t compute_dtype, int32_t device) const;

 private:
  static uint32_t flags(const at::TensorBase& tensor);

  void note_device(const at::TensorBase& tensor) {
    const at::Device device = tensor.device();
    if (num_operands_ == 0) {
      device_ = other_ = device;
    } else if (C10_UNLIKELY(device != device_)) {
      other_ = device;
    }
  }

  void add(void* data, const int64_t* sizes, const int64_t* strides, size_t ndim, c10::ScalarType dtype, uint32_t flags) {
    operands_[num_operands_++] = rd_operand{data, sizes, strides, static_cast<int32_t>(ndim), static_cast<int32_t>(dtype), flags};
  }

  rd_operand operands_[max_operands];
  size_t num_operands_ = 0;
  size_t num_outputs_ = 0;
  rd_scalar scalars_[max_scalars];
  size_t num_scalars_ = 0;
  int64_t numbers_[max_operands * max_dims];
  size_t used_ = 0;
  int64_t dense_numel_ = 0;
  // The first operand's device, and a different one if an operand has it.
  at::Device device_ = device_type, other_ = device_type;
};

}  // namespace rustdev
