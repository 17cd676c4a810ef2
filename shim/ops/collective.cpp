// Pending operations of torch.distributed in Gloo: keeps their tensors' memory until they end, and ends their completions. Without
// Python.
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <mutex>

#include "ops/cpu_kernels.h"
#include "rustdev_completion.h"
#include "tensor.h"

namespace rustdev {
namespace {

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

rd_completion* completion_at(int64_t handle) { return reinterpret_cast<rd_completion*>(handle); }

// Keeps the storages of tensors until the operation ends.
void keep(const at::TensorList tensors, int64_t completion) {
  auto kept = std::make_unique<std::vector<c10::Storage>>();
  for (const at::Tensor& tensor : tensors) {
    kept->push_back(tensor.storage());
  }
  rd_completion_keep(completion_at(completion), kept.release(),
                     [](void* context) { delete static_cast<std::vector<c10::Storage>*>(context); });
}

// Ends a completion when its last reference goes, after all parts of the operation have ended.
class Parts {
 public:
  Parts(int64_t completion, size_t count, std::string failure)
      : completion_(rd_completion_share(completion_at(completion))), left_(count), failure_(std::move(failure)) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (left_ != 0 && failure_.empty()) {
      failure_ = "Gloo has given it up";
    }
    rd_completion_end(completion_, failure_.empty() ? nullptr : failure_.c_str());
  }

  void end(const c10::ivalue::Future& part) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --left_;
    if (part.hasError() && failure_.empty()) {
      failure_ = part.tryRetrieveErrorMessage();
    }
  }

 private:
  rd_completion* completion_;
  std::mutex mutex_;
  size_t left_;
  std::string failure_;
};

using Futures = std::vector<c10::intrusive_ptr<c10::ivalue::Future>>;

// The futures of all parts; empty if a part has none, as in Gloo's reduce_scatter.
Futures futures_of(const Works& works) {
  Futures futures;
  try {
    for (const auto& work : works) {
      futures.push_back(work->getFuture());
    }
  } catch (const c10::Error&) {
    futures.clear();
  }
  return futures;
}

// Ends a completion when the parts of an operation in Gloo have ended; `failure`: an error of parts that Gloo refused. `tells`:
// Gloo's futures report the end; single messages and some collectives have none, and a thread waits for them. A torch without
// distributed has no c10d::Work, so only members that need no symbol of it are used.
void end_with(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const bool tells = torch::jit::pop(*stack).toBool();
  const int64_t completion = torch::jit::pop(*stack).toInt();
  const std::string failure = torch::jit::pop(*stack).to<std::optional<std::string>>().value_or("");
  const c10::IValue list = torch::jit::pop(*stack);
  Works works;
  for (const c10::IValue& part : list.toListRef()) {
    works.push_back(c10::static_intrusive_pointer_cast<c10d::Work>(part.toObject()->getSlot(0).toCapsule()));
  }
  const Futures futures = tells ? futures_of(works) : Futures();
  if (tells && futures.size() == works.size()) {
    const auto parts = std::make_shared<Parts>(completion, works.size(), failure);
    for (const auto& future : futures) {
      future->addCallback([parts](c10::ivalue::Future& part) { parts->end(part); });
    }
    return;
  }
  run_until_done(completion_at(completion), [works = std::move(works), failure] {
    // Waits for all parts, even after a failure: Gloo uses the memory of the others until they end.
    std::exception_ptr first;
    for (const auto& work : works) {
      try {
        work->wait();
      } catch (...) {
        first = first ? first : std::current_exception();
      }
    }
    if (first) {
      std::rethrow_exception(first);
    }
    TORCH_CHECK(failure.empty(), failure);
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("_keep(Tensor[] tensors, int completion) -> ()", TORCH_FN(keep));
  m.def("_end_with(Any[] parts, str? failure, int completion, bool tells) -> ()",
        torch::CppFunction::makeFromBoxedFunction<&end_with>());
}

}  // namespace rustdev
