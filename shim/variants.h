// The variants of an operator that has a structured meta (functional, out=, in-place), in one template: PyTorch's meta checks the
// call and makes the outputs, a rule launches the kernel, and a call whose dtype the kernel does not take goes to the CPU fallback.
//
// A rule has `launch(binding, op, arguments...)`, which is false where the kernel does not take the dtype: nothing was done. It may
// have more:
//
//   check(binding, output, arguments...)        before the meta; the output is undefined in the functional variant
//   check_given(outputs, arguments...)          of outputs that the caller gave, after the meta
//   early<Op>(arguments...), early_inplace<Op>(self, rest...)   a fast path: an undefined tensor, or false, where it does not apply
//   early_out<Op>(result, arguments...)         the same for out=
//   has_inplace = false                         no in-place variant, though the first argument is a tensor
//   launched                                    which scalars the kernel gets, checked when the operator is bound
#pragma once

#include <torch/library.h>

#include <array>
#include <tuple>
#include <type_traits>

#include "binding.h"
#include "ops/fallback.h"
#include "outputs.h"

namespace rustdev {

// A meta's parameter types as the operator's schema has them.
template <class T>
struct SchemaType {
  using type = T;
};
template <>
struct SchemaType<at::OptionalScalarRef> {
  using type = const std::optional<at::Scalar>&;
};
template <>
struct SchemaType<at::OptionalTensorRef> {
  using type = const std::optional<at::Tensor>&;
};
template <class T>
using schema_type = typename SchemaType<T>::type;

inline at::OptionalScalarRef meta_argument(const std::optional<at::Scalar>& value) {
  return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
}
inline at::OptionalTensorRef meta_argument(const std::optional<at::Tensor>& value) {
  return value && value->defined() ? at::OptionalTensorRef(*value) : at::OptionalTensorRef();
}
template <class T>
const T& meta_argument(const T& value) {
  return value;  // NOLINT(bugprone-return-const-ref-from-parameter): the arguments of a call, which outlive it
}

template <class Meta, class Rule, size_t count, class Function>
class VariantsImpl;

template <class Meta, class Rule, size_t count, class Made, class... Args>
class VariantsImpl<Meta, Rule, count, Made (Meta::*)(Args...)> {
  using First = std::tuple_element_t<0, std::tuple<Args...>>;
  using Results = std::conditional_t<count == 1, at::Tensor, std::tuple<at::Tensor, at::Tensor>>;

 public:
  using rule = Rule;
  static inline Binding binding;
  static constexpr size_t outputs = count;
  static constexpr bool has_inplace = [] {
    if constexpr (requires { Rule::has_inplace; }) {
      return Rule::has_inplace;
    } else {
      return count == 1 && std::is_same_v<First, const at::Tensor&>;
    }
  }();

  static Results functional(schema_type<Args>... args) {
    if constexpr (requires { Rule::template early<VariantsImpl>(args...); }) {
      at::Tensor result = Rule::template early<VariantsImpl>(args...);
      if (C10_LIKELY(result.defined())) {
        return result;
      }
    }
    check(at::Tensor(), args...);
    Functional<Meta, count> op;
    op.meta(meta_argument(args)...);
    if (C10_UNLIKELY(!Rule::launch(binding, op, args...))) {
      return call_fallback<Results, schema_type<Args>...>(binding.functional, args...);
    }
    if constexpr (count == 1) {
      return op.take(0);
    } else {
      return {op.take(0), op.take(1)};
    }
  }

  static at::Tensor& out(schema_type<Args>... args, at::Tensor& result) {
    if constexpr (requires { Rule::template early_out<VariantsImpl>(result, args...); }) {
      if (Rule::template early_out<VariantsImpl>(result, args...)) {
        return result;
      }
    }
    if (C10_LIKELY(write<false>({&result}, args...))) {
      return result;
    }
    return call_fallback<at::Tensor&, schema_type<Args>..., at::Tensor&>(binding.out, args..., result);
  }

  // The same for two outputs.
  static std::tuple<at::Tensor&, at::Tensor&> out_pair(schema_type<Args>... args, at::Tensor& first, at::Tensor& second) {
    if (C10_LIKELY(write<false>({&first, &second}, args...))) {
      return {first, second};
    }
    return call_fallback<std::tuple<at::Tensor&, at::Tensor&>, schema_type<Args>..., at::Tensor&, at::Tensor&>(binding.out, args...,
                                                                                                               first, second);
  }

  template <class Self, class... Rest>
  struct Tail {
    static at::Tensor& inplace(at::Tensor& self, schema_type<Rest>... rest) {
      if constexpr (requires { Rule::template early_inplace<VariantsImpl>(self, rest...); }) {
        if (C10_LIKELY(Rule::template early_inplace<VariantsImpl>(self, rest...))) {
          return self;
        }
      }
      if (C10_LIKELY(write<true>({&self}, self, rest...))) {
        return self;
      }
      return call_fallback<at::Tensor&, at::Tensor&, schema_type<Rest>...>(binding.inplace, self, rest...);
    }
  };
  using InPlace = Tail<Args...>;

 private:
  using Outputs = std::array<at::Tensor*, count>;

  template <bool inplace, class... Values>
  static bool write(const Outputs& given, const Values&... values) {
    check(*given[0], values...);
    Given<Meta, count, inplace> op(given);
    op.meta(meta_argument(values)...);
    if constexpr (requires { Rule::check_given(given, values...); }) {
      Rule::check_given(given, values...);
    }
    if (C10_UNLIKELY(!Rule::launch(binding, op, values...))) {
      return false;
    }
    op.finish();
    return true;
  }

  template <class... Values>
  static void check(const at::Tensor& output, const Values&... values) {
    if constexpr (requires { Rule::check(binding, output, values...); }) {
      Rule::check(binding, output, values...);
    }
  }
};

template <class Meta, class Rule, size_t count = 1>
using Variants = VariantsImpl<Meta, Rule, count, decltype(&Meta::meta)>;

// Binds an operator to its kernel: the functional variant, and the others that there are.
template <class Op>
void bind(torch::Library& library, const Names& names) {
  find_kernel(Op::binding, names);
  if constexpr (requires { Op::rule::launched; }) {
    check_scalars(Op::binding, Op::rule::launched);
  }
  library.impl(names.functional, TORCH_FN(Op::functional));
  if constexpr (requires { requires Op::outputs == 2; }) {
    library.impl(names.out, TORCH_FN(Op::out_pair));
  } else if constexpr (requires { &Op::out; }) {
    library.impl(names.out, TORCH_FN(Op::out));
  }
  if constexpr (requires { requires Op::has_inplace; }) {
    if (names.inplace != nullptr) {
      library.impl(names.inplace, TORCH_FN(Op::InPlace::inplace));
    }
  }
}

}  // namespace rustdev
