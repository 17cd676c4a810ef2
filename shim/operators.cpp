// Operators that are bound in Rust: one boxed kernel for all of them. It hands the arguments over, and makes the outputs, copies
// and metas that it is asked for. Rust launches a kernel of ours, or leaves it to this file to enqueue PyTorch's as a task. A call
// that Rust does not take goes to the CPU fallback.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/cpu/Utils.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <memory>

#include "awaited.h"
#include "binding.h"
#include "boxed_values.h"
#include "metas.h"
#include "ops/aten_operator.h"
#include "ops/factory.h"
#include "ops/fallback.h"
#include "ops/tier.h"
#include "outputs.h"
#include "runtime/generator.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

// One overload, and which of its arguments are written to.
struct Overload {
  const rd_operator* bound;
  c10::OperatorHandle functional;
  // PyTorch's kernel, where that computes; else null.
  const AtenOperator* aten;
  Meta meta;
  size_t arguments = 0;
  // Those of `out=` are behind all others and are no inputs; an in-place variant's is the first one and an input too.
  size_t given = 0;
  bool inplace = false;

  Overload(const rd_operator* bound, const c10::OperatorHandle& op, const c10::OperatorHandle& functional, const AtenOperator* aten)
      : bound(bound),
        functional(functional),
        aten(aten),
        meta(find_meta(functional.operator_name())),
        arguments(op.schema().arguments().size()) {
    for (const c10::Argument& argument : op.schema().arguments()) {
      if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) {
        ++given;
        inplace = !argument.kwarg_only() && !argument.is_out();
      }
    }
  }

  size_t inputs() const { return inplace ? arguments : arguments - given; }
  size_t results() const { return functional.schema().returns().size(); }
};

// One call.
class OperatorCall final : MetaOutputs {
 public:
  OperatorCall(const Overload& overload, at::ArrayRef<c10::IValue> arguments) : overload_(overload), arguments_(arguments) {}

  rd_status run() {
    const at::ArrayRef<c10::IValue> inputs = arguments_.slice(0, overload_.inputs());
    const BoxedValues values(inputs);
    const rd_caller caller{this, &meta, &output, &given, &empty, &dense, &call, &read, &draw, &leave_to_task};
    const rd_status status = rd_operator_call(overload_.bound, values.data(), values.size(), &caller);
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return status;
  }

  // Has PyTorch's kernel run, and puts the results in the place of the arguments.
  void finish(Stack& stack) {
    outputs_.resize(overload_.results());
    if (overload_.aten != nullptr && (cut_ || !overload_.aten->task.optional)) {
      submit_boxed(*overload_.aten, std::move(checked_), outputs_, cut_);
    }
    c10::SmallVector<c10::IValue, 4> results;
    for (size_t index = 0; index < outputs_.size(); ++index) {
      const at::Tensor target = given(index);
      // An output that was not asked for has been written to where it is.
      if (target.defined() && outputs_[index].defined() && !target.is_same(outputs_[index])) {
        target.copy_(outputs_[index]);
      }
      results.emplace_back(target.defined() ? target : std::move(outputs_[index]));
    }
    torch::jit::drop(stack, overload_.arguments);
    stack.insert(stack.end(), std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  }

 private:
  // Runs a body for Rust: an exception is kept, and thrown again behind the call.
  template <class Body>
  static rd_status guarded(void* context, const Body& body) {
    auto& call = *static_cast<OperatorCall*>(context);
    try {
      body(call);
      return RD_OK;
    } catch (...) {
      call.failure_ = std::current_exception();
      return RD_INTERNAL;
    }
  }

  static rd_status meta(void* context, const char* name, rd_tensor* shapes, size_t capacity, size_t* count) {
    return guarded(context, [&](OperatorCall& call) {
      call.check();
      call.run_meta(name == nullptr ? call.overload_.meta : find_meta(find_operator(name).operator_name()));
      *count = std::min(call.shapes_.size(), capacity);
      for (size_t index = 0; index < *count; ++index) {
        shapes[index] = described(call.shapes_[index]);
      }
    });
  }

  static rd_status output(void* context, size_t index, const rd_tensor* shape, int32_t strides, rd_tensor* made) {
    return guarded(context, [&](OperatorCall& call) {
      call.check();
      *made = described(call.make_output(index, *shape, strides));
    });
  }

  static rd_status given(void* context, size_t index, rd_tensor* found) {
    return guarded(context, [&](OperatorCall& call) {
      const at::Tensor target = call.given(index);
      if (target.defined()) {
        *found = described(target);
      }
    });
  }

  static rd_status empty(void* context, const rd_tensor* shape, rd_tensor* made) {
    return guarded(context, [&](OperatorCall& call) { *made = described(call.keep(call.make(*shape))); });
  }

  static rd_status dense(void* context, const rd_tensor* tensor, int32_t format, rd_tensor* made) {
    return guarded(context, [&](OperatorCall& call) {
      *made = described(call.keep(tensor_of(*tensor).contiguous(static_cast<at::MemoryFormat>(format))));
    });
  }

  static rd_status call(void* context, const char* name, const rd_value* arguments, size_t count, rd_tensor* results,
                        size_t capacity) {
    return guarded(context, [&](OperatorCall& call) {
      Stack stack;
      std::transform(arguments, arguments + count, std::back_inserter(stack), &boxed);
      find_operator(name).callBoxed(stack);
      for (size_t index = 0; index < std::min(capacity, stack.size()); ++index) {
        results[index] = described(call.keep(stack[index].toTensor()));
      }
    });
  }

  // The guard looks at the arguments of a task before a meta does, which may rely on them.
  void check() {
    if (overload_.aten != nullptr && !overload_.aten->task.optional) {
      keep_arguments();
    }
  }

  // Keeps the arguments of a task as the guard leaves them.
  void keep_arguments() {
    if (checked_.empty()) {
      checked_ = arguments_.vec();
      check_arguments(*overload_.aten, checked_);
    }
  }

  static rd_status read(void* context, const rd_tensor* tensor, const char* reason, int64_t* value) {
    return guarded(context, [&](OperatorCall&) { *value = awaited<int64_t>(tensor_of(*tensor), reason); });
  }

  static rd_status draw(void* context, void* generator, uint64_t count, rd_scalar* state) {
    return guarded(context, [&](OperatorCall& call) {
      const std::array<rd_scalar, 2> drawn = draw_state(generator_at(generator), call.device(), count);
      std::copy(drawn.begin(), drawn.end(), state);
    });
  }

  static rd_status leave_to_task(void* context, const rd_cut* cut) {
    return guarded(context, [&](OperatorCall& call) {
      call.keep_arguments();
      call.cut_ = *cut;
    });
  }

  void run_meta(Meta meta) {
    TORCH_INTERNAL_ASSERT(meta != nullptr, "rustdev: no meta is listed for ", overload_.functional.operator_name());
    // Metas keep references to outputs that they set later.
    outputs_.resize(overload_.results());
    for (size_t index = 0; index < outputs_.size(); ++index) {
      outputs_[index] = given(index);
    }
    Stack inputs(arguments_.begin(), arguments_.begin() + static_cast<std::ptrdiff_t>(overload_.inputs()));
    meta(inputs, *this);
  }

  const at::Tensor& get(int64_t index) const override {
    static const at::Tensor none;
    return static_cast<size_t>(index) < outputs_.size() ? outputs_[index] : none;
  }

  void set(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) override {
    shapes_.resize(std::max(shapes_.size(), static_cast<size_t>(index) + 1));
    shapes_[index] = {at::DimVector(sizes), at::DimVector(strides), dtype};
    make_output(index, described(shapes_[index]), /*strides=*/0);
  }

  // What a meta says of an output.
  struct Shape {
    at::DimVector sizes, strides;
    at::ScalarType dtype = at::kFloat;
  };

  static rd_tensor described(const Shape& shape) {
    const auto ndim = static_cast<int32_t>(shape.sizes.size());
    return {nullptr, nullptr, shape.sizes.data(), shape.strides.data(), ndim, static_cast<int32_t>(shape.dtype), -1, 0};
  }
  static rd_tensor described(const at::Tensor& tensor) { return rustdev::described(tensor); }

  at::Device device() const {
    for (const c10::IValue& argument : arguments_) {
      if (argument.isTensor() && on_device(argument.toTensor())) {
        return argument.toTensor().device();
      }
      if (argument.isDevice()) {
        return argument.toDevice();
      }
    }
    return {device_type, static_cast<c10::DeviceIndex>(rd_device_current())};
  }

  at::Tensor make(const rd_tensor& shape) const {
    return new_empty_strided(sizes_of(shape), strides_of(shape), static_cast<at::ScalarType>(shape.dtype), device());
  }

  at::Tensor& keep(at::Tensor tensor) { return kept_.emplace_back(std::move(tensor)); }

  // The caller's tensor for an output; undefined in the functional variant.
  at::Tensor given(size_t index) const {
    if (overload_.given == 0) {
      return {};
    }
    return arguments_[overload_.inplace ? 0 : overload_.inputs() + index].toTensor();
  }

  const at::Tensor& make_output(size_t index, const rd_tensor& shape, int32_t strides) {
    outputs_.resize(std::max(outputs_.size(), index + 1));
    at::Tensor& result = outputs_[index];
    const at::Tensor target = given(index);
    if (!target.defined()) {
      const auto dtype = static_cast<at::ScalarType>(shape.dtype);
      if (!result.defined() || result.scalar_type() != dtype || result.sizes() != sizes_of(shape) ||
          result.strides() != strides_of(shape)) {
        result = make(shape);
      }
      return result;
    }
    result = target;
    const auto options = at::TensorOptions(device()).dtype(static_cast<at::ScalarType>(shape.dtype));
    if (overload_.inplace) {
      check_inplace(result, sizes_of(shape), options);
    } else {
      resize_out(result, sizes_of(shape), strides_of(shape), options);
      at::assert_no_internal_overlap(result);
    }
    if (result.strides() != strides_of(shape)) {
      if (strides == 1) {
        result = make(shape);
      } else if (strides == 2) {
        result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_of(shape), strides_of(shape));
      }
    }
    return result;
  }

  const Overload& overload_;
  at::ArrayRef<c10::IValue> arguments_;
  c10::SmallVector<Shape, 2> shapes_;
  Stack checked_;
  c10::SmallVector<at::Tensor, 2> outputs_;
  // Tensors of the call alone. Memory that they free is reused in the stream's order.
  c10::SmallVector<at::Tensor, 4> kept_;
  // Where a task is optional: how it computes this call.
  std::optional<rd_cut> cut_;
  std::exception_ptr failure_;
};

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const Overload& overload) : overload_(overload) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const auto rounded = overload_.aten == nullptr ? std::nullopt : widen(*overload_.aten, *stack);
    run(op, stack);
    if (rounded) {
      narrow(*overload_.aten, *stack, *rounded);
    }
  }

 private:
  void run(const c10::OperatorHandle& op, Stack* stack) const {
    OperatorCall call(overload_, torch::jit::last(*stack, overload_.arguments));
    const rd_status status = call.run();
    if (C10_UNLIKELY(status == RD_FALLBACK)) {
      cpu_fallback(op, c10::DispatchKeySet(), stack);
      return;
    }
    RD_CHECK(status);
    call.finish(*stack);
  }

  Overload overload_;
};

void bind_overload(void* context, const rd_operator* bound, const char* name, const char* functional, const rd_task* task) {
  const AtenOperator* const aten = task == nullptr ? nullptr : find_aten(name, *task);
  const Overload overload(bound, find_operator(name), find_operator(functional), aten);
  Tier tier(*static_cast<torch::Library*>(context), "aten", /*noted=*/aten != nullptr && !task->optional);
  tier.impl(name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(overload)));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { RD_CHECK(rd_operators_visit(&bind_overload, &m)); }

}  // namespace
}  // namespace rustdev

extern "C" {

bool rd_shim_has_mkl() { return at::hasMKL(); }

bool rd_shim_has_amx() {
  static const bool has_amx = at::cpu::get_cpu_capabilities()["amx_tile"].toBool();
  return has_amx;
}

bool rd_shim_is_deterministic() { return at::globalContext().deterministicAlgorithms(); }

}  // extern "C"
