// Launches of pointwise operators over dense operands, without a call of src/operators/.
#pragma once

#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {

// A pointwise operator: its kernel, the dtypes of the kernel, and which calls are launched here (RD_DENSE_*).
struct Pointwise {
  const rd_op* kernel;
  uint64_t dtypes;
  int32_t dense;
};

// Launches a call and returns its result; returns an undefined tensor if Rust has to do the call. `others`: the operands after
// self. `number`: a last operand that is a number, or null. `inplace`: the result is written to self.
at::Tensor launch_plain(const Pointwise& pointwise, const at::Tensor& self, at::ArrayRef<const at::Tensor*> others,
                        const rd_scalar* number, bool inplace, Launch& launch);

// The number that stands for a string argument: rounding modes and approximations.
int64_t string_number(std::string_view text);

inline void add_scalar(Launch& launch, const at::Scalar& value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, int64_t value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, double value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, bool value) { launch.scalar(value); }
inline void add_scalar(Launch& launch, std::string_view value) { launch.scalar(string_number(value)); }
inline void add_scalar(Launch& launch, const std::optional<std::string_view>& value) {
  launch.scalar(value ? string_number(*value) : int64_t{0});
}
inline void add_scalar(Launch& launch, const std::optional<at::Scalar>& value) {
  launch.scalar(int64_t{value.has_value()});
  launch.scalar(value ? *value : at::Scalar(0));
}
inline void add_scalar(Launch&, const at::Tensor&) {}

}  // namespace rustdev
