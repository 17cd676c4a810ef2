// Operators that fell back: see fallback_operator.h.
#include "ops/fallback_operator.h"

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check.h"
#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

struct Operators {
  std::shared_mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<FallbackOperator>> found;
  std::vector<std::unique_ptr<FallbackOperator>> retired;  // of operators that were deregistered; a call may still hold one
};

int find_generator(const c10::FunctionSchema& schema) {
  for (size_t index = 0; index < schema.arguments().size(); ++index) {
    if (schema.arguments()[index].type()->str().find("Generator") != std::string::npos) {
      return static_cast<int>(index);
    }
  }
  return -1;
}

const rd_fallback* find_rules(const std::string& name) {
  const rd_fallback* found = nullptr;
  RD_CHECK(rd_fallback_find(name.c_str(), &found));
  return found;
}

}  // namespace

FallbackOperator::FallbackOperator(const c10::OperatorHandle& op)
    : operator_name(op.operator_name()),
      name(c10::toString(op.operator_name())),
      wait(name + " (computed by PyTorch's CPU kernel, which waits for the device)"),
      seeded(op.hasTag(at::Tag::nondeterministic_seeded)),
      generator_argument(find_generator(op.schema())),
      own_device_lists(op.operator_name().name.find("_foreach_") != std::string::npos),
      guard(find_guard(op.schema())),
      rules(find_rules(name)) {}

const FallbackOperator& fallback_operator(const c10::OperatorHandle& op) {
  static Operators& operators = *new Operators;
  const void* const key = &op.operator_name();
  {
    std::shared_lock lock(operators.mutex);
    const auto found = operators.found.find(key);
    if (found != operators.found.end() && found->second->operator_name == op.operator_name()) {
      return *found->second;
    }
  }
  std::unique_lock lock(operators.mutex);
  auto& entry = operators.found[key];
  // Operators outside aten come and go, and a new one may lie where an old one did.
  if (entry && !(entry->operator_name == op.operator_name())) {
    operators.retired.push_back(std::exchange(entry, nullptr));
  }
  if (!entry) {
    entry = std::make_unique<FallbackOperator>(op);
  }
  return *entry;
}

}  // namespace rustdev
