// Matrix products: bindings, and the launch of linalg.h.
#include "ops/linalg.h"
#include "ops/fill.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/mm_meta.h>

namespace rustdev {
namespace {

// What PyTorch checks in its CPU kernels rather than in the metas.
void check_dtypes(const at::Tensor& a, const at::Tensor& b) {
  const bool same = a.scalar_type() == b.scalar_type();
  if (a.dim() == 3) {
    TORCH_CHECK(same, "expected scalar type ", a.scalar_type(), " but found ", b.scalar_type());
  } else {
    TORCH_CHECK(same, "expected m1 and m2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
  }
}

bool takes(const Binding& binding, const at::Tensor& output, std::initializer_list<const at::Tensor*> inputs) {
  const c10::ScalarType dtype = output.scalar_type();
  const bool same =
      std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor* input) { return input->scalar_type() == dtype; });
  return same && takes_dtype(binding, dtype);
}

// Refuses what PyTorch's CPU kernels refuse of the memory that a product is written to: elements in one place, where they are no
// batch, and elements of `self`, unless it is the output.
void check_product_overlap(const at::Tensor& output, const at::Tensor& self) {
  if (output.dim() == 2) {
    at::assert_no_internal_overlap(output);
  }
  if (self.defined() && !output.is_same(self)) {
    at::assert_no_internal_overlap(output);
    at::assert_no_partial_overlap(output, self);
  }
}

}  // namespace

void check_product_devices(const char* name, const at::Tensor& output, std::initializer_list<at::Tensor> inputs) {
  std::optional<at::Device> common;
  if (output.defined()) {
    c10::impl::check_and_update_common_device(common, output, name, "out");
  }
  for (const at::Tensor& input : inputs) {
    c10::impl::check_and_update_common_device(common, input, name, "an operand");
  }
}

bool launch_product(const Binding& binding, const at::Tensor& output, const at::Tensor& a, const at::Tensor& b) {
  check_dtypes(a, b);
  if (!takes(binding, output, {&a, &b})) {
    return false;
  }
  if (output.numel() == 0) {
    return true;
  }
  check_product_overlap(output, at::Tensor());
  Launch launch;
  launch.output(output);
  launch.input(a);
  launch.input(b);
  return launch.run(binding.op, static_cast<int32_t>(output.scalar_type()), output.device().index());
}

bool launch_product(const Binding& binding, const at::Tensor& output, const at::Tensor& self, const at::Tensor& a,
                    const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  check_dtypes(a, b);
  if (!takes(binding, output, {&self, &a, &b})) {
    return false;
  }
  const at::Tensor addend = self.expand(output.sizes());
  if (output.numel() == 0) {
    return true;
  }
  check_product_overlap(output, self);
  Launch launch;
  launch.output(output);
  launch.input(addend);
  launch.input(a);
  launch.input(b);
  for (const at::Scalar* const factor : {&beta, &alpha}) {
    check_value(*factor, at::toOpMathType(output.scalar_type()));
  }
  launch.scalar(beta);
  launch.scalar(alpha);
  return launch.run(binding.op, static_cast<int32_t>(output.scalar_type()), output.device().index());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Product<at::meta::structured_mm>>(m, {"mm", nullptr, "mm.out", "mm"});
  bind<Product<at::meta::structured_bmm>>(m, {"bmm", nullptr, "bmm.out", "bmm"});
  bind<Product<at::meta::structured_addmm>>(m, {"addmm", "addmm_", "addmm.out", "addmm"});
  bind<Product<at::meta::structured_baddbmm>>(m, {"baddbmm", "baddbmm_", "baddbmm.out", "baddbmm"});
  bind<Product<at::meta::structured_addmv>>(m, {"addmv", "addmv_", "addmv.out", "addmv"});
}

}  // namespace rustdev
