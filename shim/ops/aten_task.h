// PyTorch's own CPU kernels as tasks on the device's streams (the second tier): they run on one of our threads over aliases of
// device memory, with one OpenMP thread each, and split their work over our pool themselves.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <functional>

#include "rustdev.h"

struct rd_completion;

namespace rustdev {

// A CPU tensor over a device tensor's memory that owns nothing: for tasks, whose memory stays valid in the order of the stream.
at::Tensor borrow(const at::Tensor& tensor);

// A function of the libraries that libtorch_cpu itself uses; null where there is none of that name.
void* symbol_of_torch(const char* name);

template <class Function>
void find_symbol(const char* name, Function& function) {
  function = reinterpret_cast<Function>(symbol_of_torch(name));
}

// For the time of a scope, ATen runs below autograd and on this thread alone, or with so many threads of the libraries.
class SerialAten {
 public:
  explicit SerialAten(int threads = 1);
  SerialAten(const SerialAten&) = delete;
  SerialAten& operator=(const SerialAten&) = delete;
  ~SerialAten();

 private:
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  int openmp_;
  int mkl_;
};

// Enqueues `work` on the current stream of the outputs' device. `cost`: nanoseconds of one thread.
void submit_aten(const char* name, at::ArrayRef<at::Tensor> outputs, at::ArrayRef<at::Tensor> inputs, uint64_t cost,
                 std::function<void()> work);

// Runs `work`, which may block, on a thread of its own, and ends a completion with it.
void run_until_done(const rd_completion* completion, std::function<void()> work);

// What a task or the host does to a tensor's memory.
rd_access access_of(const at::Tensor& tensor, bool write);

// Part number `part` of `parts` of a tensor along a dimension.
at::Tensor part_of(const at::Tensor& tensor, int64_t dim, int64_t part, int64_t parts);

// Runs body(part) for all parts on the pool, each under SerialAten; an exception of one is thrown here. `cost` as above, of all
// parts.
void parallel_aten(int64_t parts, uint64_t cost, const std::function<void(int64_t)>& body);

}  // namespace rustdev
