// PyTorch's structured operators whose CPU kernels are tasks of the stream (the second tier): the meta checks and allocates at the
// call, as for kernels of our own, and the task runs the operator's out= variant over aliases of device memory.
//
// A meta of our own says by `takes` which calls it is for; others, and operands without elements, are the fallback's, which waits
// and whose kernels refuse in their own words. So are errors that a caller asks for by values.
//
// A task divides the first dimension among our threads where all operands have it: batches of images or matrices. One matrix takes
// the libraries' own threads where it is large.
#pragma once

#include <ATen/core/boxing/impl/boxing.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <utility>

#include "ops/fallback_guard.h"
#include "ops/tier.h"
#include "structured.h"

namespace rustdev {

// What the first dimension is a batch of.
enum class Batch { images, matrices, none };

constexpr uint64_t dtype_set(std::initializer_list<c10::ScalarType> dtypes) {
  uint64_t set = 0;
  for (const c10::ScalarType dtype : dtypes) {
    set |= uint64_t{1} << static_cast<unsigned>(dtype);
  }
  return set;
}

constexpr uint64_t wide = dtype_set({at::kFloat, at::kDouble});
constexpr uint64_t floating = wide | dtype_set({at::kHalf, at::kBFloat16});
// Beside `wide`: 16 bit floats are computed in Float and rounded, as other accelerators do where the CPU has no such kernel.
constexpr uint64_t rounded = uint64_t{1} << 63;
constexpr uint64_t integers = dtype_set({at::kByte, at::kChar, at::kShort, at::kInt, at::kLong});

// Where the guard runs: at the call, and again in the task if it reads values.
enum class Guarded { call, task };

struct AtenFacts {
  const char* name;  // of the functional variant
  const char* out;   // of the one that the task runs; null where it runs the functional one and copies its results
  uint64_t dtypes;   // of the first operand; other dtypes go to the fallback
  Batch batch = Batch::images;
  Guarded guarded = Guarded::call;
};

// One operator at run time.
struct AtenBinding {
  AtenFacts facts{};
  std::optional<c10::OperatorHandle> functional, out;
  Guard guard = nullptr;
  int check_errors = -1;  // the argument of that name
};

using Operands = c10::SmallVector<at::Tensor, 4>;

void find_operators(AtenBinding& binding, const AtenFacts& facts);

// Whether these operands are for the task: on one device of ours, the first of a dtype that the kernel takes.
bool takes_operands(const AtenBinding& binding, at::ArrayRef<at::Tensor> operands);

// Whether these operands are for the task once they are widened.
bool takes_widened(const AtenBinding& binding, const Operands& operands);

// Checks the boxed arguments by the guard, which may replace them. False where the caller asks for an error by values.
bool check_arguments(const AtenBinding& binding, torch::jit::Stack& stack);

// Enqueues the kernel over the boxed arguments and these results, some of which may be undefined.
void submit_boxed(const AtenBinding& binding, torch::jit::Stack stack, at::ArrayRef<at::Tensor> outputs);

bool have_elements(at::ArrayRef<at::Tensor> operands);

inline void add_operand(Operands& operands, const at::Tensor& value) { operands.push_back(value); }
inline void add_operand(Operands& operands, const std::optional<at::Tensor>& value) {
  if (value && value->defined()) {
    operands.push_back(*value);
  }
}
template <class T>
void add_operand(Operands&, const T&) {}

// An argument with 16 bit floats in Float; a result rounded to a dtype.
at::Tensor widened(const at::Tensor& value);
inline std::optional<at::Tensor> widened(const std::optional<at::Tensor>& value) {
  return value ? std::optional<at::Tensor>(widened(*value)) : std::nullopt;
}
template <class T>
const T& widened(const T& value) {
  return value;  // NOLINT(bugprone-return-const-ref-from-parameter): the arguments of a call, which outlive it
}
at::Tensor narrowed(const at::Tensor& value, c10::ScalarType dtype);
template <class... Tensors>
std::tuple<Tensors...> narrowed(const std::tuple<Tensors...>& values, c10::ScalarType dtype) {
  return std::apply([&](const Tensors&... each) { return std::tuple<Tensors...>(narrowed(each, dtype)...); }, values);
}

template <size_t>
using NewTensor = at::Tensor;

template <class Meta, class Function, class Outputs>
class AtenOperatorImpl;

template <class Meta, class Base, class Returned, class... Args, size_t... out_index>
class AtenOperatorImpl<Meta, Returned (Base::*)(Args...), std::index_sequence<out_index...>> {
 public:
  static constexpr size_t count = sizeof...(out_index);
  using Result = std::conditional_t<count == 1, at::Tensor, std::tuple<NewTensor<out_index>...>>;

  static inline AtenBinding binding;

  static Result functional(schema_type<Args>... args) {
    Operands operands;
    (add_operand(operands, args), ...);
    if (takes_widened(binding, operands)) {
      return narrowed(functional(widened(args)...), operands[0].scalar_type());
    }
    if (!takes(operands, args...)) {
      return call_fallback<Result, schema_type<Args>...>(binding.functional, args...);
    }
    torch::jit::Stack stack = c10::impl::boxArgs<schema_type<Args>...>(args...);
    if (!check_arguments(binding, stack)) {
      return call_fallback<Result, schema_type<Args>...>(binding.functional, args...);
    }
    Functional<Meta, count> op;
    op.meta(meta_argument(args)...);
    const std::array<at::Tensor, count> outputs{op.take(out_index)...};
    submit_boxed(binding, std::move(stack), outputs);
    if constexpr (count == 1) {
      return outputs[0];
    } else {
      return {outputs[out_index]...};
    }
  }

 private:
  template <class... Values>
  static bool takes(const Operands& operands, const Values&... values) {
    if (!takes_operands(binding, operands)) {
      return false;
    }
    if constexpr (requires { &Meta::takes; }) {
      return have_elements(operands) && Meta::takes(values...);
    }
    return true;
  }
};

template <class Meta, size_t count = 1>
using AtenOperator = AtenOperatorImpl<Meta, decltype(&Meta::meta), std::make_index_sequence<count>>;

// Binds the functional variant; out= stays with the fallback.
template <class Op>
void bind_aten(Tier& tier, const AtenFacts& facts) {
  find_operators(Op::binding, facts);
  tier.impl(facts.name, TORCH_FN(Op::functional));
}

}  // namespace rustdev
