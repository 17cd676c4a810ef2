// Launches with one output, one input and integer scalars, whose operands keep their own sizes, and a template for those with a
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

template <class Meta, bool follows, class Function>
class MoveImpl;

// `follows`: the output has the memory format of the tensor that its shape comes from, the last one.
template <class Meta, bool follows, class... Args>
class MoveImpl<Meta, follows, void (Meta::*)(const at::Tensor&, Args...)> {
 public:
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& source, Args... args) {
    Functional<Meta> op;
    op.meta(source, args...);
    if (C10_LIKELY(launch(op, source, args...))) {
      return op.take(0);
    }
    return call_fallback<at::Tensor, const at::Tensor&, Args...>(binding.functional, source, args...);
  }

  static at::Tensor& out(const at::Tensor& source, Args... args, at::Tensor& result) {
    Given<Meta, 1, false> op(result);
    op.meta(source, args...);
    if constexpr (follows) {
      at::assert_no_internal_overlap(result);  // as the CPU's paddings, and not its triangles
    }
    if (C10_LIKELY(launch(op, source, args...))) {
      op.finish();
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, Args..., at::Tensor&>(binding.out, source, args..., result);
  }

  struct InPlace {
    static at::Tensor& inplace(at::Tensor& self, Args... args) {
      Given<Meta, 1, true> op(self);
      op.meta(self, args...);
      if (C10_LIKELY(launch(op, self, args...))) {
        op.finish();
        return self;
      }
      return call_fallback<at::Tensor&, at::Tensor&, Args...>(binding.inplace, self, args...);
    }
  };
  static constexpr bool has_inplace = !follows;

 private:
  template <class Op>
  static bool launch(Op& op, const at::Tensor& source, Args... args) {
    const at::Tensor& out = op.maybe_get_output(0);
    if constexpr (follows) {
      follow_format(out, shape_source(source, args...));
    }
    at::DimVector numbers;
    (add_numbers(numbers, args), ...);
    return launch_move(binding, out, source, numbers);
  }

  static const at::Tensor& shape_source(const at::Tensor& source, at::IntArrayRef) {
    return source;  // NOLINT(bugprone-return-const-ref-from-parameter): an argument of the call, which outlives it
  }
  static const at::Tensor& shape_source(const at::Tensor&, const at::Tensor& self, at::IntArrayRef) {
    return self;  // NOLINT(bugprone-return-const-ref-from-parameter): as above
  }
};

template <class Meta, bool follows = false>
using Move = MoveImpl<Meta, follows, decltype(&Meta::meta)>;

}  // namespace rustdev
