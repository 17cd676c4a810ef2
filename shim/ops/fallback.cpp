// Zero-copy CPU fallback: an operator without a kernel in the operator table runs PyTorch's CPU kernel on aliases of the same
// memory.
//
// A call aliases the arguments, has Rust check their devices and the rules, waits for the current streams of the devices concerned,
// runs the guard and then the kernel on the caller's thread, writes changes back, and maps the results. It is
// registered explicitly for every operator with a CPU kernel, because a composite kernel would take precedence over a backend's
// fallback, and as the fallback for all others.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/nan_to_num.h>

#include <deque>
#include <mutex>

#include "boxed_values.h"
#include "ops/cpu_kernels.h"
#include "ops/fallback_alias.h"
#include "ops/tier.h"
#include "runtime/runtime.h"
#include "runtime/sync_debug.h"

namespace rustdev {
namespace {

using c10::DispatchKey;
using c10::IValue;

constexpr DispatchKey kinds[] = {DispatchKey::Dense, DispatchKey::Sparse, DispatchKey::SparseCsr, DispatchKey::Quantized,
                                 DispatchKey::NestedTensor};

// The CPU's dispatch keys for the device's.
c10::DispatchKeySet on_cpu(c10::DispatchKeySet keys) {
  c10::DispatchKeySet result(DispatchKey::CPU);
  for (const DispatchKey kind : kinds) {
    if (keys.has(key_of(kind, device_backend))) {
      result = result.add(key_of(kind, cpu_backend));
    }
  }
  return result;
}

bool is_written(const c10::Argument& argument) { return argument.alias_info() != nullptr && argument.alias_info()->isWrite(); }

bool is_generator(const c10::Argument& argument) {
  const auto* const optional = argument.type()->castRaw<c10::OptionalType>();
  return (optional != nullptr ? *optional->getElementType() : *argument.type()).kind() == c10::TypeKind::GeneratorType;
}

// Replaces each tensor of a value by `convert` of it.
template <class Convert>
void replace(IValue& value, const Convert& convert) {
  if (value.isTensor()) {
    value = convert(value.toTensor());
  } else if (value.isTensorList()) {
    auto list = value.toTensorVector();
    std::transform(list.begin(), list.end(), list.begin(), convert);
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::optional<at::Tensor>(convert(*tensor)) : std::nullopt);
    }
    value = std::move(list);
  }
}

// Refuses a sparse tensor on the CPU, an argument or a result of an operator's call, that its kernel would not survive.
void check_sparse(const rd_fallback* op, const at::Tensor& tensor) {
  torch::jit::Stack members{c10::str(tensor.layout()), tensor.sizes()};
  if (tensor.is_sparse()) {
    auto* impl = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    members.insert(members.end(), {c10::IValue(), impl->indices(), impl->values()});
  } else {
    auto* impl = static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
    members.insert(members.end(), {impl->compressed_indices(), impl->plain_indices(), impl->values()});
  }
  const BoxedValues values(members);
  RD_CHECK(rd_fallback_check_sparse(op, values.data(), values.size()));
}

// A seed for the CPU from the next state of a device generator, which is advanced.
uint64_t next_seed(const std::optional<at::Generator>& given, at::Device device) {
  return rd_generator_derive_seed(generator_state(given, device));
}

// For operators without a Generator argument: seeds the CPU's default generator from the device's for a scope, then restores its
// state.
class DerivedSeed {
 public:
  explicit DerivedSeed(at::Device device) : generator_(at::detail::getDefaultCPUGenerator()) {
    const uint64_t seed = next_seed(std::nullopt, device);
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.unsafeGetGeneratorImpl()->get_state();
    generator_.set_current_seed(seed);
  }
  DerivedSeed(DerivedSeed&&) = delete;
  ~DerivedSeed() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.unsafeGetGeneratorImpl()->set_state(*state_);
  }

 private:
  at::Generator generator_;
  c10::intrusive_ptr<c10::TensorImpl> state_;
};

// The kernel's entry in traces and statistics.
using Run = Owned<rd_fallback_run, [](rd_fallback_run* run) { rd_fallback_run_end(run, std::uncaught_exceptions() != 0); }>;

// One call on its way to the CPU.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack, bool expects_error)
      : op_(op), schema_(op.schema()), known_(fallback_operator(op)), stack_(stack), expects_error_(expects_error) {}

  // Replaces tensors by aliases, devices by the CPU. Refuses tensors on several devices, and what the rules forbid.
  void map_arguments() {
    IValue* value = stack_.data() + stack_.size() - schema_.arguments().size();
    for (const c10::Argument& argument : schema_.arguments()) {
      if (value->isDevice() && value->toDevice().type() == device_type) {
        note_device(value->toDevice());
        *value = at::Device(at::kCPU);
      }
      replace(*value, [&](const at::Tensor& tensor) { return alias(tensor, argument); });
      generator_ = is_generator(argument) ? value : generator_;
      ++value;
    }
    begin(expects_error_);
  }

  // The call as a wait of the host, for reports. Without device arguments it waits only for the memory of its results.
  rd_wait wait_info() const { return {RD_WAIT_FALLBACK, device_.index(), rd_fallback_name(known_)}; }

  void wait() const { RD_CHECK(rd_fallback_wait(known_, devices_.data(), devices_.size(), accesses_.data(), accesses_.size())); }

  // Seeds the operator's random numbers from the device's generator: by its Generator argument, or by the returned scope.
  std::unique_ptr<DerivedSeed> map_generators() {
    if (generator_ != nullptr) {
      const auto given = generator_->isNone() ? std::nullopt : std::optional<at::Generator>(generator_->toGenerator());
      // An error draws nothing.
      *generator_ = at::detail::createCPUGenerator(expects_error_ ? c10::default_rng_seed_val : next_seed(given, device_));
      return nullptr;
    }
    const bool draws = !expects_error_ && op_.hasTag(at::Tag::nondeterministic_seeded);
    return draws ? std::make_unique<DerivedSeed>(device_) : nullptr;
  }

  // For a dry run: makes results of the sizes that PyTorch's Meta kernel computes from `given`, the call's arguments before they
  // were mapped. Returns false, with nothing done, if there is no such kernel, it fails, or a tensor is not dense.
  bool run_on_meta(const torch::jit::Stack& given) {
    constexpr c10::DispatchKeySet keys(DispatchKey::Meta);
    torch::jit::Stack stack(given.end() - static_cast<std::ptrdiff_t>(schema_.arguments().size()), given.end());
    bool is_dense = true;
    Aliases aliases(meta_backend);
    for (size_t index = 0; index < stack.size(); ++index) {
      IValue& value = stack[index];
      if (value.isDevice() && value.toDevice().type() == device_type) {
        value = at::Device(at::kMeta);
      } else if (is_generator(schema_.arguments()[index])) {
        value = IValue();
      }
      replace(value, [&](const at::Tensor& tensor) {
        is_dense &= !tensor.defined() || (tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor.is_quantized());
        return is_dense && on_device(tensor) ? aliases.to_cpu(tensor) : tensor;
      });
    }
    if (!is_dense || !op_.hasComputedKernelForDispatchKey(DispatchKey::Meta)) {
      return false;
    }
    try {
      op_.redispatchBoxed(keys, &stack);
    } catch (const std::exception&) {
      return false;
    }
    const Run run(rd_fallback_run_begin(known_, device_.index()));
    aliases.write_back();
    for (IValue& value : stack) {
      replace(value, [&](const at::Tensor& tensor) { return aliases.to_device(tensor, device_); });
    }
    torch::jit::drop(stack_, schema_.arguments().size());
    stack_.insert(stack_.end(), stack.begin(), stack.end());
    return true;
  }

  // Throws for arguments that would crash the kernel; reads their values.
  void check_arguments() {
    for (const at::Tensor& tensor : sparse_) {
      const HostAccess access;
      check_sparse(known_, tensor);
    }
    if (const rd_guard* const guard = rd_fallback_guard(known_)) {
      const HostAccess access;
      rustdev::check_arguments(guard, schema_, stack_);
    }
  }

  void run(c10::DispatchKeySet keys) {
    const Run run(rd_fallback_run_begin(known_, device_.index()));
    const HostAccess access;
    op_.redispatchBoxed(keys, &stack_);
    if (C10_UNLIKELY(expects_error_)) {
      begin(false);  // The kernel takes the arguments after all.
    }
  }

  // Replaces the results by device tensors.
  void map_results() {
    aliases_.write_back();
    for (size_t index = stack_.size() - schema_.returns().size(); index < stack_.size(); ++index) {
      replace(stack_[index], [&](const at::Tensor& tensor) {
        if (C10_UNLIKELY(tensor.defined() && tensor.is_cpu() && is_sparse_layout(tensor))) {
          const HostAccess access;
          check_sparse(known_, tensor);
        }
        return aliases_.to_device(tensor, device_);
      });
    }
  }

 private:
  // Checks the devices and, unless the kernel is expected to fail, the rules.
  void begin(bool expects_error) {
    int32_t device = 0;
    bool warns = false;
    RD_CHECK(rd_fallback_begin(known_, devices_.data(), devices_.size(), with_host_, expects_error, &device, &warns));
    device_.set_index(static_cast<c10::DeviceIndex>(device));
    if (warns) {
      TORCH_WARN(rd_backend_name(), ": '", rd_fallback_name(known_), "' has no kernel for this device and runs on the CPU.");
    }
  }

  at::Tensor alias(const at::Tensor& tensor, const c10::Argument& argument) {
    if (!on_device(tensor)) {
      with_host_ |=
          tensor.defined() && tensor.is_cpu() && tensor.dim() != 0 && !rd_fallback_takes_host(known_, argument.name().c_str());
      return tensor;
    }
    note_device(tensor.device());
    // The kernel's access to a dense tensor, for the race detector.
    if (C10_UNLIKELY(rd_sanitizer_is_on()) && tensor.layout() == at::kStrided && tensor.has_storage() && tensor.numel() != 0) {
      accesses_.push_back(access_of(tensor, is_written(argument)));
    }
    const at::Tensor alias = aliases_.to_cpu(tensor);
    if (C10_UNLIKELY(is_sparse_layout(alias))) {
      sparse_.push_back(alias);
    }
    return alias;
  }

  void note_device(at::Device device) { devices_.push_back(device.has_index() ? device.index() : rd_device_current()); }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  const rd_fallback* known_;
  torch::jit::Stack& stack_;
  Aliases aliases_;
  // Sparse arguments, whose indices the guard checks.
  c10::SmallVector<at::Tensor, 1> sparse_;
  // Devices of the arguments, in their order.
  c10::SmallVector<int32_t, 6> devices_;
  c10::SmallVector<rd_access, 1> accesses_;
  // The device of the results.
  at::Device device_{device_type};
  IValue* generator_ = nullptr;
  bool with_host_ = false;
  // True if the kernel is to raise its error; then the rules do not matter.
  const bool expects_error_;
};

}  // namespace

const rd_fallback* fallback_operator(const c10::OperatorHandle& op) {
  const char* const name = op.operator_name().name.c_str();
  const char* const overload = op.operator_name().overload_name.c_str();
  const rd_fallback* found = rd_fallback_find(name, overload);
  if (C10_UNLIKELY(found == nullptr)) {
    c10::SmallVector<rd_argument, 12> arguments;
    for (const c10::Argument& argument : op.schema().arguments()) {
      arguments.push_back({argument.name().c_str(), is_written(argument)});
    }
    RD_CHECK(rd_fallback_make(name, overload, arguments.data(), arguments.size(), &found));
  }
  return found;
}

void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  const size_t count = schema.arguments().size();
  const BoxedValues values(torch::jit::last(stack, count));
  rd_change change{};
  RD_CHECK(rd_guard_check(guard, values.data(), values.size(), &change));
  if (change.kind != RD_CHANGE_NONE) {
    c10::IValue& value = torch::jit::peek(stack, change.argument, count);
    value = change.kind == RD_CHANGE_CONTIGUOUS
                ? value.toTensor().contiguous()
                : at::nan_to_num(value.toTensor(), change.numbers[0], change.numbers[1], change.numbers[2]);
  }
}

template <bool expects_error>
void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::DispatchKeySet cpu_keys = on_cpu(keys);
  const bool is_empty = C10_UNLIKELY(is_dry()) && !expects_error;
  const torch::jit::Stack given = is_empty ? *stack : torch::jit::Stack();
  Call call(op, *stack, expects_error);
  call.map_arguments();
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(cpu_keys.highestPriorityTypeId()), "Could not run '",
                              op.operator_name(), "' with arguments from the '", rd_backend_name(),
                              "' backend: neither the device nor the CPU has a kernel for it.");
  const HostWait host_wait(call.wait_info());
  call.wait();
  const auto seed = call.map_generators();
  if (is_empty && call.run_on_meta(given)) {
    return;
  }
  call.check_arguments();
  call.run(cpu_keys);
  call.map_results();
}

template void cpu_fallback<false>(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*);
template void cpu_fallback<true>(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*);

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback<false>>()); }
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback<false>>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback<false>>()); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback<false>>()); }
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback<false>>()); }

// Registers the fallback for every operator that has a CPU kernel and no kernel on the device. Called after all other
// registrations, including Python's (python/rustdev/_ops/).
static void register_fallback() {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto names = dispatcher.getAllOpNames();
  // Never destroyed: the kernels stay registered to the end of the process.
  static auto* const libraries = new std::deque<torch::Library>;
  for (const c10::DispatchKey kind : kinds) {
    const c10::DispatchKey device_key = key_of(kind, device_backend);
    const c10::DispatchKey cpu_key = key_of(kind, cpu_backend);
    torch::Library& library = libraries->emplace_back(torch::Library::IMPL, "aten", device_key, __FILE__, __LINE__);
    const char* const tier = device_key == c10::DispatchKey::PrivateUse1 ? "fallback" : nullptr;
    for (const c10::OperatorName& name : names) {
      const auto op = dispatcher.findSchema(name);
      if (name.name.rfind("aten::", 0) == 0 && op && !op->hasKernelForDispatchKey(device_key) &&
          op->hasKernelForDispatchKey(cpu_key)) {
        impl(library, tier, c10::toString(name).substr(6).c_str(),
             torch::CppFunction::makeFromBoxedFunction<&cpu_fallback<false>>());
      }
    }
  }
}

static c10::Dict<std::string, std::string> operator_tiers() {
  c10::Dict<std::string, std::string> result;
  for (const auto& [name, tier] : tiers()) {
    result.insert(name, tier);
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("_register_fallback() -> ()", &register_fallback);
  m.def("_operator_tiers() -> Dict(str, str)", &operator_tiers);
}

}  // namespace rustdev
