// PyTorch's CPU kernels as tasks: see cpu_kernels.h.
#include "ops/cpu_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstdio>
#include <mutex>

#include "operator_call.h"
#include "rustdev_completion.h"
#include "tensor.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

template <class Function>
Function* function_of_torch(const char* name) {
  return reinterpret_cast<Function*>(symbol_of_torch(name));
}

// The functions that set the thread counts of libtorch_cpu's OpenMP and MKL; both settings are per thread.
struct ThreadSettings {
  int (*openmp_get)() = function_of_torch<int()>("omp_get_max_threads");
  void (*openmp_set)(int) = function_of_torch<void(int)>("omp_set_num_threads");
  int (*mkl_set)(int) = function_of_torch<int(int)>("MKL_Set_Num_Threads_Local");
};

const ThreadSettings& settings() {
  static const ThreadSettings instance;
  return instance;
}

using Job = std::function<void()>;

bool run_job(void* context, char* message, size_t capacity) {
  try {
    const SerialAten serial;
    (*static_cast<Job*>(context))();
    return true;
  } catch (const c10::Error& error) {
    std::snprintf(message, capacity, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::snprintf(message, capacity, "%s", error.what());
  } catch (...) {
    std::snprintf(message, capacity, "unknown C++ exception");
  }
  return false;
}

void destroy_job(void* context) { delete static_cast<Job*>(context); }

// The state of one parallel_aten, passed through rd_parallel.
struct Parts {
  const std::function<void(int64_t)>& body;
  std::mutex mutex;
  std::exception_ptr failure;
};

void run_part(void* context, size_t part) {
  auto& parts = *static_cast<Parts*>(context);
  try {
    const SerialAten serial;
    parts.body(static_cast<int64_t>(part));
  } catch (...) {
    const std::lock_guard<std::mutex> lock(parts.mutex);
    parts.failure = std::current_exception();
  }
}

// The argument for one part: the part of a tensor that is cut, or sizes whose first dimension, the batch, is that of the part.
c10::IValue part_of(const c10::IValue& value, const rd_cut& cut, int64_t dims, int64_t part) {
  if (value.isTensor() && value.toTensor().defined()) {
    const at::Tensor& tensor = value.toTensor();
    const bool is_cut = tensor.dim() >= cut.least_ndim && tensor.size(cut.dim) == cut.size;
    return is_cut ? rustdev::part_of(tensor, cut.dim, part, cut.parts) : tensor;
  }
  if (value.isIntList() && value.toIntList().size() == static_cast<size_t>(dims)) {
    std::vector<int64_t> sizes = value.toIntVector();
    sizes[0] = sizes[0] * (part + 1) / cut.parts - sizes[0] * part / cut.parts;
    return sizes;
  }
  return value;
}

// Runs the variant with out=, or the functional variant and copies its results.
void run(const AtenOperator& op, Stack arguments, const Stack& results) {
  if (op.out) {
    arguments.insert(arguments.end(), results.begin(), results.end());
  }
  op.out.value_or(op.functional).redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &arguments);
  for (size_t index = 0; index < results.size(); ++index) {
    const at::Tensor& result = results[index].toTensor();
    const at::Tensor& found = arguments[index].toTensor();
    if (!op.out && result.defined()) {
      result.copy_(found);
    }
    TORCH_INTERNAL_ASSERT(!op.out || (!found.is_conj() && !found.is_neg()), "a result with a bit set");
  }
}

}  // namespace

void* symbol_of_torch(const char* name) {
  static void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  return dlsym(torch != nullptr ? torch : RTLD_DEFAULT, name);
}

at::Tensor borrow(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return tensor;
  }
  c10::DataPtr pointer(data_of(tensor), at::Device(at::kCPU));
  const size_t bytes = tensor.storage().nbytes() - tensor.storage_offset() * tensor.itemsize();
  c10::Storage storage(c10::Storage::use_byte_size_t{}, bytes, std::move(pointer), nullptr, /*resizable=*/false);
  at::Tensor alias =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  alias._set_conj(tensor.is_conj());
  alias._set_neg(tensor.is_neg());
  return alias;
}

// The first use of ATen on a thread sets its thread counts from the process's, so that happens before they are changed. Scopes
// nest: each restores the counts that it found.
SerialAten::SerialAten(int threads) : openmp_(1), mkl_(0) {
  thread_local const bool initialised = (at::init_num_threads(), true);
  static_cast<void>(initialised);
  const ThreadSettings& set = settings();
  if (set.openmp_get != nullptr && set.openmp_set != nullptr) {
    openmp_ = set.openmp_get();
    set.openmp_set(threads);
  }
  if (set.mkl_set != nullptr) {
    mkl_ = set.mkl_set(threads);
  }
}

SerialAten::~SerialAten() {
  const ThreadSettings& set = settings();
  if (set.openmp_set != nullptr) {
    set.openmp_set(openmp_);
  }
  if (set.mkl_set != nullptr) {
    set.mkl_set(mkl_);
  }
}

rd_access access_of(const at::Tensor& tensor, bool write) {
  const auto* const begin = static_cast<const char*>(data_of(tensor));
  return {begin, begin + at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize()), write};
}

void submit_aten(const char* name, at::ArrayRef<at::Tensor> outputs, at::ArrayRef<at::Tensor> inputs, uint64_t cost,
                 std::function<void()> work) {
  std::vector<rd_access> accesses;
  c10::DeviceIndex device = -1;
  for (const at::Tensor& output : outputs) {
    if (output.defined()) {
      accesses.push_back(access_of(output, true));
      device = output.device().index();
    }
  }
  for (const at::Tensor& input : inputs) {
    if (input.defined()) {
      accesses.push_back(access_of(input, false));
    }
  }
  RD_CHECK(rd_stream_submit_aten(device, rd_stream_current(device), name, accesses.data(), accesses.size(), cost, &run_job,
                                 new Job(std::move(work)), &destroy_job));
}

void run_until_done(const rd_completion* completion, std::function<void()> work) {
  rd_completion_run(completion, &run_job, new Job(std::move(work)), &destroy_job);
}

at::Tensor part_of(const at::Tensor& tensor, int64_t dim, int64_t part, int64_t parts) {
  const int64_t size = tensor.size(dim);
  const int64_t begin = size * part / parts;
  return tensor.narrow(dim, begin, size * (part + 1) / parts - begin);
}

void parallel_aten(int64_t parts, uint64_t cost, const std::function<void(int64_t)>& body) {
  if (parts == 1) {
    body(0);
    return;
  }
  Parts state{body, {}, nullptr};
  RD_CHECK(rd_parallel(static_cast<size_t>(parts), cost, &run_part, &state));
  if (state.failure) {
    std::rethrow_exception(state.failure);
  }
}

const AtenOperator* find_aten(const char* name, const rd_task& task) {
  const c10::OperatorHandle functional = find_operator(name);
  const auto out = task.out != nullptr ? std::optional<c10::OperatorHandle>(find_operator(task.out)) : std::nullopt;
  return new AtenOperator{name, functional, out, rd_fallback_guard(fallback_operator(functional)), task.guarded};
}

void submit_boxed(const AtenOperator& op, Stack stack, at::ArrayRef<at::Tensor> outputs, const rd_cut& cut) {
  c10::SmallVector<at::Tensor, 4> inputs;
  for (c10::IValue& value : stack) {
    if (value.isTensor() && value.toTensor().defined()) {
      inputs.push_back(value.toTensor());
      value = borrow(value.toTensor());
    }
  }
  const int64_t dims = inputs[0].dim();
  const int threads = cut.takes_threads ? at::get_num_threads() : 1;
  Stack results;
  for (const at::Tensor& output : outputs) {
    results.emplace_back(borrow(output));
  }
  auto work = [&op, stack = std::move(stack), results = std::move(results), cut, dims, threads] {
    const SerialAten libraries(threads);
    Stack arguments = stack;
    if (op.guarded && op.guard != nullptr) {
      check_arguments(op.guard, op.functional.schema(), arguments);
    }
    parallel_aten(cut.parts, cut.cost, [&](int64_t part) {
      const auto parts_of = [&](Stack values) {
        for (c10::IValue& value : values) {
          value = cut.parts == 1 ? value : part_of(value, cut, dims, part);
        }
        return values;
      };
      run(op, parts_of(arguments), parts_of(results));
    });
  };
  submit_aten(op.name, outputs, inputs, cut.cost, std::move(work));
}

}  // namespace rustdev
