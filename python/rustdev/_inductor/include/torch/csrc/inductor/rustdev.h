// What a graph that Inductor writes in C++ calls: copies of tensors of the CPU, and operators by the names that it gives them.
#pragma once

#include <ATen/Tensor.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_reduce.h>
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace rustdev {

inline at::Tensor& tensor(AtenTensorHandle handle) { return *torch::aot_inductor::tensor_handle_to_tensor_pointer(handle); }

inline std::optional<at::Tensor> tensor(const AtenTensorHandle* handle) {
  return handle == nullptr ? std::nullopt : std::optional(tensor(*handle));
}

inline std::optional<at::ScalarType> dtype(const int32_t* number) {
  return number == nullptr ? std::nullopt : std::optional(static_cast<at::ScalarType>(*number));
}

inline AtenTensorHandle handle_of(at::Tensor tensor) {
  return torch::aot_inductor::tensor_pointer_to_tensor_handle(new at::Tensor(std::move(tensor)));
}

// A tensor of the CPU, copied: a kernel reads it later.
inline torch::aot_inductor::RAIIAtenTensorHandle on_device(AtenTensorHandle handle, int64_t device) {
  return torch::aot_inductor::RAIIAtenTensorHandle(
      handle_of(tensor(handle).to(at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(device)))));
}

}  // namespace rustdev

// The operators that generated code calls by these names, with the parameters of c_shim_cpu.h.
inline AOTITorchError aoti_torch_rustdev_mm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ at::mm_out(rustdev::tensor(out), rustdev::tensor(self), rustdev::tensor(mat2)); });
}

inline AOTITorchError aoti_torch_rustdev__int_mm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { at::_int_mm_out(rustdev::tensor(out), rustdev::tensor(self), rustdev::tensor(mat2)); });
}

inline AOTITorchError aoti_torch_rustdev__scaled_mm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2,
                                                        AtenTensorHandle scale_a, AtenTensorHandle scale_b, AtenTensorHandle* bias,
                                                        AtenTensorHandle* scale_result, int32_t* out_dtype,
                                                        int32_t use_fast_accum) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    at::_scaled_mm_out(rustdev::tensor(out), rustdev::tensor(self), rustdev::tensor(mat2), rustdev::tensor(scale_a),
                       rustdev::tensor(scale_b), rustdev::tensor(bias), rustdev::tensor(scale_result), rustdev::dtype(out_dtype),
                       use_fast_accum != 0);
  });
}

inline AOTITorchError aoti_torch_rustdev__grouped_mm(AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle* offs,
                                                     AtenTensorHandle* bias, int32_t* out_dtype, AtenTensorHandle* result) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *result = rustdev::handle_of(at::_grouped_mm(rustdev::tensor(self), rustdev::tensor(mat2), rustdev::tensor(offs),
                                                 rustdev::tensor(bias), rustdev::dtype(out_dtype)));
  });
}

// The seeds of random numbers.
inline AOTITorchError aoti_torch_rustdev_randint_low_out(AtenTensorHandle out, int64_t low, int64_t high, const int64_t* size,
                                                         int64_t size_len) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { at::randint_out(rustdev::tensor(out), low, high, at::IntArrayRef(size, static_cast<size_t>(size_len))); });
}

inline AOTITorchError aoti_torch_rustdev_bmm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ at::bmm_out(rustdev::tensor(out), rustdev::tensor(self), rustdev::tensor(mat2)); });
}

inline AOTITorchError aoti_torch_rustdev_addmm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1,
                                                   AtenTensorHandle mat2, double beta, double alpha) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { at::addmm_out(rustdev::tensor(out), rustdev::tensor(self), rustdev::tensor(mat1), rustdev::tensor(mat2), beta, alpha); });
}

inline AOTITorchError aoti_torch_rustdev_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle batch1,
                                                     AtenTensorHandle batch2, double beta, double alpha) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    at::baddbmm_out(rustdev::tensor(out), rustdev::tensor(self), rustdev::tensor(batch1), rustdev::tensor(batch2), beta, alpha);
  });
}

inline AOTITorchError aoti_torch_rustdev_convolution(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias,
                                                     const int64_t* stride, int64_t stride_len, const int64_t* padding,
                                                     int64_t padding_len, const int64_t* dilation, int64_t dilation_len,
                                                     int32_t transposed, const int64_t* output_padding, int64_t output_padding_len,
                                                     int64_t groups, AtenTensorHandle* result) {
  const auto list = [](const int64_t* values, int64_t count) { return at::IntArrayRef(values, static_cast<size_t>(count)); };
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *result = rustdev::handle_of(at::convolution(rustdev::tensor(input), rustdev::tensor(weight), rustdev::tensor(bias),
                                                 list(stride, stride_len), list(padding, padding_len), list(dilation, dilation_len),
                                                 transposed != 0, list(output_padding, output_padding_len), groups));
  });
}

inline AOTITorchError aoti_torch_rustdev_view_dtype(AtenTensorHandle self, int32_t dtype, AtenTensorHandle* result) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { *result = rustdev::handle_of(rustdev::tensor(self).view(static_cast<at::ScalarType>(dtype))); });
}

inline AOTITorchError aoti_torch_rustdev_scatter_src_out(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                                                         AtenTensorHandle index, AtenTensorHandle src) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { at::scatter_out(rustdev::tensor(out), rustdev::tensor(self), dim, rustdev::tensor(index), rustdev::tensor(src)); });
}

inline AOTITorchError aoti_torch_rustdev_scatter_value_out(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                                                           AtenTensorHandle index, double value) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { at::scatter_out(rustdev::tensor(out), rustdev::tensor(self), dim, rustdev::tensor(index), value); });
}

inline AOTITorchError aoti_torch_rustdev_scatter_reduce_two_out(AtenTensorHandle out, AtenTensorHandle self, int64_t dim,
                                                                AtenTensorHandle index, AtenTensorHandle src, const char* reduce,
                                                                int32_t include_self) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    at::scatter_reduce_out(rustdev::tensor(out), rustdev::tensor(self), dim, rustdev::tensor(index), rustdev::tensor(src), reduce,
                           include_self != 0);
  });
}
