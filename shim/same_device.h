// Bindings of PyTorch's own functions with a check of devices, which PyTorch leaves to its kernels: a dispatch stub reads the
// device of one tensor only, and would pass the memory of the others to a kernel of the wrong device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>

namespace rustdev {

template <auto function>
struct SameDevice;

// `SameDevice<function>::call` is the function for tensors of one device, and an error for others.
template <class Result, class... Args, Result (*function)(Args...)>
struct SameDevice<function> {
  static Result call(Args... args) {
    std::optional<at::Device> device;
    (check(device, args), ...);
    return function(std::forward<Args>(args)...);
  }

 private:
  static void check(std::optional<at::Device>& device, const at::Tensor& tensor) {
    c10::impl::check_and_update_common_device(device, tensor, "rustdev", "tensor");
  }
  static void check(std::optional<at::Device>& device, const std::optional<at::Tensor>& tensor) {
    c10::impl::check_and_update_common_device(device, tensor, "rustdev", "tensor");
  }
  template <class T>
  static void check(std::optional<at::Device>&, const T&) {}
};

}  // namespace rustdev
