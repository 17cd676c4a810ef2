// Binds the operators that Rust binds: each overload to a kernel for the types of its schema where typed_kernels.h lists it, else
// to a boxed one. Both hand the arguments over. A call that Rust does not take goes to the CPU fallback.
#include <torch/library.h>

#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "binding.h"
#include "boxed_values.h"
#include "operator_call.h"
#include "ops/aten_operator.h"
#include "ops/tier.h"
#include "typed_kernels.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

class BoxedArguments final : public CallArguments {
 public:
  BoxedArguments(const Overload& overload, at::ArrayRef<c10::IValue> arguments) : overload_(overload), arguments_(arguments) {}

  void run_meta(MetaOutputs& outputs) override { overload_.meta(arguments_.data(), outputs); }

  // The guard looks at the arguments of a task before a meta does, which may rely on them.
  void check() override {
    if (overload_.aten != nullptr && !overload_.aten->task.optional) {
      keep_arguments();
    }
  }

  void leave_to_task(const rd_cut& cut) override {
    keep_arguments();
    cut_ = cut;
  }

  at::Device device() const override {
    for (const c10::IValue& argument : arguments_) {
      if (argument.isDevice()) {
        return argument.toDevice();
      }
    }
    return device_type;
  }

  // Has PyTorch's kernel run, where that computes.
  void submit(at::ArrayRef<at::Tensor> results) {
    if (overload_.aten != nullptr && (cut_ || !overload_.aten->task.optional)) {
      submit_boxed(*overload_.aten, std::move(checked_), results, cut_);
    }
  }

  // The tensors to write to.
  c10::SmallVector<const at::Tensor*, 3> given() const {
    c10::SmallVector<const at::Tensor*, 3> tensors;
    for (const size_t index : overload_.written) {
      tensors.push_back(&arguments_[index].toTensor());
    }
    return tensors;
  }

 private:
  // Keeps the arguments of a task as the guard leaves them.
  void keep_arguments() {
    if (checked_.empty()) {
      checked_.assign(arguments_.begin(), arguments_.end());
      check_arguments(*overload_.aten, checked_);
    }
  }

  const Overload& overload_;
  at::ArrayRef<c10::IValue> arguments_;
  Stack checked_;
  // Where a task is optional: how it computes this call.
  std::optional<rd_cut> cut_;
};

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const Overload& overload) : overload_(overload) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const auto rounded = overload_.aten == nullptr ? std::nullopt : widen(*overload_.aten, *stack);
    run(op, *stack);
    if (rounded) {
      narrow(*overload_.aten, *stack, *rounded);
    }
  }

 private:
  void run(const c10::OperatorHandle& op, Stack& stack) const {
    const at::ArrayRef<c10::IValue> all(stack.data() + stack.size() - overload_.arguments, overload_.arguments);
    BoxedArguments arguments(overload_, all);
    const auto given = arguments.given();
    OperatorCall call(overload_, arguments, given);
    const BoxedValues values(all.slice(0, overload_.inputs()));
    if (const c10::BoxedKernel other = call.run(values.data(), values.size()); C10_UNLIKELY(other.isValid())) {
      other.callBoxed(op, c10::DispatchKeySet(), &stack);
      return;
    }
    arguments.submit(call.results());
    call.finish();
    c10::SmallVector<c10::IValue, 4> results;
    if (overload_.returns_list) {
      results.emplace_back(at::ArrayRef<at::Tensor>(call.results()));
    }
    for (size_t index = 0; index < call.results().size() && !overload_.returns_list; ++index) {
      results.emplace_back(index < given.size() ? *given[index] : std::move(call.results()[index]));
    }
    torch::jit::drop(stack, overload_.arguments);
    stack.insert(stack.end(), std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  }

  Overload overload_;
};

const void* find(void*, const char* name) {
  const auto op = c10::Dispatcher::singleton().findSchema(operator_name(name));
  return op ? new c10::OperatorHandle(*op) : nullptr;
}

// What Rust binds to, and why it could not.
struct Binder {
  torch::Library &aten, &own;
  std::exception_ptr failure;

  void bind(const rd_operator* bound, const char* name, const char* functional, const char* meta, const rd_task* task,
            bool composed) {
    const Overload overload(bound, name, functional, meta, task);
    TORCH_CHECK(meta == nullptr || overload.meta != nullptr, "metas.cpp lists no meta of ", meta);
    const bool is_aten = (task != nullptr && !task->optional) || overload.divided != nullptr;
    const TypedKernel typed = take_typed(overload.op);
    torch::CppFunction function =
        typed != nullptr ? typed(overload) : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(overload));
    if (overload.op.operator_name().getNamespace() == "rustdev") {
      own.impl(name, torch::dispatch(c10::DispatchKey::PrivateUse1, std::move(function)));
    } else {
      Tier(aten, composed ? "composite" : "aten", /*noted=*/composed || is_aten).impl(name, std::move(function));
    }
  }
};

// No exception may go through Rust: the first one is thrown behind it.
template <class Body>
void guarded(void* context, const Body& body) {
  auto& binder = *static_cast<Binder*>(context);
  if (binder.failure != nullptr) {
    return;
  }
  try {
    body(binder);
  } catch (...) {
    binder.failure = std::current_exception();
  }
}

void define(void* context, const char* name, const char* signature) {
  guarded(context, [&](Binder& binder) { binder.own.def((std::string(name) + signature).c_str()); });
}

void bind_overload(void* context, const rd_operator* bound, const char* name, const char* functional, const char* meta,
                   const rd_task* task, bool composed) {
  guarded(context, [&](Binder& binder) { binder.bind(bound, name, functional, meta, task, composed); });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  static torch::Library own(torch::Library::FRAGMENT, "rustdev", std::nullopt, __FILE__, __LINE__);
  Binder context{m, own, nullptr};
  const rd_binder binder{&context, &find, &define, &bind_overload};
  const rd_status status = rd_operators_bind(&binder);
  if (context.failure != nullptr) {
    std::rethrow_exception(context.failure);
  }
  RD_CHECK(status);
  check_all_taken();
}

}  // namespace
}  // namespace rustdev
