// Functions that all parts of the shim use: tensors and numbers, scopes of the current device and of accesses to device memory.
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

// New uninitialised tensors, without the dispatcher (ops/factory.cpp).
at::Tensor new_empty(at::IntArrayRef size, at::ScalarType dtype, at::Device device,
                     std::optional<at::MemoryFormat> memory_format = std::nullopt);
at::Tensor new_empty_strided(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype, at::Device device);

}  // namespace rustdev
