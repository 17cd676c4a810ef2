// Weights as a direction and a length (weight normalisation) by PyTorch's CPU kernels, as tasks of the stream.
#include "ops/aten_metas.h"
#include "ops/aten_operator.h"

namespace rustdev {
namespace {

using at::Tensor;

// Whether there is a length in `g` for each slice of `v` along its first or last dimension.
bool are_slices(const Tensor& v, const Tensor& g, int64_t dim) {
  return v.dim() > 0 && (dim == 0 || dim == v.dim() - 1) && v.is_contiguous() && g.is_contiguous() && g.numel() == v.size(dim) &&
         v.scalar_type() == g.scalar_type();
}

struct WeightNorm : at::impl::MetaBase {
  static bool takes(const Tensor& v, const Tensor& g, int64_t dim) { return are_slices(v, g, dim); }

  // The norms of BFloat16 are in Float.
  void meta(const Tensor& v, const Tensor& g, int64_t) {
    set_output_raw_strided(0, v.sizes(), {}, v.options());
    const auto dtype = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
    set_output_raw_strided(1, g.sizes(), g.strides(), g.options().dtype(dtype));
  }
};

struct WeightNormBackward : at::impl::MetaBase {
  static bool takes(const Tensor& grad_w, const Tensor& v, const Tensor& g, const Tensor& norms, int64_t dim) {
    return are_slices(v, g, dim) && grad_w.is_contiguous() && grad_w.sizes() == v.sizes() && norms.is_contiguous() &&
           norms.sizes() == g.sizes();
  }

  void meta(const Tensor&, const Tensor& v, const Tensor& g, const Tensor&, int64_t) {
    set_output_raw_strided(0, v.sizes(), {}, v.options());
    set_output_raw_strided(1, g.sizes(), {}, g.options());
  }
};

constexpr uint64_t dtypes = wide | rounded | dtype_set({at::kBFloat16});

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  bind_aten<AtenOperator<WeightNorm, 2>>(aten, {"_weight_norm_interface", nullptr, dtypes, Batch::none});
  bind_aten<AtenOperator<WeightNormBackward, 2>>(aten, {"_weight_norm_interface_backward", nullptr, dtypes, Batch::none});
}

}  // namespace
}  // namespace rustdev
