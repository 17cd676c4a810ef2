// PyTorch's CPU kernels, as tasks on the device's streams (tier `aten`; aten_task.cpp) and as the zero-copy fallback
// (fallback.cpp).
//
// A task runs on one of our threads over aliases of device memory, with one OpenMP thread, and `parallel_aten` divides it among
// our pool. Most of these operators are declared in Rust (lines of `tasks!` in src/ops/), and bound by operators.cpp:
// `submit_boxed` runs them over boxed arguments.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/BoxedKernel.h>

#include <functional>

#include "rustdev_operators.h"

struct rd_completion;

namespace rustdev {

// A non-owning CPU tensor over a device tensor's memory, for tasks: stream-ordered frees keep the memory valid.
at::Tensor borrow(const at::Tensor& tensor);

// A function of the libraries that libtorch_cpu links; null if there is none of that name.
void* symbol_of_torch(const char* name);

// For a scope, ATen runs below autograd, with `threads` threads of OpenMP and MKL.
class SerialAten {
 public:
  explicit SerialAten(int threads = 1);
  SerialAten(SerialAten&&) = delete;
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

// The byte range of a tensor's elements, as an access.
rd_access access_of(const at::Tensor& tensor, bool write);

// Part number `part` of `parts` of a tensor along a dimension.
at::Tensor part_of(const at::Tensor& tensor, int64_t dim, int64_t part, int64_t parts);

// Runs body(part) for all parts on the pool, each under SerialAten; rethrows an exception of a part. `cost`: of all parts together.
void parallel_aten(int64_t parts, uint64_t cost, const std::function<void(int64_t)>& body);

// One operator. Never freed, because tasks refer to it.
struct AtenOperator {
  const char* name;
  c10::OperatorHandle functional;
  std::optional<c10::OperatorHandle> out;
  const rd_guard* guard;
  // True if the guard checks values inside the task.
  bool guarded;
};

// The operator of that name, which is a task.
const AtenOperator* find_aten(const char* name, const rd_task& task);

// Enqueues the kernel over the boxed arguments and these results, some of which may be undefined. Our threads compute the parts of
// a task; one that is not cut may use the libraries' threads.
void submit_boxed(const AtenOperator& op, torch::jit::Stack stack, at::ArrayRef<at::Tensor> outputs, const rd_cut& cut);

// The record of an operator (src/abi/rd_fallback.rs), which is never freed.
const rd_fallback* fallback_operator(const c10::OperatorHandle& op);

// Runs an operator's CPU kernel on aliases of device memory, for arguments in boxed form. `expects_error`: for its error, even
// where the rules forbid the fallback.
template <bool expects_error>
void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Refuses arguments, with values, that the kernel would not survive, and replaces one that it does not take as it is. The guard is
// in Rust: src/call/guards.rs.
void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack);

}  // namespace rustdev
