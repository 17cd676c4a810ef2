// Reads of device values that an operator waits for, for example the size of its result.
#pragma once

#include "tensor.h"

namespace rustdev {

// The value of a tensor of one element, for an operator of that name.
template <class T>
T awaited(const at::Tensor& tensor, const char* name) {
  synchronize_current_stream(tensor.device().index(), name);
  return tensor.item<T>();
}

}  // namespace rustdev
