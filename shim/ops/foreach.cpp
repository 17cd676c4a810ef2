// _foreach_*: the fast path is one launch, for lists whose tensors match; the slow path is PyTorch's own, tensor after tensor.
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_abs_native.h>
#include <ATen/ops/_foreach_acos_native.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_asin_native.h>
#include <ATen/ops/_foreach_atan_native.h>
#include <ATen/ops/_foreach_ceil_native.h>
#include <ATen/ops/_foreach_clamp_max_native.h>
#include <ATen/ops/_foreach_clamp_min_native.h>
#include <ATen/ops/_foreach_copy_native.h>
#include <ATen/ops/_foreach_cos_native.h>
#include <ATen/ops/_foreach_cosh_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_erf_native.h>
#include <ATen/ops/_foreach_erfc_native.h>
#include <ATen/ops/_foreach_exp_native.h>
#include <ATen/ops/_foreach_expm1_native.h>
#include <ATen/ops/_foreach_floor_native.h>
#include <ATen/ops/_foreach_frac_native.h>
#include <ATen/ops/_foreach_lerp_native.h>
#include <ATen/ops/_foreach_lgamma_native.h>
#include <ATen/ops/_foreach_log10_native.h>
#include <ATen/ops/_foreach_log1p_native.h>
#include <ATen/ops/_foreach_log2_native.h>
#include <ATen/ops/_foreach_log_native.h>
#include <ATen/ops/_foreach_max_native.h>
#include <ATen/ops/_foreach_maximum_native.h>
#include <ATen/ops/_foreach_minimum_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_neg_native.h>
#include <ATen/ops/_foreach_norm_native.h>
#include <ATen/ops/_foreach_pow_native.h>
#include <ATen/ops/_foreach_reciprocal_native.h>
#include <ATen/ops/_foreach_round_native.h>
#include <ATen/ops/_foreach_rsqrt_native.h>
#include <ATen/ops/_foreach_sigmoid_native.h>
#include <ATen/ops/_foreach_sign_native.h>
#include <ATen/ops/_foreach_sin_native.h>
#include <ATen/ops/_foreach_sinh_native.h>
#include <ATen/ops/_foreach_sqrt_native.h>
#include <ATen/ops/_foreach_sub_native.h>
#include <ATen/ops/_foreach_tan_native.h>
#include <ATen/ops/_foreach_tanh_native.h>
#include <ATen/ops/_foreach_trunc_native.h>
#include <ATen/ops/_foreach_zero_native.h>
#include <torch/library.h>

#include <limits>

#include "lists.h"
#include "ops/factory.h"

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

  // Whether one launch of the kernel does the call; `inplace`: whether it writes to the first list.
  bool fit(const rd_op* op, bool inplace) const {
    const at::TensorList first = lists_[0];
    if (first.empty() || !on_device(first[0]) || !takes(op, first[0].scalar_type())) {
      return false;
    }
    const auto same_length = [&](const at::TensorList& list) { return list.size() == first.size(); };
    return std::all_of(lists_.begin(), lists_.end(), same_length) && (!is_each_ || numbers_.size() == first.size()) &&
           std::none_of(numbers_.begin(), numbers_.end(), [](const at::Scalar& number) { return number.isBoolean(); }) &&
           factor_fits() && numbers_fit(first[0].scalar_type()) && !(inplace && overlap()) &&
           at::native::can_use_fast_route(lists_, numbers_);
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

  // Whether a tensor of the first list shares memory with one beside it without being it: PyTorch refuses to write there.
  bool overlap() const {
    for (size_t place = 0; place < lists_[0].size(); ++place) {
      for (size_t list = 1; list < lists_.size(); ++list) {
        if (overlap_in_part(lists_[0][place], lists_[list][place])) {
          return true;
        }
      }
    }
    return false;
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

  // Numbers beyond the dtype are cast by some operators of PyTorch and refused by others.
  bool numbers_fit(at::ScalarType dtype) const {
    if (!at::isIntegralType(dtype, /*includeBool=*/false)) {
      return at::isComplexType(dtype) ||
             std::all_of(numbers_.begin(), numbers_.end(), [&](const at::Scalar& number) { return surely_holds(dtype, number); });
    }
    const auto [least, greatest] = integer_range(dtype);
    return std::all_of(numbers_.begin(), numbers_.end(), [&](const at::Scalar& number) {
      return number.isIntegral(false) && number.toLong() <= greatest && number.toLong() >= least;
    });
  }

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
    if (C10_UNLIKELY(!arguments.fit(op, std::is_void_v<Result>))) {
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
  Foreach<slow>::op = rustdev::kernel(kernel);
  library.impl(name.c_str(), TORCH_FN(Foreach<slow>::call));
}

// Binds an overload's functional and in-place variants to a kernel.
template <auto slow, auto slow_inplace>
void bind_foreach(torch::Library& library, const char* name, const char* overload, const char* kernel) {
  const std::string base = std::string("_foreach_") + name;
  bind_one<slow>(library, base + overload, kernel);
  bind_one<slow_inplace>(library, base + "_" + overload, kernel);
}

// An overload whose numbers come packed into a tensor of the host: that of a list of numbers does it.
template <auto slow>
auto with_packed_numbers(at::TensorList self, at::TensorList lhs, at::TensorList rhs, const at::Tensor& numbers) {
  const std::vector<at::Scalar> unpacked = at::native::convert_tensor_to_scalar_list(numbers, static_cast<int64_t>(self.size()));
  return Foreach<slow>::call(self, lhs, rhs, unpacked);
}

template <auto slow, auto slow_inplace>
void bind_packed(torch::Library& library, const std::string& name) {
  library.impl(("_foreach_" + name + ".Tensor").c_str(), TORCH_FN(with_packed_numbers<slow>));
  library.impl(("_foreach_" + name + "_.Tensor").c_str(), TORCH_FN(with_packed_numbers<slow_inplace>));
}

// Results of one element of a dtype for every tensor of a list, in one launch. Nothing where that cannot be.
std::optional<Tensors> reduce_each(const rd_op* op, at::TensorList self, at::ScalarType compute, at::ScalarType result,
                                   const std::optional<at::Scalar>& number) {
  const auto is_empty = [](const at::Tensor& tensor) { return tensor.numel() == 0; };
  if (!Arguments(self).fit(op, /*inplace=*/false) || std::any_of(self.begin(), self.end(), is_empty)) {
    return std::nullopt;
  }
  Tensors results;
  results.reserve(self.size());
  for (const at::Tensor& tensor : self) {
    results.push_back(new_empty({}, result, tensor.device()));
  }
  for_each_launch(self.size(), [&](size_t begin, size_t count) {
    ListLaunch launch(2 * count, count);
    launch.list(at::TensorList(results).slice(begin, count));
    launch.finish_outputs();
    launch.list(self.slice(begin, count));
    if (number) {
      launch.scalar(*number);
    }
    launch.run(op, compute, self[0].device());
  });
  return results;
}

Tensors norm(at::TensorList self, const at::Scalar& ord, std::optional<at::ScalarType> dtype) {
  const rd_op* const op = kernel_of<"_foreach_norm.Scalar">;
  // Calls that PyTorch refuses, and those that need more than one pass, take PyTorch's code.
  if (!self.empty() && !ord.isComplex() && dtype.value_or(self[0].scalar_type()) == self[0].scalar_type()) {
    const at::ScalarType given = self[0].scalar_type();
    if (auto results = reduce_each(op, self, given, c10::toRealValueType(given), ord.toDouble())) {
      return *std::move(results);
    }
  }
  return at::native::foreach_tensor_norm_slow(self, ord, dtype);
}

Tensors max(at::TensorList self) {
  const rd_op* const op = kernel_of<"_foreach_max">;
  if (!self.empty()) {
    const at::ScalarType dtype = self[0].scalar_type();
    if (auto results = reduce_each(op, self, dtype, dtype, std::nullopt)) {
      return *std::move(results);
    }
  }
  return at::native::foreach_tensor_max_slow(self);
}

// The results are contiguous, whatever the exponents are.
Tensors pow_base(const at::Scalar& base, at::TensorList exponents) {
  Tensors dense;
  dense.reserve(exponents.size());
  for (const at::Tensor& exponent : exponents) {
    dense.push_back(exponent.contiguous());
  }
  return Foreach<at::native::foreach_scalar_pow_list_kernel_slow>::call(base, dense);
}

// The lists may differ in their dtypes.
void copy_(at::TensorList self, at::TensorList source, bool non_blocking) {
  const rd_op* const op = kernel_of<"_foreach_copy_">;
  const bool same_length = self.size() == source.size() && !self.empty();
  const Arguments arguments(self, source);
  if (same_length && on_device(self[0]) && !arguments.overlap() &&
      at::native::check_fast_path_restrictions({self, source}, {}, false, /*skip_cross_list_dtype_check=*/true)) {
    arguments.bump_versions();
    Arguments(source).launch(op, self);
  } else {
    at::native::foreach_tensor_copy_list_kernel_slow_(self, source, non_blocking);
  }
}

}  // namespace

// Both variants of an overload. Numbers that come as Scalar, as ScalarList or as Tensor are the same to a kernel.
#define RUSTDEV_FOREACH(name, overload, kernel, slow) \
  bind_foreach<at::native::slow, at::native::slow##_>(m, name, overload, "_foreach_" kernel)
#define RUSTDEV_FOREACH_UNARY(name) RUSTDEV_FOREACH(#name, "", #name, foreach_tensor_##name##_slow)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  RUSTDEV_FOREACH("add", ".List", "add.List", foreach_tensor_add_list_kernel_slow);
  RUSTDEV_FOREACH("add", ".Scalar", "add.Scalar", foreach_tensor_add_scalar_kernel_slow);
  RUSTDEV_FOREACH("add", ".ScalarList", "add.Scalar", foreach_tensor_add_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("add", ".Tensor", "add.Scalar", foreach_tensor_add_tensor_kernel_slow);
  RUSTDEV_FOREACH("addcdiv", ".Scalar", "addcdiv.Scalar", foreach_tensor_addcdiv_scalar_slow);
  RUSTDEV_FOREACH("addcdiv", ".ScalarList", "addcdiv.Scalar", foreach_tensor_addcdiv_scalarlist_slow);
  bind_packed<at::native::foreach_tensor_addcdiv_scalarlist_slow, at::native::foreach_tensor_addcdiv_scalarlist_slow_>(m,
                                                                                                                       "addcdiv");
  bind_packed<at::native::foreach_tensor_addcmul_scalarlist_slow, at::native::foreach_tensor_addcmul_scalarlist_slow_>(m,
                                                                                                                       "addcmul");
  RUSTDEV_FOREACH("addcmul", ".Scalar", "addcmul.Scalar", foreach_tensor_addcmul_scalar_slow);
  RUSTDEV_FOREACH("addcmul", ".ScalarList", "addcmul.Scalar", foreach_tensor_addcmul_scalarlist_slow);
  for (const char* const name : {"clamp_max", "minimum"}) {
    RUSTDEV_FOREACH(name, ".List", "minimum.List", foreach_tensor_clamp_max_list_kernel_slow);
    RUSTDEV_FOREACH(name, ".Scalar", "clamp_max.Scalar", foreach_tensor_clamp_max_scalar_kernel_slow);
    RUSTDEV_FOREACH(name, ".ScalarList", "clamp_max.Scalar", foreach_tensor_clamp_max_scalarlist_kernel_slow);
  }
  for (const char* const name : {"clamp_min", "maximum"}) {
    RUSTDEV_FOREACH(name, ".List", "maximum.List", foreach_tensor_clamp_min_list_kernel_slow);
    RUSTDEV_FOREACH(name, ".Scalar", "clamp_min.Scalar", foreach_tensor_clamp_min_scalar_kernel_slow);
    RUSTDEV_FOREACH(name, ".ScalarList", "clamp_min.Scalar", foreach_tensor_clamp_min_scalarlist_kernel_slow);
  }
  RUSTDEV_FOREACH("div", ".List", "div.List", foreach_tensor_div_list_kernel_slow);
  RUSTDEV_FOREACH("div", ".Scalar", "div.Scalar", foreach_tensor_div_scalar_kernel_slow);
  RUSTDEV_FOREACH("div", ".ScalarList", "div.Scalar", foreach_tensor_div_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("div", ".Tensor", "div.Scalar", foreach_tensor_div_tensor_kernel_slow);
  RUSTDEV_FOREACH("lerp", ".List", "lerp.List", foreach_tensor_ternary_lerp_slow);
  RUSTDEV_FOREACH("lerp", ".Scalar", "lerp.Scalar", foreach_tensor_lerp_list_kernel_slow);
  RUSTDEV_FOREACH("lerp", ".ScalarList", "lerp.Scalar", foreach_tensor_lerp_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("mul", ".List", "mul.List", foreach_tensor_mul_list_kernel_slow);
  RUSTDEV_FOREACH("mul", ".Scalar", "mul.Scalar", foreach_tensor_mul_scalar_kernel_slow);
  RUSTDEV_FOREACH("mul", ".ScalarList", "mul.Scalar", foreach_tensor_mul_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("mul", ".Tensor", "mul.Scalar", foreach_tensor_mul_tensor_kernel_slow);
  RUSTDEV_FOREACH("pow", ".List", "pow.List", foreach_tensor_pow_list_kernel_slow);
  RUSTDEV_FOREACH("pow", ".Scalar", "pow.Scalar", foreach_tensor_pow_scalar_kernel_slow);
  RUSTDEV_FOREACH("pow", ".ScalarList", "pow.Scalar", foreach_tensor_pow_scalarlist_kernel_slow);
  RUSTDEV_FOREACH("sub", ".List", "sub.List", foreach_tensor_sub_list_kernel_slow);
  RUSTDEV_FOREACH("sub", ".Scalar", "sub.Scalar", foreach_tensor_sub_scalar_kernel_slow);
  RUSTDEV_FOREACH("sub", ".ScalarList", "sub.Scalar", foreach_tensor_sub_scalarlist_kernel_slow);
  m.impl("_foreach_copy_", TORCH_FN(copy_));
  m.impl("_foreach_max", TORCH_FN(max));
  m.impl("_foreach_norm.Scalar", TORCH_FN(norm));
  m.impl("_foreach_pow.ScalarAndTensor", TORCH_FN(pow_base));
  Foreach<at::native::foreach_scalar_pow_list_kernel_slow>::op = kernel("_foreach_pow.ScalarAndTensor");
  RUSTDEV_FOREACH_UNARY(abs);
  RUSTDEV_FOREACH_UNARY(acos);
  RUSTDEV_FOREACH_UNARY(asin);
  RUSTDEV_FOREACH_UNARY(atan);
  RUSTDEV_FOREACH_UNARY(ceil);
  RUSTDEV_FOREACH_UNARY(cos);
  RUSTDEV_FOREACH_UNARY(cosh);
  RUSTDEV_FOREACH_UNARY(erf);
  RUSTDEV_FOREACH_UNARY(erfc);
  RUSTDEV_FOREACH_UNARY(exp);
  RUSTDEV_FOREACH_UNARY(expm1);
  RUSTDEV_FOREACH_UNARY(floor);
  RUSTDEV_FOREACH_UNARY(frac);
  RUSTDEV_FOREACH_UNARY(lgamma);
  RUSTDEV_FOREACH_UNARY(log);
  RUSTDEV_FOREACH_UNARY(log10);
  RUSTDEV_FOREACH_UNARY(log1p);
  RUSTDEV_FOREACH_UNARY(log2);
  RUSTDEV_FOREACH_UNARY(neg);
  RUSTDEV_FOREACH_UNARY(reciprocal);
  RUSTDEV_FOREACH_UNARY(round);
  RUSTDEV_FOREACH_UNARY(rsqrt);
  RUSTDEV_FOREACH_UNARY(sigmoid);
  RUSTDEV_FOREACH_UNARY(sign);
  RUSTDEV_FOREACH_UNARY(sin);
  RUSTDEV_FOREACH_UNARY(sinh);
  RUSTDEV_FOREACH_UNARY(sqrt);
  RUSTDEV_FOREACH_UNARY(tan);
  RUSTDEV_FOREACH_UNARY(tanh);
  RUSTDEV_FOREACH_UNARY(trunc);
  bind_one<at::native::foreach_tensor_zero_slow_>(m, "_foreach_zero_", "_foreach_zero_");
}

#undef RUSTDEV_FOREACH_UNARY
#undef RUSTDEV_FOREACH

}  // namespace rustdev
