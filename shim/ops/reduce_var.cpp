// Variances, standard deviations, norms, nansum and count_nonzero: reductions with a scalar, or without a meta.
#include "ops/factory.h"
#include "ops/reduce.h"

#include <ATen/ops/imag.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var.h>

#include <limits>

namespace rustdev {
namespace {

using OptionalScalar = const std::optional<at::Scalar>&;
using Pair = std::tuple<at::Tensor, at::Tensor>;

const Rules nan_of_nothing{std::numeric_limits<double>::quiet_NaN(), std::nullopt};

// Empty outputs for a reduction of `self`.
at::Tensor new_reduced(const at::Tensor& self, const at::DimVector& dims, bool keepdim, at::ScalarType dtype) {
  return new_empty(reduced_sizes(self, dims, keepdim), dtype, self.device());
}

// var.correction and std.correction, alone and with the mean.
template <bool root>
struct Variance {
  static inline Binding binding, with_mean;
  static constexpr const char* name = root ? "std" : "var";

  static at::Tensor functional(const at::Tensor& self, at::OptionalIntArrayRef dim, OptionalScalar correction, bool keepdim) {
    check(name, self);
    if (self.is_complex()) {
      return of_parts(self, dim, correction, keepdim);
    }
    if (takes(self)) {
      const at::DimVector dims = reduced_dims(self, dim);
      const at::Tensor result = new_reduced(self, dims, keepdim, self.scalar_type());
      launch(name, {&result}, self, dims, correction, keepdim);
      return result;
    }
    return call_fallback<at::Tensor, const at::Tensor&, at::OptionalIntArrayRef, OptionalScalar, bool>(binding.functional, self,
                                                                                                       dim, correction, keepdim);
  }

  static at::Tensor& out(const at::Tensor& self, at::OptionalIntArrayRef dim, OptionalScalar correction, bool keepdim,
                         at::Tensor& result) {
    check(name, self);
    if (takes(self) && result.scalar_type() == self.scalar_type() && on_device(result)) {
      const at::DimVector dims = reduced_dims(self, dim);
      resize_out(result, reduced_sizes(self, dims, keepdim), {}, self.options());
      launch(name, {&result}, self, dims, correction, keepdim);
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, at::OptionalIntArrayRef, OptionalScalar, bool, at::Tensor&>(
        binding.out, self, dim, correction, keepdim, result);
  }

  static Pair mean(const at::Tensor& self, at::OptionalIntArrayRef dim, OptionalScalar correction, bool keepdim) {
    constexpr const char* full_name = root ? "std_mean" : "var_mean";
    check(full_name, self);
    if (self.is_complex() && self.scalar_type() != at::kComplexHalf) {
      return {of_parts(self, dim, correction, keepdim), at::mean(self, dim, keepdim)};
    }
    if (takes(self)) {
      const at::DimVector dims = reduced_dims(self, dim);
      const at::Tensor result = new_reduced(self, dims, keepdim, self.scalar_type());
      const at::Tensor mean = new_reduced(self, dims, keepdim, self.scalar_type());
      launch(full_name, {&result, &mean}, self, dims, correction, keepdim);
      return {result, mean};
    }
    return call_fallback<Pair, const at::Tensor&, at::OptionalIntArrayRef, OptionalScalar, bool>(with_mean.functional, self, dim,
                                                                                                 correction, keepdim);
  }

 private:
  static bool takes(const at::Tensor& self) { return takes_dtype(binding, self.scalar_type()); }

  // The variance of complex numbers is the sum of those of their parts.
  static at::Tensor of_parts(const at::Tensor& self, at::OptionalIntArrayRef dim, OptionalScalar correction, bool keepdim) {
    at::Tensor sum = at::var(at::real(self), dim, correction, keepdim);
    sum.add_(at::var(at::imag(self), dim, correction, keepdim));
    return root ? sum.sqrt_() : sum;
  }

  static void check(const char* function, const at::Tensor& self) {
    TORCH_CHECK(self.is_floating_point() || self.is_complex(), function == name ? "std and var" : function,
                " only support floating point and complex dtypes");
  }

  static void launch(const char* function, std::initializer_list<const at::Tensor*> outputs, const at::Tensor& self,
                     const at::DimVector& dims, OptionalScalar correction, bool keepdim) {
    const double value = correction ? correction->toDouble() : 1.0;
    const int64_t results = (*outputs.begin())->numel();
    if (static_cast<double>(results == 0 ? 0 : self.numel() / results) <= value) {
      TORCH_WARN(function, "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor ",
                 "(input numel divided by output numel).");
    }
    TORCH_INTERNAL_ASSERT(launch_reduction(binding, nan_of_nothing, outputs, self, dims, keepdim, at::Scalar(value)));
  }
};

struct VectorNormRule {
  static constexpr bool has_inplace = false;

  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dim,
                     bool keepdim, std::optional<at::ScalarType> dtype) {
    const double order = ord.toDouble();
    const Rules rules{order < 0 ? std::numeric_limits<double>::infinity() : 0.0, dtype.value_or(self.scalar_type())};
    const at::Tensor& output = op.maybe_get_output(0);
    return launch_reduction(binding, rules, {&output}, self, reduced_dims(self, dim), keepdim, at::Scalar(order));
  }
};

struct Nansum {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                               std::optional<at::ScalarType> dtype) {
    if (c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)) {
      return at::sum(self, dim, keepdim, dtype);
    }
    const at::DimVector dims = reduced_dims(self, dim);
    if (self.is_floating_point()) {
      at::Tensor result = new_reduced(self, dims, keepdim, dtype.value_or(self.scalar_type()));
      if (launch_reduction(binding, {0.0, std::nullopt}, result, self, dims, keepdim)) {
        return result;
      }
    }
    return call_fallback<at::Tensor, const at::Tensor&, at::OptionalIntArrayRef, bool, std::optional<at::ScalarType>>(
        binding.functional, self, dim, keepdim, dtype);
  }

  static at::Tensor& out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                         at::Tensor& result) {
    if (self.is_floating_point() && on_device(result) && result.scalar_type() == dtype.value_or(result.scalar_type())) {
      const at::DimVector dims = reduced_dims(self, dim);
      resize_out(result, reduced_sizes(self, dims, keepdim), {}, result.options());
      if (launch_reduction(binding, {0.0, std::nullopt}, result, self, dims, keepdim)) {
        return result;
      }
    }
    return call_fallback<at::Tensor&, const at::Tensor&, at::OptionalIntArrayRef, bool, std::optional<at::ScalarType>, at::Tensor&>(
        binding.out, self, dim, keepdim, dtype, result);
  }
};

struct CountNonzero {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, at::IntArrayRef dim) {
    const at::DimVector dims = reduced_dims(self, dim);
    at::Tensor result = new_reduced(self, dims, false, at::kLong);
    if (C10_LIKELY(launch_reduction(binding, {0.0, self.scalar_type()}, result, self, dims, false))) {
      return result;
    }
    return call_fallback<at::Tensor, const at::Tensor&, at::IntArrayRef>(binding.functional, self, dim);
  }

  static at::Tensor along(const at::Tensor& self, std::optional<int64_t> dim) {
    return dim ? functional(self, *dim) : functional(self, at::IntArrayRef());
  }
};

template <bool root>
void bind_variance(torch::Library& m) {
  using Op = Variance<root>;
  const Names names = root ? Names{"std.correction", nullptr, "std.correction_out", "std"}
                           : Names{"var.correction", nullptr, "var.correction_out", "var"};
  const Names pair = root ? Names{"std_mean.correction", nullptr, "std_mean.correction_out", "std"}
                          : Names{"var_mean.correction", nullptr, "var_mean.correction_out", "var"};
  find_kernel(Op::binding, names);
  find_kernel(Op::with_mean, pair);
  m.impl(names.functional, TORCH_FN(Op::functional));
  m.impl(names.out, TORCH_FN(Op::out));
  m.impl(pair.functional, TORCH_FN(Op::mean));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind_variance<false>(m);
  bind_variance<true>(m);
  bind<Variants<at::meta::structured_linalg_vector_norm, VectorNormRule>>(
      m, {"linalg_vector_norm", nullptr, "linalg_vector_norm.out", "linalg_vector_norm"});
  bind<Nansum>(m, {"nansum", nullptr, "nansum.out", "nansum"});
  bind<CountNonzero>(m, {"count_nonzero.dim_IntList", nullptr, "count_nonzero.dim_IntList_out", "count_nonzero"});
  m.impl("count_nonzero", TORCH_FN(CountNonzero::along));
}

}  // namespace rustdev
