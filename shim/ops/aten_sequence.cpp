// Sequences and segments of given lengths by PyTorch's CPU kernels, as tasks of the stream.
#include <algorithm>
#include <string_view>

#include "ops/aten_metas.h"
#include "ops/aten_operator.h"

namespace rustdev {
namespace {

using at::IntArrayRef;
using at::Tensor;

// ---- connectionist temporal classification ----

// Lengths that tensors hold are read at the call: they go to the fallback.
struct Ctc : at::impl::MetaBase {
  static bool takes(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths, int64_t,
                    bool) {
    const auto is_within = [](IntArrayRef lengths, int64_t most) {
      return std::all_of(lengths.begin(), lengths.end(), [&](int64_t length) { return length >= 0 && length <= most; });
    };
    return log_probs.dim() == 3 && (targets.dim() == 1 || targets.dim() == 2) &&
           static_cast<int64_t>(input_lengths.size()) == log_probs.size(1) && target_lengths.size() == input_lengths.size() &&
           is_within(input_lengths, log_probs.size(0)) && is_within(target_lengths, targets.size(-1));
  }

  void meta(const Tensor& log_probs, const Tensor&, IntArrayRef, IntArrayRef target_lengths, int64_t, bool) {
    const int64_t longest = *std::max_element(target_lengths.begin(), target_lengths.end());
    set_output_raw_strided(0, {log_probs.size(1)}, {}, log_probs.options());
    set_output_raw_strided(1, {log_probs.size(1), log_probs.size(0), 2 * longest + 1}, {}, log_probs.options());
  }
};

struct CtcBackward : Like<1, Layout::contiguous, const Tensor&, const Tensor&, const Tensor&, IntArrayRef, IntArrayRef,
                          const Tensor&, const Tensor&, int64_t, bool> {};

// ---- segments ----

// Lengths that have to fill the data are read at the call.
struct SegmentReduce : at::impl::MetaBase {
  using Optional = const std::optional<Tensor>&;

  static bool takes(const Tensor& data, std::string_view, Optional lengths, Optional, Optional offsets, int64_t axis, bool unsafe,
                    const std::optional<at::Scalar>&) {
    const bool by_lengths = lengths && lengths->defined();
    const bool by_offsets = offsets && offsets->defined();
    return by_lengths != by_offsets && (by_offsets || unsafe) && axis >= 0 && axis < data.dim() &&
           (by_lengths ? lengths : offsets)->dim() == axis + 1;
  }

  void meta(const Tensor& data, std::string_view, at::OptionalTensorRef lengths, at::OptionalTensorRef,
            at::OptionalTensorRef offsets, int64_t axis, bool, at::OptionalScalarRef) {
    at::DimVector sizes(data.sizes());
    sizes[axis] = lengths.has_value() ? lengths->size(axis) : offsets->size(axis) - 1;
    set_output_raw_strided(0, sizes, {}, data.options());
  }
};

struct SegmentReduceBackward : Like<2, Layout::contiguous, const Tensor&, const Tensor&, const Tensor&, std::string_view,
                                    at::OptionalTensorRef, at::OptionalTensorRef, int64_t, at::OptionalScalarRef> {};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  bind_aten<AtenOperator<Ctc, 2>>(aten, {"_ctc_loss", nullptr, wide, Batch::none, Guarded::task});
  bind_aten<AtenOperator<CtcBackward>>(aten, {"_ctc_loss_backward", nullptr, wide, Batch::none, Guarded::task});
  bind_aten<AtenOperator<SegmentReduce>>(aten, {"segment_reduce", nullptr, floating, Batch::none, Guarded::task});
  bind_aten<AtenOperator<SegmentReduceBackward>>(aten, {"_segment_reduce_backward", nullptr, floating, Batch::none, Guarded::task});
}

}  // namespace
}  // namespace rustdev
