// Operators whose operands keep their own sizes, and a template for those that work along one dimension (softmax, scans): PyTorch's
// meta checks and makes the output, the kernel gets [output, inputs...] and the scalars [dim].
#pragma once

#include <ATen/WrapDimUtils.h>

#include "structured.h"

namespace rustdev {

// Launches the kernel over the tensors that are defined. False where it does not take the dtype: nothing was done.
[[nodiscard]] bool launch_shaped(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                                 at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars);

// The same, and an error where the kernel does not take the dtype.
void launch_shaped_or_throw(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                            at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars);

// The tensors and the dimension among a call's arguments.
class LineArguments {
 public:
  template <class... Args>
  explicit LineArguments(const Args&... args) {
    (add(args), ...);
  }

  const at::Tensor& first() const { return *tensors_[0]; }

  bool launch(const Binding& binding, const at::Tensor& output) const {
    if (output.numel() == 0) {
      return takes_dtype(binding, output.scalar_type());
    }
    const at::Scalar dim(at::maybe_wrap_dim(dim_, tensors_[0]->dim()));
    return launch_shaped(binding, output.scalar_type(), {&output}, tensors_, {dim});
  }

 private:
  void add(const at::Tensor& tensor) { tensors_.push_back(&tensor); }
  void add(int64_t dim) { dim_ = dim; }
  void add(bool) {}
  void add(at::ScalarType) {}
  void add(std::optional<at::ScalarType>) {}

  c10::SmallVector<const at::Tensor*, 2> tensors_;
  int64_t dim_ = 0;
};

template <class Meta, class Function>
class LineImpl;

template <class Meta, class... Args>
class LineImpl<Meta, void (Meta::*)(Args...)> {
 public:
  static inline Binding binding;

  static at::Tensor functional(Args... args) {
    Functional<Meta> op;
    op.meta(args...);
    if (C10_LIKELY(LineArguments(args...).launch(binding, op.maybe_get_output(0)))) {
      return op.take(0);
    }
    return call_fallback<at::Tensor, Args...>(binding.functional, args...);
  }

  static at::Tensor& out(Args... args, at::Tensor& result) {
    Given<Meta, 1, false> op(result);
    op.meta(args...);
    if constexpr (refuses_overlap<Meta>) {
      check_overlap({result}, LineArguments(args...).first());
    }
    if (C10_LIKELY(LineArguments(args...).launch(binding, op.maybe_get_output(0)))) {
      op.finish();
      return result;
    }
    return call_fallback<at::Tensor&, Args..., at::Tensor&>(binding.out, args..., result);
  }

  template <class Self, class... Rest>
  struct Tail {
    static at::Tensor& inplace(at::Tensor& self, Rest... rest) {
      Given<Meta, 1, true> op(self);
      op.meta(self, rest...);
      if constexpr (refuses_overlap<Meta>) {
        check_overlap({self}, self);
      }
      if (C10_LIKELY(LineArguments(self, rest...).launch(binding, op.maybe_get_output(0)))) {
        op.finish();
        return self;
      }
      return call_fallback<at::Tensor&, at::Tensor&, Rest...>(binding.inplace, self, rest...);
    }
  };
  using InPlace = Tail<Args...>;
  static constexpr bool has_inplace = true;
};

template <class Meta>
using Line = LineImpl<Meta, decltype(&Meta::meta)>;

}  // namespace rustdev
