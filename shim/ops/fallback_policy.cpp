// Modes, lists and statistics of the CPU fallback, and their interface to Python (rd_shim_fallback_*).
#include "ops/fallback_policy.h"

#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

enum Mode : int32_t { allow = 0, warn = 1, error = 2 };

struct Policy {
  std::shared_mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<FallbackOperator>> operators;
  std::vector<std::unique_ptr<FallbackOperator>> retired;  // of operators that were deregistered; a call may still hold one
  std::unordered_set<std::string> blocked, allowed;
  std::atomic<int32_t> mode{rd_fallback_mode()};
  std::atomic<bool> lists{false};  // whether a list has entries
};

Policy& policy() {
  static Policy* const instance = new Policy;
  return *instance;
}

// An entry names one overload ("aten::sort.stable") or all of them ("aten::sort").
bool listed(const std::unordered_set<std::string>& list, const std::string& name) {
  return list.count(name) != 0 || list.count(name.substr(0, name.find('.'))) != 0;
}

int find_generator(const c10::FunctionSchema& schema) {
  for (size_t index = 0; index < schema.arguments().size(); ++index) {
    if (schema.arguments()[index].type()->str().find("Generator") != std::string::npos) {
      return static_cast<int>(index);
    }
  }
  return -1;
}

void refuse(const FallbackOperator& op, const char* reason) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op.name, "' with arguments from the 'rustdev' backend: it has no kernel ",
                              "for this device, and ", reason);
}

}  // namespace

FallbackOperator::FallbackOperator(const c10::OperatorHandle& op)
    : operator_name(op.operator_name()),
      name(c10::toString(op.operator_name())),
      wait(name + " (computed by PyTorch's CPU kernel, which waits for the device)"),
      seeded(op.hasTag(at::Tag::nondeterministic_seeded)),
      generator_argument(find_generator(op.schema())),
      own_device_lists(op.operator_name().name.find("_foreach_") != std::string::npos),
      guard(find_guard(op.schema())) {}

FallbackOperator& fallback_operator(const c10::OperatorHandle& op) {
  Policy& state = policy();
  const void* const key = &op.operator_name();
  {
    std::shared_lock lock(state.mutex);
    const auto found = state.operators.find(key);
    if (found != state.operators.end() && found->second->operator_name == op.operator_name()) {
      return *found->second;
    }
  }
  std::unique_lock lock(state.mutex);
  auto& entry = state.operators[key];
  // Operators outside aten come and go, and a new one may lie where an old one did.
  if (entry && !(entry->operator_name == op.operator_name())) {
    state.retired.push_back(std::exchange(entry, nullptr));
  }
  if (!entry) {
    entry = std::make_unique<FallbackOperator>(op);
  }
  return *entry;
}

void check_policy(const FallbackOperator& op) {
  Policy& state = policy();
  const int32_t mode = state.mode.load(std::memory_order_relaxed);
  if (C10_LIKELY(mode == allow && !state.lists.load(std::memory_order_relaxed))) {
    return;
  }
  bool blocked = false;
  bool allowed = false;
  {
    std::shared_lock lock(state.mutex);
    blocked = listed(state.blocked, op.name);
    allowed = listed(state.allowed, op.name);
  }
  if (blocked) {
    refuse(op, "it is on the block list of the CPU fallback (torch.rustdev.set_fallback_blocklist).");
  }
  if (mode == error && !allowed) {
    refuse(op, "the fallback mode 'error' forbids its CPU kernel (RUSTDEV_FALLBACK, torch.rustdev.set_fallback_mode).");
  }
  if (mode == warn && !allowed) {
    TORCH_WARN("rustdev: '", op.name, "' has no kernel for this device and runs on the CPU.");
  }
}

}  // namespace rustdev

extern "C" {

typedef void (*rd_shim_visit_name)(void* context, const char* name);
typedef void (*rd_shim_visit_stat)(void* context, const char* name, uint64_t calls, uint64_t nanoseconds);

int32_t rd_shim_fallback_mode() { return rustdev::policy().mode.load(std::memory_order_relaxed); }

void rd_shim_fallback_set_mode(int32_t mode) { rustdev::policy().mode.store(mode, std::memory_order_relaxed); }

// Replaces the block list (allow = false) or the allow list.
void rd_shim_fallback_set_list(bool allow, const char* const* names, size_t count) {
  auto& state = rustdev::policy();
  std::unique_lock lock(state.mutex);
  (allow ? state.allowed : state.blocked) = std::unordered_set<std::string>(names, names + count);
  state.lists.store(!state.allowed.empty() || !state.blocked.empty(), std::memory_order_relaxed);
}

// Visits the entries of the block list (allow = false) or of the allow list.
void rd_shim_fallback_visit_list(bool allow, rd_shim_visit_name visit, void* context) {
  auto& state = rustdev::policy();
  std::shared_lock lock(state.mutex);
  for (const std::string& name : allow ? state.allowed : state.blocked) {
    visit(context, name.c_str());
  }
}

void rd_shim_fallback_visit_stats(rd_shim_visit_stat visit, void* context) {
  auto& state = rustdev::policy();
  std::shared_lock lock(state.mutex);
  for (const auto& [key, op] : state.operators) {
    const uint64_t calls = op->calls.load(std::memory_order_relaxed);
    if (calls != 0) {
      visit(context, op->name.c_str(), calls, op->nanoseconds.load(std::memory_order_relaxed));
    }
  }
}

void rd_shim_fallback_reset_stats() {
  auto& state = rustdev::policy();
  std::shared_lock lock(state.mutex);
  for (const auto& [key, op] : state.operators) {
    op->calls.store(0, std::memory_order_relaxed);
    op->nanoseconds.store(0, std::memory_order_relaxed);
  }
}

}  // extern "C"
