// Copies of quantised tensors to, from and between devices. All their other operators go to the fallback.
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/quantized/Quantizer.h>

#include "tensor.h"

namespace rustdev {
namespace {

bool is_per_tensor(const at::Tensor& tensor) { return tensor.qscheme() == at::kPerTensorAffine; }

// The integers of a quantised tensor, in its own memory.
at::Tensor integers(const at::Tensor& tensor) {
  at::Tensor plain = at::empty({0}, tensor.options().dtype(c10::toUnderlying(tensor.scalar_type())));
  return plain.set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

// A tensor's quantiser on a device: scales and zero points of channels are tensors, which are moved to the device.
at::QuantizerPtr quantizer_on(const at::Tensor& tensor, c10::Device device) {
  if (is_per_tensor(tensor)) {
    return tensor.quantizer();
  }
  return at::make_per_channel_affine_quantizer(tensor.q_per_channel_scales().to(device),
                                               tensor.q_per_channel_zero_points().to(device), tensor.q_per_channel_axis(),
                                               tensor.scalar_type());
}

at::Tensor quantize_like(const at::Tensor& values, const at::Tensor& like) {
  TORCH_CHECK(values.scalar_type() == at::kFloat, "Quantized copy only works with kFloat as source Tensor");
  const at::Tensor here = values.to(like.device());
  if (is_per_tensor(like)) {
    return at::quantize_per_tensor(here, like.q_scale(), like.q_zero_point(), like.scalar_type());
  }
  return at::quantize_per_channel(here, like.q_per_channel_scales(), like.q_per_channel_zero_points(), like.q_per_channel_axis(),
                                  like.scalar_type());
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK(dst.is_quantized(), "a quantised tensor is copied into a quantised one only: dequantize gives the numbers");
  if (!self.is_quantized()) {
    TORCH_CHECK(self.sizes() == dst.sizes(), "Quantized copy only works with Tensors with the same shape");
    return copy_from(quantize_like(self, dst), dst, non_blocking);
  }
  TORCH_CHECK(self.qscheme() == dst.qscheme(), "Quantized Copy only works with same qscheme");
  TORCH_CHECK(self.scalar_type() == dst.scalar_type(), "Quantized copy only works with the same dtype");
  integers(dst).copy_(integers(self), non_blocking);
  at::set_quantizer_(dst, quantizer_on(self, dst.device()));
  return dst;
}

// An empty tensor with the quantiser of another, which may be on another device: Tensor.to calls it before it copies.
at::Tensor empty_quantized(at::IntArrayRef size, const at::Tensor& like, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory,
                           std::optional<at::MemoryFormat> memory_format) {
  const at::Device where = device.value_or(like.device());
  const auto options = at::TensorOptions(dtype.value_or(like.scalar_type())).layout(layout).device(where).pinned_memory(pin_memory);
  if (is_per_tensor(like)) {
    return at::_empty_affine_quantized(size, options, like.q_scale(), like.q_zero_point(), memory_format);
  }
  return at::_empty_per_channel_affine_quantized(size, like.q_per_channel_scales().to(where),
                                                 like.q_per_channel_zero_points().to(where), like.q_per_channel_axis(), options,
                                                 memory_format);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("empty_quantized", TORCH_FN(empty_quantized));
}

}  // namespace rustdev
