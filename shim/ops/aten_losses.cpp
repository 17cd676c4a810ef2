// Losses of margins between classes by PyTorch's CPU kernels, as tasks of the stream.
#include <ATen/core/Reduction.h>

#include "ops/aten_metas.h"
#include "ops/aten_operator.h"

namespace rustdev {
namespace {

using at::Tensor;

// Rows of scores, or one row or score; a loss for each row or one.
struct Margin : at::impl::MetaBase {
 protected:
  static int64_t rows_of(const Tensor& self) { return self.dim() == 2 ? self.size(0) : 1; }

  void losses(const Tensor& self, bool by_row) {
    by_row ? set_output_raw_strided(0, {rows_of(self)}, {}, self.options()) : set_output_raw_strided(0, {}, {}, self.options());
  }
};

struct MultiMargin : Margin {
  static bool takes(const Tensor& self, const Tensor& target, const at::Scalar&, const at::Scalar&,
                    const std::optional<Tensor>& weight, int64_t) {
    return self.dim() <= 2 && target.dim() <= 1 && target.numel() == rows_of(self) &&
           (!weight || !weight->defined() || (weight->dim() <= 1 && weight->numel() * rows_of(self) == self.numel()));
  }

  void meta(const Tensor& self, const Tensor& target, const at::Scalar&, const at::Scalar&, at::OptionalTensorRef,
            int64_t reduction) {
    losses(self, reduction == at::Reduction::None && target.dim() > 0);
  }
};

struct MultiMarginBackward : Like<1, Layout::contiguous, const Tensor&, const Tensor&, const Tensor&, const at::Scalar&,
                                  const at::Scalar&, at::OptionalTensorRef, int64_t> {};

struct MultilabelMargin : Margin {
  static bool takes(const Tensor& self, const Tensor& target, int64_t) {
    return self.dim() == 2 ? target.sizes() == self.sizes() : self.dim() < 2 && target.dim() < 2 && target.numel() == self.numel();
  }

  void meta(const Tensor& self, const Tensor& target, int64_t reduction) {
    losses(self, reduction == at::Reduction::None && target.dim() > 1);
    set_output_raw_strided(1, target.sizes(), {}, self.options());
  }
};

struct MultilabelMarginBackward : Like<1, Layout::contiguous, const Tensor&, const Tensor&, const Tensor&, int64_t, const Tensor&> {
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  bind_aten<AtenOperator<MultiMargin>>(aten, {"multi_margin_loss", "multi_margin_loss.out", wide | rounded, Batch::none});
  bind_aten<AtenOperator<MultiMarginBackward>>(
      aten, {"multi_margin_loss_backward", "multi_margin_loss_backward.grad_input", wide | rounded, Batch::none});
  bind_aten<AtenOperator<MultilabelMargin, 2>>(
      aten, {"multilabel_margin_loss_forward", "multilabel_margin_loss_forward.output", wide | rounded, Batch::none});
  bind_aten<AtenOperator<MultilabelMarginBackward>>(
      aten, {"multilabel_margin_loss_backward", "multilabel_margin_loss_backward.grad_input", wide | rounded, Batch::none});
}

}  // namespace
}  // namespace rustdev
