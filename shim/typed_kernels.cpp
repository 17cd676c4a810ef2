// Kernels for the types of schemas, and their list: see typed_kernels.h.
#include "typed_kernels.h"

#include <ATen/Operators.h>
#include <ATen/core/op_registration/infer_schema.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "boxed_values.h"

namespace rustdev {
namespace {

// The descriptors of a call's inputs, which borrow from the arguments: so many, some of them lists.
template <size_t size, size_t lists>
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
  void add(at::TensorList tensors) {
    auto& found = lists_[num_lists_++] = std::make_unique_for_overwrite<rd_tensor[]>(tensors.size());
    std::transform(tensors.begin(), tensors.end(), found.get(), &described);
    list(RD_VALUE_TENSORS, tensors.size(), found.get());
  }
  // At most one such list.
  void add(at::ArrayRef<at::Scalar> values) {
    scalars_.resize(values.size());
    std::transform(values.begin(), values.end(), scalars_.begin(), &to_scalar);
    list(RD_VALUE_SCALARS, values.size(), scalars_.data());
  }
  void add(const c10::List<std::optional<at::Tensor>>& tensors) {
    describe(tensors, list_);
    list(RD_VALUE_OPTIONAL_TENSORS, list_.size(), list_.data());
  }
  void add(const at::ITensorListRef& tensors) {
    for (const at::Tensor& tensor : tensors) {
      list_.push_back(described(tensor));
    }
    list(RD_VALUE_TENSORS, list_.size(), list_.data());
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
  void add(at::ScalarType value) { add(static_cast<int64_t>(value)); }
  void add(double value) { number(c10::ScalarType::Double, 0, value); }
  // What factories are asked for.
  void add(at::Layout layout) { add(static_cast<int64_t>(layout)); }
  void add(at::MemoryFormat format) { add(static_cast<int64_t>(format)); }
  void add(at::Device device) { values_[count_++] = device_value(device); }
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
  std::array<std::unique_ptr<rd_tensor[]>, lists> lists_;
  std::vector<rd_scalar> scalars_;
  // Of the one list of another type.
  c10::SmallVector<rd_tensor, 4> list_;
  size_t count_ = 0, num_tensors_ = 0, num_lists_ = 0;
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

  at::Device device() const override {
    at::Device named = device_type;
    std::apply([&](const auto&... arguments) { (take_device(arguments, named), ...); }, arguments_);
    return named;
  }

 private:
  template <class Arg>
  static void take_device(const Arg& argument, at::Device& named) {
    if constexpr (std::is_same_v<Arg, std::optional<at::Device>>) {
      named = argument.value_or(named);
    }
  }

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
template <>
struct ResultOf<std::vector<at::Tensor>> {
  static std::vector<at::Tensor> take(c10::SmallVector<at::Tensor, 2>& results) {
    return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
  }
};
template <>
struct ResultOf<void> {
  static void take(c10::SmallVector<at::Tensor, 2>& /*results*/) {}
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
  static constexpr size_t num_lists = (size_t{std::is_same_v<Args, at::TensorList>} + ... + 0);

 public:
  explicit Kernel(const Overload& overload) : overload_(overload) {}

  Result operator()(typename c10::remove_symint<Args>::type... args) const {
    TypedValues<sizeof...(Args), num_lists> values;
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
    if (const c10::BoxedKernel other = call.run(values.data(), values.count()); C10_UNLIKELY(other.isValid())) {
      using Boxed = c10::impl::BoxedKernelWrapper<Result(typename c10::remove_symint<Args>::type...)>;
      return Boxed::call(other, overload_.op, c10::DispatchKeySet(), args...);
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

template <class Schema>
torch::CppFunction make(const Overload& overload) {
  return torch::CppFunction(Kernel<Schema>(overload));
}

#define TYPED(op) {c10::OperatorName(at::_ops::op::name, at::_ops::op::overload_name), &make<at::_ops::op::schema>}

// Those that are not bound yet.
std::unordered_map<c10::OperatorName, TypedKernel>& kernels() {
  static auto* const found = new std::unordered_map<c10::OperatorName, TypedKernel>{
      TYPED(_amp_foreach_non_finite_check_and_unscale_),
      TYPED(_batch_norm_no_update),
      TYPED(_batch_norm_with_update),
      TYPED(_foreach_norm_Scalar),
      TYPED(_fused_adam_),
      TYPED(_fused_adamw_),
      TYPED(_fused_sgd_),
      TYPED(_index_put_impl_),
      TYPED(_log_softmax),
      TYPED(_log_softmax_backward_data),
      TYPED(_native_batch_norm_legit),
      TYPED(_native_batch_norm_legit_no_stats),
      TYPED(_softmax),
      TYPED(_softmax_backward_data),
      TYPED(_thnn_fused_lstm_cell),
      TYPED(_thnn_fused_lstm_cell_backward_impl),
      TYPED(addmm),
      TYPED(addmv),
      TYPED(all),
      TYPED(all_dim),
      TYPED(amax),
      TYPED(amin),
      TYPED(any),
      TYPED(any_dim),
      TYPED(argmax),
      TYPED(argmin),
      TYPED(baddbmm),
      TYPED(batch_norm_backward),
      TYPED(bernoulli__Tensor),
      TYPED(bernoulli__float),
      TYPED(binary_cross_entropy),
      TYPED(binary_cross_entropy_backward),
      TYPED(bmm),
      TYPED(bucketize_Tensor),
      TYPED(cat),
      TYPED(cauchy_),
      TYPED(convolution_backward_overrideable),
      TYPED(convolution_overrideable),
      TYPED(cumsum),
      TYPED(embedding_dense_backward),
      TYPED(exponential_),
      TYPED(flip),
      TYPED(gather),
      TYPED(geometric_),
      TYPED(histc),
      TYPED(im2col),
      TYPED(index_Tensor),
      TYPED(index_add),
      TYPED(index_add_),
      TYPED(index_copy_),
      TYPED(index_fill__int_Scalar),
      TYPED(index_put_),
      TYPED(index_select),
      TYPED(kthvalue_values),
      TYPED(linalg_vector_norm),
      TYPED(log_normal_),
      TYPED(log_sigmoid_backward),
      TYPED(log_sigmoid_forward),
      TYPED(logspace_out),
      TYPED(masked_fill__Scalar),
      TYPED(masked_fill__Tensor),
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
      TYPED(mm),
      TYPED(mode),
      TYPED(native_batch_norm),
      TYPED(native_batch_norm_backward),
      TYPED(native_dropout),
      TYPED(native_dropout_backward),
      TYPED(native_group_norm),
      TYPED(native_group_norm_backward),
      TYPED(native_layer_norm),
      TYPED(native_layer_norm_backward),
      TYPED(nll_loss2d_backward),
      TYPED(nll_loss2d_forward),
      TYPED(nll_loss_backward),
      TYPED(nll_loss_forward),
      TYPED(nonzero),
      TYPED(normal_),
      TYPED(prod),
      TYPED(prod_dim_int),
      TYPED(rand),
      TYPED(rand_generator),
      TYPED(rand_like),
      TYPED(randint),
      TYPED(randint_low),
      TYPED(randn),
      TYPED(randn_generator),
      TYPED(randn_like),
      TYPED(random_),
      TYPED(random__from),
      TYPED(random__to),
      TYPED(reflection_pad1d),
      TYPED(reflection_pad2d),
      TYPED(reflection_pad2d_backward),
      TYPED(reflection_pad3d),
      TYPED(replication_pad1d),
      TYPED(replication_pad2d),
      TYPED(replication_pad2d_backward),
      TYPED(replication_pad3d),
      TYPED(roll),
      TYPED(scatter__src),
      TYPED(scatter__value),
      TYPED(scatter_add),
      TYPED(scatter_add_),
      TYPED(scatter_reduce_two),
      TYPED(scatter_src),
      TYPED(scatter_value),
      TYPED(searchsorted_Tensor),
      TYPED(sort),
      TYPED(sort_stable),
      TYPED(std_correction),
      TYPED(sum),
      TYPED(sum_dim_IntList),
      TYPED(take),
      TYPED(topk),
      TYPED(tril),
      TYPED(triu),
      TYPED(uniform_),
      TYPED(var_correction),
      TYPED(var_mean_correction),
  };
  return *found;
}

#undef TYPED

// A kernel and the schema of its types.
struct ListKernel {
  c10::FunctionSchema schema;
  TypedKernel make;
};

template <class Schema>
ListKernel list_kernel() {
  return {c10::inferFunctionSchemaFlattenedReturns<Schema>(), &make<Schema>};
}

// Of operators over a list of tensors: the functional variant, and that in place.
template <class... Args>
void add_both(std::vector<ListKernel>& kernels) {
  kernels.push_back(list_kernel<std::vector<at::Tensor>(at::TensorList, Args...)>());
  kernels.push_back(list_kernel<void(at::TensorList, Args...)>());
}

const std::vector<ListKernel>& list_kernels() {
  using List = at::TensorList;
  using Number = const at::Scalar&;
  using Numbers = at::ArrayRef<at::Scalar>;
  static const auto* const found = [] {
    auto* const kernels = new std::vector<ListKernel>{list_kernel<void(List, List, bool)>()};
    add_both<>(*kernels);
    add_both<Number>(*kernels);
    add_both<Numbers>(*kernels);
    add_both<const at::Tensor&>(*kernels);
    add_both<const at::Tensor&, Number>(*kernels);
    add_both<List>(*kernels);
    add_both<List, Number>(*kernels);
    add_both<List, List>(*kernels);
    add_both<List, List, Number>(*kernels);
    add_both<List, List, Numbers>(*kernels);
    return kernels;
  }();
  return *found;
}

TypedKernel find_list(const c10::FunctionSchema& schema) {
  const auto is_same = [&](const ListKernel& kernel) { return !c10::findSchemaDifferences(kernel.schema, schema); };
  const auto found = std::find_if(list_kernels().begin(), list_kernels().end(), is_same);
  return found == list_kernels().end() ? nullptr : found->make;
}

}  // namespace

TypedKernel take_typed(const c10::OperatorHandle& op) {
  if (const auto taken = kernels().extract(op.operator_name()); !taken.empty()) {
    return taken.mapped();
  }
  const bool takes_lists = op.operator_name().name.starts_with("aten::_foreach_");
  return takes_lists ? find_list(op.schema()) : nullptr;
}

void check_all_taken() {
  TORCH_CHECK(kernels().empty(), "typed_kernels.cpp lists ", kernels().begin()->first, ", which Rust does not bind");
}

}  // namespace rustdev
