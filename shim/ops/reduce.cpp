// Reductions: names, and the launch that reduce.h leaves to one place.
#include "reduce.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sum_meta.h>

#include <limits>

namespace rustdev {

at::DimVector reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  at::DimVector result;
  if (!dims || dims->empty()) {
    for (int64_t dim = 0; dim < self.dim(); ++dim) {
      result.push_back(dim);
    }
    return result;
  }
  for (const int64_t dim : *dims) {
    if (self.dim() != 0) {
      result.push_back(at::maybe_wrap_dim(dim, self.dim()));
    }
  }
  return result;
}

at::DimVector reduced_dims(const at::Tensor& self, int64_t dim) {
  const int64_t dims[] = {dim};
  return reduced_dims(self, at::OptionalIntArrayRef(at::IntArrayRef(dims)));
}

bool launch_reduction(const Binding& binding, std::optional<double> of_nothing, const at::Tensor& output, const at::Tensor& self,
                      const at::DimVector& dims, bool keepdim) {
  const c10::ScalarType dtype = output.scalar_type();
  if (((binding.dtypes >> static_cast<unsigned>(dtype)) & 1) == 0) {
    return false;
  }
  if (output.numel() == 0) {
    return true;
  }
  if (self.numel() == 0) {
    if (of_nothing) {
      output.fill_(*of_nothing);
    }
    return of_nothing.has_value();
  }
  at::DimVector strides(self.dim(), 0);
  int64_t next = 0;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    const bool reduced = std::find(dims.begin(), dims.end(), dim) != dims.end();
    if (!reduced) {
      strides[dim] = output.stride(next);
    }
    next += keepdim || !reduced ? 1 : 0;
  }
  Launch launch;
  launch.restrided(output, self.sizes(), strides);
  launch.finish_outputs();
  launch.input(self);
  return launch.run(binding.op, static_cast<int32_t>(dtype), self.device().index());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  bind_reduction<Reduction<at::meta::structured_sum_dim_IntList>>(m, {"sum.dim_IntList", nullptr, "sum.IntList_out", "sum"}, 0);
  bind_reduction<Reduction<at::meta::structured_mean_dim>>(m, {"mean.dim", nullptr, "mean.out", "mean"}, nan);
  bind_reduction<Reduction<at::meta::structured_prod_dim_int>>(m, {"prod.dim_int", nullptr, "prod.int_out", "prod"}, 1);
  bind_reduction<Reduction<at::meta::structured_amax>>(m, {"amax", nullptr, "amax.out", "amax"});
  bind_reduction<Reduction<at::meta::structured_amin>>(m, {"amin", nullptr, "amin.out", "amin"});
  bind_reduction<Reduction<at::meta::structured_all_dim>>(m, {"all.dim", nullptr, "all.out", "all"}, 1);
  bind_reduction<Reduction<at::meta::structured_all_dims>>(m, {"all.dims", nullptr, "all.dims_out", "all"}, 1);
  bind_reduction<Reduction<at::meta::structured_any_dim>>(m, {"any.dim", nullptr, "any.out", "any"}, 0);
  bind_reduction<Reduction<at::meta::structured_any_dims>>(m, {"any.dims", nullptr, "any.dims_out", "any"}, 0);
  bind_reduction<Reduction<at::meta::structured_argmax>>(m, {"argmax", nullptr, "argmax.out", "argmax"});
  bind_reduction<Reduction<at::meta::structured_argmin>>(m, {"argmin", nullptr, "argmin.out", "argmin"});
}

}  // namespace rustdev
