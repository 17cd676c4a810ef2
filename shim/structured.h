// One template for every operator whose meta is a TensorIterator: PyTorch checks, promotes, broadcasts and allocates, then the
// iterator's operands go to the Rust kernel of that name. `Structured<meta>` gives the functional, in-place and out= variants.
//
// Operands are in the order of the arguments, the output first; a meta that swaps two is swapped back. Scalars are the
// arguments that are not tensors, in order: an optional one gives two (whether it is there, then the value), a string its number in
// `string_number`. Comparisons with a number have it as an operand instead.
//
// Loading fails where an operator has no kernel, or where the arguments are not the scalars that its signature names. A call whose
// dtype the kernel does not take goes to the CPU fallback.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <array>

#include "ops/fallback.h"
#include "ops/fill.h"
#include "outputs.h"

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

// The parts of a launch that are not operands of the iterator.
enum class Scalars {
  arguments,  // every argument that is not a tensor
  exact,      // as arguments; numbers must fit the dtype itself, not only what it is computed in
  checked,    // as arguments; the meta has looked at the numbers
  none,       // no scalars: the meta makes operands of the numbers
  zero,       // the one scalar 0
  loss,       // as arguments; a reduction, which the meta does not describe, is an operator of its own
};

// Metas whose operators refuse outputs that overlap on the CPU, though they are no iterator's.
template <class Meta>
inline constexpr bool refuses_overlap = false;

// One operator variant at run time: its kernel, and the way to the fallback.
struct Binding {
  const rd_op* op = nullptr;
  uint64_t dtypes = 0;
  std::optional<c10::OperatorHandle> functional, inplace, out;
};

// Whether the kernel takes a dtype.
inline bool takes_dtype(const Binding& binding, c10::ScalarType dtype) { return is_among(binding.dtypes, dtype); }

struct Names {
  const char* functional;
  const char* inplace;
  const char* out;
  const char* kernel;
};

// An operator by its name without "aten::".
c10::OperatorHandle find_operator(const char* name);

// Looks the kernel up and fills the binding.
void find_kernel(Binding& binding, const Names& names);

// Refuses a kernel whose signature does not name the scalars that the operator's arguments become.
void check_scalars(const Binding& binding, Scalars scalars);

// The kernel of that name, for an operator without variants that go to the fallback.
Binding named_kernel(const char* name);
template <Name name>
inline const Binding binding_of = named_kernel(name.text);

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

template <class Meta, Fast fast, Scalars scalars, class Function>
class StructuredImpl;

template <class Meta, Fast fast, Scalars scalars, class... Args>
class StructuredImpl<Meta, fast, scalars, void (Meta::*)(Args...)> {
 public:
  static inline Binding binding;
  static constexpr Scalars launched = scalars;

  static at::Tensor functional(schema_type<Args>... args) {
    if constexpr (scalars == Scalars::loss) {
      if (reduces(args...)) {
        return reduced(args...);
      }
    }
    if constexpr (fast != Fast::none) {
      at::Tensor result = plain(args...);
      if (C10_LIKELY(result.defined())) {
        return result;
      }
    }
    Functional<Meta> op;
    op.meta(meta_argument(args)...);
    if (C10_LIKELY(launch(op, args...))) {
      return op.take(0);
    }
    return call_fallback<at::Tensor, schema_type<Args>...>(binding.functional, args...);
  }

  static at::Tensor& out(schema_type<Args>... args, at::Tensor& result) {
    if constexpr (scalars == Scalars::loss) {
      if (reduces(args...)) {
        return reduced_out(result, args...);
      }
    }
    Given<Meta, 1, false> op(result);
    op.meta(meta_argument(args)...);
    if (C10_LIKELY(launch(op, args...))) {
      op.finish();
      return result;
    }
    return call_fallback<at::Tensor&, schema_type<Args>..., at::Tensor&>(binding.out, args..., result);
  }

  template <class Self, class... Rest>
  struct Tail {
    static at::Tensor& inplace(at::Tensor& self, schema_type<Rest>... rest) {
      if constexpr (fast == Fast::floating || fast == Fast::numeric) {
        if (C10_LIKELY(plain_inplace(self, rest...))) {
          return self;
        }
      }
      Given<Meta, 1, true> op(self);
      op.meta(self, meta_argument(rest)...);
      if (C10_LIKELY(launch(op, self, rest...))) {
        op.finish();
        return self;
      }
      return call_fallback<at::Tensor&, at::Tensor&, schema_type<Rest>...>(binding.inplace, self, rest...);
    }
  };
  using InPlace = Tail<Args...>;
  static constexpr bool has_inplace = std::is_same_v<std::tuple_element_t<0, std::tuple<Args...>>, const at::Tensor&>;

 private:
  template <class Op, class... Values>
  static bool launch(const Op& op, const Values&... values) {
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

  template <class... Values>
  static void add_scalars(Launch& launch, const Values&... values) {
    if constexpr (scalars == Scalars::zero) {
      launch.scalar(0);
    } else if constexpr (scalars != Scalars::none) {
      (add_scalar(launch, values), ...);
    }
  }

  static bool reduces(const at::Tensor&, const at::Tensor&, int64_t reduction, ...) { return reduction != at::Reduction::None; }

  template <class... Rest>
  static at::Tensor reduced(const at::Tensor& input, const at::Tensor& target, int64_t reduction, const Rest&... rest) {
    const at::Tensor losses = functional(input, target, at::Reduction::None, rest...);
    return reduction == at::Reduction::Mean ? at::mean(losses) : at::sum(losses);
  }

  template <class... Rest>
  static at::Tensor& reduced_out(at::Tensor& result, const at::Tensor& input, const at::Tensor& target, int64_t reduction,
                                 const Rest&... rest) {
    const at::Tensor losses = functional(input, target, at::Reduction::None, rest...);
    return reduction == at::Reduction::Mean ? at::mean_out(result, losses, at::OptionalIntArrayRef())
                                            : at::sum_out(result, losses, at::OptionalIntArrayRef());
  }

  template <class... Rest>
  static at::Tensor plain(const at::Tensor& self, const Rest&... rest) {
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

  template <class... Rest>
  static bool plain_inplace(at::Tensor& self, const Rest&... rest) {
    if (!may_be_plain(rest...)) {
      return false;
    }
    Launch launch;
    add_scalars(launch, rest...);
    return launch_plain(fast, binding, self, tensors(rest...), true, launch).defined();
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
using Structured = StructuredImpl<Meta, fast, scalars, decltype(&Meta::meta)>;

// Binds an operator to its kernel: the functional variant, and the others that there are.
template <class Op>
void bind(torch::Library& library, const Names& names) {
  find_kernel(Op::binding, names);
  if constexpr (requires { Op::launched; }) {
    check_scalars(Op::binding, Op::launched);
  }
  library.impl(names.functional, TORCH_FN(Op::functional));
  if constexpr (requires { &Op::out; }) {
    library.impl(names.out, TORCH_FN(Op::out));
  }
  if constexpr (requires { requires Op::has_inplace; }) {
    if (names.inplace != nullptr) {
      library.impl(names.inplace, TORCH_FN(Op::InPlace::inplace));
    }
  }
}

}  // namespace rustdev
