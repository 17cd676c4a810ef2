// Tensors over memory of another process, which is released with their storage.
#include "runtime/ipc.h"

#include <torch/library.h>

#include "tensor.h"

namespace rustdev {
namespace {

void let_go(void* received) { rd_received_let_go(static_cast<rd_received*>(received)); }

// A byte tensor over received memory. `received`: the runtime's handle, released with the storage. The storage is not resizable,
// because the memory after it belongs to others.
at::Tensor received_bytes(int64_t address, int64_t bytes, int64_t device, int64_t received) {
  const at::Device where(device_type, static_cast<c10::DeviceIndex>(device));
  c10::DataPtr data(reinterpret_cast<void*>(address), reinterpret_cast<void*>(received), &let_go, where);
  c10::Storage storage(c10::Storage::use_byte_size_t{}, bytes, std::move(data), /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), caffe2::TypeMeta::Make<uint8_t>());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({bytes});
  return tensor;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("_received(int address, int bytes, int device, int received) -> Tensor", &received_bytes);
}

}  // namespace rustdev
