// Unboxed kernels of operators that are bound in Rust: templates over the types of a schema, which make descriptors without
// IValues.
//
// An unboxed call costs half a microsecond less. Each instantiation costs code, so only operators that models call at every step
// have one. They are listed by name (compiled_names.txt; build_shim.py generates generated_typed_kernels.h); pointwise operators,
// many of which share a type, are listed by type.
#include <ATen/Operators.h>
#include <ATen/core/op_registration/infer_schema.h>

#include <tuple>
#include <type_traits>

#include "boxed_values.h"
#include "generated_typed_kernels.h"
#include "operator_call.h"

namespace rustdev {
namespace {

// True if an argument is a T or an optional T.
template <class Arg, class T>
inline constexpr bool is_of = std::is_same_v<std::decay_t<Arg>, T> || std::is_same_v<std::decay_t<Arg>, std::optional<T>>;

// The descriptors of a call's inputs.
template <class... Args>
class TypedValues final
    : public Values<((is_of<Args, at::TensorList> || is_of<Args, at::ITensorListRef> ||
                      is_of<Args, c10::List<std::optional<at::Tensor>>> || is_of<Args, at::ArrayRef<at::Scalar>>) ||
                     ...)> {
 public:
  TypedValues() { this->use(values_.data(), tensors_.data()); }

 private:
  std::array<rd_value, sizeof...(Args)> values_;
  std::array<rd_tensor, (size_t{is_of<Args, at::Tensor>} + ... + 0)> tensors_;
};

// Converts the results of a call to the kernel's return type.
template <class Result>
Result take(c10::SmallVector<at::Tensor, 2>& results) {
  if constexpr (std::is_same_v<Result, at::Tensor>) {
    return std::move(results[0]);
  } else if constexpr (std::is_same_v<Result, std::vector<at::Tensor>>) {
    return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
  } else if constexpr (!std::is_void_v<Result>) {
    return [&]<size_t... index>(std::index_sequence<index...>) -> Result {
      return {std::move(results[index])...};
    }(std::make_index_sequence<std::tuple_size_v<Result>>());
  }
}

// True if the results are references to written arguments.
template <class Result>
inline constexpr bool are_given = std::is_reference_v<Result>;
template <class... Results>
inline constexpr bool are_given<std::tuple<Results...>> = (std::is_reference_v<Results> && ...);

template <class Schema>
class Kernel;

template <class Result, class... Args>
class Kernel<Result(Args...)> {
  template <class Arg>
  static constexpr bool is_given = are_given<Result> && std::is_same_v<Arg, at::Tensor&>;
  static constexpr size_t num_given = (size_t{is_given<Args>} + ... + 0);

 public:
  explicit Kernel(const Overload& overload) : overload_(overload) {}

  Result operator()(typename c10::remove_symint<Args>::type... args) const {
    TypedValues<Args...> values;
    std::array<at::Tensor*, num_given> given;
    [[maybe_unused]] size_t next = 0;
    const auto add = [&]<class Arg>(std::type_identity<Arg>, auto&& arg) {
      if constexpr (is_given<Arg>) {
        given[next++] = &arg;
      }
      if (!is_given<Arg> || overload_.inplace) {
        values.add(arg);
      }
    };
    (add(std::type_identity<Args>(), args), ...);
    torch::jit::Stack boxes;
    const auto boxed = [&]() -> at::ArrayRef<c10::IValue> {
      if (boxes.empty()) {
        boxes = c10::impl::boxArgs(args...);
      }
      return boxes;
    };
    OperatorCall call(overload_, boxed, {const_cast<const at::Tensor**>(given.data()), num_given});
    if (C10_UNLIKELY(!call.run(values.data(), values.size()))) {
      using Boxed = c10::impl::BoxedKernelWrapper<Result(typename c10::remove_symint<Args>::type...)>;
      return Boxed::call(call.other(), overload_.op, c10::DispatchKeySet(), args...);
    }
    if constexpr (num_given == 0) {
      return take<Result>(call.results());
    } else {
      call.finish();
      return [&]<size_t... index>(std::index_sequence<index...>) -> Result {
        return Result(*given[index]...);
      }(std::make_index_sequence<num_given>());
    }
  }

 private:
  Overload overload_;
};

// Launches a dense call of a pointwise operator; returns an undefined tensor if it is not dense.
template <class... Rest>
at::Tensor launch_dense(const Pointwise& pointwise, bool inplace, const at::Tensor& self, const Rest&... rest) {
  if (pointwise.dense == RD_DENSE_NEVER ||
      (inplace && (pointwise.dense == RD_DENSE_BOOLEAN || pointwise.dense == RD_DENSE_NUMBER))) {
    return {};
  }
  LaunchScalars scalars;
  if constexpr ((std::is_same_v<Rest, std::optional<at::Scalar>> || ...)) {
    if (!(rest.has_value() || ...)) {
      return {};
    }
  }
  if constexpr (std::is_same_v<std::tuple<Rest...>, std::tuple<at::Scalar>>) {
    if (pointwise.dense == RD_DENSE_NUMBER) {
      const rd_scalar number = to_scalar(rest...);
      return launch_plain(pointwise, self, {}, &number, false, scalars);
    }
  }
  if (pointwise.dense == RD_DENSE_QUOTIENT) {
    scalars.add(0);
  } else {
    (scalars.add(rest), ...);
  }
  std::array<const at::Tensor*, (size_t{std::is_same_v<Rest, at::Tensor>} + ... + 0)> others{};
  [[maybe_unused]] size_t count = 0;
  const auto add = [&](const auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, at::Tensor>) {
      others[count++] = &argument;
    }
  };
  (add(rest), ...);
  return launch_plain(pointwise, self, others, nullptr, inplace, scalars);
}

// The kernel of a pointwise operator: launches dense calls directly, and passes others to Rust.
template <class Schema>
class DenseKernel;

template <class Result, class Self, class... Rest>
class DenseKernel<Result(Self, Rest...)> {
 public:
  explicit DenseKernel(const Overload& overload) : pointwise_(*overload.pointwise), other_(overload) {}

  Result operator()(Self self, Rest... rest) const {
    constexpr bool inplace = std::is_reference_v<Result>;
    at::Tensor result = launch_dense(pointwise_, inplace, self, rest...);
    if (C10_UNLIKELY(!result.defined())) {
      return other_(self, rest...);
    }
    if constexpr (inplace) {
      return self;
    } else {
      return result;
    }
  }

 private:
  Pointwise pointwise_;
  Kernel<Result(Self, Rest...)> other_;
};

template <class Functor>
torch::CppFunction make(const Overload& overload) {
  return torch::CppFunction(Functor(overload));
}

// The kernels for one type of pointwise operator, with the schema of the functional variant.
struct PointwiseKernels {
  c10::FunctionSchema schema;
  TypedKernel functional, inplace, out;
};

// For a schema of a tensor and these other arguments.
template <class... Rest>
PointwiseKernels dense_kernels() {
  return {c10::inferFunctionSchemaFlattenedReturns<at::Tensor(const at::Tensor&, Rest...)>(),
          &make<DenseKernel<at::Tensor(const at::Tensor&, Rest...)>>, &make<DenseKernel<at::Tensor&(at::Tensor&, Rest...)>>,
          &make<Kernel<at::Tensor&(const at::Tensor&, Rest..., at::Tensor&)>>};
}

const std::vector<PointwiseKernels>& pointwise_kernels() {
  using Tensor = const at::Tensor&;
  using Number = const at::Scalar&;
  using Limit = const std::optional<at::Scalar>&;
  using Text = c10::string_view;
  static const auto* const found = new std::vector<PointwiseKernels>{
      dense_kernels<>(),
      dense_kernels<Number>(),
      dense_kernels<Number, Number>(),
      dense_kernels<Number, Number, Number>(),
      dense_kernels<int64_t>(),
      dense_kernels<Text>(),
      dense_kernels<Limit, Limit>(),
      dense_kernels<Tensor>(),
      dense_kernels<Tensor, Number>(),
      dense_kernels<Tensor, Number, Number>(),
      dense_kernels<Tensor, Number, bool>(),
      dense_kernels<Tensor, Text>(),
      dense_kernels<Tensor, std::optional<Text>>(),
      dense_kernels<Tensor, Tensor>(),
      dense_kernels<Tensor, Tensor, Number>(),
  };
  return *found;
}

TypedKernel find_pointwise(const Overload& overload) {
  for (const PointwiseKernels& kernels : pointwise_kernels()) {
    if (!c10::findSchemaDifferences(kernels.schema, overload.functional.schema())) {
      return overload.written.empty() ? kernels.functional : overload.inplace ? kernels.inplace : kernels.out;
    }
  }
  return nullptr;
}

}  // namespace

TypedKernel find_typed(std::string_view name, const Overload& overload) {
  if (overload.pointwise) {
    return find_pointwise(overload);
  }
#define TYPED(name, op) {name, &make<Kernel<at::_ops::op::schema>>},
  static const auto* const kernels = new std::unordered_map<std::string_view, TypedKernel>{RUSTDEV_TYPED_LIST(TYPED)};
#undef TYPED
  const auto found = kernels->find(name);
  return found == kernels->end() ? nullptr : found->second;
}

}  // namespace rustdev
