// Pointwise operators without a structured meta: relu and abs. The iterator is built here, the rest is as for the structured ones.
#include <ATen/TensorIterator.h>

#include "structured.h"

namespace rustdev {
namespace {

// The bindings of one operator; `op` is only a tag.
template <int op>
Binding& binding() {
  static Binding instance;
  return instance;
}

enum { relu_op, abs_op };

// Runs a unary kernel into `out`, which may be undefined (a new tensor) or self. False where it cannot: complex numbers have results
// of another dtype, or none.
bool run_unary(const Binding& kernel, at::Tensor& out, const at::Tensor& self) {
  if (self.is_complex()) {
    return false;
  }
  auto iter = at::TensorIterator::unary_op(out, self);
  Launch launch;
  if (!launch_iterator(iter, kernel, self.scalar_type(), launch)) {
    return false;
  }
  out = iter.output();
  return true;
}

// A unary operator whose result has the dtype of its operand.
template <int op>
struct Unary {
  static at::Tensor functional(const at::Tensor& self) {
    Launch launch;
    at::Tensor out = launch_plain(Fast::floating, binding<op>(), self, nullptr, false, launch);
    if (out.defined() || run_unary(binding<op>(), out, self)) {
      return out;
    }
    return call_fallback<at::Tensor, const at::Tensor&>(*binding<op>().functional, self);
  }

  static at::Tensor& inplace(at::Tensor& self) {
    if (run_unary(binding<op>(), self, self)) {
      return self;
    }
    return call_fallback<at::Tensor&, at::Tensor&>(*binding<op>().inplace, self);
  }

  static at::Tensor& out(const at::Tensor& self, at::Tensor& result) {
    if (result.scalar_type() == self.scalar_type() && run_unary(binding<op>(), result, self)) {
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, at::Tensor&>(*binding<op>().out, self, result);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  if (find_kernel(binding<relu_op>(), {"relu", "relu_", "relu.out", "relu"})) {
    m.impl("relu", TORCH_FN(Unary<relu_op>::functional));
    m.impl("relu_", TORCH_FN(Unary<relu_op>::inplace));
  }
  if (find_kernel(binding<abs_op>(), {"abs", "abs_", "abs.out", "abs"})) {
    m.impl("abs", TORCH_FN(Unary<abs_op>::functional));
    m.impl("abs.out", TORCH_FN(Unary<abs_op>::out));
  }
}

}  // namespace rustdev
