// Histograms: PyTorch's own functions check, choose the edges and call these. Histograms of several dimensions go to the fallback.
#include "awaited.h"
#include "ops/factory.h"
#include "ops/lines.h"
#include "same_device.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Histogram.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/histc_native.h>
#include <ATen/ops/histogram_native.h>

namespace rustdev {
namespace {

enum Method : int64_t { search, linear, corrected };

void count(const at::Tensor& values, const std::optional<at::Tensor>& weight, bool density, at::Tensor& counts,
           const at::TensorList& edges, Method method) {
  const Binding& binding = binding_of<"histogram">;
  TORCH_CHECK_NOT_IMPLEMENTED(takes_dtype(binding, values.scalar_type()), "histogram is not implemented for ",
                              values.scalar_type());
  const at::Tensor dense = values.contiguous(), dense_edges = edges[0].contiguous();
  const at::Tensor weights = weight && weight->defined() ? weight->contiguous() : at::Tensor();
  const at::Tensor result = new_empty(counts.sizes(), counts.scalar_type(), counts.device());
  const at::Tensor* const inputs[] = {&dense, &dense_edges, &weights};
  launch_shaped_or_throw(binding, values.scalar_type(), {&result}, inputs,
                         scalars_of<"histogram", "method, has_weight">(static_cast<int64_t>(method), weights.defined()));
  const at::Tensor found = density ? result.div(result.sum()).div_(dense_edges.diff()) : result;
  if (at::has_internal_overlap(counts) == at::MemOverlap::Yes) {
    counts.select(0, 0).copy_(found.sum());  // as the CPU's, where every bin is added to the one element
  } else {
    counts.copy_(found);
  }
}

void histogram_of(const at::Tensor& values, const std::optional<at::Tensor>& weight, bool density, at::Tensor& counts,
                  const at::TensorList& edges) {
  count(values, weight, density, counts, edges, search);
}

void histogram_of_even_bins(const at::Tensor& values, const std::optional<at::Tensor>& weight, bool density, at::Tensor& counts,
                            const at::TensorList& edges, bool by_edges) {
  count(values, weight, density, counts, edges, by_edges ? corrected : linear);
}

// The least and the greatest value of each column.
void outer_edges(const at::Tensor& values, const int64_t columns, std::vector<double>& least, std::vector<double>& greatest) {
  const auto [low, high] = at::aminmax(values, 0);
  constexpr const char* waits = "a histogram without limits (they are read on the host)";
  for (int64_t column = 0; column < columns; ++column) {
    least[column] = awaited<double>(low[column], waits);
    greatest[column] = awaited<double>(high[column], waits);
  }
}

// Integers are counted as on other accelerators: by limits in whole numbers, and with counts of their dtype.
bool is_counted_widened(const at::Tensor& self) { return c10::isIntegralType(self.scalar_type(), /*includeBool=*/false); }

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  if (!is_counted_widened(self)) {
    return at::native::histogram_histc(self, bins, min, max);
  }
  // Distances of up to 2^53 are exact.
  return at::native::histogram_histc(self.to(at::kDouble), bins, min.to<int64_t>(), max.to<int64_t>()).to(self.scalar_type());
}

at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max, at::Tensor& result) {
  if (!is_counted_widened(self)) {
    return at::native::histogram_histc_out(self, bins, min, max, result);
  }
  TORCH_CHECK(result.scalar_type() == self.scalar_type(), "torch.histc: expected an output of dtype ", self.scalar_type(),
              ", but got ", result.scalar_type());
  const at::Tensor counts = at::histc(self, bins, min, max);
  at::native::resize_output(result, counts.sizes());
  return result.copy_(counts);
}

}  // namespace
}  // namespace rustdev

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_stub, &rustdev::histogram_of)
REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_linear_stub, &rustdev::histogram_of_even_bins)
REGISTER_PRIVATEUSE1_DISPATCH(histogram_select_outer_bin_edges_stub, &rustdev::outer_edges)

}  // namespace at::native

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Tensor = const at::Tensor&;
  using Pair = std::tuple<at::Tensor, at::Tensor>;
  using PairOut = std::tuple<at::Tensor&, at::Tensor&>;
  using Weight = const std::optional<at::Tensor>&;
  using Range = std::optional<at::ArrayRef<double>>;
  m.impl("histc", TORCH_FN(histc));
  m.impl("histc.out", TORCH_FN(SameDevice<histc_out>::call));
  constexpr auto by_count = static_cast<Pair (*)(Tensor, int64_t, Range, Weight, bool)>(at::native::histogram);
  constexpr auto by_count_out =
      static_cast<PairOut (*)(Tensor, int64_t, Range, Weight, bool, at::Tensor&, at::Tensor&)>(at::native::histogram_out);
  constexpr auto by_edges = static_cast<Pair (*)(Tensor, Tensor, Weight, bool)>(at::native::histogram);
  constexpr auto by_edges_out =
      static_cast<PairOut (*)(Tensor, Tensor, Weight, bool, at::Tensor&, at::Tensor&)>(at::native::histogram_out);
  m.impl("histogram.bin_ct", TORCH_FN(SameDevice<by_count>::call));
  m.impl("histogram.bin_ct_out", TORCH_FN(SameDevice<by_count_out>::call));
  m.impl("histogram.bins_tensor", TORCH_FN(SameDevice<by_edges>::call));
  m.impl("histogram.bins_tensor_out", TORCH_FN(SameDevice<by_edges_out>::call));
}

}  // namespace rustdev
