// Launches over the iterators of PyTorch's functions, and of dense operands without one.
#pragma once

#include <array>

#include "binding.h"
#include "ops/fallback.h"
#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {

// Which calls may skip iterators and checks: dense operands of one shape and dtype, or such a tensor and a Python number.
enum class Fast : int32_t {
  none = RD_DENSE_NEVER,
  floating = RD_DENSE_FLOATING,
  numeric = RD_DENSE_NUMERIC,
  boolean = RD_DENSE_BOOLEAN,
  number = RD_DENSE_NUMBER,
  quotient = RD_DENSE_QUOTIENT,
};

// Launches a named kernel over the iterator; an error that names it where it does not take the dtype.
void run_named(const char* name, const Binding& binding, const at::TensorIteratorBase& iter, Launch& launch);

// The number that stands for a string argument: rounding modes and approximations.
int64_t string_number(std::string_view text);

// Launches over the iterator. False where the kernel does not take the common dtype: nothing was done.
bool launch_iterator(const at::TensorIteratorBase& iter, const Binding& binding, c10::ScalarType common_dtype, Launch& launch);

// Whether the two are on one device of ours, of the same sizes and contiguous.
bool both_contiguous(const at::Tensor& self, const at::Tensor& other);

// The result of a call that needs no iterator, or an undefined tensor where it does. `others` are the operands after self; with
// `inplace` the result is written to self.
at::Tensor launch_plain(Fast fast, const BoundKernel& binding, const at::Tensor& self, at::ArrayRef<const at::Tensor*> others,
                        bool inplace, Launch& launch);

// The same for a comparison with a number.
at::Tensor launch_plain_number(const BoundKernel& binding, const at::Tensor& self, const at::Scalar& number, Launch& launch);

inline void add_scalar(Launch& launch, const at::Scalar& value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, int64_t value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, double value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, bool value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, std::string_view value) { launch.scalar(string_number(value)); }
inline void add_scalar(Launch& launch, const std::optional<std::string_view>& value) {
  launch.scalar(value ? string_number(*value) : int64_t{0});
}
inline void add_scalar(Launch& launch, const std::optional<double>& value) {
  launch.scalar(value.has_value());
  launch.scalar(value.value_or(0.0));
}
inline void add_scalar(Launch& launch, const std::optional<at::Scalar>& value) {
  launch.scalar(int64_t{value.has_value()});
  launch.scalar(value ? *value : at::Scalar(0));
}
inline void add_scalar(Launch&, const at::Tensor&) {}

}  // namespace rustdev
