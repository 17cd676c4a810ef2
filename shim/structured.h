// The rule of every operator whose meta is a TensorIterator: PyTorch checks, promotes, broadcasts and allocates, then the
// iterator's operands go to the Rust kernel of that name. `Structured<meta>` gives the functional, in-place and out= variants
// (variants.h).
//
// Operands are in the order of the arguments, the output first; a meta that swaps two is swapped back. Scalars are the
// arguments that are not tensors, in order: an optional one gives two (whether it is there, then the value), a string its number in
// `string_number`. Comparisons with a number have it as an operand instead.
//
// Loading fails where an operator has no kernel, or where the arguments are not the scalars that its signature names.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include <array>

#include "ops/fill.h"
#include "variants.h"

namespace rustdev {

// Which calls may skip TensorIterator and the meta: dense operands of one shape and dtype, or such a tensor and a Python number. A
// meta that refuses more than wrong operands says with `is_plain(arguments after self...)` when it has nothing to refuse.
enum class Fast {
  none,      // never
  floating,  // floating-point operands; the result has their dtype
  numeric,   // floating-point or integer operands; the result has their dtype
  boolean,   // floating-point or integer operands; the result is Bool
  number,    // as boolean, with the number as the other operand
};

// Metas whose operators refuse outputs that overlap on the CPU, though they are no iterator's.
template <class Meta>
inline constexpr bool refuses_overlap = false;

// Launches a named kernel over the iterator; an error that names it where it does not take the dtype.
void run_named(const char* name, const Binding& binding, const at::TensorIteratorBase& iter, Launch& launch);

// The number that stands for a string argument: rounding modes and approximations.
int64_t string_number(std::string_view text);

// Launches over the iterator. False where the kernel does not take the common dtype: nothing was done. `first` is the first input
// that the kernel expects, where there are two.
bool launch_iterator(const at::TensorIteratorBase& iter, const Binding& binding, c10::ScalarType common_dtype, Launch& launch,
                     const at::Tensor* first = nullptr);

// Whether the two are on one device of ours, of the same sizes and contiguous.
bool both_contiguous(const at::Tensor& self, const at::Tensor& other);

// The result of a call that needs no iterator, or an undefined tensor where it does. `others` are the operands after self; with
// `inplace` the result is written to self.
at::Tensor launch_plain(Fast fast, const Binding& binding, const at::Tensor& self, at::ArrayRef<const at::Tensor*> others,
                        bool inplace, Launch& launch);

// The same for a comparison with a number.
at::Tensor launch_plain_number(const Binding& binding, const at::Tensor& self, const at::Scalar& number, Launch& launch);

inline void add_scalar(Launch& launch, const at::Scalar& value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, int64_t value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, double value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, bool value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, std::string_view value) { launch.scalar(string_number(value)); }
inline void add_scalar(Launch& launch, const std::optional<std::string_view>& value) {
  launch.scalar(value ? string_number(*value) : int64_t{0});
}
inline void add_scalar(Launch& launch, const std::optional<double>& value) {
  launch.scalar(value.has_value());
  launch.scalar(value.value_or(0.0));
}
inline void add_scalar(Launch& launch, const std::optional<at::Scalar>& value) {
  launch.scalar(int64_t{value.has_value()});
  launch.scalar(value ? *value : at::Scalar(0));
}
inline void add_scalar(Launch&, const at::Tensor&) {}
inline void add_scalar(Launch& launch, const std::optional<at::Tensor>& value) {
  launch.scalar(value.has_value() && value->defined());
}

// The dtype that numbers take part in a computation as. PyTorch's function does not know the wider unsigned integers.
inline c10::ScalarType computing_dtype(c10::ScalarType dtype) {
  return c10::isBarebonesUnsignedType(dtype) ? dtype : at::toOpMathType(dtype);
}

// Refuses numbers that a computation in the dtype cannot take.
inline void check_number(const at::Scalar& value, c10::ScalarType dtype) {
  if (C10_UNLIKELY(!surely_holds(dtype, value))) {
    check_value(value, dtype);
  }
}
inline void check_number(const std::optional<at::Scalar>& value, c10::ScalarType dtype) {
  if (value) {
    check_number(*value, dtype);
  }
}
template <class T>
void check_number(const T&, c10::ScalarType) {}

// Launches over the iterator of a meta.
template <class Meta, Fast fast, Scalars scalars>
struct IteratorRule {
  static constexpr Scalars launched = scalars;

  template <class Op, class... Values>
  static bool launch(const Binding& binding, const Op& op, const Values&... values) {
    Launch launch;
    add_scalars(launch, values...);
    const c10::ScalarType dtype = op.maybe_common_dtype().value_or(op.dtype(op.noutputs()));
    if constexpr (scalars != Scalars::none && scalars != Scalars::checked) {
      if (C10_LIKELY(takes_dtype(binding, dtype))) {
        (check_number(values, scalars == Scalars::exact ? dtype : computing_dtype(dtype)), ...);
      }
    }
    return launch_iterator(op, binding, dtype, launch, first_tensor(values...));
  }

  template <class Op, class... Values>
    requires(fast != Fast::none || scalars == Scalars::loss)
  static at::Tensor early(const Values&... values) {
    if constexpr (scalars == Scalars::loss) {
      return reduced<Op>(values...);
    } else {
      return plain(Op::binding, values...);
    }
  }

  template <class Op, class... Values>
    requires(scalars == Scalars::loss)
  static bool early_out(at::Tensor& result, const Values&... values) {
    return reduced_out<Op>(result, values...);
  }

  template <class Op, class... Rest>
    requires(fast == Fast::floating || fast == Fast::numeric)
  static bool early_inplace(at::Tensor& self, const Rest&... rest) {
    if (!may_be_plain(rest...)) {
      return false;
    }
    Launch launch;
    add_scalars(launch, rest...);
    return launch_plain(fast, Op::binding, self, tensors(rest...), true, launch).defined();
  }

 private:
  template <class... Values>
  static void add_scalars(Launch& launch, const Values&... values) {
    if constexpr (scalars == Scalars::zero) {
      launch.scalar(0);
    } else if constexpr (scalars != Scalars::none) {
      (add_scalar(launch, values), ...);
    }
  }

  template <class Op, class... Rest>
  static at::Tensor reduced(const at::Tensor& input, const at::Tensor& target, int64_t reduction, const Rest&... rest) {
    if (reduction == at::Reduction::None) {
      return {};
    }
    const at::Tensor losses = Op::functional(input, target, at::Reduction::None, rest...);
    return reduction == at::Reduction::Mean ? at::mean(losses) : at::sum(losses);
  }

  template <class Op, class... Rest>
  static bool reduced_out(at::Tensor& result, const at::Tensor& input, const at::Tensor& target, int64_t reduction,
                          const Rest&... rest) {
    if (reduction == at::Reduction::None) {
      return false;
    }
    const at::Tensor losses = Op::functional(input, target, at::Reduction::None, rest...);
    if (reduction == at::Reduction::Mean) {
      at::mean_out(result, losses, at::OptionalIntArrayRef());
    } else {
      at::sum_out(result, losses, at::OptionalIntArrayRef());
    }
    return true;
  }

  template <class... Rest>
  static at::Tensor plain(const Binding& binding, const at::Tensor& self, const Rest&... rest) {
    if (!may_be_plain(rest...)) {
      return {};
    }
    Launch launch;
    add_scalars(launch, rest...);
    if constexpr (fast == Fast::number) {
      return launch_plain_number(binding, self, rest..., launch);
    } else {
      return launch_plain(fast, binding, self, tensors(rest...), false, launch);
    }
  }

  // Whether what the meta itself refuses is not there.
  template <class... Rest>
  static bool may_be_plain(const Rest&... rest) {
    if constexpr (requires { Meta::is_plain(rest...); }) {
      return Meta::is_plain(rest...);
    }
    return true;
  }

  template <class First, class... Rest>
  static const at::Tensor* first_tensor(const First& first, const Rest&... rest) {
    if constexpr (std::is_same_v<First, at::Tensor>) {
      return &first;
    } else {
      return first_tensor(rest...);
    }
  }

  // The arguments that are tensors.
  template <class... Rest>
  static std::array<const at::Tensor*, (std::is_same_v<Rest, at::Tensor> + ... + 0)> tensors(const Rest&... rest) {
    static_assert((!std::is_same_v<Rest, std::optional<at::Tensor>> && ...), "an operator with optional operands is never plain");
    std::array<const at::Tensor*, (std::is_same_v<Rest, at::Tensor> + ... + 0)> found{};
    [[maybe_unused]] size_t count = 0;
    (
        [&] {
          if constexpr (std::is_same_v<Rest, at::Tensor>) {
            found[count++] = &rest;
          }
        }(),
        ...);
    return found;
  }
};

template <class Meta, Fast fast = Fast::none, Scalars scalars = Scalars::arguments>
using Structured = Variants<Meta, IteratorRule<Meta, fast, scalars>>;

}  // namespace rustdev
