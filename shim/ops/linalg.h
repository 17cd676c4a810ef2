// The rule of matrix products: PyTorch's meta checks shapes, the kernel gets [output, self?, a, b] and, where there is a self, the
// scalars [beta, alpha]. `self` is broadcast to the output's sizes.
#pragma once

#include "structured.h"

namespace rustdev {

// Refuses tensors of several devices, with PyTorch's text. `output` may be undefined.
void check_product_devices(const char* name, const at::Tensor& output, std::initializer_list<at::Tensor> inputs);

// Launch a @ b, or beta * self + alpha * (a @ b). False where the kernel does not take the dtype: nothing was done.
bool launch_product(const Binding& binding, const at::Tensor& output, const at::Tensor& a, const at::Tensor& b);
bool launch_product(const Binding& binding, const at::Tensor& output, const at::Tensor& self, const at::Tensor& a,
                    const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha);

struct ProductRule {
  template <class Op, class... Args>
  static bool launch(const Binding& binding, Op& op, const Args&... args) {
    return launch_product(binding, op.maybe_get_output(0), args...);
  }

  static void check(const Binding& binding, const at::Tensor& output, const at::Tensor& a, const at::Tensor& b) {
    check_product_devices(rd_op_name(binding.op), output, {a, b});
  }
  static void check(const Binding& binding, const at::Tensor& output, const at::Tensor& self, const at::Tensor& a,
                    const at::Tensor& b, const at::Scalar&, const at::Scalar&) {
    check_product_devices(rd_op_name(binding.op), output, {self, a, b});
  }
};

template <class Meta>
using Product = Variants<Meta, ProductRule>;

}  // namespace rustdev
