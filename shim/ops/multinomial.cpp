// multinomial: PyTorch's own function. Several samples with replacement are drawn by a kernel; the others it makes of exponential_,
// div and argmax or topk.
#include <ATen/MemoryOverlap.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/multinomial_native.h>
#include <torch/library.h>

#include "runtime/generator.h"
#include "tensor.h"

namespace rustdev {
namespace {

// What every launch takes from the generator, whatever its size: one Philox block of each subsequence (src/kernels/random.rs).
constexpr uint64_t numbers_per_launch = 4;

void draw_indices(at::Tensor& result, const at::Tensor& weights, int64_t samples, std::optional<at::Generator> given) {
  const rd_op* const op = kernel_of<"multinomial">;
  at::assert_no_internal_overlap(result);
  if (result.numel() == 0) {
    return;
  }
  const at::Tensor rows = weights.contiguous().view({-1, weights.size(-1)});
  const at::Tensor indices = result.is_contiguous() ? result : at::empty_like(result, at::MemoryFormat::Contiguous);
  Launch launch;
  launch.output(indices.view({-1, samples}));
  launch.input(rows);
  for (const rd_scalar& number : draw_state(given, weights.device(), numbers_per_launch)) {
    launch.scalar(number);
  }
  launch.run_or_throw(op, static_cast<int32_t>(weights.scalar_type()), weights.device().index());
  if (!indices.is_same(result)) {
    result.copy_(indices);
  }
}

}  // namespace
}  // namespace rustdev

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(multinomial_with_replacement_stub, &rustdev::draw_indices)

}  // namespace at::native

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("multinomial", TORCH_FN(at::native::multinomial));
  m.impl("multinomial.out", TORCH_FN(at::native::multinomial_out));
}

}  // namespace rustdev
