// Resampling of images by PyTorch's CPU kernels, as tasks of the stream.
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>

#include <ATen/native/GridSamplerUtils.h>

#include "ops/aten_operator.h"

namespace rustdev {
namespace {

constexpr uint64_t pixels = floating | dtype_set({at::kByte});
constexpr uint64_t rounded_pixels = wide | rounded | dtype_set({at::kByte});

template <int64_t spatial>
struct GridSampler : at::impl::MetaBase {
  void meta(const at::Tensor& input, const at::Tensor& grid, int64_t, int64_t, bool) {
    at::native::check_grid_sampler_common(input, grid);
    if constexpr (spatial == 2) {
      at::native::check_grid_sampler_2d(input, grid);
    } else {
      // The CPU takes each mode; other devices refuse bicubic ones here.
      at::native::check_grid_sampler_3d(input, grid, 0);
    }
    at::DimVector sizes(input.sizes().slice(0, 2));
    const auto positions = grid.sizes().slice(1, spatial);
    sizes.append(positions.begin(), positions.end());
    set_output_raw_strided(0, sizes, {}, input.options());
  }
};

// Gradients of the input and of the grid; one that is not wanted stays undefined.
template <int64_t spatial>
struct GridSamplerBackward : at::impl::MetaBase {
  void meta(const at::Tensor&, const at::Tensor& input, const at::Tensor& grid, int64_t, int64_t, bool,
            std::array<bool, 2> wanted) {
    if (wanted[0]) {
      set_output_raw_strided(0, input.sizes(), {}, input.options());
    }
    if (wanted[1]) {
      set_output_raw_strided(1, grid.sizes(), {}, grid.options());
    }
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  bind_aten<AtenOperator<at::meta::structured_upsample_nearest1d>>(aten, {"upsample_nearest1d", "upsample_nearest1d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured_upsample_nearest1d_backward>>(
      aten, {"upsample_nearest1d_backward", "upsample_nearest1d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_nearest2d>>(aten, {"upsample_nearest2d", "upsample_nearest2d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured_upsample_nearest2d_backward>>(
      aten, {"upsample_nearest2d_backward", "upsample_nearest2d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_nearest3d>>(aten, {"upsample_nearest3d", "upsample_nearest3d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured_upsample_nearest3d_backward>>(
      aten, {"upsample_nearest3d_backward", "upsample_nearest3d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured__upsample_nearest_exact1d>>(
      aten, {"_upsample_nearest_exact1d", "_upsample_nearest_exact1d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured__upsample_nearest_exact1d_backward>>(
      aten, {"_upsample_nearest_exact1d_backward", "_upsample_nearest_exact1d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured__upsample_nearest_exact2d>>(
      aten, {"_upsample_nearest_exact2d", "_upsample_nearest_exact2d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured__upsample_nearest_exact2d_backward>>(
      aten, {"_upsample_nearest_exact2d_backward", "_upsample_nearest_exact2d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured__upsample_nearest_exact3d>>(
      aten, {"_upsample_nearest_exact3d", "_upsample_nearest_exact3d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured__upsample_nearest_exact3d_backward>>(
      aten, {"_upsample_nearest_exact3d_backward", "_upsample_nearest_exact3d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_bilinear2d>>(aten,
                                                                    {"upsample_bilinear2d", "upsample_bilinear2d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured_upsample_bilinear2d_backward>>(
      aten, {"upsample_bilinear2d_backward", "upsample_bilinear2d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_bicubic2d>>(aten, {"upsample_bicubic2d", "upsample_bicubic2d.out", pixels});
  bind_aten<AtenOperator<at::meta::structured_upsample_bicubic2d_backward>>(
      aten, {"upsample_bicubic2d_backward", "upsample_bicubic2d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_linear1d>>(aten, {"upsample_linear1d", "upsample_linear1d.out", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_linear1d_backward>>(
      aten, {"upsample_linear1d_backward", "upsample_linear1d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_trilinear3d>>(
      aten, {"upsample_trilinear3d", "upsample_trilinear3d.out", floating});
  bind_aten<AtenOperator<at::meta::structured_upsample_trilinear3d_backward>>(
      aten, {"upsample_trilinear3d_backward", "upsample_trilinear3d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured__upsample_bilinear2d_aa>>(
      aten, {"_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa.out", rounded_pixels});
  bind_aten<AtenOperator<at::meta::structured__upsample_bilinear2d_aa_backward>>(
      aten, {"_upsample_bilinear2d_aa_backward", "_upsample_bilinear2d_aa_backward.grad_input", wide | rounded});
  bind_aten<AtenOperator<at::meta::structured__upsample_bicubic2d_aa>>(
      aten, {"_upsample_bicubic2d_aa", "_upsample_bicubic2d_aa.out", rounded_pixels});
  bind_aten<AtenOperator<at::meta::structured__upsample_bicubic2d_aa_backward>>(
      aten, {"_upsample_bicubic2d_aa_backward", "_upsample_bicubic2d_aa_backward.grad_input", wide | rounded});
  bind_aten<AtenOperator<GridSampler<2>>>(aten, {"grid_sampler_2d", "grid_sampler_2d.out", floating});
  bind_aten<AtenOperator<GridSampler<3>>>(aten, {"grid_sampler_3d", "grid_sampler_3d.out", floating});
  bind_aten<AtenOperator<GridSamplerBackward<2>, 2>>(aten,
                                                     {"grid_sampler_2d_backward", nullptr, floating, Batch::images, Guarded::task});
  bind_aten<AtenOperator<GridSamplerBackward<3>, 2>>(aten,
                                                     {"grid_sampler_3d_backward", nullptr, floating, Batch::images, Guarded::task});
}

}  // namespace
}  // namespace rustdev
