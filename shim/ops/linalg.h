// One template for matrix products: PyTorch's meta checks shapes and makes the output, the kernel gets [output, self?, a, b] and,
// where there is a self, the scalars [beta, alpha]. `self` is broadcast to the output's sizes.
#pragma once

#include "structured.h"

namespace rustdev {

// Refuses tensors of several devices, with PyTorch's text. `output` may be undefined.
void check_product_devices(const char* name, const at::Tensor& output, std::initializer_list<at::Tensor> inputs);

// Launch a @ b, or beta * self + alpha * (a @ b). False where the kernel does not take the dtype: nothing was done.
bool launch_product(const Binding& binding, const at::Tensor& output, const at::Tensor& a, const at::Tensor& b);
bool launch_product(const Binding& binding, const at::Tensor& output, const at::Tensor& self, const at::Tensor& a,
                    const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha);

template <class Meta, class Function>
class ProductImpl;

template <class Meta, class... Args>
class ProductImpl<Meta, void (Meta::*)(Args...)> {
 public:
  static inline Binding binding;

  static at::Tensor functional(Args... args) {
    check_devices(at::Tensor(), args...);
    Functional<Meta> op;
    op.meta(args...);
    if (C10_LIKELY(launch_product(binding, op.maybe_get_output(0), args...))) {
      return op.take(0);
    }
    return call_fallback<at::Tensor, Args...>(binding.functional, args...);
  }

  static at::Tensor& out(Args... args, at::Tensor& result) {
    check_devices(result, args...);
    Given<Meta, 1, false> op(result);
    op.meta(args...);
    if (C10_LIKELY(launch_product(binding, op.maybe_get_output(0), args...))) {
      op.finish();
      return result;
    }
    return call_fallback<at::Tensor&, Args..., at::Tensor&>(binding.out, args..., result);
  }

  template <class Self, class... Rest>
  struct Tail {
    static at::Tensor& inplace(at::Tensor& self, Rest... rest) {
      check_devices(self, self, rest...);
      Given<Meta, 1, true> op(self);
      op.meta(self, rest...);
      if (C10_LIKELY(launch_product(binding, op.maybe_get_output(0), self, rest...))) {
        op.finish();
        return self;
      }
      return call_fallback<at::Tensor&, at::Tensor&, Rest...>(binding.inplace, self, rest...);
    }
  };
  using InPlace = Tail<Args...>;
  static constexpr bool has_inplace = sizeof...(Args) > 2;

 private:
  static void check_devices(const at::Tensor& output, const at::Tensor& a, const at::Tensor& b) {
    check_product_devices(rd_op_name(binding.op), output, {a, b});
  }
  static void check_devices(const at::Tensor& output, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                            const at::Scalar&, const at::Scalar&) {
    check_product_devices(rd_op_name(binding.op), output, {self, a, b});
  }
};

template <class Meta>
using Product = ProductImpl<Meta, decltype(&Meta::meta)>;

}  // namespace rustdev
