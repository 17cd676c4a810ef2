// Kernels for the types of schemas, and their list: see typed_kernels.h.
#include "typed_kernels.h"

#include <ATen/ops/_batch_norm_no_update_ops.h>
#include <ATen/ops/_batch_norm_with_update_ops.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_native_batch_norm_legit_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_backward_impl_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_ops.h>
#include <ATen/ops/all_ops.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/amin_ops.h>
#include <ATen/ops/any_ops.h>
#include <ATen/ops/argmax_ops.h>
#include <ATen/ops/argmin_ops.h>
#include <ATen/ops/batch_norm_backward_ops.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/bucketize_ops.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/flip_ops.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/masked_select_ops.h>
#include <ATen/ops/max_ops.h>
#include <ATen/ops/max_pool2d_with_indices_backward_ops.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/median_ops.h>
#include <ATen/ops/min_ops.h>
#include <ATen/ops/native_batch_norm_backward_ops.h>
#include <ATen/ops/native_batch_norm_ops.h>
#include <ATen/ops/native_group_norm_backward_ops.h>
#include <ATen/ops/native_group_norm_ops.h>
#include <ATen/ops/nll_loss2d_backward_ops.h>
#include <ATen/ops/nll_loss2d_forward_ops.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/nonzero_ops.h>
#include <ATen/ops/prod_ops.h>
#include <ATen/ops/reflection_pad1d_ops.h>
#include <ATen/ops/reflection_pad2d_backward_ops.h>
#include <ATen/ops/reflection_pad2d_ops.h>
#include <ATen/ops/replication_pad2d_backward_ops.h>
#include <ATen/ops/replication_pad2d_ops.h>
#include <ATen/ops/roll_ops.h>
#include <ATen/ops/searchsorted_ops.h>
#include <ATen/ops/sort_ops.h>
#include <ATen/ops/std_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/topk_ops.h>
#include <ATen/ops/tril_ops.h>
#include <ATen/ops/triu_ops.h>
#include <ATen/ops/var_mean_ops.h>
#include <ATen/ops/var_ops.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "boxed_values.h"
#include "ops/fallback.h"

namespace rustdev {
namespace {

// The descriptors of a call's inputs, which borrow from the arguments.
template <size_t size>
class TypedValues {
 public:
  const rd_value* data() const { return values_.data(); }
  size_t count() const { return count_; }

  void add(const at::Tensor& tensor) {
    if (tensor.defined()) {
      rd_tensor& found = tensors_[num_tensors_++] = described(tensor);
      list(RD_VALUE_TENSOR, 1, &found);
    } else {
      none();
    }
  }
  void add(at::IntArrayRef values) { list(RD_VALUE_INTEGERS, values.size(), values.data()); }
  void add(at::OptionalIntArrayRef values) { values ? add(*values) : none(); }
  template <size_t count>
  void add(const std::array<bool, count>& flags) {
    list(RD_VALUE_BOOLS, count, flags.data());
  }
  void add(c10::string_view text) { list(RD_VALUE_TEXT, text.size(), text.data()); }
  void add(const at::Scalar& value) { values_[count_++] = {RD_VALUE_SCALAR, 1, nullptr, to_scalar(value)}; }
  void add(bool value) { number(c10::ScalarType::Bool, value, value); }
  void add(int64_t value) { number(c10::ScalarType::Long, value, static_cast<double>(value)); }
  void add(at::ScalarType dtype) { add(static_cast<int64_t>(dtype)); }
  void add(double value) { number(c10::ScalarType::Double, 0, value); }
  void add(const at::Generator& generator) { list(RD_VALUE_GENERATOR, 1, generator.unsafeGetGeneratorImpl()); }
  template <class T>
  void add(const std::optional<T>& value) {
    value ? add(*value) : none();
  }

 private:
  void none() { list(RD_VALUE_NONE, 0, nullptr); }
  void list(int32_t kind, size_t count, const void* data) { values_[count_++] = {kind, count, data, {}}; }
  void number(c10::ScalarType dtype, int64_t integer, double real) {
    values_[count_++] = {RD_VALUE_SCALAR, 1, nullptr, {static_cast<int32_t>(dtype), integer, real, 0.0}};
  }

  std::array<rd_value, size> values_;
  std::array<rd_tensor, size> tensors_;
  size_t count_ = 0, num_tensors_ = 0;
};

// The arguments of a call, boxed where a meta is asked for: calls that are worth a kernel of their own ask seldom.
template <class... Args>
class TypedArguments final : public CallArguments {
 public:
  explicit TypedArguments(const Overload& overload, const Args&... arguments) : overload_(overload), arguments_(arguments...) {}

  void run_meta(MetaOutputs& outputs) override {
    const auto stack = std::apply([](const auto&... arguments) { return c10::impl::boxArgs(arguments...); }, arguments_);
    overload_.meta(stack.data(), outputs);
  }

 private:
  const Overload& overload_;
  std::tuple<const Args&...> arguments_;
};

template <class Result>
struct ResultOf {
  static Result take(c10::SmallVector<at::Tensor, 2>& results) {
    return take(results, std::make_index_sequence<std::tuple_size_v<Result>>());
  }
  template <size_t... index>
  static Result take(c10::SmallVector<at::Tensor, 2>& results, std::index_sequence<index...>) {
    return {std::move(results[index])...};
  }
};
template <>
struct ResultOf<at::Tensor> {
  static at::Tensor take(c10::SmallVector<at::Tensor, 2>& results) { return std::move(results[0]); }
};

// Whether results are arguments that are written to.
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
    TypedValues<sizeof...(Args)> values;
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
    TypedArguments<typename c10::remove_symint<Args>::type...> arguments(overload_, args...);
    OperatorCall call(overload_, arguments, {const_cast<const at::Tensor**>(given.data()), num_given});
    if (C10_UNLIKELY(!call.run(values.data(), values.count()))) {
      return call_fallback<Result, typename c10::remove_symint<Args>::type...>(overload_.op, args...);
    }
    if constexpr (num_given == 0) {
      return ResultOf<Result>::take(call.results());
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

template <class Operator>
torch::CppFunction make(const Overload& overload) {
  return torch::CppFunction(Kernel<typename Operator::schema>(overload));
}

#define TYPED(op) {c10::OperatorName(at::_ops::op::name, at::_ops::op::overload_name), &make<at::_ops::op>}

const std::unordered_map<c10::OperatorName, TypedKernel>& kernels() {
  static const auto* const found = new std::unordered_map<c10::OperatorName, TypedKernel>{
      TYPED(_batch_norm_no_update),
      TYPED(_batch_norm_with_update),
      TYPED(_log_softmax),
      TYPED(_log_softmax_backward_data),
      TYPED(_native_batch_norm_legit),
      TYPED(_native_batch_norm_legit_no_stats),
      TYPED(_softmax),
      TYPED(_softmax_backward_data),
      TYPED(_thnn_fused_lstm_cell),
      TYPED(_thnn_fused_lstm_cell_backward_impl),
      TYPED(all),
      TYPED(all_dim),
      TYPED(amax),
      TYPED(amin),
      TYPED(any),
      TYPED(any_dim),
      TYPED(argmax),
      TYPED(argmin),
      TYPED(batch_norm_backward),
      TYPED(bernoulli__Tensor),
      TYPED(bucketize_Tensor),
      TYPED(cumsum),
      TYPED(embedding_dense_backward),
      TYPED(flip),
      TYPED(linalg_vector_norm),
      TYPED(masked_select),
      TYPED(max),
      TYPED(max_dim),
      TYPED(max_pool2d_with_indices),
      TYPED(max_pool2d_with_indices_backward),
      TYPED(mean),
      TYPED(mean_dim),
      TYPED(median),
      TYPED(min),
      TYPED(min_dim),
      TYPED(native_batch_norm),
      TYPED(native_batch_norm_backward),
      TYPED(native_group_norm),
      TYPED(native_group_norm_backward),
      TYPED(nll_loss2d_backward),
      TYPED(nll_loss2d_forward),
      TYPED(nll_loss_backward),
      TYPED(nll_loss_forward),
      TYPED(nonzero),
      TYPED(prod),
      TYPED(prod_dim_int),
      TYPED(reflection_pad1d),
      TYPED(reflection_pad2d),
      TYPED(reflection_pad2d_backward),
      TYPED(replication_pad2d),
      TYPED(replication_pad2d_backward),
      TYPED(roll),
      TYPED(searchsorted_Tensor),
      TYPED(sort),
      TYPED(sort_stable),
      TYPED(std_correction),
      TYPED(sum),
      TYPED(sum_dim_IntList),
      TYPED(topk),
      TYPED(tril),
      TYPED(triu),
      TYPED(var_correction),
      TYPED(var_mean_correction),
  };
  return *found;
}

#undef TYPED

}  // namespace

TypedKernel find_typed(const c10::OperatorName& name) {
  const auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : found->second;
}

}  // namespace rustdev
