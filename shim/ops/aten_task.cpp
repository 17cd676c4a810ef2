// ATen kernels as tasks: see aten_task.h.
#include "ops/aten_task.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "rustdev_completion.h"
#include "tensor.h"

namespace rustdev {
namespace {

// The functions that set the thread counts of libtorch_cpu's OpenMP and MKL; both settings are per thread.
struct ThreadSettings {
  int (*openmp_get)() = nullptr;
  void (*openmp_set)(int) = nullptr;
  int (*mkl_set)(int) = nullptr;

  ThreadSettings() {
    find_symbol("omp_get_max_threads", openmp_get);
    find_symbol("omp_set_num_threads", openmp_set);
    find_symbol("MKL_Set_Num_Threads_Local", mkl_set);
  }
};

const ThreadSettings& settings() {
  static const ThreadSettings instance;
  return instance;
}

struct Job {
  std::function<void()> work;
};

bool run_job(void* context, char* message, size_t capacity) {
  try {
    const SerialAten serial;
    static_cast<Job*>(context)->work();
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
  const auto* begin = static_cast<const char*>(data_of(tensor));
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  const int64_t bytes = tensor.numel() == 0 ? 0 : (last + 1) * static_cast<int64_t>(tensor.itemsize());
  return {begin, begin + bytes, write};
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
                                 new Job{std::move(work)}, &destroy_job));
}

void run_until_done(const rd_completion* completion, std::function<void()> work) {
  rd_completion_run(completion, &run_job, new Job{std::move(work)}, &destroy_job);
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

}  // namespace rustdev
