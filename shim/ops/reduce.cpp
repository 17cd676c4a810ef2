// Reductions: bindings, and the launch of reduce.h.
#include "ops/reduce.h"
#include "ops/factory.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sum_meta.h>

#include <algorithm>
#include <limits>

namespace rustdev {

template <>
inline constexpr bool refuses_overlap<at::meta::structured_mean_dim> = true;

at::DimVector reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  at::DimVector result;
  if (!dims || dims->empty()) {
    for (int64_t dim = 0; dim < self.dim(); ++dim) {
      result.push_back(dim);
    }
    return result;
  }
  for (const int64_t dim : *dims) {
    const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
    if (self.dim() != 0) {
      result.push_back(wrapped);
    }
  }
  return result;
}

at::DimVector reduced_dims(const at::Tensor& self, int64_t dim) {
  const int64_t dims[] = {dim};
  return reduced_dims(self, at::OptionalIntArrayRef(at::IntArrayRef(dims)));
}

at::DimVector reduced_sizes(const at::Tensor& self, const at::DimVector& dims, bool keepdim) {
  at::dim_list_to_bitset(dims, self.dim());  // refuses a dimension that is there twice
  at::DimVector sizes;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) {
      sizes.push_back(self.size(dim));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

namespace {

// The output's strides over the input's sizes.
at::DimVector output_strides(const at::Tensor& output, const at::Tensor& self, const at::DimVector& dims, bool keepdim) {
  // Some operators take an empty list of dimensions for none instead of all.
  const bool same_shape = output.sizes() == self.sizes();
  at::DimVector strides(self.dim(), 0);
  int64_t next = 0;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    const bool reduced = !same_shape && std::find(dims.begin(), dims.end(), dim) != dims.end();
    if (!reduced) {
      strides[dim] = output.stride(next);
    }
    next += keepdim || !reduced ? 1 : 0;
  }
  return strides;
}

}  // namespace

bool launch_reduction(const Binding& binding, const Rules& rules, std::initializer_list<const at::Tensor*> outputs,
                      const at::Tensor& self, const at::DimVector& dims, bool keepdim, const std::optional<at::Scalar>& scalar) {
  const at::Tensor& first = **outputs.begin();
  const c10::ScalarType dtype = rules.compute_dtype.value_or(first.scalar_type());
  if (!takes_dtype(binding, dtype)) {
    return false;
  }
  if (first.numel() == 0) {
    return true;
  }
  if (self.numel() == 0) {
    if (rules.of_nothing) {
      std::for_each(outputs.begin(), outputs.end(), [&](const at::Tensor* output) { output->fill_(*rules.of_nothing); });
    }
    return rules.of_nothing.has_value();
  }
  Launch launch;
  for (const at::Tensor* output : outputs) {
    launch.restrided(*output, self.sizes(), output_strides(*output, self, dims, keepdim));
  }
  launch.finish_outputs();
  launch.input(self);
  if (scalar) {
    launch.scalar(*scalar);
  }
  return launch.run(binding.op, static_cast<int32_t>(dtype), self.device().index());
}

bool launch_reduction(const Binding& binding, const Rules& rules, const at::Tensor& output, const at::Tensor& self,
                      const at::DimVector& dims, bool keepdim) {
  return launch_reduction(binding, rules, {&output}, self, dims, keepdim);
}

namespace {

Binding& prod_binding() {
  static Binding instance;
  return instance;
}

// The product of everything, which has no meta of its own: integers are multiplied as int64.
at::Tensor prod(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const at::ScalarType result = dtype.value_or(integral ? at::kLong : self.scalar_type());
  at::Tensor output = new_empty({}, result, self.device());
  if (launch_reduction(prod_binding(), {1.0, std::nullopt}, output, self, reduced_dims(self, std::nullopt), false)) {
    return output;
  }
  return call_fallback<at::Tensor, const at::Tensor&, std::optional<at::ScalarType>>(prod_binding().functional, self, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const Rules sum{0.0, std::nullopt};
  const Rules mean{std::numeric_limits<double>::quiet_NaN(), std::nullopt};
  const Rules product{1.0, std::nullopt};
  const Rules all{1.0, at::kBool};
  const Rules any{0.0, at::kBool};
  bind_reduction<Reduction<at::meta::structured_sum_dim_IntList>>(m, {"sum.dim_IntList", nullptr, "sum.IntList_out", "sum"}, sum);
  bind_reduction<Reduction<at::meta::structured_mean_dim>>(m, {"mean.dim", nullptr, "mean.out", "mean"}, mean);
  bind_reduction<Reduction<at::meta::structured_prod_dim_int>>(m, {"prod.dim_int", nullptr, "prod.int_out", "prod"}, product);
  bind_reduction<Reduction<at::meta::structured_amax>>(m, {"amax", nullptr, "amax.out", "amax"});
  bind_reduction<Reduction<at::meta::structured_amin>>(m, {"amin", nullptr, "amin.out", "amin"});
  bind_reduction<Reduction<at::meta::structured_all>>(m, {"all", nullptr, "all.all_out", "all"}, all);
  bind_reduction<Reduction<at::meta::structured_all_dim>>(m, {"all.dim", nullptr, "all.out", "all"}, all);
  bind_reduction<Reduction<at::meta::structured_all_dims>>(m, {"all.dims", nullptr, "all.dims_out", "all"}, all);
  bind_reduction<Reduction<at::meta::structured_any>>(m, {"any", nullptr, "any.all_out", "any"}, any);
  bind_reduction<Reduction<at::meta::structured_any_dim>>(m, {"any.dim", nullptr, "any.out", "any"}, any);
  bind_reduction<Reduction<at::meta::structured_any_dims>>(m, {"any.dims", nullptr, "any.dims_out", "any"}, any);
  find_kernel(prod_binding(), {"prod", nullptr, "prod.out", "prod"});
  m.impl("prod", TORCH_FN(prod));
}

}  // namespace rustdev
