// Sparse COO tensors, as in gradients of embeddings and their optimizers: PyTorch's own functions for indices, values and sizes
// (compiled_names.txt). python/rustdev/_ops/sparse_coo.py has the operators that compute.
//
// Quantised tensors: copies to, from and between devices. Other operators of both kinds go to the fallback.
#include <ATen/ops/empty.h>
#include <ATen/quantized/Quantizer.h>

#include "generated_sparse.h"
#include "tensor.h"

namespace rustdev {
namespace {

// The integers of a quantised tensor, in its own memory.
at::Tensor integers(const at::Tensor& tensor) {
  at::Tensor plain = at::empty({0}, tensor.options().dtype(c10::toUnderlying(tensor.scalar_type())));
  return plain.set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

// A tensor's quantiser on a device, for a dtype: scales and zero points of channels are tensors, which are moved to the device.
at::QuantizerPtr quantizer_on(const at::Tensor& tensor, c10::Device device, at::ScalarType dtype) {
  if (tensor.qscheme() == at::kPerTensorAffine) {
    return at::make_per_tensor_affine_quantizer(tensor.q_scale(), tensor.q_zero_point(), dtype);
  }
  return at::make_per_channel_affine_quantizer(tensor.q_per_channel_scales().to(device),
                                               tensor.q_per_channel_zero_points().to(device), tensor.q_per_channel_axis(), dtype);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK(dst.is_quantized(), "a quantised tensor is copied into a quantised one only: dequantize gives the numbers");
  if (!self.is_quantized()) {
    TORCH_CHECK(self.sizes() == dst.sizes(), "Quantized copy only works with Tensors with the same shape");
    TORCH_CHECK(self.scalar_type() == at::kFloat, "Quantized copy only works with kFloat as source Tensor");
    return copy_from(quantizer_on(dst, at::kCPU, dst.scalar_type())->quantize(self.cpu()), dst, non_blocking);
  }
  TORCH_CHECK(self.qscheme() == dst.qscheme(), "Quantized Copy only works with same qscheme");
  TORCH_CHECK(self.scalar_type() == dst.scalar_type(), "Quantized copy only works with the same dtype");
  integers(dst).copy_(integers(self), non_blocking);
  at::set_quantizer_(dst, quantizer_on(self, dst.device(), self.scalar_type()));
  return dst;
}

// An empty tensor with the quantiser of another, which may be on another device: Tensor.to calls it before it copies.
at::Tensor empty_quantized(at::IntArrayRef size, const at::Tensor& like, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory,
                           std::optional<at::MemoryFormat> memory_format) {
  const at::Device where = device.value_or(like.device());
  const at::ScalarType wanted = dtype.value_or(like.scalar_type());
  const auto options = at::TensorOptions(wanted).layout(layout).device(where).pinned_memory(pin_memory);
  const DeviceScope scope(where.is_cpu() ? like.device() : where);
  return at::new_qtensor(size, options.memory_format(memory_format), quantizer_on(like, where, wanted));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("empty_quantized", TORCH_FN(empty_quantized));
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
#define SPARSE(name, function) m.impl(name, TORCH_FN(at::native::function));
  RUSTDEV_SPARSE_LIST(SPARSE)
#undef SPARSE
}

}  // namespace rustdev
