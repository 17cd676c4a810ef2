// Zero-copy CPU fallback: an operator without a kernel in the operator table runs PyTorch's CPU kernel on aliases of the same
// memory.
//
// One call: alias the arguments and check their devices, ask the rules, wait for the current streams of the devices concerned,
// check what the kernel does not (fallback_guard.h), run it on the caller's thread, carry changes back, map the results. It is
// registered explicitly for every operator with a CPU kernel, because a composite kernel would take precedence over a backend's
// fallback, and as the fallback for all others.
#include "ops/fallback.h"
#include "runtime/sync_debug.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "ops/fallback_alias.h"
#include "ops/fallback_guard.h"
#include "ops/fallback_operator.h"
#include "ops/fallback_random.h"
#include "ops/tier.h"
#include "runtime/ipc.h"
#include "tensor.h"

namespace rustdev {
namespace {

using c10::DispatchKey;
using c10::IValue;

constexpr std::pair<DispatchKey, DispatchKey> key_pairs[] = {
    {DispatchKey::PrivateUse1, DispatchKey::CPU},
    {DispatchKey::SparsePrivateUse1, DispatchKey::SparseCPU},
    {DispatchKey::SparseCsrPrivateUse1, DispatchKey::SparseCsrCPU},
    {DispatchKey::QuantizedPrivateUse1, DispatchKey::QuantizedCPU},
    {DispatchKey::NestedTensorPrivateUse1, DispatchKey::NestedTensorCPU},
};

// The arguments that live on the CPU for a device's operators too.
bool stays_on_cpu(const FallbackOperator& op, const c10::Argument& argument) {
  const std::string& name = argument.name();
  if (name == "indices") {
    return op.name.find("index") != std::string::npos;
  }
  return name.find("lengths") != std::string::npos || name == "batch_sizes" || name.rfind("nested_", 0) == 0 ||
         (name == "offsets" && op.name.find("_nested_") != std::string::npos);
}

// One call on its way to the CPU.
class Call {
 public:
  Call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, const FallbackOperator& facts, torch::jit::Stack& stack)
      : schema_(op.schema()),
        facts_(facts),
        stack_(stack),
        first_(stack.size() - schema_.arguments().size()),
        keys_(on_cpu(keys)) {}

  // Replaces tensors by aliases, devices by the CPU.
  void map_arguments() {
    for (size_t index = 0; index < schema_.arguments().size(); ++index) {
      argument_ = &schema_.arguments()[index];
      map_argument(stack_[first_ + index]);
    }
    if (devices_.empty()) {
      device_ = current_device();
    }
    check_host_tensors();
  }

  // Gives the operator random numbers that come from the device's generator; keeps the scope of those where it has to be left.
  std::unique_ptr<DerivedSeed> map_generators() {
    if (facts_.generator_argument >= 0) {
      IValue& value = stack_[first_ + facts_.generator_argument];
      value = derived_generator(value.isNone() ? at::Generator() : value.toGenerator(), device_);
      return nullptr;
    }
    return facts_.seeded ? std::make_unique<DerivedSeed>(device_) : nullptr;
  }

  // The call as a wait of the host, which computes too. Without arguments of the device it waits for the memory of its results.
  WaitInfo wait_info() const { return {WaitKind::fallback, static_cast<int32_t>(device_.index()), facts_.name.c_str()}; }

  // Where a stream captures, this refuses the call.
  void wait() const {
    for (const int32_t device : devices_) {
      synchronize_current_stream(device, facts_.wait.c_str());
    }
    for (const Access& access : accesses_) {
      RD_CHECK(rd_sanitizer_host_access(facts_.name.c_str(), access.begin, access.bytes, access.write));
    }
  }

  // Refuses arguments that the kernel would not survive; their values are read.
  void check_arguments() {
    if (facts_.guard != nullptr) {
      const HostAccess access;
      rustdev::check_arguments(facts_.guard, schema_, stack_, /*has_values=*/true);
    }
  }

  c10::DispatchKeySet keys() const { return keys_; }

  at::Device device() const { return device_; }

  // Puts device tensors in the place of the results.
  void map_results() {
    aliases_.write_back();
    const size_t count = schema_.returns().size();
    for (size_t index = stack_.size() - count; index < stack_.size(); ++index) {
      map_result(stack_[index]);
    }
  }

 private:
  void map_argument(IValue& value) {
    if (value.isTensor()) {
      value = alias(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (at::Tensor& tensor : list) {
        tensor = alias(tensor);
      }
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
        list.push_back(tensor ? std::optional<at::Tensor>(alias(*tensor)) : std::nullopt);
      }
      value = std::move(list);
    } else if (value.isDevice() && value.toDevice().type() == device_type) {
      note_device(value.toDevice());
      value = at::Device(at::kCPU);
    }
  }

  at::Tensor alias(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return tensor;
    }
    if (!on_device(tensor)) {
      if (tensor.is_cpu() && tensor.dim() != 0 && !stays_on_cpu(facts_, *argument_)) {
        host_tensor_ = true;
      }
      return tensor;
    }
    note_device(tensor.device());
    if (C10_UNLIKELY(rd_sanitizer_is_on())) {
      note_access(tensor);
    }
    return aliases_.to_cpu(tensor);
  }

  // What the kernel will do to a dense tensor, for the race detector.
  void note_access(const at::Tensor& tensor) {
    if (tensor.layout() == at::kStrided && tensor.has_storage() && tensor.numel() != 0) {
      const at::Tensor memory = distinct(tensor);
      const auto bytes = at::detail::computeStorageNbytes(memory.sizes(), memory.strides(), memory.itemsize());
      const auto* alias = argument_->alias_info();
      accesses_.push_back({data_of(tensor), bytes, alias != nullptr && alias->isWrite()});
    }
  }

  void note_device(at::Device device) {
    if (!device.has_index()) {
      device = current_device();
    }
    if (devices_.empty()) {
      device_ = device;
    } else if (device_ != device && !facts_.own_device_lists) {
      mixed(device_, device);
    }
    if (std::find(devices_.begin(), devices_.end(), device.index()) == devices_.end()) {
      devices_.push_back(device.index());
    }
  }

  static at::Device current_device() { return {device_type, static_cast<c10::DeviceIndex>(rd_device_current())}; }

  void check_host_tensors() const {
    if (host_tensor_ && !devices_.empty()) {
      mixed(device_, at::Device(at::kCPU));
    }
  }

  [[noreturn]] void mixed(at::Device first, at::Device second) const {
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", first, " and ", second,
                "! (when checking arguments of ", facts_.name, ")");
  }

  // The keys that select the CPU kernel, for those that selected the device.
  static c10::DispatchKeySet on_cpu(c10::DispatchKeySet keys) {
    c10::DispatchKeySet result(DispatchKey::CPU);
    for (const auto& [device_key, cpu_key] : key_pairs) {
      if (keys.has(device_key)) {
        result = result | c10::DispatchKeySet(cpu_key);
      }
    }
    return result;
  }

  void map_result(IValue& value) {
    if (value.isTensor()) {
      value = aliases_.to_device(value.toTensor(), device_);
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (at::Tensor& tensor : list) {
        tensor = aliases_.to_device(tensor, device_);
      }
      value = std::move(list);
    }
  }

  struct Access {
    const void* begin;
    size_t bytes;
    bool write;
  };

  const c10::FunctionSchema& schema_;
  const FallbackOperator& facts_;
  torch::jit::Stack& stack_;
  size_t first_;
  const c10::Argument* argument_ = nullptr;
  Aliases aliases_;
  std::vector<Access> accesses_;
  // That of the arguments: the first of `devices_`; the current one where they name none.
  at::Device device_{device_type};
  c10::SmallVector<int32_t, 2> devices_;
  c10::DispatchKeySet keys_;
  bool host_tensor_ = false;
};

uint64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The kernel's entry in a trace, where one is taken.
class Traced {
 public:
  Traced(at::Device device, const FallbackOperator& op) : call_(rd_trace_call_begin(device.index(), op.name.c_str())) {}
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;
  ~Traced() { rd_trace_call_end(call_, failed_); }
  void succeed() { failed_ = false; }

 private:
  rd_trace_call* call_;
  bool failed_ = true;
};

// Refuses or warns, as mode and lists say of this operator.
void check_rules(const FallbackOperator& op) {
  bool warns = false;
  RD_CHECK(rd_fallback_check(op.rules, &warns));
  if (warns) {
    TORCH_WARN("rustdev: '", op.name, "' has no kernel for this device and runs on the CPU.");
  }
}

void check_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(keys.highestPriorityTypeId()), "Could not run '",
                              op.operator_name(), "' with arguments from the 'rustdev' backend: neither the device nor the ",
                              "CPU has a kernel for it.");
}

}  // namespace

void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const FallbackOperator& facts = fallback_operator(op);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Call call(op, keys, facts, *stack);
  call.map_arguments();
  check_rules(facts);
  check_kernel(op, call.keys());
  const HostWait host_wait(call.wait_info());
  call.wait();
  const auto seed = call.map_generators();
  call.check_arguments();
  const uint64_t start = now();
  {
    Traced traced(call.device(), facts);
    const HostAccess access;
    op.redispatchBoxed(call.keys(), stack);
    traced.succeed();
  }
  rd_fallback_count(facts.rules, now() - start);
  call.map_results();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }

}  // namespace rustdev

extern "C" {

typedef void (*rd_shim_visit_tier)(void* context, const char* name, const char* tier);

// Registers the fallback for every operator that has a CPU kernel and none of ours. Called once, after all kernels of ours are
// registered, those in Python (python/rustdev/_ops/) too.
void rd_shim_fallback_register() {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto names = dispatcher.getAllOpNames();
  // Never destroyed: the kernels stay registered to the end of the process.
  static auto* const libraries = new std::deque<torch::Library>;
  for (const auto& [device_key, cpu_key] : rustdev::key_pairs) {
    torch::Library& library = libraries->emplace_back(torch::Library::IMPL, "aten", device_key, __FILE__, __LINE__);
    rustdev::Tier tier(library, "fallback", device_key == c10::DispatchKey::PrivateUse1);
    for (const c10::OperatorName& name : names) {
      const auto op = dispatcher.findSchema(name);
      if (name.name.rfind("aten::", 0) == 0 && op && !op->hasKernelForDispatchKey(device_key) &&
          op->hasKernelForDispatchKey(cpu_key)) {
        tier.impl(c10::toString(name).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&rustdev::cpu_fallback>());
      }
    }
  }
}

// Every operator whose kernel on the device's key is not a Rust kernel.
void rd_shim_tiers_visit(rd_shim_visit_tier visit, void* context) {
  for (const auto& [name, tier] : rustdev::tiers()) {
    visit(context, name.c_str(), tier);
  }
}

}  // extern "C"
