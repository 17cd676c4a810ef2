// _foreach_*: one launch for lists whose tensors fit together, PyTorch's own way, tensor after tensor, for all others.
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_lerp_native.h>
#include <ATen/ops/_foreach_maximum_native.h>
#include <ATen/ops/_foreach_minimum_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_neg_native.h>
#include <ATen/ops/_foreach_reciprocal_native.h>
#include <ATen/ops/_foreach_sqrt_native.h>
#include <ATen/ops/_foreach_sub_native.h>
#include <ATen/ops/_foreach_zero_native.h>
#include <torch/library.h>

#include "lists.h"

namespace rustdev {
namespace {

using Tensors = std::vector<at::Tensor>;

// The arguments of a call: lists, numbers, and a tensor of one element that is a number too.
class Arguments {
 public:
  template <class... Args>
  explicit Arguments(const Args&... args) {
    (add(args), ...);
  }

  // Whether one launch of the kernel does the call.
  bool fit(const rd_op* op) const {
    const at::TensorList first = lists_[0];
    if (first.empty() || !on_device(first[0]) || !((rd_op_dtypes(op) >> static_cast<unsigned>(first[0].scalar_type())) & 1)) {
      return false;
    }
    const auto same_length = [&](const at::TensorList& list) { return list.size() == first.size(); };
    return std::all_of(lists_.begin(), lists_.end(), same_length) && (!is_each_ || numbers_.size() == first.size()) &&
           std::none_of(numbers_.begin(), numbers_.end(), [](const at::Scalar& number) { return number.isBoolean(); }) &&
           factor_fits() && at::native::can_use_fast_route(lists_, numbers_);
  }

  // Launches over the lists; the results go to `out`, or to the first list where there is none.
  void launch(const rd_op* op, at::TensorList out) const {
    const size_t num_lists = lists_.size() + (out.empty() ? 0 : 1);
    for_each_launch(lists_[0].size(), [&](size_t begin, size_t count) {
      ListLaunch launch(num_lists * count + 1, count);
      launch.scalar(out.empty());
      if (!out.empty()) {
        launch.list(out.slice(begin, count));
        launch.finish_outputs();
      }
      for (const at::TensorList& list : lists_) {
        launch.list(list.slice(begin, count));
        if (out.empty() && &list == lists_.begin()) {
          launch.finish_outputs();
        }
      }
      add_numbers(launch, begin, count);
      launch.run(op, lists_[0][0].scalar_type(), lists_[0][0].device());
    });
  }

  // Tells autograd of a change in place, which PyTorch leaves to the kernels of these operators.
  void bump_versions() const {
    for (const at::Tensor& tensor : lists_[0]) {
      tensor.unsafeGetTensorImpl()->bump_version();
    }
  }

  Tensors new_results() const {
    Tensors results;
    results.reserve(lists_[0].size());
    for (const at::Tensor& tensor : lists_[0]) {
      results.push_back(new_empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), tensor.device()));
    }
    return results;
  }

 private:
  void add(at::TensorList list) { lists_.push_back(list); }
  void add(const at::Scalar& number) { numbers_ = at::ArrayRef<at::Scalar>(number); }
  void add(at::ArrayRef<at::Scalar> numbers) {
    numbers_ = numbers;
    is_each_ = true;
  }
  void add(const at::Tensor& factor) { factor_ = &factor; }

  // Tensor after tensor, a factor that is one of the results would change on the way.
  bool factor_fits() const {
    if (factor_ == nullptr) {
      return true;
    }
    const at::Tensor& self = lists_[0][0];
    const auto is_alias = [&](const at::Tensor& tensor) { return factor_->is_alias_of(tensor); };
    return factor_->device() == self.device() && factor_->scalar_type() == self.scalar_type() && factor_->dim() == 0 &&
           !factor_->is_neg() && std::none_of(lists_[0].begin(), lists_[0].end(), is_alias);
  }

  void add_numbers(ListLaunch& launch, size_t begin, size_t count) const {
    if (factor_ != nullptr) {
      launch.single(*factor_);
      if (numbers_.empty()) {
        launch.scalar(1.0);
      }
    }
    for (const at::Scalar& number : is_each_ ? numbers_.slice(begin, count) : numbers_) {
      launch.scalar(number);
    }
  }

  c10::SmallVector<at::TensorList, 3> lists_;
  at::ArrayRef<at::Scalar> numbers_;
  bool is_each_ = false;
  const at::Tensor* factor_ = nullptr;
};

// A variant of an operator, by PyTorch's way of doing it: the functional ones give tensors, the others write to their first list.
template <auto slow, class Function = decltype(slow)>
struct Foreach;

template <auto slow, class Result, class... Args>
struct Foreach<slow, Result (*)(Args...)> {
  static inline const rd_op* op;

  static Result call(Args... args) {
    const Arguments arguments(args...);
    if (C10_UNLIKELY(!arguments.fit(op))) {
      return slow(args...);
    }
    if constexpr (std::is_void_v<Result>) {
      arguments.bump_versions();
      arguments.launch(op, {});
    } else {
      Result results = arguments.new_results();
      arguments.launch(op, results);
      return results;
    }
  }
};

template <auto slow>
void bind_one(torch::Library& library, const std::string& name, const char* kernel) {
  Foreach<slow>::op = rd_op_find(kernel);
  if (Foreach<slow>::op != nullptr) {
    library.impl(name.c_str(), TORCH_FN(Foreach<slow>::call));
  }
}

// Binds an overload's functional and in-place variants to a kernel, where the operator table has it.
template <auto slow, auto slow_inplace>
void bind_foreach(torch::Library& library, const char* name, const char* overload, const char* kernel) {
  bind_one<slow>(library, std::string(name) + overload, kernel);
  bind_one<slow_inplace>(library, std::string(name) + "_" + overload, kernel);
}

}  // namespace

// Both variants of an overload. Numbers that come as Scalar, as ScalarList or as Tensor are the same to a kernel.
#define RUSTDEV_FOREACH(name, overload, kernel, slow) \
  bind_foreach<at::native::slow, at::native::slow##_>(m, "_foreach_" name, overload, "_foreach_" kernel)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  RUSTDEV_FOREACH("add", ".List", "add.List", foreach_tensor_add_list_kernel_slow);
  RUSTDEV_FOREACH("add", ".Scalar", "add.Scalar", foreach_tensor_add_scalar_kernel_slow);
  RUSTDEV_FOREACH("add", ".ScalarList", "add.Scalar", foreach_tensor_add_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("add", ".Tensor", "add.Scalar", foreach_tensor_add_tensor_kernel_slow);
  RUSTDEV_FOREACH("addcdiv", ".Scalar", "addcdiv.Scalar", foreach_tensor_addcdiv_scalar_slow);
  RUSTDEV_FOREACH("addcdiv", ".ScalarList", "addcdiv.Scalar", foreach_tensor_addcdiv_scalarlist_slow);
  RUSTDEV_FOREACH("addcmul", ".Scalar", "addcmul.Scalar", foreach_tensor_addcmul_scalar_slow);
  RUSTDEV_FOREACH("addcmul", ".ScalarList", "addcmul.Scalar", foreach_tensor_addcmul_scalarlist_slow);
  RUSTDEV_FOREACH("div", ".List", "div.List", foreach_tensor_div_list_kernel_slow);
  RUSTDEV_FOREACH("div", ".Scalar", "div.Scalar", foreach_tensor_div_scalar_kernel_slow);
  RUSTDEV_FOREACH("div", ".ScalarList", "div.Scalar", foreach_tensor_div_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("div", ".Tensor", "div.Scalar", foreach_tensor_div_tensor_kernel_slow);
  RUSTDEV_FOREACH("lerp", ".List", "lerp.List", foreach_tensor_ternary_lerp_slow);
  RUSTDEV_FOREACH("lerp", ".Scalar", "lerp.Scalar", foreach_tensor_lerp_list_kernel_slow);
  RUSTDEV_FOREACH("lerp", ".ScalarList", "lerp.Scalar", foreach_tensor_lerp_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("maximum", ".List", "maximum.List", foreach_tensor_clamp_min_list_kernel_slow);
  RUSTDEV_FOREACH("minimum", ".List", "minimum.List", foreach_tensor_clamp_max_list_kernel_slow);
  RUSTDEV_FOREACH("mul", ".List", "mul.List", foreach_tensor_mul_list_kernel_slow);
  RUSTDEV_FOREACH("mul", ".Scalar", "mul.Scalar", foreach_tensor_mul_scalar_kernel_slow);
  RUSTDEV_FOREACH("mul", ".ScalarList", "mul.Scalar", foreach_tensor_mul_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("mul", ".Tensor", "mul.Scalar", foreach_tensor_mul_tensor_kernel_slow);
  RUSTDEV_FOREACH("neg", "", "neg", foreach_tensor_neg_slow);
  RUSTDEV_FOREACH("reciprocal", "", "reciprocal", foreach_tensor_reciprocal_slow);
  RUSTDEV_FOREACH("sqrt", "", "sqrt", foreach_tensor_sqrt_slow);
  RUSTDEV_FOREACH("sub", ".List", "sub.List", foreach_tensor_sub_list_kernel_slow);
  RUSTDEV_FOREACH("sub", ".Scalar", "sub.Scalar", foreach_tensor_sub_scalar_kernel_slow);
  RUSTDEV_FOREACH("sub", ".ScalarList", "sub.Scalar", foreach_tensor_sub_scalarlist_kernel_slow);
  bind_one<at::native::foreach_tensor_zero_slow_>(m, "_foreach_zero_", "_foreach_zero_");
}

#undef RUSTDEV_FOREACH

}  // namespace rustdev
