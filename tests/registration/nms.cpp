// An operator outside aten with a CPU kernel and no other, for test_outside_aten.py: non-maximum suppression.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
#include <algorithm>
#include <numeric>
#include <vector>
at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double threshold) {
  TORCH_CHECK(boxes.is_cpu() && scores.is_cpu(), "a CPU kernel");
  const auto* box = boxes.const_data_ptr<float>();
  const auto* score = scores.const_data_ptr<float>();
  std::vector<int64_t> order(scores.numel()), kept;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
  const auto side = [&](int64_t a, int64_t b, int dim) {
    return std::max(0.f, std::min(box[a * 4 + 2 + dim], box[b * 4 + 2 + dim]) - std::max(box[a * 4 + dim], box[b * 4 + dim]));
  };
  const auto both = [&](int64_t a, int64_t b) { return side(a, b, 0) * side(a, b, 1); };
  for (const int64_t a : order) {
    if (std::none_of(kept.begin(), kept.end(), [&](int64_t b) { return both(a, b) > threshold * (both(a, a) + both(b, b) - both(a, b)); })) {
      kept.push_back(a);
    }
  }
  at::Tensor result = at::empty({static_cast<int64_t>(kept.size())}, boxes.options().dtype(at::kLong));
  std::copy(kept.begin(), kept.end(), result.mutable_data_ptr<int64_t>());
  return result;
}
TORCH_LIBRARY(rustdev_tests_cpp, m) { m.def("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor"); }
TORCH_LIBRARY_IMPL(rustdev_tests_cpp, CPU, m) { m.impl("nms", nms); }
