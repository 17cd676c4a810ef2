// Reductions to minimum and maximum that have indices, two outputs or no meta: max and min in their forms, argmax, argmin and
// aminmax.
#include "ops/factory.h"
#include "ops/reduce.h"

#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/min_meta.h>

namespace rustdev {
namespace {

// Two outputs: max.dim and min.dim, values and indices; aminmax, the least and the greatest.
struct TwoRule {
  template <class Op, class Dim>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, const Dim& dim, bool keepdim) {
    return launch_reduction(binding, {}, {&op.maybe_get_output(0), &op.maybe_get_output(1)}, self, reduced_dims(self, dim),
                            keepdim);
  }

  template <class Given, class... Args>
  static void check_given(const Given& given, const at::Tensor& self, const Args&...) {
    check_separate({*given[0], *given[1]}, self);
  }
};

template <class Meta>
using Two = Variants<Meta, TwoRule, 2>;

// argmax and argmin: along one dimension, or in the order of all elements.
struct IndexRule {
  static constexpr bool has_inplace = false;

  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
    const Rules rules{std::nullopt, self.scalar_type()};
    const at::Tensor& output = op.maybe_get_output(0);
    if (dim) {
      return launch_reduction(binding, rules, output, self, reduced_dims(self, *dim), keepdim);
    }
    if (self.is_contiguous() && self.numel() != 0 && takes_dtype(binding, self.scalar_type())) {
      const int64_t size = self.numel(), strides[] = {0, 1};
      Launch launch;
      launch.restrided(output, size, strides[0]);
      launch.finish_outputs();
      launch.restrided(self, size, strides[1]);
      return launch.run(binding.op, static_cast<int32_t>(self.scalar_type()), self.device().index());
    }
    return launch_reduction(binding, rules, output.view(at::IntArrayRef()), self.reshape({-1}), at::DimVector{0}, false);
  }
};

template <class Meta>
using IndexOf = Variants<Meta, IndexRule>;

// max and min of everything.
template <bool greatest>
struct ExtremeAll {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self) {
    check(self);
    at::Tensor result = new_empty({}, self.scalar_type(), self.device());
    if (C10_LIKELY(launch_reduction(binding, {}, result, self, reduced_dims(self, std::nullopt), false))) {
      return result;
    }
    return call_fallback<at::Tensor, const at::Tensor&>(binding.functional, self);
  }

  static at::Tensor& out(const at::Tensor& self, at::Tensor& result) {
    check(self);
    at::native::check_scalar_type_device_layout_equal(result, self);
    resize_out(result, {}, {}, self.options());
    if (C10_LIKELY(launch_reduction(binding, {}, result, self, reduced_dims(self, std::nullopt), false))) {
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, at::Tensor&>(binding.out, self, result);
  }

 private:
  static void check(const at::Tensor& self) {
    TORCH_CHECK(self.numel() > 0, greatest ? "max" : "min", "(): Expected reduction dim to be specified for input.numel() == 0. ",
                "Specify the reduction dim with the 'dim' argument.");
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Two<at::meta::structured_max_dim>>(m, {"max.dim", nullptr, "max.dim_max", "max.dim"});
  bind<Two<at::meta::structured_min_dim>>(m, {"min.dim", nullptr, "min.dim_min", "min.dim"});
  bind<IndexOf<at::meta::structured_argmax>>(m, {"argmax", nullptr, "argmax.out", "argmax"});
  bind<IndexOf<at::meta::structured_argmin>>(m, {"argmin", nullptr, "argmin.out", "argmin"});
  bind<ExtremeAll<true>>(m, {"max", nullptr, "max.unary_out", "amax"});
  bind<ExtremeAll<false>>(m, {"min", nullptr, "min.unary_out", "amin"});
  bind<Two<at::meta::structured_aminmax>>(m, {"aminmax", nullptr, "aminmax.out", "aminmax"});
}

}  // namespace rustdev
