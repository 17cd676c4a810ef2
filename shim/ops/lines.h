// Launches whose operands keep their own sizes, and the rule of operators along one dimension (softmax, scans): the kernel gets
// [output, inputs...] and the scalars [dim].
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

template <class Meta>
struct LineRule {
  template <class Op, class... Args>
  static bool launch(const Binding& binding, Op& op, const Args&... args) {
    return LineArguments(args...).launch(binding, op.maybe_get_output(0));
  }

  template <class Given, class... Args>
    requires(refuses_overlap<Meta>)
  static void check_given(const Given& given, const Args&... args) {
    check_overlap({*given[0]}, LineArguments(args...).first());
  }
};

template <class Meta>
using Line = Variants<Meta, LineRule<Meta>>;

}  // namespace rustdev
