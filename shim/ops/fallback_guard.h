// Guards of the CPU fallback: checks of preconditions that PyTorch's CPU kernels do not check themselves.
//
// A call that breaks it would read or write outside of its tensors' memory and end the process. A guard refuses it before the
// kernel runs, and no other: what a kernel checks itself is left to the kernel. tools/fuzz_fallback.py finds what needs a guard.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace rustdev {

// The arguments of a call by their names in the schema. Tensors are those that the CPU kernel gets. Before a task they have no
// values yet: a guard then checks sizes and dtypes, and the values when it runs in the task.
class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, torch::jit::Stack& stack, bool has_values = true)
      : schema_(schema), stack_(stack), first_(stack.size() - schema.arguments().size()), has_values_(has_values) {}

  bool has_values() const { return has_values_; }

  const std::string& operator_name() const { return schema_.name(); }

  // Each is empty, undefined or nothing where the argument is not given, or the schema has none of that name.
  at::Tensor tensor(const char* name) const;
  std::vector<at::Tensor> tensors(const char* name) const;
  std::vector<int64_t> integers(const char* name) const;
  std::optional<int64_t> integer(const char* name) const;
  std::optional<double> number(const char* name) const;
  bool flag(const char* name) const;
  std::string word(const char* name) const;

  // The tensors that the operator writes to.
  std::vector<at::Tensor> written() const;

  // The integers of a list, or of a tensor that stands for one.
  std::vector<int64_t> lengths(const char* name) const;

  // Replaces a tensor by a contiguous one, for kernels that do not look at its strides.
  void make_contiguous(const char* name) const;

  // Replaces a tensor that is given.
  void replace(const char* name, const at::Tensor& tensor) const;

 private:
  c10::IValue* find(const char* name) const;

  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  size_t first_;
  bool has_values_;
};

using Guard = void (*)(const Arguments&);

// The guard of an operator and all of its overloads ("aten::segment_reduce"), or null.
Guard find_guard(const std::string& name);

// Whether the kernels of an operator write as many elements as a result has from its first one on, whatever its strides.
bool writes_contiguously(const std::string& name);

// Refuses arguments to write to whose elements share memory: they have less of it than such a kernel writes.
void check_results_apart(const Arguments& args);

// The families, each in a file of its own.
using Guards = std::unordered_map<std::string, Guard>;
void add_pool_guards(Guards& guards);
void add_layer_guards(Guards& guards);
void add_sequence_guards(Guards& guards);
void add_math_guards(Guards& guards);

// ---- what guards are made of: each refuses with the operator's name, the argument's and what it is ----

// The argument has these sizes.
void check_sizes(const Arguments& args, const char* name, at::IntArrayRef expected);

// The argument has this many dimensions.
void check_dim(const Arguments& args, const char* name, int64_t expected);

// The list has this length.
void check_length(const Arguments& args, const char* name, size_t expected);

// The tensor has this many elements.
void check_numel(const Arguments& args, const char* name, int64_t expected);

// Both have the same dtype.
void check_same_dtype(const Arguments& args, const char* name, const char* other);

// Every value is at least `low` and below `high`: IndexError.
void check_range(const Arguments& args, const char* name, const at::Tensor& values, int64_t low, int64_t high);

// Every integer of a list is small enough for sums and products of sizes.
void check_small(const Arguments& args, const char* name);

}  // namespace rustdev
