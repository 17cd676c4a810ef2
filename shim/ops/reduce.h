// The rule of reductions whose meta is not a TensorIterator: the kernel gets [output, input] over the input's sizes, the output
// with stride 0 in the dimensions that are reduced.
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

template <class Meta>
struct ReductionRule {
  static inline Rules rules;
  static constexpr bool has_inplace = false;

  template <class Op, class Dim, class... Rest>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, const Dim& dim, bool keepdim, const Rest&...) {
    return launch_reduction(binding, rules, op.maybe_get_output(0), self, reduced_dims(self, dim), keepdim);
  }

  // Over everything.
  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self) {
    return launch(binding, op, self, std::nullopt, false);
  }

  template <class Given, class... Args>
    requires(refuses_overlap<Meta>)
  static void check_given(const Given& given, const Args&...) {
    at::assert_no_internal_overlap(*given[0]);
  }
};

template <class Meta>
using Reduction = Variants<Meta, ReductionRule<Meta>>;

// As bind, for a reduction.
template <class Op>
void bind_reduction(torch::Library& library, const Names& names, const Rules& rules = {}) {
  Op::rule::rules = rules;
  bind<Op>(library, names);
}

}  // namespace rustdev
