// Launches of pointwise operators over dense operands, without checks that Rust would make.
#pragma once

#include <optional>
#include <string_view>

#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {

// Which calls need nothing else: dense operands of one shape and dtype, or such a tensor and a Python number.
enum class Fast : int32_t {
  none = RD_DENSE_NEVER,
  floating = RD_DENSE_FLOATING,
  numeric = RD_DENSE_NUMERIC,
  boolean = RD_DENSE_BOOLEAN,
  number = RD_DENSE_NUMBER,
  quotient = RD_DENSE_QUOTIENT,
  choice = RD_DENSE_CHOICE,
};

// A pointwise operator: its kernel, the dtypes that this computes in, and which calls are launched here.
struct Pointwise {
  const rd_op* kernel = nullptr;
  uint64_t dtypes = 0;
  Fast fast = Fast::none;
};

// The result of a call that is launched here, or an undefined tensor where it is not. `others` are the operands after self, and
// `number` one that is none of them, or null; with `inplace` the result is written to self.
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
