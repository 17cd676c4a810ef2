// Values of the device that an operator waits for, mostly because the size of its result is one.
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
