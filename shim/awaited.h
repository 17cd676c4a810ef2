// Reads of device values that an operator waits for, for example the size of its result.
#pragma once

#include "runtime/sync_debug.h"
#include "tensor.h"

namespace rustdev {

// The value of a tensor of one element, for an operator of that name.
template <class T>
T awaited(const at::Tensor& tensor, const char* name) {
  const int32_t device = tensor.device().index();
  const HostWait wait({RD_WAIT_RESULT, device, name});
  synchronize_current_stream(device, name);
  return tensor.item<T>();
}

}  // namespace rustdev
