// What torch.amp.GradScaler asks of a device: everything stays on it, the scale too.
#include <torch/library.h>

#include "lists.h"

namespace rustdev {
namespace {

const rd_op* unscale_op;
const rd_op* update_op;

// The checks that PyTorch makes of a number on the device.
void check_single(const at::Tensor& tensor, const char* name, c10::ScalarType dtype, const char* dtype_name) {
  TORCH_CHECK(on_device(tensor), name, " must be a rustdev tensor.");
  TORCH_CHECK(tensor.numel() == 1, name, " must be a 1-element tensor.");
  TORCH_CHECK(tensor.scalar_type() == dtype, name, " must be ", dtype_name, " tensor.");
}

void launch_unscale(at::TensorList grads, const at::Tensor& found_inf, const at::Tensor& inv_scale) {
  for_each_launch(grads.size(), [&](size_t begin, size_t count) {
    ListLaunch launch(count + 2, count);
    launch.list(grads.slice(begin, count));
    launch.single(found_inf);
    launch.finish_outputs();
    launch.single(inv_scale);
    launch.run(unscale_op, grads[0].scalar_type(), grads[0].device());
  });
}

void unscale(at::TensorList self, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  if (self.empty()) {
    return;
  }
  check_single(inv_scale, "inv_scale", at::kFloat, "a float");
  check_single(found_inf, "found_inf", at::kFloat, "a float");
  // Gradients with gaps are unscaled in copies, which are written back. Those of another dtype or device than the first are
  // refused, as GradScaler has sorted them.
  std::vector<at::Tensor> dense;
  dense.reserve(self.size());
  for (const at::Tensor& grad : self) {
    TORCH_CHECK(on_device(grad), "one of scaled_grads was not a rustdev tensor.");
    TORCH_CHECK(grad.layout() == at::kStrided, "one of scaled_grads was not a strided tensor.");
    TORCH_CHECK(grad.device() == found_inf.device() && grad.device() == inv_scale.device(),
                "scaled_grads, found_inf and inv_scale must be on one device.");
    TORCH_CHECK(grad.scalar_type() == self[0].scalar_type(), "scaled_grads must have one dtype.");
    dense.push_back(grad.is_non_overlapping_and_dense() ? grad : grad.contiguous());
  }
  launch_unscale(dense, found_inf, inv_scale);
  for (size_t index = 0; index < self.size(); ++index) {
    if (!dense[index].is_same(self[index])) {
      self[index].copy_(dense[index]);
    }
  }
}

at::Tensor& update_scale(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf, double growth_factor,
                         double backoff_factor, int64_t growth_interval) {
  check_single(growth_tracker, "growth_tracker", at::kInt, "an int");
  check_single(self, "current_scale", at::kFloat, "a float");
  check_single(found_inf, "found_inf", at::kFloat, "a float");
  Launch launch;
  launch.input(self);
  launch.input(growth_tracker);
  launch.finish_outputs();
  launch.input(found_inf);
  launch.scalar(growth_factor);
  launch.scalar(backoff_factor);
  launch.scalar(growth_interval);
  launch.run_or_throw(update_op, static_cast<int32_t>(at::kFloat), self.device().index());
  return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  unscale_op = rd_op_find("_amp_foreach_non_finite_check_and_unscale_");
  if (unscale_op != nullptr) {
    m.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(unscale));
  }
  update_op = rd_op_find("_amp_update_scale_");
  if (update_op != nullptr) {
    m.impl("_amp_update_scale_", TORCH_FN(update_scale));
  }
}

}  // namespace rustdev
