// One template for reductions whose meta is not a TensorIterator: PyTorch's meta checks and makes the output, the kernel gets
// [output, input] over the input's sizes, the output with stride 0 in the dimensions that are reduced.
#pragma once

#include "structured.h"

namespace rustdev {

// The dimensions that a call reduces, in the forms that schemas have: a list, where empty or nothing means all, or one.
at::DimVector reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims);
inline at::DimVector reduced_dims(const at::Tensor& self, at::IntArrayRef dims) {
  return reduced_dims(self, at::OptionalIntArrayRef(dims));
}
at::DimVector reduced_dims(const at::Tensor& self, int64_t dim);
inline at::DimVector reduced_dims(const at::Tensor& self, std::nullopt_t) { return reduced_dims(self, at::OptionalIntArrayRef()); }
inline at::DimVector reduced_dims(const at::Tensor& self, std::optional<int64_t> dim) {
  return dim ? reduced_dims(self, *dim) : reduced_dims(self, at::OptionalIntArrayRef());
}

// What a reduction's launch needs to know beside the kernel.
struct Rules {
  std::optional<double> of_nothing;             // the result over no elements; without one such calls fall back
  std::optional<at::ScalarType> compute_dtype;  // without one, the output's
};

// Launches the reduction. False where the kernel cannot: nothing was done.
bool launch_reduction(const Binding& binding, const Rules& rules, const at::Tensor& output, const at::Tensor& self,
                      const at::DimVector& dims, bool keepdim);

// The same for several outputs of one shape (which all take the result over no elements), and a scalar of the kernel.
bool launch_reduction(const Binding& binding, const Rules& rules, std::initializer_list<const at::Tensor*> outputs,
                      const at::Tensor& self, const at::DimVector& dims, bool keepdim,
                      const std::optional<at::Scalar>& scalar = std::nullopt);

// The sizes of the result.
at::DimVector reduced_sizes(const at::Tensor& self, const at::DimVector& dims, bool keepdim);

template <class Meta, class Function>
class ReductionImpl;

template <class Meta, class Dim, class... Rest>
class ReductionImpl<Meta, void (Meta::*)(const at::Tensor&, Dim, bool, Rest...)> {
 public:
  static inline Binding binding;
  static inline Rules rules;

  static at::Tensor functional(const at::Tensor& self, Dim dim, bool keepdim, Rest... rest) {
    Functional<Meta> op;
    op.meta(self, dim, keepdim, rest...);
    if (C10_LIKELY(launch_reduction(binding, rules, op.maybe_get_output(0), self, reduced_dims(self, dim), keepdim))) {
      return op.take(0);
    }
    return call_fallback<at::Tensor, const at::Tensor&, Dim, bool, Rest...>(binding.functional, self, dim, keepdim, rest...);
  }

  static at::Tensor& out(const at::Tensor& self, Dim dim, bool keepdim, Rest... rest, at::Tensor& result) {
    Given<Meta, 1, false> op(result);
    op.meta(self, dim, keepdim, rest...);
    if constexpr (refuses_overlap<Meta>) {
      at::assert_no_internal_overlap(result);
    }
    if (C10_LIKELY(launch_reduction(binding, rules, op.maybe_get_output(0), self, reduced_dims(self, dim), keepdim))) {
      op.finish();
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, Dim, bool, Rest..., at::Tensor&>(binding.out, self, dim, keepdim, rest...,
                                                                                          result);
  }
};

// Over everything, without further arguments.
template <class Meta>
class ReductionImpl<Meta, void (Meta::*)(const at::Tensor&)> {
 public:
  static inline Binding binding;
  static inline Rules rules;

  static at::Tensor functional(const at::Tensor& self) {
    Functional<Meta> op;
    op.meta(self);
    if (C10_LIKELY(launch_reduction(binding, rules, op.maybe_get_output(0), self, reduced_dims(self, std::nullopt), false))) {
      return op.take(0);
    }
    return call_fallback<at::Tensor, const at::Tensor&>(binding.functional, self);
  }

  static at::Tensor& out(const at::Tensor& self, at::Tensor& result) {
    Given<Meta, 1, false> op(result);
    op.meta(self);
    if (C10_LIKELY(launch_reduction(binding, rules, op.maybe_get_output(0), self, reduced_dims(self, std::nullopt), false))) {
      op.finish();
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, at::Tensor&>(binding.out, self, result);
  }
};

template <class Meta>
using Reduction = ReductionImpl<Meta, decltype(&Meta::meta)>;

// As bind, for a reduction.
template <class Op>
void bind_reduction(torch::Library& library, const Names& names, const Rules& rules = {}) {
  Op::rules = rules;
  bind<Op>(library, names);
}

}  // namespace rustdev
