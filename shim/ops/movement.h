// Launches with one output, one input and integer scalars, whose operands keep their own sizes, and the rule of those with a
// structured meta.
#pragma once

#include "ops/lines.h"

namespace rustdev {

// Launches the kernel. False where it does not take the dtype: nothing was done.
bool launch_move(const Binding& binding, const at::Tensor& out, const at::Tensor& source, at::IntArrayRef numbers);

// The numbers of a call: those of triangles as they are, of padding what comes before each dimension, the last one first.
inline void add_numbers(at::DimVector& numbers, int64_t value) { numbers.push_back(value); }
inline void add_numbers(at::DimVector& numbers, at::IntArrayRef padding) {
  for (size_t index = 0; index < padding.size(); index += 2) {
    numbers.push_back(padding[index]);
  }
}
inline void add_numbers(at::DimVector&, const at::Tensor&) {}

// Gives the output the memory format of the input, as PyTorch's CPU kernels of padding do and its metas do not.
inline void follow_format(const at::Tensor& out, const at::Tensor& like) {
  const at::MemoryFormat format = like.suggest_memory_format();
  if (format != at::MemoryFormat::Contiguous) {
    out.resize_(out.sizes(), format);
  }
}

// `follows`: the output has the memory format of the tensor that its shape comes from, the last one.
template <bool follows>
struct MoveRule {
  static constexpr bool has_inplace = !follows;

  template <class Op, class... Args>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& source, const Args&... args) {
    const at::Tensor& out = op.maybe_get_output(0);
    if constexpr (follows) {
      follow_format(out, shape_source(source, args...));
    }
    at::DimVector numbers;
    (add_numbers(numbers, args), ...);
    return launch_move(binding, out, source, numbers);
  }

  // As the CPU's paddings, and not its triangles.
  template <class Given, class... Args>
    requires(follows)
  static void check_given(const Given& given, const Args&...) {
    at::assert_no_internal_overlap(*given[0]);
  }

 private:
  static const at::Tensor& shape_source(const at::Tensor& source, at::IntArrayRef) {
    return source;  // NOLINT(bugprone-return-const-ref-from-parameter): an argument of the call, which outlives it
  }
  static const at::Tensor& shape_source(const at::Tensor&, const at::Tensor& self, at::IntArrayRef) {
    return self;  // NOLINT(bugprone-return-const-ref-from-parameter): as above
  }
};

template <class Meta, bool follows = false>
using Move = Variants<Meta, MoveRule<follows>>;

}  // namespace rustdev
