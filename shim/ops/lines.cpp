// Operators along one dimension: softmax and its gradients, scans.
#include "ops/lines.h"
#include "ops/factory.h"

#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>

namespace rustdev {

template <>
inline constexpr bool refuses_overlap<at::meta::structured_cumsum> = true;
template <>
inline constexpr bool refuses_overlap<at::meta::structured_cumprod> = true;

bool launch_shaped(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                   at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars) {
  if (!takes_dtype(binding, dtype)) {
    return false;
  }
  Launch launch;
  const auto add = [&](const at::Tensor* tensor) {
    if (tensor->defined()) {
      launch.input(*tensor);
    }
  };
  std::for_each(outputs.begin(), outputs.end(), add);
  launch.finish_outputs();
  std::for_each(inputs.begin(), inputs.end(), add);
  launch.scalars(scalars);
  return launch.run(binding.op, static_cast<int32_t>(dtype), (*outputs.begin())->device().index());
}

void launch_shaped_or_throw(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                            at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars) {
  TORCH_CHECK_NOT_IMPLEMENTED(launch_shaped(binding, dtype, outputs, inputs, scalars), "\"", rd_op_name(binding.op),
                              "\" not implemented for '", dtype, "'");
}

namespace {

// _cummax_helper and _cummin_helper: the caller has made values and indices.
template <int op>
struct Extremes {
  static inline Binding binding;

  static void call(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
    if (self.numel() == 0) {
      return;
    }
    const at::Tensor* const inputs[] = {&self};
    const at::Scalar wrapped(at::maybe_wrap_dim(dim, self.dim()));
    if (!launch_shaped(binding, self.scalar_type(), {&values, &indices}, inputs, {wrapped})) {
      call_fallback<void, const at::Tensor&, at::Tensor&, at::Tensor&, int64_t>(binding.functional, self, values, indices, dim);
    }
  }
};

struct Logcumsumexp {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, int64_t dim) {
    at::maybe_wrap_dim(dim, self.dim());
    at::Tensor result = new_empty(self.sizes(), self.scalar_type(), self.device());
    if (LineArguments(self, dim).launch(binding, result)) {
      return result;
    }
    return call_fallback<at::Tensor, const at::Tensor&, int64_t>(binding.functional, self, dim);
  }

  static at::Tensor& out(const at::Tensor& self, int64_t dim, at::Tensor& result) {
    at::maybe_wrap_dim(dim, self.dim());
    resize_out(result, self.sizes(), {}, self.options());
    check_overlap({result}, self);
    if (LineArguments(self, dim).launch(binding, result)) {
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, int64_t, at::Tensor&>(binding.out, self, dim, result);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Line<at::meta::structured__softmax>>(m, {"_softmax", nullptr, "_softmax.out", "_softmax"});
  bind<Line<at::meta::structured__log_softmax>>(m, {"_log_softmax", nullptr, "_log_softmax.out", "_log_softmax"});
  bind<Line<at::meta::structured__softmax_backward_data>>(
      m, {"_softmax_backward_data", nullptr, "_softmax_backward_data.out", "_softmax_backward_data"});
  bind<Line<at::meta::structured__log_softmax_backward_data>>(
      m, {"_log_softmax_backward_data", nullptr, "_log_softmax_backward_data.out", "_log_softmax_backward_data"});
  bind<Line<at::meta::structured_cumsum>>(m, {"cumsum", "cumsum_", "cumsum.out", "cumsum"});
  bind<Line<at::meta::structured_cumprod>>(m, {"cumprod", "cumprod_", "cumprod.out", "cumprod"});
  bind<Logcumsumexp>(m, {"_logcumsumexp", nullptr, "_logcumsumexp.out", "_logcumsumexp"});
  find_kernel(Extremes<0>::binding, {"_cummax_helper", nullptr, "_cummax_helper", "_cummax_helper"});
  m.impl("_cummax_helper", TORCH_FN(Extremes<0>::call));
  find_kernel(Extremes<1>::binding, {"_cummin_helper", nullptr, "_cummin_helper", "_cummin_helper"});
  m.impl("_cummin_helper", TORCH_FN(Extremes<1>::call));
}

}  // namespace rustdev
