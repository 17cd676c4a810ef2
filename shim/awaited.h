// Reads of device values that an operator waits for on the host, for example the size of its result.
#pragma once

#include "runtime/sync_debug.h"
#include "tensor.h"

namespace rustdev {

// Waits for the current stream and returns the value of a one-element tensor. `name`: the operator, for reports of waits.
template <class T>
T awaited(const at::Tensor& tensor, const char* name) {
  const int32_t device = tensor.device().index();
  const HostWait wait({RD_WAIT_RESULT, device, name});
  synchronize_current_stream(device, name);
  return tensor.item<T>();
}

}  // namespace rustdev
