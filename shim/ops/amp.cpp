// Operators of torch.amp.GradScaler. Gradients and the scale stay on the device.
#include <torch/library.h>

#include <map>

#include "lists.h"

namespace rustdev {
namespace {

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
    launch.run(kernel_of<"_amp_foreach_non_finite_check_and_unscale_">, grads[0].scalar_type(), grads[0].device());
  });
}

void unscale(at::TensorList self, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  if (self.empty()) {
    return;
  }
  check_single(inv_scale, "inv_scale", at::kFloat, "a float");
  check_single(found_inf, "found_inf", at::kFloat, "a float");
  // One launch for the gradients of each dtype. Those with gaps are unscaled in copies, which are written back.
  std::map<c10::ScalarType, std::vector<at::Tensor>> dense;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const at::Tensor& given : self) {
    TORCH_CHECK(on_device(given), "one of scaled_grads was not a rustdev tensor.");
    TORCH_CHECK(given.layout() == at::kStrided, "one of scaled_grads was not a strided tensor.");
    TORCH_CHECK(given.device() == found_inf.device() && given.device() == inv_scale.device(),
                "scaled_grads, found_inf and inv_scale must be on one device.");
    const at::Tensor grad = distinct(given);
    if (grad.is_non_overlapping_and_dense()) {
      dense[grad.scalar_type()].push_back(grad);
    } else {
      copies.emplace_back(grad, grad.contiguous());
      dense[grad.scalar_type()].push_back(copies.back().second);
    }
  }
  for (const auto& [dtype, grads] : dense) {
    launch_unscale(grads, found_inf, inv_scale);
  }
  for (const auto& [grad, copy] : copies) {
    grad.copy_(copy);
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
  launch.scalars(scalars_of<"_amp_update_scale_", "growth_factor, backoff_factor, growth_interval">(growth_factor, backoff_factor,
                                                                                                    growth_interval));
  launch.run_or_throw(kernel_of<"_amp_update_scale_">, static_cast<int32_t>(at::kFloat), self.device().index());
  return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(unscale));
  m.impl("_amp_update_scale_", TORCH_FN(update_scale));
}

}  // namespace rustdev
