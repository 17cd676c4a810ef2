// The first header of a graph that AOTInductor writes for the device.
//
// AOTInductor's own headers know where constants go on the devices of PyTorch alone. With USE_MPS they ask five functions, which
// are defined here for this device, and take "mps" for its name.
#pragma once

#define aoti_torch_device_type_mps aoti_torch_device_type_privateuse1

#include <torch/csrc/inductor/aoti_include/common.h>
#include <torch/csrc/inductor/rustdev.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace rustdev {

// The memory of constants by its address.
struct Constants {
  std::mutex mutex;
  std::unordered_map<void*, at::Tensor> blocks;
};

static Constants constants;

// Bytes at an address of the device, or of the CPU.
inline at::Tensor bytes(void* data, size_t offset, size_t count, at::DeviceType device) {
  return at::from_blob(static_cast<std::byte*>(data) + offset, {static_cast<int64_t>(count)},
                       at::TensorOptions(at::kByte).device(device));
}

}  // namespace rustdev

AOTITorchError aoti_torch_mps_malloc(void** buffer, size_t num_bytes) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    const at::Tensor block = at::empty({static_cast<int64_t>(num_bytes)}, at::TensorOptions(at::kByte).device(at::kPrivateUse1));
    *buffer = block.data_ptr();
    const std::lock_guard lock(rustdev::constants.mutex);
    rustdev::constants.blocks.emplace(*buffer, block);
  });
}

AOTITorchError aoti_torch_mps_free(void* buffer) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    const std::lock_guard lock(rustdev::constants.mutex);
    rustdev::constants.blocks.erase(buffer);
  });
}

// From the model's file to the memory of constants.
AOTITorchError aoti_torch_mps_memcpy(void* buffer, size_t constant_offset, size_t bytes_read, size_t data_size,
                                     uint8_t* constants_start) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    rustdev::bytes(buffer, constant_offset, data_size, at::kPrivateUse1)
        .copy_(rustdev::bytes(constants_start, bytes_read, data_size, at::kCPU));
  });
}

// From a tensor of the device to the memory of constants.
AOTITorchError aoti_torch_mps_copy_buffer(void* src_buffer, void* dst_buffer, size_t data_size, size_t src_offset,
                                          size_t dst_offset) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    rustdev::bytes(dst_buffer, dst_offset, data_size, at::kPrivateUse1)
        .copy_(rustdev::bytes(src_buffer, src_offset, data_size, at::kPrivateUse1));
  });
}
